"""A look at trained agents: episodes with their memory, and what it depends on."""
