"""Cores as a user would write them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dtqn.networks.builder import make_core
from dtqn.networks.gtrxl import GTrXL, GTrXLState, GTrXLTrace
from dtqn.settings.config import NetworkConfig
from dtqn.types import TraceSpec


class Reread(nn.Module):
    """GTrXL whose first layer remembers features: they are made anew from raw rows, and never stored.

    The trace is that of the layers after the first one.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        gtrxl = make_core(config.model_copy(update={"core": "gtrxl"}))
        assert isinstance(gtrxl, GTrXL)
        self.gtrxl = gtrxl
        self.input_window = config.memory_length

    def trace_spec(self) -> GTrXLTrace:
        later = self.gtrxl.num_layers - 1
        shape = (later, self.gtrxl.width)
        return GTrXLTrace(TraceSpec(shape, self.gtrxl.window) if later else None)  # type: ignore[arg-type]

    def initial_state(self, batch_size: int) -> GTrXLState:
        return self.gtrxl.initial_state(batch_size)

    def state_from_trace(
        self, rows: GTrXLTrace, valid: Tensor, episode_step: Tensor, features: Tensor
    ) -> GTrXLState:
        layers = [features[:, :, None]]
        if self.gtrxl.num_layers > 1:
            layers.append(rows.memory.to(features.dtype))
        trace = GTrXLTrace(torch.cat(layers, dim=2))
        return self.gtrxl.state_from_trace(trace, valid, episode_step)

    def cache(self, state: GTrXLState) -> GTrXLState:
        return self.gtrxl.cache(state)

    def forward(
        self, x: Tensor, state: GTrXLState, want_trace: bool = True
    ) -> tuple[Tensor, GTrXLState | None, GTrXLTrace | None]:
        output, after, trace = self.gtrxl(x, state, want_trace)
        return output, after, trace and GTrXLTrace(trace.memory[:, :, 1:])


class Unmasked(Reread):
    """Reads features of rows that are not there."""

    def state_from_trace(
        self, rows: GTrXLTrace, valid: Tensor, episode_step: Tensor, features: Tensor
    ) -> GTrXLState:
        return super().state_from_trace(rows, torch.ones_like(valid), episode_step, features)


class AveragesState(NamedTuple):
    outputs: Tensor
    """[B, 2, D]"""
    features: Tensor
    """[B, 5, D]"""


class AveragesTrace(NamedTuple):
    output: Tensor
    """[B, T, D]"""


class Averages(nn.Module):
    """y_t = tanh(W [x_t, mean of its last 2 outputs, mean of the last 5 features]).

    Outputs are its trace and features come from raw rows, of which it needs more than of the trace.
    """

    OUTPUTS, FEATURES = 2, 5

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.width, self.input_window = config.width, self.FEATURES
        self.linear = nn.Linear(3 * config.width, config.width)

    def trace_spec(self) -> AveragesTrace:
        return AveragesTrace(TraceSpec((self.width,), self.OUTPUTS))  # type: ignore[arg-type]

    def initial_state(self, batch_size: int) -> AveragesState:
        zeros = self.linear.weight.new_zeros
        return AveragesState(*(zeros(batch_size, rows, self.width) for rows in (self.OUTPUTS, self.FEATURES)))

    def state_from_trace(
        self, rows: AveragesTrace, valid: Tensor, episode_step: Tensor, features: Tensor
    ) -> AveragesState:
        def newest(x: Tensor, count: int) -> Tensor:
            x = x.to(self.linear.weight.dtype)
            real = x.masked_fill(~valid[:, valid.shape[1] - x.shape[1] :, None], 0.0)
            return nn.functional.pad(real, (0, 0, count, 0))[:, -count:]

        return AveragesState(newest(rows.output, self.OUTPUTS), newest(features, self.FEATURES))

    def cache(self, state: AveragesState) -> AveragesState:
        return state

    def forward(
        self, x: Tensor, state: AveragesState, want_trace: bool = True
    ) -> tuple[Tensor, AveragesState, AveragesTrace]:
        (outputs, features), made = state, []
        for feature in x.unbind(1):
            read = torch.cat([feature, outputs.mean(dim=1), features.mean(dim=1)], dim=-1)
            made.append(torch.tanh(self.linear(read)))
            outputs = torch.cat([outputs[:, 1:], made[-1].detach()[:, None]], dim=1)
            features = torch.cat([features[:, 1:], feature.detach()[:, None]], dim=1)
        output = torch.stack(made, dim=1)
        return output, AveragesState(outputs, features), AveragesTrace(output.detach())
