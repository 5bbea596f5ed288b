"""From a batch of sequences to a gradient: returns, losses, the objective and the learner."""
