"""CoBERL: a GTrXL, a gate and an LSTM (Banino et al. 2021, arXiv 2107.05431, figure 1A).

With Y_t the encoder's features and X_t what the causal transformer makes of them:

    Z_t = gate(Y_t, X_t)        output_t = LSTM(Z_t)

The gate is one of GTrXL's (arXiv 1910.06764, section 3.2; the GRU gate by default) with the features in the
place of its first argument, which passes unchanged while the gate is closed. So at the start the agent is an
LSTM on features, and it learns how much of the transformer to let in.

The transformer leaves its layers' inputs behind (W = M), the LSTM its hidden state and cell (W = 1).

Legend: B batch, T steps, M memory length, W window of stored memory, D width.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import Tensor, nn

from dtqn.choices import cores
from dtqn.networks.gates import LayerSettings, make_gate
from dtqn.networks.gtrxl import GTrXL, GTrXLMemory, GTrXLState
from dtqn.networks.rnn import LSTMLayer
from dtqn.networks.stack import HiddenAndCell, RecurrentStack
from dtqn.settings.config import NetworkConfig


class CoBERLState(NamedTuple):
    transformer: GTrXLState
    recurrent: HiddenAndCell
    """[B, 1, D] each, of the LSTM."""


class CoBERLMemory(NamedTuple):
    transformer: GTrXLMemory
    recurrent: HiddenAndCell
    """[B, T, 1, D] each, of the LSTM."""


class CoBERL(nn.Module):
    """A recurrent core made of two others; its state and its stored memory are made of theirs."""

    def __init__(self, *, transformer: GTrXL, gate: nn.Module, lstm: LSTMLayer) -> None:
        super().__init__()
        self.transformer, self.gate = transformer, gate
        shape = (transformer.width,)
        self.recurrent = RecurrentStack([lstm], HiddenAndCell(shape, shape))
        self.num_layers = transformer.num_layers

    def memory_spec(self) -> CoBERLMemory:
        return CoBERLMemory(self.transformer.memory_spec(), self.recurrent.memory_spec())

    def initial_state(self, batch_size: int) -> CoBERLState:
        return CoBERLState(
            self.transformer.initial_state(batch_size), self.recurrent.initial_state(batch_size)
        )

    def state_from_memory(self, timesteps: CoBERLMemory, valid: Tensor, episode_step: Tensor) -> CoBERLState:
        """The state after stored memory [B, W, ...], newest last, of which the last are real: `valid` [B,
        W]."""
        return CoBERLState(
            self.transformer.state_from_memory(timesteps.transformer, valid, episode_step),
            self.recurrent.state_from_memory(timesteps.recurrent, valid, episode_step),
        )

    def cache(self, state: CoBERLState) -> CoBERLState:
        """`state` with the keys and values of its memory under the present parameters."""
        return state._replace(transformer=self.transformer.cache(state.transformer))

    def forward(
        self, x: Tensor, state: CoBERLState, want_memory: bool = True
    ) -> tuple[Tensor, CoBERLState | None, CoBERLMemory | None]:
        """x [B, T, D] -> output [B, T, D]; on request the state after it and its steps' stored memory."""
        y, memory, left = self.transformer(x, state.transformer, want_memory)
        output, recurrent, timesteps = self.recurrent(self.gate(x, y), state.recurrent, want_memory)
        if not want_memory:
            return output, None, None
        return output, CoBERLState(memory, recurrent), CoBERLMemory(left, timesteps)


def make_core(config: NetworkConfig) -> CoBERL:
    core, width = cast(cores.CoBERL, config.core), config.width
    gate = make_gate(core.gate, width=width, bias=core.gate_bias)
    layer = LayerSettings.of(width, core)
    transformer = GTrXL(layer, num_layers=core.num_layers, memory_length=core.memory_length)
    lstm = LSTMLayer(width=width, skip=False, longest=core.longest, orthogonal=False)
    return CoBERL(transformer=transformer, gate=gate, lstm=lstm)
