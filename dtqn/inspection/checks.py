"""The contracts of a memory, held to a trained network by its own episodes and its own replay.

An agent that is right acts and learns with one function of the episode so far. Each check compares two ways
to the same Q-values and names the contract that does not hold. What a core promises whatever its parameters
are is looked at before a run (`dtqn.testing`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtqn.acting.actor import Actor
from dtqn.acting.exploration import Bursts, Exploration
from dtqn.inspection.dependence import q_values
from dtqn.inspection.recorder import of_env
from dtqn.networks.q_network import QNetwork, memory_window
from dtqn.settings.config import Config
from dtqn.training import setup
from dtqn.training.replay_fields import MEMORIES, NAMES
from dtqn.types import Sequences, StepInputs, length_mask

NUM_ENVS, MOST_STEPS, EPISODES = 8, 600, 2
SEQUENCES = 64
RANDOM_SHARE = 0.5
"""The share of random actions, so that the environments go different ways."""
TOLERANCE = 1e-3
"""The largest difference, as a share of the range of Q-values, where nothing is rounded."""


class Check(NamedTuple):
    name: str
    difference: float | None
    """The largest one, as a share of the range of Q-values; None where there was nothing to compare."""
    holds: bool
    contract: str
    """The contract in a sentence."""


def check(config: Config, network: QNetwork, seed: int = 0) -> list[Check]:
    """Episodes of a few environments, played by the run's actor into the run's replay, and read back.

    All on the CPU, where `network` is, whatever the run's device was.
    """
    config = config.on_cpu()
    played = _play(config, network, seed)
    highest = max(float(x.q_max.max()) for x in played.episodes)
    scale = max(highest - min(float(x.q_taken.min()) for x in played.episodes), 1e-9)

    found = []
    for name, (contract, differences) in _CONTRACTS.items():
        of_check = differences(played)
        unit = 1.0 if name == "learning" else scale
        largest = max(of_check) / unit if of_check else None
        holds = largest is None or largest <= TOLERANCE
        if not holds and name == "learning":  # the memory that replay has kept, alone, is rounded
            holds = max(of_check) <= max(_learned(played, rounded=True))
        found.append(Check(name, largest, holds, contract))
    return found


class _Stretch(NamedTuple):
    """An episode in a stream, as the actor handed it out."""

    inputs: StepInputs
    """[1, T, ...]"""
    q_max: np.ndarray
    """[T]"""
    q_taken: np.ndarray
    number: int
    """The episode's number in its stream."""


class _Played(NamedTuple):
    config: Config
    network: QNetwork
    episodes: list[_Stretch]
    schema: Any
    replay: Any


def _play(config: Config, network: QNetwork, seed: int) -> _Played:
    env = setup.make_env(config, NUM_ENVS, np.random.SeedSequence(seed))
    schema = setup.make_schema(config, network)
    layout = setup.sequence_layout(config)
    reach = memory_window(network) + layout.burn_in_length + layout.max_learn_timesteps
    small = config.replaced("actor.num_envs", NUM_ENVS)
    small = small.replaced("replay.capacity", (MOST_STEPS + reach + 2) * NUM_ENVS)
    replay = setup.make_replay(small, schema)
    actor = Actor(
        env,
        network,
        exploration=Exploration(np.full(NUM_ENVS, RANDOM_SHARE), warmup_env_steps=0),
        bursts=Bursts(NUM_ENVS, share=0.0),
        generator=np.random.default_rng(seed),
        keep_cache=False,
    )
    steps: list[tuple[StepInputs, Any]] = []
    ended = np.zeros(NUM_ENVS, int)
    while len(steps) < MOST_STEPS and (ended < EPISODES).any():
        timesteps, _ = actor.vector_step()
        stored = schema.stored(timesteps)
        replay.append(stored)
        ended += timesteps.last
        steps.append((schema.inputs({name: x[:, None] for name, x in stored.items()}), timesteps))
    replay.end_episodes()
    return _Played(config, network, _stretches(steps), schema, replay)


def _stretches(steps: list[tuple[StepInputs, Any]]) -> list[_Stretch]:
    found = []
    for env_id in range(NUM_ENVS):
        begins = [t for t, (_, x) in enumerate(steps) if x.first[env_id]]
        for number, (start, stop) in enumerate(zip(begins, [*begins[1:], len(steps)], strict=True)):
            part = steps[start:stop]
            inputs = of_env(env_id, [x for x, _ in part])
            reward = inputs.reward.float()
            q_max, q_taken = (
                np.array([getattr(x, key)[env_id] for _, x in part]) for key in ("q_max", "q_taken")
            )
            found.append(_Stretch(inputs._replace(reward=reward), q_max, q_taken, number))
    return found


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max()) if one.numel() else 0.0


def _by_one_call(played: _Played, later: bool) -> list[float]:
    """In the first episodes of the environments, or in later ones."""
    return [
        _difference(q_values(played.network, x.inputs)[0].amax(dim=-1), torch.from_numpy(x.q_max))
        for x in played.episodes
        if (x.number > 0) == later
    ]


def _learned(played: _Played, rounded: bool = False) -> list[float]:
    """The learned segments of sequences from replay, by `learn_values`, against what the actor saw there.

    Each is a share of the range of most Q-values and of how far its own is from the middle: one cue of
    millions does not hide what becomes of all others. `rounded`: against memory changed by what rounds it.
    """
    config, network = played.config, played.network
    ids = played.replay.ids()
    values = np.concatenate([q for x in played.episodes for q in (x.q_max, x.q_taken)])
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    if not MEMORIES[config.replay.memory].is_read or not memory_window(network):
        # Only what starts with its episode is to be the same.
        batch = played.replay.take(ids)
        ids = ids[(batch.episode_step == 0)]
    found = []
    for part in np.array_split(ids, max(1, len(ids) // SEQUENCES)):
        if not len(part):
            continue
        sampled = played.replay.take(part)
        batch = played.schema.sequences(sampled, np.ones(len(part), np.float32))
        q = _learn_values(network, batch)
        seen = torch.from_numpy(sampled.learn[NAMES.q_max])
        real = length_mask(batch.learn_timesteps, q.shape[1])
        if not memory_window(network):  # timesteps beyond a window are read by another one
            context = (config.network.core.reach or 0) + 1
            real &= (torch.arange(q.shape[1]) + batch.burn_in_timesteps[:, None]) < context
        other = _learn_values(network, _rounded(batch)) if rounded else seen
        size = (high - low + (seen - middle).abs()).clamp(min=1e-9)
        found.append(_difference((q / size)[real], (other / size)[real]))
    return found


@torch.no_grad()
def _learn_values(network: QNetwork, batch: Sequences) -> Tensor:
    """[B, T] the largest Q-value of each step."""
    return network.learn_values(batch)[0].q.amax(dim=-1)


def _rounded(batch: Sequences) -> Sequences:
    """A batch whose stored floats are one step of their dtype away, up or down; a larger one farther."""
    generator = torch.Generator().manual_seed(0)

    def moved(stored: Tensor) -> Tensor:
        if not stored.is_floating_point():
            return stored
        kind, exact = torch.finfo(stored.dtype), stored.float()
        up = torch.randint(2, exact.shape, generator=generator) * 2 - 1
        return exact + up * kind.eps * exact.abs().clamp(min=kind.smallest_normal)

    return batch._replace(memory={name: moved(stored) for name, stored in batch.memory.items()})


_CONTRACTS: dict[str, tuple[str, Callable[[_Played], list[float]]]] = {
    "parity": (
        "step by step, the actor computes the Q-values of one network call on the episode",
        partial(_by_one_call, later=False),
    ),
    "reset": (
        "an episode begins without any memory of the one before",
        partial(_by_one_call, later=True),
    ),
    "learning": ("from stored memory, the learner computes the actor's Q-values", _learned),
}
"""Each in a sentence, and what gives the differences between two ways to the same Q-values."""
