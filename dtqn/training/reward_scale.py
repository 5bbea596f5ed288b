"""The factor on rewards that puts returns of every task on one scale: `learner.reward_scale auto`.

It is measured before a run begins, from random actions on seeds that depend on the task alone. So all runs
of a task have the same factor. A resumed run takes the one in its checkpoint.

Legend: T vector steps, N environments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtqn.settings.config import Config
from dtqn.training.setup import make_env, num_actions, task_spec

ENV_STEPS, NUM_ENVS = 10_000, 32
"""Of random actions; they are not counted among a run's own."""
LARGEST = 25.0
"""The most that a single scaled reward may be. Where random actions find a rare reward once or twice, the
spread that they see is far smaller than for an agent that finds it each time."""

Array = NDArray[np.float64]


def measured(config: Config) -> float:
    """1 / sigma of the task's returns (`spread`), at most `LARGEST` for its largest reward; 1 where random
    actions never earn anything."""
    env = make_env(config, NUM_ENVS, np.random.SeedSequence(0))
    try:
        generator, actions = np.random.default_rng(0), num_actions(task_spec(config))
        env.reset()
        last = np.zeros(NUM_ENVS, bool)
        steps = []
        for _ in range(ENV_STEPS // NUM_ENVS):
            _, reward, terminated, truncated, _ = env.step(generator.integers(actions, size=NUM_ENVS))
            steps.append((reward, terminated, truncated, last))
            last = terminated | truncated  # the next step only begins an episode
    finally:
        env.close()
    reward, terminated, truncated, begins = (np.array(part) for part in zip(*steps, strict=True))
    sigma, largest = spread(reward, terminated, truncated, begins, config.learner.gamma), np.abs(reward).max()
    return min(1 / sigma, LARGEST / largest) if sigma > 0 else 1.0


def spread(
    reward: Array,
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    begins: NDArray[np.bool_],
    gamma: float,
) -> float:
    """sigma of returns, after equation 4 of Schaul et al. 2021, arXiv 2105.05347.

        sigma^2 = E[R^2] + V[Gamma] E[G^2],  Gamma_t = gamma (1 - terminated_t),  G_t = R_t + Gamma_t G_{t+1}

    They have V[R]. Where random actions earn nearly the same at each step, that is nearly 0, and the first
    other reward would be many thousand sigmas. A return ends with its episode, and with the last step.

    Args:
        reward, terminated, truncated: [T, N] what each step brought.
        begins: [T, N] where a step only began an episode, which is left out.
    """
    discount = gamma * ~terminated
    returns, later = np.zeros_like(reward, np.float64), np.zeros(reward.shape[1])
    for t in reversed(range(len(reward))):
        later = np.where(begins[t], 0.0, reward[t] + discount[t] * np.where(truncated[t], 0.0, later))
        returns[t] = later
    real = ~begins
    return float(
        np.sqrt(np.square(reward[real]).mean() + discount[real].var() * np.square(returns[real]).mean())
    )
