"""Layers of LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014, arXiv 1406.1078).

Both are torch's own, with its parameters and initial values: uniform within 1/sqrt(D), two biases. With
`skip` a layer's input is added to its output (Wu et al. 2016, arXiv 1609.08144, section 3.1); without it a
deep stack does not learn.

Torch's initial gates forget half of the state at each step. Chrono initialisation (Tallec and Ollivier 2018,
arXiv 1804.11188, section 2) draws the keeping gate's bias as log(U(1, T_max - 1)) and gives the writing gate
the opposite bias, so that at the start features forget over 1 to T_max steps, here `longest`.

Orthogonal initialisation (Saxe et al. 2014, arXiv 1312.6120) keeps the length of what goes from state to
state: the weights of each gate on the state are an orthogonal matrix. Weights on the input are normal
with variance 1 / D (LeCun et al. 1998), biases are zero. Flax begins with these values.

Legend: B batch, T steps, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.choices import cores
from dtqn.networks.stack import Hidden, HiddenAndCell, RecurrentStack
from dtqn.settings.config import NetworkConfig
from dtqn.settings.named_code import found


def chrono_bias(width: int, longest: int) -> Tensor:
    """[D] log(U(1, longest - 1))"""
    return torch.empty(width).uniform_(1.0, max(1.0, longest - 1.0)).log()


@torch.no_grad()
def initialise_(parameters: Sequence[Tensor], longest: int | None, orthogonal: bool) -> None:
    """Set torch's weights [G D, D] on input and state and its two biases [G D], which it adds up.

    Args:
        longest: chrono initialisation's T_max in steps; None: torch's initial values.
        orthogonal: orthogonal initialisation of each gate, except for what chrono sets.
    """
    weight_ih, weight_hh, bias_ih, bias_hh = parameters
    width = weight_hh.shape[1]
    if orthogonal:
        nn.init.normal_(weight_ih, std=width**-0.5)
        for of_gate in weight_hh.split(width):
            nn.init.orthogonal_(of_gate)
        for bias in (bias_ih, bias_hh):
            nn.init.zeros_(bias)
    if longest is None:
        return
    keep = chrono_bias(width, longest)
    if len(bias_ih) == 4 * width:  # gates input, forget, cell, output
        bias_ih[: 2 * width], bias_hh[: 2 * width] = torch.cat([-keep, keep]), 0.0
    else:  # gates reset, update, new; the second keeps
        bias_ih[width : 2 * width], bias_hh[width : 2 * width] = keep, 0.0


class _SideBySide(nn.RNNBase):
    """Parameters in one piece of memory, as a GPU's kernels want them, in a copy too."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.flatten_parameters()


class _LSTM(_SideBySide, nn.LSTM):
    pass


class _GRU(_SideBySide, nn.GRU):
    pass


class LSTMLayer(nn.Module):
    def __init__(self, *, width: int, skip: bool, longest: int | None, orthogonal: bool) -> None:
        """`skip`: add the input to the output; the others as of `initialise_`."""
        super().__init__()
        self.lstm = _LSTM(width, width, batch_first=True)
        self.skip = skip
        initialise_(self.lstm.all_weights[0], longest, orthogonal)

    def forward(
        self, x: Tensor, want_memory: bool, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """x [B, T, D], hidden and cell [B, D] -> output [B, T, D]; hidden and cells [B, T, D]."""
        y, (_, last_cell) = self.lstm(x, (hidden[None].contiguous(), cell[None].contiguous()))
        left = None
        if want_memory:
            left = (y, last_cell[0, :, None] if x.shape[1] == 1 else self._cells(x, y, hidden, cell))
        return (x + y if self.skip else y), left

    @torch.no_grad()
    def _cells(self, x: Tensor, y: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        """The cells [B, T, D] after every step, without gradient; torch returns the last one only.

        As every hidden state is known, one matrix product gives the gates of all steps. Given the gates, the
        cell is a linear recurrence: c_t = f_t c_{t-1} + i_t g_t.
        """
        width = y.shape[2]
        weight_ih, weight_hh, bias_ih, bias_hh = self.lstm.all_weights[0]
        used = 3 * width  # rows of the gates input, forget, cell; the output's are the last
        weights, bias = torch.cat([weight_ih, weight_hh], dim=1)[:used], (bias_ih + bias_hh)[:used]
        before = torch.cat([hidden[:, None], y[:, :-1]], dim=1)
        gates = F.linear(torch.cat([x, before], dim=2), weights, bias)
        i, f = gates[..., : 2 * width].sigmoid_().chunk(2, dim=-1)
        added = gates[..., 2 * width :].tanh_().mul_(i)
        cells = torch.empty_like(y)
        for keep, add, now in zip(f.unbind(1), added.unbind(1), cells.unbind(1), strict=True):
            cell = torch.addcmul(add, keep, cell, out=now)
        return cells


class GRULayer(nn.Module):
    def __init__(self, *, width: int, skip: bool, longest: int | None, orthogonal: bool) -> None:
        """As `LSTMLayer`."""
        super().__init__()
        self.gru = _GRU(width, width, batch_first=True)
        self.skip = skip
        initialise_(self.gru.all_weights[0], longest, orthogonal)

    def forward(self, x: Tensor, want_memory: bool, hidden: Tensor) -> tuple[Tensor, tuple[Tensor] | None]:
        """x [B, T, D], hidden [B, D] -> output [B, T, D]; hidden [B, T, D]."""
        y, _ = self.gru(x, hidden[None].contiguous())
        return (x + y if self.skip else y), (y,) if want_memory else None


def _layers(kind: type[nn.Module], config: NetworkConfig) -> list[nn.Module]:
    core = cast(cores.LSTM | cores.GRU, config.core)
    begins: dict[str, Any] = {"longest": core.longest, "orthogonal": core.initial_weights == "orthogonal"}
    layers = [kind(width=config.width, skip=core.skip_connections, **begins) for _ in range(core.num_layers)]
    if config.encoder.gives_parts:
        layers[0] = found("dtqn.networks.darqn:AttentiveLSTMLayer")(width=config.width, **begins)
    return layers


def make_lstm(config: NetworkConfig) -> RecurrentStack:
    return RecurrentStack(_layers(LSTMLayer, config), HiddenAndCell((config.width,), (config.width,)))


def make_gru(config: NetworkConfig) -> RecurrentStack:
    return RecurrentStack(_layers(GRULayer, config), Hidden((config.width,)))
