"""The gates that replace GTrXL's residual connections (Parisotto et al. 2020, arXiv 1910.06764, section 3.2).

A gate joins a sub-module's input x and its output y, both [..., D], to g(x, y) [..., D]. Every layer has
gates of its own. W, U are [D, D] without bias; b is the vector b_g [D].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _gate_weight(timesteps: int, width: int) -> nn.Parameter:
    """[timesteps * D, D], truncated normal with deviation 1/sqrt(input width) (appendix C)."""
    weight = torch.empty(timesteps * width, width)
    deviation = width**-0.5
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
    return nn.Parameter(weight)


class ResidualGate(nn.Module):
    """g = x + y"""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class InputGate(nn.Module):
    """g = sigmoid(W x) * x + y"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.w = _gate_weight(1, width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.addcmul(y, torch.sigmoid(F.linear(x, self.w)), x)


class _BiasedGate(nn.Module):
    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.w = _gate_weight(1, width)
        self.bias = nn.Parameter(torch.full((width,), bias))


class OutputGate(_BiasedGate):
    """g = x + sigmoid(W x - b) * y"""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.addcmul(x, torch.sigmoid(F.linear(x, self.w, -self.bias)), y)


class HighwayGate(_BiasedGate):
    """g = s * x + (1 - s) * y, s = sigmoid(W x + b)"""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.lerp(y, x, torch.sigmoid(F.linear(x, self.w, self.bias)))


class SigTanhGate(nn.Module):
    """g = x + sigmoid(W y - b) * tanh(U y)"""

    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.wu = _gate_weight(2, width)
        self.bias = nn.Parameter(torch.full((width,), bias))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        w, u = F.linear(y, self.wu).chunk(2, dim=-1)
        return torch.addcmul(x, torch.sigmoid(w - self.bias), torch.tanh(u))


def _tanh_(x: Tensor) -> Tensor:
    """In place: 2 sigmoid(2 x) - 1, in a quarter of the time of torch's own tanh on an AMD EPYC."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


class _GRUGate(torch.autograd.Function):
    """`GRUGate` of timesteps x, y [n, D], with its backward in as few passes over them as there are products.

    With g the gradient of (1 - z) x + z h and a the arguments of the sigmoids and the tanh:

        dh = g z            da_h = dh (1 - h^2)       da_z = g (h - x) z (1 - z)
        d(rx) = da_h U_g    da_r = d(rx) x r (1 - r)
        dx = g (1 - z) + d(rx) r + da_r U_r + da_z U_z      dy = da_r W_r + da_z W_z + da_h W_g

    Autograd's own takes a third more time, forward, and a fifth more, backward (1 400 timesteps of 64 on a
    CPU).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, w_rzg: Tensor, u_rz: Tensor, u_g: Tensor, bias: Tensor
    ) -> Tensor:
        w_rz, w_g = w_rzg.split([2 * x.shape[1], x.shape[1]])
        rz = F.linear(y, w_rz).addmm_(x, u_rz.T)
        r, z = rz.chunk(2, dim=1)
        z.sub_(bias)
        rz.sigmoid_()
        rx = r * x
        h = _tanh_(F.linear(y, w_g).addmm_(rx, u_g.T))
        ctx.save_for_backward(x, y, rz, h, rx, w_rz, w_g, u_rz, u_g)
        return torch.lerp(x, h, z)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        x, y, rz, h, rx, w_rz, w_g, u_rz, u_g = ctx.saved_tensors
        r, z = rz.chunk(2, dim=1)
        da_rz = torch.empty_like(rz)
        da_r, da_z = da_rz.chunk(2, dim=1)
        dh = grad * z
        da_h = torch.ops.aten.tanh_backward(dh, h)
        torch.ops.aten.sigmoid_backward.grad_input((h - x).mul_(grad), z, grad_input=da_z)
        d_rx = da_h @ u_g
        torch.ops.aten.sigmoid_backward.grad_input(d_rx * x, r, grad_input=da_r)
        dx = (grad - dh).addcmul_(d_rx, r).addmm_(da_rz, u_rz)
        dy = (da_rz @ w_rz).addmm_(da_h, w_g)
        of_w = torch.cat([da_rz.T @ y, da_h.T @ y])
        return dx, dy, of_w, da_rz.T @ x, da_h.T @ rx, -da_z.sum(dim=0)


class GRUGate(nn.Module):
    """g = (1 - z) * x + z * h

    r = sigmoid(W_r y + U_r x), z = sigmoid(W_z y + U_z x - b), h = tanh(W_g y + U_g (r * x)).
    """

    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.w_rzg = _gate_weight(3, width)
        self.u_rz = _gate_weight(2, width)
        self.u_g = _gate_weight(1, width)
        self.bias = nn.Parameter(torch.full((width,), bias))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        timesteps = (each.reshape(-1, each.shape[-1]) for each in (x, y))
        gated: Tensor = _GRUGate.apply(*timesteps, self.w_rzg, self.u_rz, self.u_g, self.bias)
        return gated.view(x.shape)


class LayerSettings(NamedTuple):
    """What the layers of a transformer have in common."""

    width: int
    num_heads: int
    mlp_width: int
    gate: str
    gate_bias: float | None
    """b_g at the start; None: the gate's own."""
    norm: str
    """`pre`, `post` or `none`."""

    @classmethod
    def of(cls, width: int, core: Any) -> LayerSettings:
        """From the settings of a core that has such layers."""
        return cls(width, core.num_heads, core.mlp_width, core.gate, core.gate_bias, core.norm)


class TransformerLayer(nn.Module):
    """The part of a transformer's layer that is not its attention."""

    rectifies = False
    """Whether there are ReLUs before the gates also where LayerNorm is behind these."""

    def _add_rest(self, layer: LayerSettings) -> None:
        """Everything behind the attention, whose parameters come first."""
        width, gate, bias = layer.width, layer.gate, layer.gate_bias
        self.pre_norm = layer.norm == "pre"
        self.attention_norm = make_norm(layer.norm, width)
        self.attention_gate = make_gate(gate, width=width, bias=bias)
        self.mlp = feed_forward(width, layer.mlp_width)
        self.mlp_norm = make_norm(layer.norm, width)
        self.mlp_gate = make_gate(gate, width=width, bias=bias)

    def normalised(self, x: Tensor) -> Tensor:
        """The layer's input x [B, T, D] as its attention reads it."""
        return self.attention_norm(x) if self.pre_norm else x

    def _output(self, x: Tensor, y: Tensor) -> Tensor:
        """The layer's output from its input x and its attention's output y, [B, T, D] each."""
        is_rectified = self.pre_norm or self.rectifies
        x = self.attention_gate(x, F.relu(y) if is_rectified else y)
        x = x if self.pre_norm else self.attention_norm(x)
        y = self.mlp(self.mlp_norm(x) if self.pre_norm else x)
        x = self.mlp_gate(x, F.relu_(y) if is_rectified else y)
        return x if self.pre_norm else self.mlp_norm(x)


def make_norm(norm: str, width: int) -> nn.Module:
    """LayerNorm for a sub-module's input (`pre`) or output (`post`); the identity for `none`."""
    return nn.Identity() if norm == "none" else nn.LayerNorm(width)


def feed_forward(width: int, hidden_width: int) -> nn.Sequential:
    """A linear map to a hidden layer, a ReLU and one back."""
    return nn.Sequential(
        nn.Linear(width, hidden_width), nn.ReLU(inplace=True), nn.Linear(hidden_width, width)
    )


def make_gate(name: str, *, width: int, bias: float | None) -> nn.Module:
    """A gate by its name in the paper; `bias` None takes the gate's own b_g."""
    if name == "residual":
        return ResidualGate()
    if name == "input":
        return InputGate(width)
    kind, own = _BIASED[name]
    return kind(width, own if bias is None else bias)


_BIASED: dict[str, tuple[type[nn.Module], float]] = {
    "gru": (GRUGate, 2.0),
    "output": (OutputGate, 1.0),
    "highway": (HighwayGate, 1.0),
    "sigtanh": (SigTanhGate, 1.0),
}
"""The gates with a bias, and b_g at initialisation."""
