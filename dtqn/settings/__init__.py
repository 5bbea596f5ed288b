"""Every setting of a run, the rules between them, and the presets and files that they come from."""
