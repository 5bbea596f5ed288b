"""LRU: a linear recurrent unit, diagonal and complex (Orvieto et al. 2023, arXiv 2303.06349).

    h_t = lambda * h_{t-1} + gamma * (B u_t)      y_t = Re(C h_t) + d * u_t
    lambda = exp(-exp(nu) + i exp(theta))

so that |lambda| < 1 for all parameters (section 3.3). At initialisation lambda lies uniformly in the ring
r_min <= |lambda| <= r_max, and gamma = sqrt(1 - |lambda|^2) (section 3.4), trained as its logarithm.

Legend: B batch, T steps, D width; the state has D complex numbers, kept as two reals.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.scan import linear_scan

R_MIN, R_MAX = 0.9, 0.999
"""The ring of the paper's long-range tasks: a state halves in 7 to 700 steps."""


class LRULayer(nn.Module):
    """The paper's block (figure 1): x + GLU(GELU(LRU(LayerNorm(x))))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        area, angle = torch.rand(2, width, dtype=torch.float64).clamp(min=1e-6)
        size = torch.sqrt(area * (R_MAX**2 - R_MIN**2) + R_MIN**2)
        dtype = torch.get_default_dtype()
        self.norm = nn.LayerNorm(width)
        self.nu = nn.Parameter(torch.log(-torch.log(size)).to(dtype))
        self.theta = nn.Parameter(torch.log(2 * math.pi * angle).to(dtype))
        self.log_gamma = nn.Parameter(0.5 * torch.log1p(-size.square()).to(dtype))
        self.b = nn.Parameter(torch.randn(2 * width, width) * (2 * width) ** -0.5)
        """Rows: the real parts of B, then the imaginary ones."""
        self.c = nn.Parameter(torch.randn(width, 2 * width) * width**-0.5)
        """Columns: the real parts of C, then the imaginary ones, with their sign turned."""
        self.d = nn.Parameter(torch.randn(width))
        self.glu = nn.Linear(width, 2 * width)

    def eigenvalues(self) -> Tensor:
        """lambda [D], complex."""
        return torch.polar(torch.exp(-torch.exp(self.nu)), torch.exp(self.theta))

    def forward(self, x: Tensor, want_trace: bool, hidden: Tensor) -> tuple[Tensor, tuple[Tensor] | None]:
        """x [B, T, D], hidden [B, 2, D] -> output [B, T, D]; hidden [B, T, 2, D]: real, imaginary."""
        u = self.norm(x)
        driven = F.linear(u, self.b).unflatten(-1, (2, -1)) * torch.exp(self.log_gamma)
        h = linear_scan(
            self.eigenvalues().expand(1, x.shape[1], -1),
            torch.complex(*driven.unbind(dim=-2)),
            torch.complex(*hidden.unbind(dim=-2)),
        )
        parts = torch.stack([h.real, h.imag], dim=-2)
        y = F.linear(parts.flatten(-2), self.c) + self.d * u
        value, gate = self.glu(F.gelu(y, approximate="tanh")).chunk(2, dim=-1)
        return torch.addcmul(x, value, torch.sigmoid(gate)), (parts,) if want_trace else None
