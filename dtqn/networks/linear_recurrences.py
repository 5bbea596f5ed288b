"""Linear recurrences, all steps at once, and the layers that are made of them.

    h_t = a_t h_{t-1} + b_t,   t = 1..T

LRU: a linear recurrent unit, diagonal and complex (Orvieto et al. 2023, arXiv 2303.06349).

    h_t = lambda * h_{t-1} + gamma * (B u_t)      y_t = Re(C h_t) + d * u_t
    lambda = exp(-exp(nu) + i exp(theta))

so that |lambda| < 1 for all parameters (section 3.3). At initialisation lambda lies uniformly in the ring
r_min <= |lambda| <= r_max, and gamma = sqrt(1 - |lambda|^2) (section 3.4), trained as its logarithm. The
state has D complex numbers, kept as two reals.

minGRU: a GRU whose gates do not read the state (Feng et al. 2024, arXiv 2410.01201, section 3.1, appendix B).

    z_t = sigmoid(W_z x_t + b_z)     c_t = g(W_h x_t + b_h)     h_t = (1 - z_t) * h_{t-1} + z_t * c_t

with g(x) = x + 1/2 for x >= 0 and sigmoid(x) below, so that c_t and h_t are positive. The paper runs the
recurrence in log space; `linear_scan` needs no logarithm to be safe. h_0 is zero.

Legend: B batch, T steps, C steps of a block, K blocks, N features (any number of axes), D width.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.choices import cores
from dtqn.networks.gates import feed_forward
from dtqn.networks.rnn import chrono_bias
from dtqn.networks.stack import Hidden, RecurrentStack
from dtqn.settings.config import NetworkConfig

R_MIN, R_MAX = 0.9, 0.999
"""The ring of the paper's long-range tasks: a state halves in 7 to 700 steps."""


def linear_scan(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """h [B, T, N] from a [B or 1, T, N], b [B, T, N] and h_0 = start [B, N]; real or complex.

    About 2 sqrt(T) operations one after the other, in place of T. It multiplies and adds and nothing else, so
    for |a| at most 1 no intermediate is larger than |start| + sum |b| and none overflows: a power of a that
    vanishes is a zero, where a scan by logarithms or by quotients of powers would divide by it.
    """
    result: Tensor = _LinearScan.apply(a, b, start)
    return result


class _LinearScan(torch.autograd.Function):
    """The gradient of h runs through the same recurrence, backward: g_t = dh_t + conj(a_{t+1}) g_{t+1}."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, start: Tensor) -> Tensor:
        h = _scan(a, b, start)
        ctx.save_for_backward(a, h, start)
        return h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        a, h, start = ctx.saved_tensors
        later = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], dim=1)
        g = _scan(later.conj().flip(1), grad.flip(1), torch.zeros_like(start)).flip(1)
        grad_a = grad_start = None
        if ctx.needs_input_grad[0]:
            before = torch.cat([start[:, None], h[:, :-1]], dim=1)
            grad_a = (g * before.conj()).sum_to_size(a.shape)
        if ctx.needs_input_grad[2]:
            grad_start = a[:, 0].conj() * g[:, 0]
        return grad_a, g, grad_start


def _scan(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """First inside blocks of about sqrt(T) steps, all blocks at once from zero; then from block to block."""
    steps = b.shape[1]
    length = math.isqrt(steps)
    h, power = _blocks(b, length), _blocks(a, length)  # the products of a from a block's first step on
    for i in range(1, length):
        h[:, :, i] += power[:, :, i] * h[:, :, i - 1]
        power[:, :, i] *= power[:, :, i - 1]
    before = start
    for k in range(h.shape[1]):
        h[:, k] += power[:, k] * before[:, None]
        before = h[:, k, -1]
    return h.flatten(1, 2)[:, :steps]


def _blocks(x: Tensor, length: int) -> Tensor:
    """An environment [B, K, C, N] of x [B, T, N], zeros after its end."""
    batch, steps, *features = x.shape
    count = -(-steps // length)
    blocks = x.new_zeros((batch, count * length, *features))
    blocks[:, :steps] = x
    return blocks.unflatten(1, (count, length))


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

    def forward(self, x: Tensor, want_memory: bool, hidden: Tensor) -> tuple[Tensor, tuple[Tensor] | None]:
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
        return torch.addcmul(x, value, torch.sigmoid(gate)), (parts,) if want_memory else None


def positive(x: Tensor) -> Tensor:
    """g: x + 1/2 where x >= 0, sigmoid(x) below; written without a choice, which is slow on a CPU."""
    return F.relu(x) + torch.sigmoid(x.clamp(max=0.0))


class MinGRULayer(nn.Module):
    """A residual block as in the paper's decision transformer: minGRU in the place of attention, then an MLP.

    x' = x + minGRU(LayerNorm(x)), output = x' + MLP(LayerNorm(x')). Initial values are torch's, but for
    z_t's bias where `longest` is given: see `dtqn.networks.rnn`.
    """

    def __init__(self, *, width: int, mlp_width: int, longest: int | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate_and_candidate = nn.Linear(width, 2 * width)
        if longest is not None:
            with torch.no_grad():
                self.gate_and_candidate.bias[:width] = -chrono_bias(width, longest)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = feed_forward(width, mlp_width)

    def forward(self, x: Tensor, want_memory: bool, hidden: Tensor) -> tuple[Tensor, tuple[Tensor] | None]:
        """x [B, T, D], hidden [B, D] -> output [B, T, D]; hidden [B, T, D]."""
        gate, candidate = self.gate_and_candidate(self.norm(x)).chunk(2, dim=-1)
        # 1 - sigmoid(x) is sigmoid(-x), which does not cancel.
        h = linear_scan(torch.sigmoid(-gate), torch.sigmoid(gate) * positive(candidate), hidden)
        x = x + h
        return x + self.mlp(self.mlp_norm(x)), (h,) if want_memory else None


def make_mingru(config: NetworkConfig) -> RecurrentStack:
    core, width = cast(cores.MinGRU, config.core), config.width
    sizes: dict[str, Any] = {"width": width, "mlp_width": core.mlp_width, "longest": core.longest}
    return RecurrentStack([MinGRULayer(**sizes) for _ in range(core.num_layers)], Hidden((width,)))


def make_lru(config: NetworkConfig) -> RecurrentStack:
    num_layers = cast(cores.LRU, config.core).num_layers
    return RecurrentStack(
        [LRULayer(width=config.width) for _ in range(num_layers)], Hidden((2, config.width))
    )
