"""Cores as a user would write them."""

from __future__ import annotations

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
