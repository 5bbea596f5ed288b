"""The contract of a Q-network: all that the actor, the learner and evaluation rely on.

A Q-network reads raw step inputs and gives Q-values. Its state is an argument and a return value, never an
attribute, and a call on T steps gives the same Q-values as any split of these steps into calls. So the actor,
which calls it with T = 1, and the learner, which calls it with a whole sequence, use one function.

At each step the network leaves memory behind, which replay stores. The state before a step is a function of
what the last W steps of its episode left. So each step is stored once, and any stored sequence can go on.

Legend: B batch, T steps of a call, W memory window, P timesteps of burn-in (of an encoder: parts of a step),
R timesteps of a learned segment, D width, A actions, Z numbers of a distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from dtqn.networks.heads import Prediction
from dtqn.networks.packing import Packing
from dtqn.types import MemorySpec, QOutput, Sequences, State, StepInputs, StoredMemory

CONTRACT_VERSION = 2
"""Grows when a network, core, encoder or head written for the contract before would no longer work."""

AuxiliaryLoss: TypeAlias = Callable[[Any, Sequences, torch.Generator], Tensor]
"""(the network that has it, a batch, a generator for its draws) -> a scalar that the learner may add.

A loss with parameters is a module; they are trained with the network's own."""


class Encoder(Protocol):
    """A module from raw step inputs to features; `dtqn.testing.check_encoder` holds it to this."""

    def __call__(self, inputs: StepInputs, /) -> Tensor:
        """Inputs [B, T, ...] -> features [B, T, D]; a step's features depend on its own inputs alone.

        An encoder for a core that attends to a step's P parts gives features [B, T, P, D].
        """


class Core(Protocol):
    """A module that remembers: from features and the state before them to features of the same shape.

    `dtqn.testing.check_core` holds a core to it. A core may have one more attribute: `contract_version`
    is the `CONTRACT_VERSION` that it was written for.
    """

    def __call__(
        self, x: Tensor, state: State, want_memory: bool = True, /
    ) -> tuple[Tensor, State, StoredMemory]:
        """Features [B, T, D] and the state before them -> output [B, T, D], the state after, stored memory.

        No gradient enters the state. State and stored memory are None unless `want_memory`.
        """

    def initial_state(self, batch_size: int, /) -> State:
        """The state [B, ...] at an episode's start."""

    def state_from_memory(self, memory: StoredMemory, valid: Tensor, episode_step: Tensor, /) -> State:
        """As `QNetwork.state_from_memory`, from memory [B, W, ...] in the shape of `memory_spec`."""

    def memory_spec(self) -> StoredMemory:
        """A tree of the shape of stored memory, a `MemorySpec` for each leaf that is stored, else None."""

    def cache(self, state: State, /) -> State:
        """As `QNetwork.cache`."""


class PackedCore(Core, Protocol):
    """A core that runs a batch without its padding, the burn-in in one pass with the rest."""

    packs: bool
    """Whether this one does; a core without the attribute does not."""

    def packed(
        self, x: Tensor, burned: Tensor, memory: StoredMemory, packing: Packing, want_memory: bool
    ) -> tuple[Tensor, StoredMemory | None]:
        """Features x [n, D] of the learned segment -> output [n, D], and what all timesteps leave.

        Args:
            burned: [P, D] features of the burn-in, which no gradient enters.
            memory: [m, ...] stored memory, in the shape of `memory_spec`.
            packing: where these timesteps lie in the batch.
            want_memory: give stored memory [P + n, ...], without gradient, else None.
        """


class Head(Protocol):
    """A module from features to Q-values."""

    @property
    def prediction(self) -> Prediction:
        """How the last layer's numbers are read: expected value, or atoms' probabilities."""

    def __call__(self, features: Tensor, /) -> QOutput:
        """Features [B, T, D] -> Q-values [B, T, A], and a distributional head's numbers [B, T, A, Z]."""


class QNetwork(nn.Module):
    """A module that the actor calls with T = 1 and the learner through `learn_values`.

    `tests/networks/test_contract.py` holds every network of the suite to it.
    """

    head: Head
    """The learner reads `head.prediction`, to know how its output is moved to a target."""
    auxiliary: AuxiliaryLoss | None
    """The loss that `learner.auxiliary_weight` weighs; None where the network has none."""
    __call__: Callable[..., tuple[QOutput, State, StoredMemory]]

    @property
    def packs(self) -> bool:
        """Whether `learn_values` leaves out padding, where the host may look at the counts of a batch."""
        return False

    def forward(
        self, inputs: StepInputs, state: State, want_memory: bool = True
    ) -> tuple[QOutput, State, StoredMemory]:
        """Q-values of T steps from the state before them.

        Args:
            inputs: [B, T, ...]
            state: [B, ...]
            want_memory: give the state and stored memory; without them a call costs less.
        Returns: the output [B, T, A]; the state after the T steps [B, ...]; the memory that these leave
            behind for replay [B, T, ...]. State and memory are None unless `want_memory`.
        """
        raise NotImplementedError

    def initial_state(self, batch_size: int) -> State:
        """The state [B, ...] at an episode's start, by the present parameters, on their device."""
        raise NotImplementedError

    def state_from_memory(self, memory: dict[str, Tensor], valid: Tensor, episode_step: Tensor) -> State:
        """The state [B, ...] after stored memory of one episode each.

        Args:
            memory: path -> [B, W, ...], newest last, of any float type; fewer timesteps than the window are
                an episode that has no more. A windowed network takes raw timesteps, by their paths in
                `StepInputs`.
            valid: [B, W] bool, the real timesteps, which are the last ones; the others may hold anything.
            episode_step: [B] the step's number in its episode that the state is for.
        """
        raise NotImplementedError

    def memory_spec(self) -> dict[str, MemorySpec]:
        """The fields of stored memory, by their paths; empty where none is stored."""
        return {}

    def cache(self, state: State) -> State:
        """`state` with everything that can be computed from it once while the parameters stay the same."""
        return state

    def learn_values(
        self, batch: Sequences, want_memory: bool = False
    ) -> tuple[QOutput, dict[str, Tensor] | None]:
        """Q-values of a batch's learned segments, with gradient.

        Args:
            want_memory: give stored memory as well.
        Returns: the output [B, R, A]; the memory that burn-in and learned segment leave under the present
            parameters, without gradient, path -> [B, P + R, ...], or None unless `want_memory`.
        """
        raise NotImplementedError


def memory_window(network: QNetwork) -> int:
    """W: the state before a step is a function of the stored memory of so many steps.

    It is 0 for a network whose state is made anew from raw timesteps, or that has none: nothing that replay
    keeps of it goes stale.
    """
    return max((field.window for field in network.memory_spec().values()), default=0)
