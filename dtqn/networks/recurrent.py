"""The Q-network of every agent that carries a state: encoder, recurrent core, head.

The acting function and the learning function are one: the actor calls it with T = 1, the learner with a
whole sequence, and any split of a sequence into calls gives the same Q-values.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from dtqn.types import QOutput, State, StepInputs, Trace, TraceSpec


class Core(Protocol):
    """A module that maps features [B, T, D] and the state before them to features, state and trace."""

    def __call__(
        self, x: Tensor, state: State, want_trace: bool = True, /
    ) -> tuple[Tensor, State, Trace]: ...

    def initial_state(self, batch_size: int, /) -> State: ...

    def state_from_trace(self, rows: dict[str, Tensor], valid: Tensor, episode_step: Tensor, /) -> State: ...

    def trace_spec(self) -> dict[str, TraceSpec]: ...

    def cache(self, state: State, /) -> State: ...


class RecurrentQNetwork(nn.Module):
    def __init__(self, encoder: nn.Module, core: Core, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.core, self.head = encoder, core, head

    def forward(
        self, inputs: StepInputs, state: State, want_trace: bool = True
    ) -> tuple[QOutput, State, Trace]:
        """Q-values of T steps from the state before them.

        Args:
            inputs: [B, T, ...]
            state: [B, ...]
            want_trace: hand back the state and the trace; a learner that needs only Q-values saves their
                making.
        Returns: output [B, T, A], the state after the T steps [B, ...], the trace rows that they leave
            [B, T, ...].
        """
        features, state, trace = self.core(self.encoder(inputs), state, want_trace)
        return self.head(features), state, trace

    def initial_state(self, batch_size: int) -> State:
        """The state at an episode's start, [B, ...]."""
        return self.core.initial_state(batch_size)

    def state_from_trace(self, rows: dict[str, Tensor], valid: Tensor, episode_step: Tensor) -> State:
        """The state after the trace rows [B, W, ...] (newest last, real where `valid` [B, W])."""
        return self.core.state_from_trace(rows, valid, episode_step)

    def trace_spec(self) -> dict[str, TraceSpec]:
        """What one trace row holds, field by field."""
        return self.core.trace_spec()

    def cache(self, state: State) -> State:
        """`state` with what can be kept of it while the parameters stay the same."""
        return self.core.cache(state)
