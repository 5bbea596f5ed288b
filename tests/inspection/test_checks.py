"""Contracts of a run: no alarm on healthy agents; planted defects, each in one path, are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from dtqn.training.schema import Schema
from tests.cases import randomise

TASK = "t-maze-passive-20"
SIZES: dict[str, Any] = {
    "network.width": 16,
    "network.mlp_width": 16,
    "network.num_layers": 2,
    "network.memory_length": 6,
    "replay.burn_in_length": 3,
    "replay.learn_length": 7,
    "replay.sequence_period": 5,
    "learner.n_step": 2,
}
HEALTHY = (
    *("gtrxl", "dtqn", "lstm", "gru", "mingru", "lru", "gated-deltanet", "dqn", "drqn", "r2d2", "coberl"),
    *(
        "attn",
        "gtrxl-compressive",
        "gtrxl-span",
        "gtrxl-thin",
        "trxl",
        "trxl-i",
        "darqn",
        "adrqn",
    ),
)


def config_of(agent: str, **more: Any) -> Config:
    flags = {"env": TASK, "agent": agent} | SIZES | more
    built = presets.resolve(None, {"env": TASK, "agent": agent}, {})
    if built.network.core == "dtqn":
        context = built.network.context_length
        own = {"network.context_length": 10} if context != 1 else {}
        flags = {"env": TASK, "agent": agent, **own, "replay.learn_length": 10, "replay.burn_in_length": 0}
        flags["learner.n_step"] = 2
    if agent in ("darqn",):
        flags.pop("network.num_layers")
    return presets.resolve(None, {name: str(value) for name, value in flags.items()}, {})


def broken(config: Config, change: Callable[[Any], None] | None = None, scale: float = 0.2) -> set[str]:
    """The names of the checks that do not hold for a network of random parameters."""
    network: Any = randomise(setup.make_network(config), scale=scale).requires_grad_(False)
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
    unlimited = {"distance"} if agent == "lstm" else set()
    assert compared == {"parity", "reset", "chunks", "learning", "causality", "distance"} - unlimited


def memory_shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner's stored rows are those of one step before."""
    own = Schema.sequences

    def shifted(self: Schema, *arguments: Any) -> Any:
        batch = own(self, *arguments)
        return batch._replace(trace={name: x.roll(1, 1) for name, x in batch.trace.items()})

    monkeypatch.setattr(Schema, "sequences", shifted)


def memory_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Schema.sequences

    def dropped(self: Schema, *arguments: Any) -> Any:
        batch = own(self, *arguments)
        return batch._replace(trace_valid=torch.zeros_like(batch.trace_valid))

    monkeypatch.setattr(Schema, "sequences", dropped)


def memory_layer_zeroed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Schema.sequences

    def zeroed(self: Schema, *arguments: Any) -> Any:
        batch = own(self, *arguments)
        for x in batch.trace.values():
            x[:, :, -1] = 0
        return batch

    monkeypatch.setattr(Schema, "sequences", zeroed)


def never_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "reset_rows", lambda state, initial, first: state)


def copies_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Actor._step

    def swapped(self: Actor, *arguments: Any) -> Any:
        q, state, trace = own(self, *arguments)
        return q.roll(1, 0), state, trace

    monkeypatch.setattr(Actor, "_step", swapped)


def stale_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor has not been published to."""
    own = Actor.__init__

    def older(self: Actor, env: Any, network: Any, **given: Any) -> None:
        import copy

        own(self, env, randomise(copy.deepcopy(network), seed=5, scale=0.05), **given)

    monkeypatch.setattr(Actor, "__init__", older)


def positions_of_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    own = GTrXL._make_packed_call

    def wrong(self: GTrXL, *arguments: Any) -> Any:
        call = own(self, *arguments)
        return call._replace(positions=call.positions.roll(1, 0))

    monkeypatch.setattr(GTrXL, "_make_packed_call", wrong)


def window_seen_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    own = DecoderLayer._attend

    def ahead(self: DecoderLayer, x: Any, at: Any) -> Any:
        return own(self, x if at is not None else x + 0.1 * x.mean(dim=1, keepdim=True), at)

    monkeypatch.setattr(DecoderLayer, "_attend", ahead)


def state_without_its_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    own = GTrXL.forward

    def forgetful(self: GTrXL, x: Any, state: Any, want_trace: bool = True) -> Any:
        output, after, trace = own(self, x, state, want_trace)
        if after is not None:
            after = after._replace(memory=after.memory.roll(1, 1))
        return output, after, trace

    monkeypatch.setattr(GTrXL, "forward", forgetful)


def cells_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    own = LSTMLayer._cells
    monkeypatch.setattr(LSTMLayer, "_cells", lambda self, *arguments: torch.zeros_like(own(self, *arguments)))


def actions_of_other_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay has the action of another copy beside each row."""
    own = Schema.stored

    def stored(self: Schema, rows: Any) -> Any:
        found = own(self, rows)
        return found | {"prev_action": np.roll(found["prev_action"], 1)}

    monkeypatch.setattr(Schema, "stored", stored)


def burn_in_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Schema.sequences

    def dropped(self: Schema, *arguments: Any) -> Any:
        batch = own(self, *arguments)
        return batch._replace(burn_in_rows=torch.zeros_like(batch.burn_in_rows))

    monkeypatch.setattr(Schema, "sequences", dropped)


def too_large_for_float16(network: Any) -> None:
    candidate = network.core.layers[0].gate_and_candidate
    candidate.weight[len(candidate.weight) // 2 :] *= 1e7


DEFECTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = [
    (memory_shifted, "gtrxl", "learning"),
    (memory_dropped, "gru", "learning"),
    (memory_layer_zeroed, "gtrxl", "learning"),
    (never_reset, "lstm", "reset"),
    (copies_swapped, "gtrxl", "parity"),
    (stale_parameters, "mingru", "parity"),
    (positions_of_the_learner, "gtrxl", "learning"),
    (window_seen_ahead, "dtqn", "causality"),
    (state_without_its_last_step, "gtrxl", "chunks"),
    (cells_not_stored, "lstm", "chunks"),
    (actions_of_other_copies, "lstm", "parity"),
    (burn_in_dropped, "gtrxl", "learning"),
]


@pytest.mark.parametrize("defect, agent, name", DEFECTS, ids=lambda x: getattr(x, "__name__", x))
def test_a_planted_defect_is_named(
    defect: Callable[[pytest.MonkeyPatch], None], agent: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    assert name in broken(config_of(agent))


def test_memory_that_float16_does_not_hold_is_named() -> None:
    assert "learning" in broken(config_of("mingru"), too_large_for_float16)
    kept = {"replay.trace_dtype": "float32"}
    assert broken(config_of("mingru", **kept), too_large_for_float16) == set()


def test_a_memory_longer_than_its_setting_is_named() -> None:
    config = config_of("dtqn")
    longer = config.model_copy(update={"network": config.network.model_copy(update={"context_length": 5})})
    network: Any = randomise(setup.make_network(config)).requires_grad_(False)
    assert "distance" in {check.name for check in checks.check(longer, network) if not check.holds}
