"""A trained agent taken away: exported to a folder, verified elsewhere."""
