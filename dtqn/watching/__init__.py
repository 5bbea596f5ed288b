"""A trained agent's greedy episodes, to be looked at step by step."""
