"""An accelerator's computations: blocks of fixed shapes, no number read by a host, a recording.

All of it is tested on a CPU. Where torch finds a GPU, the same is asked of that.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.agent import Turns, trainer_of
from dtqn import shapes
from dtqn.graphs import WARM_UP_CALLS, Captured, CudaRecorder
from dtqn.learning.learner import Learner
from dtqn.learning.padded import BlockSizes, Padded
from dtqn.training import machine
from dtqn.types import Sequences, leaves, map_tree
from tests.cases import CASES, WINDOWED, learner_config, make, randomise
from tests.learning import learners
from tests.learning.batches import LEARN_LENGTH, N_STEP, SHAPES, make_batch
from tests.reference.fx_recorder import FxRecorder

RECURRENT: dict[str, dict[str, Any]] = {
    "lstm": {"core": "lstm", "space": "box"},
    "gru": {"core": "gru", "space": "discrete", "skip_connections": True},
    "mingru": {"core": "mingru", "space": "multi_discrete"},
    "lru": {"core": "lru", "space": "box"},
    "deltanet": {"core": "deltanet", "space": "discrete"},
    "none": {"core": "none", "space": "box"},
}
HEADS: dict[str, dict[str, Any]] = {
    "categorical-recall": {
        "space": "multi_discrete",
        "distribution": "categorical",
        "num_atoms": 7,
        "v_min": -2.0,
        "v_max": 1.5,
        "recall_weight": 0.4,
    },
}
EVERY = CASES | WINDOWED | RECURRENT | HEADS
del EVERY["window-K1"]  # its window does not hold the timesteps of an n-step return
RECORDED = ("compressed", "window", "lstm", "mingru", "categorical-recall")
UPDATES = 6
SIZES = BlockSizes(memory=15, burn_in=3, learn=LEARN_LENGTH + N_STEP)
"""More than any of the batches has, as most batches of a run have less than they may."""


class HostReads(TorchDispatchMode):
    """The operators for which a host has to wait until the device has come to them."""

    WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "is_nonzero", "equal")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = [x for x in args[1] if x is not None and x.dtype == torch.bool] if name == "index" else []
        if masks or any(name.startswith(wait) for wait in self.WAITS):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def of(case: dict[str, Any], device: str = "cpu", **given: Any) -> tuple[Learner, str]:
    settings = dict(case)
    space = settings.pop("space")
    config = learner_config(
        **{
            "returns": "watkins",
            "q_lambda": 0.8,
            "n_step": N_STEP,
            "learning_rate": 2**-10,
            "novelty_weight": 0.3,
            "repeat_cost": 0.2,
            "weight_decay": 0.5,
            "max_grad_norm": 0.5,
        }
    )
    learner = learners.make_learner(make(space, **settings).to(device), config, want_memory=True, **given)
    randomise(learner.target, seed=9, scale=0.1)
    return learner, space


def batches_of(network: nn.Module, space: str) -> Iterator[Sequences]:
    """Batches of three sequences, whose blocks are of many lengths; the first one's memory is the longest."""
    for seed, chosen in enumerate(((0, 1, 4), (1, 2, 3), (0, 2, 5), (3, 4, 5), (1, 2, 3), (2, 3, 5))):
        yield make_batch(network, space, tuple(SHAPES[i] for i in chosen), seed)


def everything(learner: Learner) -> list[Tensor]:
    moments = learner.optimizer.get_state().values()
    return [
        *learner.online.parameters(),
        *learner.target.parameters(),
        *(x for of_one in moments for x in of_one.values()),
    ]


def assert_the_same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, check_device=False)


def compare(plain: Learner, padded: Learner, space: str) -> None:
    """The same updates, stored memory included."""
    device = next(padded.online.parameters()).device
    for batch in batches_of(plain.online, space):
        expected = plain.update(batch)
        with shapes.fixed():
            found = padded.update(map_tree(lambda x: x.to(device), batch))
        assert_the_same(found.priorities, expected.priorities)
        assert_the_same(found.metrics, expected.metrics)
        assert_the_same(everything(padded), everything(plain))
        assert (found.memory is None) == (expected.memory is None)
        if expected.memory is not None and found.memory is not None:
            mine, its = (map_tree(Tensor.cpu, x) for x in (found.memory, expected.memory))
            order, other = (np.lexsort((x.offset, x.sequence)) for x in (mine, its))
            assert_the_same(mine.offset[order], its.offset[other])
            for name, values in its.memory.items():
                assert_the_same(mine.memory[name][order], values[other])


@pytest.mark.parametrize("name", EVERY)
def test_padding_to_fixed_shapes_changes_nothing_and_no_number_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, space = of(EVERY[name])
    reads = HostReads()

    def watched(step: Any) -> Any:
        hold = Padded(SIZES)

        def run(*arguments: Any) -> Any:
            held = hold(*arguments)
            with reads, monkeypatch.context() as patch:
                for name in ("cpu", "numpy"):  # on a CPU neither is an operator
                    patch.setattr(Tensor, name, lambda *_, name=name: reads.found.append(name))
                return step(*held)

        return run

    padded, _ = of(EVERY[name], capture=watched)
    compare(plain, padded, space)
    assert reads.found == []


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_update_is_the_update(name: str) -> None:
    plain, space = of(EVERY[name])
    recorder = FxRecorder(lambda: everything(padded))
    padded, _ = of(EVERY[name], capture=lambda step: Captured(step, Padded(SIZES), recorder))
    compare(plain, padded, space)
    assert recorder.replays == UPDATES - WARM_UP_CALLS


def test_a_recorded_update_that_is_not_finite_changes_nothing() -> None:
    recorder = FxRecorder(lambda: everything(padded))
    padded, space = of(EVERY["lstm"], capture=lambda step: Captured(step, Padded(SIZES), recorder))
    with shapes.fixed():
        for batch in batches_of(padded.online, space):
            padded.update(batch)
        before = [x.clone() for x in everything(padded)]
        wrong = batch._replace(learn=batch.learn._replace(reward=batch.learn.reward * np.inf))
        assert padded.update(wrong).priorities is None
        assert_the_same(everything(padded), before)
        assert padded.skipped_updates == 1
        assert padded.update(batch).priorities is not None
    assert recorder.replays == 5


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@on_a_gpu
@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "recorded"])
@pytest.mark.parametrize("name", EVERY)
def test_a_gpu_updates_as_a_cpu_does(name: str, recorded: bool) -> None:
    plain, space = of(EVERY[name])
    given = {"capture": lambda step: Captured(step, Padded(SIZES), CudaRecorder())} if recorded else {}
    padded, _ = of(EVERY[name], "cuda", **given)
    compare(plain, padded, space)


@on_a_gpu
@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "recorded"])
@pytest.mark.parametrize("agent", ["gtrxl", "dtqn", "lstm", "gru", "mingru", "gated-deltanet", "darqn"])
def test_a_gpu_repeats_updates_to_the_digit(agent: str, recorded: bool) -> None:
    """At the sizes of a run: some of torch's kernels add up small inputs in one order, large ones in any."""
    machine.prepare()
    asked = {"agent": agent, "device": "cuda", "cuda_graphs": str(recorded), "evaluator": "inline"}
    turns = Turns(trainer_of(8_000, **asked), WARM_UP_CALLS + 1)
    learner = turns.learner

    def updated() -> bytes:
        for _ in turns.batches:
            turns.update()
        arrays = [x for x in leaves(learner.get_state()).values() if torch.is_tensor(x)]
        return b"".join(x.cpu().numpy().tobytes() for x in arrays)

    updated()
    state, found = copy.deepcopy(learner.get_state()), set()
    for _ in range(3):
        learner.set_state(copy.deepcopy(state))
        found.add(updated())
    assert len(found) == 1
