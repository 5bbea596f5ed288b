"""Off-policy Q-learning for memory agents: networks, losses, learner, actors, evaluation, run loop."""

__version__ = "0.1.0"
