"""The gates that replace GTrXL's residual connections (Parisotto et al. 2020, arXiv 1910.06764, section 3.2).

A gate joins a sub-module's input x and its output y, both [..., D], to g(x, y) [..., D]. Every layer has
gates of its own. W, U are [D, D] without bias; b is the vector b_g [D].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GATE_BIAS = {"gru": 2.0, "output": 1.0, "highway": 1.0, "sigtanh": 1.0, "input": None, "residual": None}
"""b_g at initialisation; None where the gate has no bias."""


def _gate_weight(rows: int, width: int) -> nn.Parameter:
    """[rows * D, D], truncated normal with deviation 1/sqrt(input width) (appendix C)."""
    weight = torch.empty(rows * width, width)
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


class OutputGate(nn.Module):
    """g = x + sigmoid(W x - b) * y"""

    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.w = _gate_weight(1, width)
        self.bias = nn.Parameter(torch.full((width,), bias))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.addcmul(x, torch.sigmoid(F.linear(x, self.w, -self.bias)), y)


class HighwayGate(nn.Module):
    """g = s * x + (1 - s) * y, s = sigmoid(W x + b)"""

    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.w = _gate_weight(1, width)
        self.bias = nn.Parameter(torch.full((width,), bias))

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


class GRUGate(nn.Module):
    """g = (1 - z) * x + z * h

    r = sigmoid(W_r y + U_r x), z = sigmoid(W_z y + U_z x - b), h = tanh(W_g y + U_g (r * x)).
    The three W and the first two U are each one matrix product.
    """

    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.w_rzg = _gate_weight(3, width)
        self.u_rz = _gate_weight(2, width)
        self.u_g = _gate_weight(1, width)
        self.bias = nn.Parameter(torch.full((width,), bias))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        width = x.shape[-1]
        wy_rz, wy_g = F.linear(y, self.w_rzg).split([2 * width, width], dim=-1)
        bias_rz = torch.cat([torch.zeros_like(self.bias), -self.bias])
        r, z = torch.sigmoid(wy_rz + F.linear(x, self.u_rz, bias_rz)).chunk(2, dim=-1)
        h = torch.tanh(wy_g + F.linear(r * x, self.u_g))
        return torch.lerp(x, h, z)


def make_norm(norm: str, width: int) -> nn.Module:
    """LayerNorm for a sub-module's input (`pre`) or output (`post`); the identity for `none`."""
    return nn.Identity() if norm == "none" else nn.LayerNorm(width)


def make_gate(name: str, *, width: int, bias: float | None) -> nn.Module:
    """A gate by its name in the paper; `bias` None takes the gate's own b_g."""
    chosen = GATE_BIAS[name] if bias is None else bias
    match name:
        case "residual":
            return ResidualGate()
        case "input":
            return InputGate(width)
    assert chosen is not None
    return {"output": OutputGate, "highway": HighwayGate, "sigtanh": SigTanhGate, "gru": GRUGate}[name](
        width, chosen
    )
