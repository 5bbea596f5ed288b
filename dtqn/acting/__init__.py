"""From a policy to rows: the actor with its exploration, and evaluation."""
