"""One page about trained runs: what was measured, and episodes to step through."""
