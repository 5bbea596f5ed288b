"""What is measured of a task before a run: what its actions change, the scale of its rewards and numbers.

All are of random actions on seeds that depend on the task alone, so all runs of a task have the same. A
resumed run takes those in its checkpoint.

Legend: T vector steps, N environments.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dtqn.networks.darqn import PartsEncoder
from dtqn.networks.encoders import NumericEncoder, StepEncoder
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.training.setup import make_env, num_actions, task_spec
from dtqn.types import leaves, map_tree

SETTLED = ("gamma", "reward_scale")
"""Settings of the learner that may be `auto` until then."""
GAMMA = 0.985
"""The discount factor of tasks whose actions change what comes later."""
ENV_STEPS, NUM_ENVS = 10_000, 32
"""Of random actions; they are not counted among a run's own."""
TWIN_STEPS, TWIN_EPISODES = 1250, 4
"""Vector steps of each of two plays of the same episodes at most, and episodes that each environment sees."""
LARGEST, RARE = 25.0, 5.0
"""The most that a single scaled reward may be; what the largest one is where it would be more. There random
actions have found it once or twice, and an agent that finds it each time sees a far larger spread."""
FARTHEST = 10.0
"""The most that a normalised number of these steps may be, for the same reason."""

Array: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


class Moments:
    """Of numbers [size] that come in batches."""

    def __init__(self) -> None:
        self._count, self._sum, self._square = 0, np.zeros(1), np.zeros(1)
        self._low, self._high = np.full(1, np.inf), np.full(1, -np.inf)

    def add(self, numbers: NDArray[Any]) -> None:
        """[N, ...]"""
        flat = numbers.astype(np.float64).reshape(len(numbers), -1)
        self._count += len(flat)
        self._sum, self._square = self._sum + flat.sum(0), self._square + np.square(flat).sum(0)
        self._low, self._high = np.minimum(self._low, flat.min(0)), np.maximum(self._high, flat.max(0))

    def normalisation(self) -> tuple[Array, Array]:
        """[size] the mean, and the factor on what is less it: 1 / sigma, at most so that `FARTHEST` holds.

        A number that never changed has the factor 1; one that was not finite once stays as it is.
        """
        mean = self._sum / self._count
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = np.sqrt(np.maximum(self._square / self._count - mean**2, 0))
            farthest = np.maximum(self._high - mean, mean - self._low)
            factor = np.minimum(1 / deviation, FARTHEST / farthest)
        is_finite, changes = np.isfinite(deviation), self._high > self._low
        mean = np.where(changes, mean, self._low)
        return np.where(is_finite, mean, 0.0), np.where(is_finite & changes, factor, 1.0)


def _note(seen: Moments, encoder: NumericEncoder, inputs: tuple[Tensor]) -> None:
    """Add what an encoder is called with, [N, 1, ...]."""
    seen.add(inputs[0].cpu().numpy())


@torch.no_grad()
def measure(config: Config, network: QNetwork) -> Config:
    """Set what normalises in `network`; `config` with a number for each of `SETTLED`.

    The reward scale is 1 / sigma of the returns. Where that makes a reward more than `LARGEST`, the largest
    one becomes `RARE` instead. It is 1 where nothing is earned.
    """
    if config.learner.gamma == "auto":
        config = config.replaced("learner.gamma", 0.0 if only_answers(config) else GAMMA)
    numeric = [x for x in network.modules() if isinstance(x, NumericEncoder) and x.normalise]
    is_auto = config.learner.reward_scale == "auto"
    if not is_auto and not numeric:
        return config
    readers = [x for x in network.modules() if numeric and isinstance(x, StepEncoder | PartsEncoder)]
    moments = {encoder: Moments() for encoder in numeric}
    device = next(network.parameters()).device
    hooks = [part.register_forward_pre_hook(partial(_note, seen)) for part, seen in moments.items()]
    steps = []
    for observation, *step in _played(config):
        steps.append(step)
        for reader in readers:
            reader.observation(map_tree(lambda x: torch.tensor(x, device=device)[:, None], observation))
    for hook in hooks:
        hook.remove()
    for part, seen in moments.items():
        mean, factor = seen.normalisation()
        part.mean.copy_(torch.from_numpy(mean))
        part.factor.copy_(torch.from_numpy(factor))
    if not is_auto:
        return config
    reward, *ends = map(np.array, zip(*steps, strict=True))
    sigma, largest = spread(reward, *ends, gamma=config.learner.discount_factor), np.abs(reward).max()
    if sigma == 0:
        scale = 1.0
    elif largest / sigma > LARGEST:
        scale = RARE / largest
    else:
        scale = 1 / sigma
    return config.replaced("learner.reward_scale", scale)


def only_answers(config: Config) -> bool:
    """Whether an action changes nothing but its own reward, as far as two plays of the same episodes show.

    Whatever they do, both then see the same observations and ends, and where they do the same they earn the
    same. What they earn must depend on actions at least once, and each environment must see an episode's
    end. Half of one play's environments keep to an action for a whole episode, so that a corridor comes to
    its end.
    """
    # A single environment nearly always contradicts at once; many may take long to make (Atari: 0.1 s each).
    return _are_answers(config, 1) is not False and _are_answers(config, NUM_ENVS) is True


def _are_answers(config: Config, num_envs: int) -> bool | None:
    """What `only_answers` asks, by so many environments; None: no contradiction, but too little is seen."""
    plays = [make_env(config, num_envs, np.random.SeedSequence(0)) for _ in range(2)]
    generator, actions = np.random.default_rng(0), num_actions(task_spec(config))
    index, episodes, earns_otherwise = np.arange(num_envs), np.zeros(num_envs, int), False
    try:
        seen: Any = [play.reset()[0] for play in plays]
        for step in range(TWIN_STEPS):
            kept, drawn = (index + episodes) % actions, generator.integers(actions, size=num_envs)
            one = np.where(index < num_envs // 2, kept, drawn)
            # The same at half of the steps, and certainly another one at the others.
            is_other = generator.integers(2, size=num_envs)
            other = (one + is_other * generator.integers(1, max(2, actions), size=num_envs)) % actions
            steps = [play.step(action) for play, action in zip(plays, (one, other), strict=True)]
            is_same = _are_same(*seen)
            seen, reward, terminated, truncated, _ = zip(*steps, strict=True)
            differs = np.not_equal(*reward)
            if not is_same or differs[one == other].any():
                return False
            if not np.array_equal(*terminated) or not np.array_equal(*truncated):
                return False
            earns_otherwise |= bool(differs.any())
            episodes += terminated[0] | truncated[0]
            # Short episodes are seen more often: a rare answer to several actions may come in one of many.
            if episodes.min() >= TWIN_EPISODES and (step + 1) * NUM_ENVS >= ENV_STEPS:
                break
    finally:
        for play in plays:
            play.close()
    return True if earns_otherwise and episodes.all() else None


def _are_same(one: Any, other: Any) -> bool:
    """Whether two observations agree, NaNs too."""
    pairs = zip(leaves(one).values(), leaves(other).values(), strict=True)
    return all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)


def _played(config: Config) -> Iterator[tuple[Any, Array, Bools, Bools, Bools]]:
    """Vector steps of random actions: observation, reward, terminated, truncated, what began an episode."""
    env = make_env(config, NUM_ENVS, np.random.SeedSequence(0))
    try:
        generator, actions = np.random.default_rng(0), num_actions(task_spec(config))
        env.reset()
        last = np.zeros(NUM_ENVS, bool)
        for _ in range(ENV_STEPS // NUM_ENVS):
            action = generator.integers(actions, size=NUM_ENVS)
            observation, reward, terminated, truncated, _ = env.step(action)
            yield observation, reward, terminated, truncated, last
            last = terminated | truncated  # the next step only begins an episode
    finally:
        env.close()


def spread(reward: Array, *ends: Bools, gamma: float) -> float:
    """sigma of returns, after equation 4 of Schaul et al. 2021, arXiv 2105.05347.

        sigma^2 = E[R^2] + V[Gamma] E[G^2],  Gamma_t = gamma (1 - terminated_t),  G_t = R_t + Gamma_t G_{t+1}

    They have V[R]. Where random actions earn nearly the same at each step, that is nearly 0, and the first
    other reward would be many thousand sigmas. A return ends with its episode, and with the last step.

    Args:
        reward: [T, N]
        ends: terminated, truncated, and where a step only began an episode and is left out, [T, N] each.
    """
    terminated, truncated, begins = ends
    discount = gamma * ~terminated
    returns, later = np.zeros_like(reward, np.float64), np.zeros(reward.shape[1])
    for t in reversed(range(len(reward))):
        later = np.where(begins[t], 0.0, reward[t] + discount[t] * np.where(truncated[t], 0.0, later))
        returns[t] = later
    real = ~begins
    second = np.square(reward[real]).mean() + discount[real].var() * np.square(returns[real]).mean()
    return float(np.sqrt(second))
