"""The Q-network of every agent that carries a state: encoder, recurrent core, head.

The acting function and the learning function are one: the actor calls it with T = 1, the learner with a
whole sequence, and any split of a sequence into calls gives the same Q-values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

from dtqn.types import QOutput, SequenceGenerator, Sequences, State, StepInputs, Trace, TraceSpec


class Core(Protocol):
    """A module that maps features [B, T, D] and the state before them to features, state and trace."""

    def __call__(
        self, x: Tensor, state: State, want_trace: bool = True, /
    ) -> tuple[Tensor, State, Trace]: ...

    def initial_state(self, batch_size: int, /) -> State: ...

    def state_from_trace(self, rows: dict[str, Tensor], valid: Tensor, episode_step: Tensor, /) -> State: ...

    def trace_spec(self) -> dict[str, TraceSpec]: ...

    def cache(self, state: State, /) -> State: ...


AuxiliaryLoss: TypeAlias = "Callable[[RecurrentQNetwork, Sequences, torch.Generator], Tensor]"
"""A scalar of the network, a batch and a generator of its draws."""


def latest_rows(memory: Tensor, burned: Tensor, burn_in_rows: Tensor, window: int) -> Tensor:
    """[B, min(window, W + P), ...]: the last of `memory` [B, W, ...] and then the real rows of `burned`.

    `burned` is [B, P, ...].
    """
    rows = torch.cat([memory.to(burned.dtype), burned], dim=1)
    size = min(window, rows.shape[1])
    index = _latest_index(memory.shape[1], burn_in_rows, size).clamp(min=0)
    return rows.gather(1, index.view(*index.shape, *[1] * (rows.dim() - 2)).expand(-1, -1, *rows.shape[2:]))


def _latest_index(num_memory: int, burn_in_rows: Tensor, size: int) -> Tensor:
    """[B, size] places in memory-then-burn-in of the `size` rows before the anchor; negative: before both."""
    return torch.arange(size, device=burn_in_rows.device) + (num_memory - size + burn_in_rows)[:, None]


class RecurrentQNetwork(nn.Module):
    def __init__(
        self, encoder: nn.Module, core: Core, head: nn.Module, auxiliary: AuxiliaryLoss | None = None
    ) -> None:
        """`auxiliary`: a loss that the learner may add; a module where it has parameters."""
        super().__init__()
        self.encoder, self.core, self.head, self.auxiliary = encoder, core, head, auxiliary

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

    def learn_values(
        self, batch: Sequences, generator: SequenceGenerator | None = None, want_trace: bool = False
    ) -> tuple[QOutput, dict[str, Tensor] | None]:
        """Output [B, R, ...] of the learn block, from the network's own starting state.

        Args:
            want_trace: hand back the trace rows that burn-in and learn block leave now, without gradient:
                field -> [B, P + R, ...].
        """
        del generator  # nothing here is random
        state, burned = self.starting_state(batch)
        output, _, learned = self(batch.learn, state, want_trace)
        if not want_trace:
            return output, None
        left = [trace for trace in (burned, learned) if trace is not None]
        return output, {
            name: torch.cat([getattr(trace, name).detach() for trace in left], dim=1)
            for name in self.trace_spec()
        }

    def starting_state(self, batch: Sequences) -> tuple[State, Trace | None]:
        """The state at the anchor, and the burn-in's trace [B, P, ...] where there is a burn-in.

        It is the stored memory, freshened by its own burn-in, without gradient.
        """
        with torch.no_grad():
            trace, valid, spec = batch.trace, batch.trace_valid, self.trace_spec()
            state = self.state_from_trace(trace, valid, batch.episode_step)
            burn_in = batch.burn_in.first.shape[1]
            if burn_in == 0:
                return state, None
            _, _, burned = self.core(self.encoder(batch.burn_in), state, True)
            memory = valid.shape[1]
            size = min(max((field.window for field in spec.values()), default=0), memory + burn_in)
            rows = {
                name: latest_rows(trace[name], getattr(burned, name), batch.burn_in_rows, field.window)
                for name, field in spec.items()
            }
            index = _latest_index(memory, batch.burn_in_rows, size)
            padded = torch.cat([valid, valid.new_ones(len(valid), burn_in)], dim=1)
            is_real = (index >= 0) & padded.gather(1, index.clamp(min=0))
            return self.state_from_trace(rows, is_real, batch.episode_step + batch.burn_in_rows), burned

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
