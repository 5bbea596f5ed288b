"""One run: its trainer, its directory and checkpoints, and all that it reports."""
