"""What a trained agent's decisions hang on: episodes played again with other pasts."""
