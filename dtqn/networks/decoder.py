"""DTQN's transformer decoder over a window of steps (Esslinger, Platt and Amato 2022, arXiv 2206.01078).

With E the features of a window's steps and P their positions, X = E + P, and for each layer

    Y = MHA(X)              X'  = LayerNorm(gate_1(X, ReLU(Y)))
    F = MLP(X')             X'' = LayerNorm(gate_2(X', ReLU(F)))

MHA is causal. With `norm="pre"` LayerNorm is at the input of MHA and of MLP instead (identity map
reordering). The ReLUs are in the public code (github.com/kevslinger/DTQN), not in the paper; there all layers
share their gates, here only with `share_gates`. With `norm="none"` there is no LayerNorm: one such layer with
residual sums is the paper's baseline ATTN, as in that code.

Legend: B batch, T steps of a window (at most K), S of them, K context length, H heads, d features of a head,
D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.attention import sinusoid
from dtqn.networks.gates import LayerSettings, TransformerLayer, make_norm
from dtqn.settings.config import NetworkConfig


def _seen(x: Tensor, at: Tensor) -> Tensor:
    """bool [B, 1, S, T]: the steps of x [B, T, D] that each of `at` [B, S] attends to."""
    step = torch.arange(x.shape[1], device=x.device)
    return (step <= at[..., None])[:, None]


class DecoderLayer(TransformerLayer):
    rectifies = True

    def __init__(self, layer: LayerSettings) -> None:
        super().__init__()
        self.num_heads = layer.num_heads
        self.qkv = nn.Linear(layer.width, 3 * layer.width)
        self.output = nn.Linear(layer.width, layer.width)
        self._add_rest(layer)

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """[B, T, D] -> [B, T, D], or [B, S, D] of the steps `at` [B, S] alone."""
        y = self._attend(self.normalised(x), at)
        if at is not None:
            x = x[torch.arange(len(at), device=at.device)[:, None], at]
        return self._output(x, y)

    def _attend(self, x: Tensor, at: Tensor | None) -> Tensor:
        """softmax(q k^T / sqrt(d)) v over the step itself and those before it in the window."""
        q, k, v = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        if at is not None:
            q = q.gather(2, at[:, None, :, None].expand(-1, q.shape[1], -1, q.shape[3]))
        if x.dtype is torch.bfloat16:  # in which torch's own backward takes seven times as long on a CPU
            q, k, v = q.float(), k.float(), v.float()
        seen = None if at is None else _seen(x, at)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=seen is None)
        return self.output(mixed.transpose(1, 2).flatten(2).to(x.dtype))


class TransformerDecoder(nn.Module):
    """A function of a window's features, the window's first step at position 0; it keeps nothing."""

    def __init__(
        self,
        layer: LayerSettings,
        *,
        num_layers: int,
        context_length: int,
        positions: str,
        share_gates: bool,
        final_norm: bool,
    ) -> None:
        """
        Args:
            context_length: K.
            positions: `learned`, `sinusoidal` or `none`.
            share_gates: all layers have the first one's two gates.
            final_norm: LayerNorm after the last layer.
        """
        super().__init__()
        width = layer.width
        self.num_layers, self.context_length = num_layers, context_length
        self.layers = nn.ModuleList(DecoderLayer(layer) for _ in range(num_layers))
        for later in self.layers[1:] if share_gates else ():
            later.attention_gate, later.mlp_gate = self.layers[0].attention_gate, self.layers[0].mlp_gate
        self.final_norm = make_norm("post" if final_norm else "none", width)
        match positions:
            case "learned":
                self.positions: Tensor | None = nn.Parameter(torch.zeros(context_length, width))
            case "sinusoidal":
                self.register_buffer("positions", sinusoid(context_length, width), persistent=False)
            case "none":
                self.positions = None
        self._initialise()

    def _initialise(self) -> None:
        """Xavier normal weights, drawn for each projection separately, and zero biases."""
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                for weight in module.weight.chunk(3 if name.endswith("qkv") else 1):
                    nn.init.xavier_normal_(weight)
                nn.init.zeros_(module.bias)

    def forward(self, features: Tensor, at: Tensor | None = None) -> Tensor:
        """Features [B, T, D], T at most K -> [B, T, D].

        Args:
            at: [B, S] the steps of each window that are wanted, for [B, S, D]; the last layer then leaves out
                the others.
        """
        x = features
        if self.positions is not None:
            # A table of sinusoids is kept in float64, so that it is exact at any precision.
            x = x + self.positions[: x.shape[1]].to(x.dtype)
        for layer in self.layers[:-1]:
            x = layer(x)
        normed: Tensor = self.final_norm(self.layers[-1](x, at))
        return normed


def make_core(config: NetworkConfig) -> TransformerDecoder:
    layer = LayerSettings.of(config.width, config.core)
    own = config.core.own_settings()
    return TransformerDecoder(layer, **{name: own[name] for name in own.keys() - layer._asdict().keys()})
