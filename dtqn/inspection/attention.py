"""Where attention looked: weights times the length of the values that they bring, by layer and head.

Kobayashi et al. 2020 (arXiv 2004.10102): a weight on a value of no length moves nothing, so each weight is
multiplied by the norm of its value after the output projection. Over layers these are put together as in
attention rollout (Abnar and Zuidema 2020, arXiv 2005.00928), where the share of a step that comes through
attention is what the gate lets in. It says where a network looked, not what it used.

Legend: L layers, H heads, T steps, D width, d features of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dtqn.inspection.dependence import q_values
from dtqn.inspection.recorder import Episode
from dtqn.networks.attention import RelativeAttention
from dtqn.networks.decoder import DecoderLayer
from dtqn.networks.gtrxl import GTrXLLayer
from dtqn.networks.q_network import QNetwork


class Attention(NamedTuple):
    """How T steps of an episode attend to each other, in L layers of H heads."""

    looked: np.ndarray
    """[L, H, T, T] softmax weights of step t (third) on step k (last), times the norm of the value after the
    output projection."""
    openness: np.ndarray
    """[L, T] how much of a layer's output its attention gate let in: |change| / (|change| + |input|)."""
    rollout: np.ndarray
    """[T, T] over all layers; rows sum to 1."""


def attention(network: QNetwork, episode: Episode) -> Attention | None:
    """An episode's attention; None if the network attends to no steps, or the episode is too long for it."""
    core = getattr(network, "core", None) or getattr(network, "decoder", None)
    core = getattr(core, "transformer", core)
    layers = [x for x in getattr(core, "layers", ()) if isinstance(x, (GTrXLLayer, DecoderLayer))]
    context: int | None = getattr(network, "context_length", None)
    if not layers or (context is not None and episode.length > context):
        return None
    seen: list[Tensor] = []
    gates: list[Tensor] = []
    with _watched(layers, seen, gates, episode.length):
        q_values(network, episode.inputs)
    if len(seen) != len(layers):  # an episode too long for one call
        return None
    looked, openness = (torch.stack(x).double().numpy() for x in (seen, gates))
    return Attention(looked, openness, _rollout(looked, openness))


def _rollout(looked: np.ndarray, openness: np.ndarray) -> np.ndarray:
    length = looked.shape[-1]
    total = np.eye(length)
    for of_layer, share in zip(looked.sum(axis=1), openness, strict=True):
        rows = of_layer / np.maximum(of_layer.sum(axis=-1, keepdims=True), 1e-30)
        total = ((1 - share)[:, None] * np.eye(length) + share[:, None] * rows) @ total
    return total


@contextmanager
def _watched(layers: list[Any], seen: list[Tensor], gates: list[Tensor], length: int) -> Iterator[None]:
    """Notes where each layer of a call on `length` steps looks, and its gates."""
    with ExitStack() as undo:
        for gate in dict.fromkeys(layer.attention_gate for layer in layers):  # all layers may share one
            undo.callback(gate.register_forward_hook(_note_gate(gates)).remove)
        for layer in layers:
            if isinstance(layer, GTrXLLayer):
                module, name, note = layer.attention, "_mixed", _note_relative(layer.attention, seen, length)
            else:
                module, name, note = layer, "_attend", _note_decoder(layer, seen)
            setattr(module, name, note)
            undo.callback(delattr, module, name)
        yield


def _note_gate(gates: list[Tensor]) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    def note(gate: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        x = arguments[0][0]
        change = (output[0] - x).norm(dim=-1)
        gates.append(change / (change + x.norm(dim=-1)).clamp(min=1e-30))

    return note


def _lengths(values: Tensor, output: Tensor, num_heads: int) -> Tensor:
    """[H, J] of values [H, J, d] after their heads' part of the output projection [D, H d]."""
    by_head = output.unflatten(1, (num_heads, -1)).permute(1, 2, 0)  # [H, d, D]
    return (values @ by_head).norm(dim=-1)


def _note_relative(
    module: RelativeAttention, seen: list[Tensor], length: int
) -> Callable[[Tensor, Tensor], Tensor]:
    own = type(module)._mixed

    def note(weights: Tensor, v: Tensor) -> Tensor:
        """Weights [H, 1, T, E] on distances E - 1..0, and values [H, 1, E - 1 + T, d]."""
        reach = weights.shape[-1] - 1
        step = torch.arange(length)
        distance = step[:, None] - step
        place = (reach - distance).clamp(0, reach).expand(len(weights), -1, -1)
        inside = (distance >= 0) & (distance <= reach)
        on_steps = torch.where(inside, weights[:, 0].gather(-1, place), 0.0)
        lengths = _lengths(v[:, 0, reach:], module.output.weight, module.num_heads)
        seen.append(on_steps * lengths[:, None])
        return own(module, weights, v)

    return note


def _note_decoder(layer: DecoderLayer, seen: list[Tensor]) -> Callable[..., Tensor]:
    own = type(layer)._attend

    def note(x: Tensor, at: Tensor | None) -> Tensor:
        q, k, v = layer.qkv(x).unflatten(2, (3, layer.num_heads, -1)).permute(2, 0, 3, 1, 4)[:, 0]
        length = x.shape[1]
        scores = q @ k.mT / q.shape[-1] ** 0.5
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        weights = scores.masked_fill(~causal, -torch.inf).softmax(dim=-1)
        seen.append(weights * _lengths(v, layer.output.weight, layer.num_heads)[:, None])
        return own(layer, x, at)

    return note
