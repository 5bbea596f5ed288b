"""The gates of GTrXL on one step's vectors, each by its formula in the paper's section 3.2."""

from __future__ import annotations

import torch
from torch import Tensor


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def tanh(x: Tensor) -> Tensor:
    return (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x))


def gate(name: str, p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """g(x, y) of vectors [D]; `p` holds matrices [D, D] and the bias b [D] by their names in the paper."""
    if name == "residual":
        return x + y
    if name == "input":
        return sigmoid(p["W"] @ x) * x + y
    if name == "output":
        return x + sigmoid(p["W"] @ x - p["b"]) * y
    if name == "highway":
        s = sigmoid(p["W"] @ x + p["b"])
        return s * x + (1 - s) * y
    if name == "sigtanh":
        return x + sigmoid(p["W"] @ y - p["b"]) * tanh(p["U"] @ y)
    assert name == "gru"
    r = sigmoid(p["W_r"] @ y + p["U_r"] @ x)
    z = sigmoid(p["W_z"] @ y + p["U_z"] @ x - p["b"])
    h = tanh(p["W_g"] @ y + p["U_g"] @ (r * x))
    return (1 - z) * x + z * h
