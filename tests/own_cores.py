"""Cores as a user would write them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dtqn.networks.stack import RecurrentStack
from dtqn.settings.config import NetworkConfig
from dtqn.types import MemorySpec


class AveragesState(NamedTuple):
    outputs: Tensor
    """[B, 2, D]"""
    features: Tensor
    """[B, 5, D]"""


class AveragesMemory(NamedTuple):
    output: Tensor
    """[B, T, D]"""
    feature: Tensor
    """[B, T, D]"""


class Averages(nn.Module):
    """y_t = tanh(W [x_t, mean of its last 2 outputs, mean of the last 5 features]).

    Both are its stored memory, each with a window of its own.
    """

    OUTPUTS, FEATURES = 2, 5

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.width = config.width
        self.linear = nn.Linear(3 * config.width, config.width)

    def memory_spec(self) -> AveragesMemory:
        specs = (MemorySpec((self.width,), window) for window in (self.OUTPUTS, self.FEATURES))
        return AveragesMemory(*specs)  # type: ignore[arg-type]

    def initial_state(self, batch_size: int) -> AveragesState:
        zeros = self.linear.weight.new_zeros
        return AveragesState(
            *(zeros(batch_size, timesteps, self.width) for timesteps in (self.OUTPUTS, self.FEATURES))
        )

    def state_from_memory(
        self, timesteps: AveragesMemory, valid: Tensor, episode_step: Tensor
    ) -> AveragesState:
        def newest(x: Tensor, count: int) -> Tensor:
            x = x.to(self.linear.weight.dtype)
            real = x.masked_fill(~valid[:, valid.shape[1] - x.shape[1] :, None], 0.0)
            return nn.functional.pad(real, (0, 0, count, 0))[:, -count:]

        return AveragesState(newest(timesteps.output, self.OUTPUTS), newest(timesteps.feature, self.FEATURES))

    def cache(self, state: AveragesState) -> AveragesState:
        return state

    def forward(
        self, x: Tensor, state: AveragesState, want_memory: bool = True
    ) -> tuple[Tensor, AveragesState, AveragesMemory]:
        (outputs, features), made = state, []
        for feature in x.unbind(1):
            read = torch.cat([feature, outputs.mean(dim=1), features.mean(dim=1)], dim=-1)
            made.append(torch.tanh(self.linear(read)))
            outputs = torch.cat([outputs[:, 1:], made[-1].detach()[:, None]], dim=1)
            features = torch.cat([features[:, 1:], feature.detach()[:, None]], dim=1)
        output = torch.stack(made, dim=1)
        return output, AveragesState(outputs, features), AveragesMemory(output.detach(), x.detach())


class RowsAndMatrix(NamedTuple):
    """What a Mamba-2 carries: the timesteps that its convolution reads again, and a matrix."""

    timesteps: Any
    matrix: Any


class ConvolvedLayer(nn.Module):
    """S_t = 0.9 S_{t-1} + k_t x_t^T, y_t = W S_t^T k_t, with k_t the tanh of a mix of x_{t-3}..x_t."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(4, 1), nn.Linear(width, width)

    def forward(
        self, x: Tensor, want_memory: bool, timesteps: Tensor, matrix: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """x [B, T, D], timesteps [B, 3, D], matrix [B, D, D]"""
        windows = torch.cat([timesteps, x], dim=1).unfold(1, 4, 1)
        keys, matrices = torch.tanh(self.mix(windows)), []
        for key, value in zip(keys.unbind(1), x.unbind(1), strict=True):
            matrix = 0.9 * matrix + key * value[:, None]
            matrices.append(matrix)
        held = torch.stack(matrices, dim=1)
        y = self.out((held.mT @ keys).squeeze(-1))
        return y, (windows[..., 1:].transpose(2, 3), held) if want_memory else None


def make_convolved(config: NetworkConfig) -> RecurrentStack:
    shapes = RowsAndMatrix((3, config.width), (config.width, config.width))
    return RecurrentStack([ConvolvedLayer(config.width) for _ in range(2)], shapes)
