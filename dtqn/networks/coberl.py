"""CoBERL: a GTrXL, a gate and an LSTM (Banino et al. 2021, arXiv 2107.05431, figure 1A).

With Y_t the encoder's features and X_t what the causal transformer makes of them:

    Z_t = gate(Y_t, X_t)        output_t = LSTM(Z_t)

The gate is one of GTrXL's (arXiv 1910.06764, section 3.2; the GRU gate by default) with the features in the
place of its first argument, the one that passes unchanged while the gate is closed. So at the start the agent
is an LSTM on features, and it learns how much of the transformer to let in.

The transformer leaves its layers' inputs behind (W = M), the LSTM its hidden state and cell (W = 1).

Legend: B batch, T steps, M memory length, m memory rows in a state, L layers, H heads, d features of a head,
D width.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from dtqn.networks.gtrxl import GTrXL, GTrXLState
from dtqn.networks.rnn import LSTMLayer
from dtqn.networks.stack import HiddenAndCell, RecurrentStack
from dtqn.types import TraceSpec


class CoBERLState(NamedTuple):
    memory: Tensor
    """[B, m, L, D], and the fields below it as in `GTrXLState`."""
    count: Tensor  # type: ignore[assignment]  # hides tuple.count; checkpoints hold the name
    """[B]"""
    hidden: Tensor
    """[B, 1, D] of the LSTM, after the last step."""
    cell: Tensor
    """[B, 1, D]"""
    keys: Tensor | None = None
    """[B, L, H, m, d]"""
    values: Tensor | None = None
    """[B, L, H, m, d]"""


class CoBERLTrace(NamedTuple):
    memory: Tensor
    """[B, T, L, D] the input of each attention layer at each step."""
    hidden: Tensor
    """[B, T, 1, D] of the LSTM, after each step."""
    cell: Tensor
    """[B, T, 1, D]"""


class CoBERL(nn.Module):
    """A recurrent core made of two others."""

    def __init__(self, transformer: GTrXL, gate: nn.Module, lstm: LSTMLayer) -> None:
        super().__init__()
        self.transformer, self.gate = transformer, gate
        self.recurrent = RecurrentStack([lstm], HiddenAndCell, (transformer.width,))
        self.num_layers = transformer.num_layers

    def trace_spec(self) -> dict[str, TraceSpec]:
        return self.transformer.trace_spec() | self.recurrent.trace_spec()

    def initial_state(self, batch_size: int) -> CoBERLState:
        return _joined(self.transformer.initial_state(batch_size), self.recurrent.initial_state(batch_size))

    def state_from_trace(self, rows: dict[str, Tensor], valid: Tensor, episode_step: Tensor) -> CoBERLState:
        """State after trace rows [B, W, ...], newest last; `valid` [B, W] marks the real ones, at the end."""
        return _joined(
            self.transformer.state_from_trace(rows, valid, episode_step),
            self.recurrent.state_from_trace(rows, valid, episode_step),
        )

    def cache(self, state: CoBERLState) -> CoBERLState:
        """`state` with the keys and values of its memory under the present parameters."""
        cached = self.transformer.cache(_of_transformer(state))
        return state._replace(keys=cached.keys, values=cached.values)

    def forward(
        self, x: Tensor, state: CoBERLState, want_trace: bool = True
    ) -> tuple[Tensor, CoBERLState | None, CoBERLTrace | None]:
        """x [B, T, D] -> output [B, T, D]; on request the state after it and its steps' trace."""
        y, memory, left = self.transformer(x, _of_transformer(state), want_trace)
        hidden_and_cell = HiddenAndCell(state.hidden, state.cell)
        output, recurrent, rows = self.recurrent(self.gate(x, y), hidden_and_cell, want_trace)
        if not want_trace:
            return output, None, None
        return output, _joined(memory, recurrent), CoBERLTrace(left.memory, rows.hidden, rows.cell)

    def both_ways(self, x: Tensor, real: Tensor) -> Tensor:
        """The transformer alone, where every step sees all `real` steps [B, T] of x [B, T, D]."""
        return self.transformer.both_ways(x, real)


def _of_transformer(state: CoBERLState) -> GTrXLState:
    return GTrXLState(state.memory, state.count, state.keys, state.values)


def _joined(memory: GTrXLState, recurrent: HiddenAndCell) -> CoBERLState:
    return CoBERLState(
        memory.memory, memory.count, recurrent.hidden, recurrent.cell, memory.keys, memory.values
    )
