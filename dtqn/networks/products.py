"""Products of many rows with a weight, and layers that are made of them.

On a CPU torch multiplies float32 matrices with MKL, which on AMD's processors leaves AVX-512 aside. oneDNN, a
part of torch too, does not, and takes half of the time for 1 056 rows of 64 times 64 x 128 on Zen 5; Zen 4,
whose units are half as wide, gains nothing. oneDNN prepares a kernel for each new shape, which takes as long
as the product, so its products are of multiples of `ROWS` rows only: packed rows come in these
(`packing.py`), others are filled up. All else is torch's own: other types, devices and processors, few rows,
and whatever runs under `torch.backends.mkldnn.flags(enabled=False)`.

Legend: n rows, K inputs, M outputs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 32
"""Rows come in multiples of so many."""
_LEAST_FAMILY = 26
"""AMD's number of Zen 5; Zen 4 has 25."""
_LEAST_ROWS, _LEAST_WEIGHTS = 256, 2048
"""Below these MKL is as fast, as a call of oneDNN's kernel costs some ten microseconds more."""
_LEAST_WEIGHTS_TO_FILL = 8192
"""With fewer weights, to fill rows up takes as long as the faster product saves."""


@functools.cache
def has_kernel() -> bool:
    """Whether oneDNN's kernel is here and faster than torch's own product."""
    return _processor_is_faster_with_it() and kernel_works()


def _processor_is_faster_with_it() -> bool:
    """A rule by the processor's name: which kernel multiplies must not hang on a clock."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        processor = Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        processor = ""
    family = re.search(r"^cpu family\s*: (\d+)$", processor, re.MULTILINE)
    return "AuthenticAMD" in processor and family is not None and int(family[1]) >= _LEAST_FAMILY


@functools.cache
def kernel_works() -> bool:
    """Whether this torch has the kernel, and it is what this module takes it for."""
    if not torch.backends.mkldnn.is_available():
        return False
    w = torch.arange(4, dtype=torch.float32, device="cpu").view(2, 2)
    x = torch.eye(2, dtype=w.dtype, device=w.device)
    try:
        return bool((_kernel(x, w, None) == w.T).all()) and bool((_kernel_onto(w, x, w) == w + w.T).all())
    except (AttributeError, RuntimeError):
        return False


def _kernel(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, w, bias, "none", [], None)
    return found


def _kernel_onto(total: Tensor, x: Tensor, w: Tensor) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, total, w, None, "add")
    return found


def _fits(x: Tensor, weights: int) -> bool:
    """Whether oneDNN multiplies the rows of x [..., K] with so many weights."""
    count = x.shape[:-1].numel()
    return (
        x.dtype is torch.float32
        and count >= _LEAST_ROWS
        and weights >= (_LEAST_WEIGHTS_TO_FILL if count % ROWS else _LEAST_WEIGHTS)
        and x.device.type == "cpu"
        and has_kernel()
        and torch._C._get_mkldnn_enabled()
    )


def _multiplies(rows: Tensor, weights: int) -> bool:
    """As `_fits`, where the rows are a multiple already and their numbers lie side by side."""
    return len(rows) % ROWS == 0 and rows.stride(1) == 1 and _fits(rows, weights)


def fill_up(rows: Tensor, weights: int) -> Tensor:
    """Rows [n, K], and rows of zeros after them where that makes products with so many weights faster."""
    more = -len(rows) % ROWS
    return F.pad(rows, (0, 0, 0, more)) if more and _fits(rows, weights) else rows


def on_rows(run: Callable[..., Tensor], weights: int, *inputs: Tensor) -> Tensor:
    """`run` of inputs [..., K] as rows [n, K], filled up for products with so many weights: [..., M]."""
    rows = [x if x.dim() == 2 else x.reshape(-1, x.shape[-1]) for x in inputs]
    found = run(*(fill_up(x, weights) for x in rows))[: len(rows[0])]
    return found if inputs[0].dim() == 2 else found.view(*inputs[0].shape[:-1], found.shape[-1])


def product(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """x w^T + bias, of rows x [n, K] and w [M, K]: [n, M]. It has no gradient."""
    return _kernel(x, w, bias) if _multiplies(x, w.numel()) else F.linear(x, w, bias)


def add_product(total: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """total + x w^T, of total [n, M], which may be overwritten, x [n, K] and w [M, K]. It has no gradient."""
    return _kernel_onto(total, x, w) if _multiplies(x, w.numel()) else total.addmm_(x, w.T)


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """grad^T x, of grad [n, M] and x [n, K]: [M, K]."""
    outputs, inputs = grad.shape[1], x.shape[1]
    # Kernels for a transposed view of something else are slower by orders of magnitude.
    if not _multiplies(grad, inputs * outputs) or not (grad.is_contiguous() and x.is_contiguous()):
        return grad.T @ x
    return _kernel(grad.T, x.T, None) if outputs <= inputs else _kernel(x.T, grad.T, None).T


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, w)
        return product(x, w, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        of_x, of_w, of_bias = ctx.needs_input_grad
        grad = grad.contiguous()
        return (
            product(grad, w.T) if of_x else None,
            weight_gradient(grad, x) if of_w else None,
            grad.sum(dim=0) if of_bias else None,
        )


def linear(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`: x w^T + bias, of x [..., K] and w [M, K]: [..., M]."""
    if not _fits(x, w.numel()):
        return F.linear(x, w, bias)
    return on_rows(lambda rows: cast(Tensor, _Linear.apply(rows, w, bias)), w.numel(), x)


class Linear(nn.Linear):
    """`torch.nn.Linear` by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class _FeedForward(torch.autograd.Function):
    """relu(x w_1^T + b_1) w_2^T + b_2, of rows x [n, K]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
        hidden = product(x, w_1, b_1).relu_()
        ctx.save_for_backward(x, hidden, w_1, w_2)
        return product(hidden, w_2, b_2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        x, hidden, w_1, w_2 = ctx.saved_tensors
        grad = grad.contiguous()
        of_hidden = product(grad, w_2.T)
        of_hidden = torch.ops.aten.threshold_backward.grad_input(of_hidden, hidden, 0, grad_input=of_hidden)
        of_w_1, of_w_2 = weight_gradient(of_hidden, x), weight_gradient(grad, hidden)
        return product(of_hidden, w_1.T), of_w_1, of_hidden.sum(dim=0), of_w_2, grad.sum(dim=0)


class FeedForward(nn.Sequential):
    """A linear map to a hidden layer, a ReLU and one back; rows are filled up once for both."""

    def __init__(self, width: int, hidden_width: int) -> None:
        super().__init__(Linear(width, hidden_width), nn.ReLU(inplace=True), Linear(hidden_width, width))

    def forward(self, x: Tensor) -> Tensor:
        weights = tuple(self.parameters())
        count = weights[0].numel()
        if not _fits(x, count):
            out: Tensor = super().forward(x)
            return out
        return on_rows(lambda rows: cast(Tensor, _FeedForward.apply(rows, *weights)), count, x)
