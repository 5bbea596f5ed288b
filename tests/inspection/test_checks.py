"""Contracts of a run: no alarm on healthy agents; planted defects, each in one path, are named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from dtqn.acting import actor
from dtqn.acting.actor import Actor
from dtqn.inspection import checks
from dtqn.networks.decoder import DecoderLayer
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.rnn import LSTMLayer
from dtqn.settings import presets
from dtqn.settings.config import Config
from dtqn.training import setup
from dtqn.training.replay_fields import Schema
from tests.cases import PRESETS, randomise

TASK = "t-maze-passive-20"
SIZES: dict[str, Any] = {
    "network.width": 16,
    "network.core.mlp_width": 16,
    "network.core.num_layers": 2,
    "network.core.memory_length": 6,
    "replay.burn_in_length": 3,
    "replay.learn_length": 7,
    "replay.sequence_period": 5,
    "learner.n_step": 2,
}
HEALTHY = [agent for agent in PRESETS if not agent.endswith("-paper") and not agent.startswith("deep-")]


def config_of(agent: str, **more: Any) -> Config:
    flags = {"env": TASK, "agent": agent} | SIZES | more
    built = presets.resolve(None, {"env": TASK, "agent": agent}, {})
    if built.network.core.is_windowed:
        context = built.network.core.context_length
        own = {"network.core.context_length": 10} if context != 1 else {}
        flags = {"env": TASK, "agent": agent, **own, "replay.learn_length": 10, "replay.burn_in_length": 0}
        flags["learner.n_step"] = 2
    if agent in ("darqn",):
        flags.pop("network.core.num_layers")
    return presets.resolve(None, {name: str(value) for name, value in flags.items()}, {}, for_all=True)


def broken(config: Config, change: Callable[[Any], None] | None = None) -> set[str]:
    """The names of the checks that do not hold for a network of random parameters."""
    network: Any = randomise(setup.make_network(config), scale=0.2).requires_grad_(False)
    if change is not None:
        change(network)
    return {check.name for check in checks.check(config, network) if not check.holds}


@pytest.mark.parametrize("agent", HEALTHY)
def test_there_is_no_alarm_on_a_healthy_agent(agent: str) -> None:
    assert broken(config_of(agent)) == set()


def test_a_run_of_a_gpu_is_looked_at_on_any_machine() -> None:
    config = config_of("gtrxl").model_copy(update={"device": "cuda", "cuda_graphs": True})
    assert broken(config) == set()


@pytest.mark.parametrize("agent", ["gtrxl", "lstm", "dtqn"])
def test_all_that_can_be_compared_is(agent: str) -> None:
    config = config_of(agent)
    network: Any = randomise(setup.make_network(config)).requires_grad_(False)
    compared = {check.name for check in checks.check(config, network) if check.difference is not None}
    assert compared == {"parity", "reset", "learning"}


DEFECTS: dict[str, tuple[Any, str, str, str, Callable[..., Any]]] = {
    "the learner's stored memory is that of one step before": (
        Schema, "sequences", "gtrxl", "learning",
        lambda batch, *given: batch._replace(memory={key: x.roll(1, 1) for key, x in batch.memory.items()})),
    "the learner's memory is dropped": (
        Schema, "sequences", "gru", "learning",
        lambda batch, *given: batch._replace(memory_valid=torch.zeros_like(batch.memory_valid))),
    "a layer of the learner's memory is zero": (
        Schema, "sequences", "gtrxl", "learning",
        lambda batch, *given: [x[:, :, -1].zero_() for x in batch.memory.values()] and batch),
    "burn-in is dropped": (
        Schema, "sequences", "gtrxl", "learning",
        lambda batch, *given: batch._replace(burn_in_timesteps=torch.zeros_like(batch.burn_in_timesteps))),
    "positions of the learner": (
        GTrXL, "_make_packed_call", "gtrxl", "learning",
        lambda call, *given: call._replace(positions=call.positions.roll(1, 0))),
    "the actor never resets": (
        actor, "reset_states", "lstm", "reset", lambda reset, state, *given: state),
    "environments are swapped": (
        Actor, "_step", "gtrxl", "parity", lambda found, *given: (found[0].roll(1, 0), *found[1:])),
    "the actor's weights have not been synced": (
        Actor, "__init__", "mingru", "parity",
        lambda _, of, *given, **named: setattr(of, "network", stale(of.network))),
    "replay has the action of another environment": (
        Schema, "stored", "lstm", "parity",
        lambda found, *given: found | {"prev_action": np.roll(found["prev_action"], 1)}),
    "a window is seen ahead": (
        DecoderLayer, "_attend", "dtqn", "parity",
        lambda found, layer, x, at: found if at is not None else found + 0.1 * x.mean(dim=1, keepdim=True)),
    "a state lacks its last step": (
        GTrXL, "forward", "gtrxl", "parity",
        lambda found, *given: (found[0], found[1] and found[1]._replace(memory=found[1].memory.roll(1, 1)),
                               found[2])),
    "cells are not stored": (
        LSTMLayer, "_cells", "lstm", "learning", lambda cells, *given: torch.zeros_like(cells)),
}  # fmt: skip
"""Of a class or module its function, an agent, the check that tells, and what is wrong in the result."""


def stale(network: Any) -> Any:
    return randomise(copy.deepcopy(network), seed=5, scale=0.05)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_named(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of, function, agent, check, wrong = DEFECTS[defect]
    own = getattr(of, function)
    monkeypatch.setattr(of, function, lambda *given, **named: wrong(own(*given, **named), *given, **named))
    assert check in broken(config_of(agent))


def too_large_for_float16(network: Any) -> None:
    candidate = network.core.layers[0].gate_and_candidate
    candidate.weight[len(candidate.weight) // 2 :] *= 1e7


def test_memory_that_float16_does_not_hold_is_named() -> None:
    assert "learning" in broken(config_of("mingru"), too_large_for_float16)
    kept = {"replay.memory_dtype": "float32"}
    assert broken(config_of("mingru", **kept), too_large_for_float16) == set()


class LargeCue(gymnasium.Env[Any, Any]):
    """A number of some size at first, and small ones afterwards."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: float) -> None:
        self.size = size

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        return np.array([self.size, 0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return np.array([0, self.time / 40], np.float32), 0.0, self.time == 40, False, {}


@pytest.mark.parametrize(("size", "cut"), [(1e2, False), (1e4, False), (1e6, True)])
def test_what_float16_rounds_is_no_defect_and_what_it_cuts_is(size: float, cut: bool) -> None:
    config = config_of("gtrxl", env=f"{__name__}:LargeCue", **{"task.kwargs": f"{{size: {size}}}"})
    network: Any = setup.make_network(config).requires_grad_(False)
    found = {check.name for check in checks.check(config, network) if not check.holds}
    assert ("learning" in found) == cut
