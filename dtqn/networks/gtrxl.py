"""GTrXL: Transformer-XL with gates and LayerNorm at the input of each sub-module (arXiv 1910.06764).

For a layer with input E and memory M, the layer's own inputs at the last M steps (no gradient into them):

    Y  = RelMHA(LayerNorm([M, E]))      Y' = gate_1(E, ReLU(Y))
    F  = MLP(LayerNorm(Y'))             E' = gate_2(Y', ReLU(F))

With `norm="post"` it is Transformer-XL: Y' = LayerNorm(gate_1(E, Y)), E' = LayerNorm(gate_2(Y', F)).

Legend: B batch, T steps, M memory length, m memory rows in a state (at most M), L layers, H heads, d features
of a head, D width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.attention import RelativeAttention, sinusoid
from dtqn.networks.gates import make_gate
from dtqn.types import TraceSpec


class GTrXLState(NamedTuple):
    memory: Tensor
    """[B, m, L, D] layer inputs of the last m steps, oldest first."""
    count: Tensor  # type: ignore[assignment]  # hides tuple.count; checkpoints hold the name
    """[B] how many of the newest rows of `memory` are real."""
    keys: Tensor | None = None
    """[B, L, H, m, d] the memory's keys where they are kept (acting between two publishings), or none."""
    values: Tensor | None = None
    """[B, L, H, m, d]"""


class GTrXLTrace(NamedTuple):
    memory: Tensor
    """[B, T, L, D] the input of each attention layer at each step."""


class GTrXLLayer(nn.Module):
    def __init__(
        self,
        width: int,
        num_heads: int,
        mlp_width: int,
        memory_length: int,
        gate: str,
        gate_bias: float | None,
        norm: str,
    ) -> None:
        super().__init__()
        self.pre_norm = norm == "pre"
        self.attention = RelativeAttention(width, num_heads, memory_length)
        self.attention_norm = nn.LayerNorm(width)
        self.attention_gate = make_gate(gate, width, gate_bias)
        self.mlp = nn.Sequential(nn.Linear(width, mlp_width), nn.ReLU(), nn.Linear(mlp_width, width))
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_gate = make_gate(gate, width, gate_bias)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, H, m, d] of memory rows [B, m, D]."""
        return self.attention.project_memory(self.attention_norm(memory) if self.pre_norm else memory)

    def forward(
        self,
        x: Tensor,
        memory_key: Tensor,
        memory_value: Tensor,
        positions: Tensor,
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, D] -> the layer's output [B, T, D], keys and values [B, H, m + T, d]."""
        if self.pre_norm:
            y, k, v = self.attention(self.attention_norm(x), memory_key, memory_value, positions, mask)
            x = self.attention_gate(x, F.relu(y))
            return self.mlp_gate(x, F.relu(self.mlp(self.mlp_norm(x)))), k, v
        y, k, v = self.attention(x, memory_key, memory_value, positions, mask)
        x = self.attention_norm(self.attention_gate(x, y))
        return self.mlp_norm(self.mlp_gate(x, self.mlp(x))), k, v


class GTrXL(nn.Module):
    """A recurrent core: a function of the step's features and of the memory it is handed."""

    positions: Tensor
    layers: Sequence[GTrXLLayer]
    """An nn.ModuleList."""

    def __init__(
        self,
        width: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        mlp_width: int = 128,
        memory_length: int = 40,
        gate: str = "gru",
        gate_bias: float | None = None,
        norm: str = "pre",
    ) -> None:
        super().__init__()
        self.width, self.num_layers, self.num_heads = width, num_layers, num_heads
        self.memory_length = memory_length
        layers = nn.ModuleList(
            GTrXLLayer(width, num_heads, mlp_width, memory_length, gate, gate_bias, norm)
            for _ in range(num_layers)
        )
        self.layers = cast("Sequence[GTrXLLayer]", layers)
        self.register_buffer("positions", sinusoid(memory_length + 1, width).flip(0), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        """Xavier normal, zero biases (appendix C); gates have initialised themselves and stay as they are."""
        for layer in self.layers:
            attention = layer.attention
            for weight in (
                *attention.qkv.weight.chunk(3),
                attention.relative.weight,
                attention.output.weight,
            ):
                nn.init.xavier_normal_(weight)
            for module in layer.mlp:
                if isinstance(module, nn.Linear):
                    nn.init.xavier_normal_(module.weight)
                    nn.init.zeros_(module.bias)

    def trace_spec(self) -> dict[str, TraceSpec]:
        if self.memory_length == 0:
            return {}
        return {"memory": TraceSpec((self.num_layers, self.width), self.memory_length)}

    def initial_state(self, batch_size: int) -> GTrXLState:
        parameter = next(self.parameters())
        memory = parameter.new_zeros((batch_size, self.memory_length, self.num_layers, self.width))
        return GTrXLState(memory, torch.zeros(batch_size, dtype=torch.int64, device=parameter.device))

    def state_from_trace(self, rows: dict[str, Tensor], valid: Tensor, episode_step: Tensor) -> GTrXLState:
        """State after trace rows [B, W, ...], newest last; `valid` [B, W] marks the real ones, at the end."""
        del episode_step  # positions are relative
        if self.memory_length == 0:
            return self.initial_state(len(valid))
        memory = rows["memory"][:, -self.memory_length :]
        valid = valid[:, valid.shape[1] - memory.shape[1] :]
        memory = memory.to(next(self.parameters()).dtype)
        return GTrXLState(memory.masked_fill(~valid[..., None, None], 0.0), valid.sum(dim=1))

    def cache(self, state: GTrXLState) -> GTrXLState:
        """`state` with the keys and values of its memory under the present parameters."""
        pairs = [layer.project_memory(state.memory[:, :, i]) for i, layer in enumerate(self.layers)]
        return state._replace(
            keys=torch.stack([k for k, _ in pairs], 1), values=torch.stack([v for _, v in pairs], 1)
        )

    def forward(
        self, x: Tensor, state: GTrXLState, want_trace: bool = True
    ) -> tuple[Tensor, GTrXLState | None, GTrXLTrace | None]:
        """x [B, T, D] -> output [B, T, D]; on request the state after it and its steps' trace."""
        memory, count = state.memory.detach(), state.count
        steps, num_memory = x.shape[1], memory.shape[1]
        mask = self._empty_slots(count, num_memory, steps, x.dtype)
        positions = self.positions.to(x.dtype)  # kept in float64, so that the table is exact at any precision
        inputs, keys, values = [], [], []
        for i, layer in enumerate(self.layers):
            inputs.append(x)
            if state.keys is None or state.values is None:
                key, value = layer.project_memory(memory[:, :, i])
            else:
                key, value = state.keys[:, i], state.values[:, i]
            x, key, value = layer(x, key, value, positions, mask)
            keys.append(key)
            values.append(value)
        if not want_trace:
            return x, None, None
        trace = torch.stack(inputs, dim=2)
        start = max(0, num_memory + steps - self.memory_length)
        new_state = GTrXLState(
            memory=torch.cat([memory, trace.detach()], dim=1)[:, start:],
            count=(count + steps).clamp(max=self.memory_length),
        )
        if state.keys is not None:
            new_state = new_state._replace(
                keys=torch.stack(keys, 1)[:, :, :, start:], values=torch.stack(values, 1)[:, :, :, start:]
            )
        return x, new_state, GTrXLTrace(trace)

    @staticmethod
    def _empty_slots(count: Tensor, num_memory: int, steps: int, dtype: torch.dtype) -> Tensor | None:
        """[B, 1, 1, m + T]: minus infinity for memory slots that hold nothing; none where all are real."""
        if num_memory == 0 or bool((count >= num_memory).all()):
            return None
        key = torch.arange(num_memory + steps, device=count.device)
        empty = key < (num_memory - count)[:, None]
        mask = torch.zeros(empty.shape, dtype=dtype, device=count.device).masked_fill(empty, -math.inf)
        return mask[:, None, None]
