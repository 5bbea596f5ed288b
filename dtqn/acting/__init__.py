"""From a policy to timesteps: the actor with its exploration, and evaluation."""
