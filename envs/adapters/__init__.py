"""Tasks of other packages: any Gymnasium environment, and those that need more than that."""
