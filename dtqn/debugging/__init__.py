"""The dependence of a trained agent's decisions on the past: episodes played again with other pasts."""
