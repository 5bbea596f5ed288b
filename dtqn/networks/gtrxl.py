"""GTrXL: Transformer-XL with gates and LayerNorm at the input of each sub-module (arXiv 1910.06764).

For a layer with input E and memory M, the layer's own inputs at the last M steps (no gradient into them):

    Y  = RelMHA(LayerNorm([M, E]))      Y' = gate_1(E, ReLU(Y))
    F  = MLP(LayerNorm(Y'))             E' = gate_2(Y', ReLU(F))

With `norm="post"` it is Transformer-XL: Y' = LayerNorm(gate_1(E, Y)), E' = LayerNorm(gate_2(Y', F)).

Options: heads that learn how far they look back (`attention.AdaptiveSpan`), and slots that stand for blocks
of steps beyond the memory (`compression`), which are made anew from the layer inputs at each call.

Legend: B batch, T steps, M memory length, m steps of memory in a state (at most W, which is M without
compression), L layers, H heads, d features of a head, D width, K blocks of compressed memory, c steps of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from dtqn.choices import cores
from dtqn.networks.attention import RelativeAttention, Slots, sinusoid
from dtqn.networks.compression import Blocks, Compression, compressor
from dtqn.networks.gates import LayerSettings, TransformerLayer
from dtqn.networks.packing import Layout, Packing, layout
from dtqn.settings.config import NetworkConfig
from dtqn.shapes import follow_data
from dtqn.types import MemorySpec

SPAN_RAMP = 8
"""R of adaptive spans, in steps."""


class GTrXLState(NamedTuple):
    memory: Tensor
    """[B, m, L, D] layer inputs of the last m steps, oldest first."""
    filled: Tensor
    """[B] how many of the newest steps of `memory` are real."""
    keys: Tensor | None = None
    """[B, L, H, m, d] keys of the last M steps if they are kept, between two syncs of weights."""
    values: Tensor | None = None
    """[B, L, H, m, d]"""
    phase: Tensor | None = None
    """[B] the next step's place in its block; with compression only."""


class GTrXLMemory(NamedTuple):
    memory: Tensor
    """[B, T, L, D] the input of each attention layer at each step."""


class PackedCall(NamedTuple):
    """All that layers share in a call of packed timesteps."""

    positions: Tensor
    """[E, D]"""
    mask: Tensor | None
    """[B, T, E], as for `RelativeAttention.forward`."""
    layout: Layout


class GTrXLLayer(TransformerLayer):
    def __init__(
        self, layer: LayerSettings, *, memory_length: int, span_ramp: int | None, compression_rate: int | None
    ) -> None:
        super().__init__()
        self.attention = RelativeAttention(
            width=layer.width, num_heads=layer.num_heads, memory_length=memory_length, span_ramp=span_ramp
        )
        self.compressor = None if compression_rate is None else compressor(layer.width, compression_rate)
        self._add_rest(layer)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [H, B, m, d] of memory [B, m, D]."""
        return self.attention.project_memory(self.normalised(memory))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        cached: tuple[Tensor, Tensor] | None,
        positions: Tensor,
        mask: Tensor | None,
        slots: Slots | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The layer's output [B, T, D]; keys and values [H, B, m + T, d] of memory and steps.

        Args:
            x: [B, T, D]
            memory: [B, m, D]
            cached: keys and values [H, B, m, d] of the memory.
        """
        inputs = torch.cat([memory, x], dim=1) if cached is None else x
        y, k, v = self.attention(self.normalised(inputs), x.shape[1], cached, positions, mask, slots)
        return self._output(x, y), k, v

    def packed(self, x: Tensor, burned: Tensor, memory: Tensor, call: PackedCall) -> tuple[Tensor, Tensor]:
        """The outputs of packed timesteps x [n, D] and, detached, of the burn-in, `burned` [P, D].

        What is no query of the call in the burn-in comes back as it is.
        """
        inputs = torch.cat([memory, burned, x])
        y = self.attention.packed(self.normalised(inputs), call.positions, call.mask, call.layout)
        of_burned, of_x = y.split([len(y) - len(x), len(x)])
        if len(of_burned):
            with torch.no_grad():
                burned = self._output(burned, of_burned)
        return self._output(x, of_x), burned

    def slots(self, inputs: Tensor, blocks: Blocks, positions: Tensor) -> Slots:
        """Compressed memory of layer inputs [B, m + T, D]; no gradient enters these or the compressor."""
        assert self.compressor is not None
        with torch.no_grad():
            compressed = self.compressor(blocks.steps(inputs).flatten(2))
        return Slots(*self.project_memory(compressed), positions, blocks.distance, blocks.visible)

    def reconstruction_loss(self, inputs: Tensor, blocks: Blocks, seen: Tensor) -> Tensor:
        """The squared distance between attention over the slots of blocks and over the steps themselves.

            mean over queries t that see a block of |attn(h_t, steps) - attn(h_t, f(steps))|^2 / D

        Attention is by content alone; only the compressor f gets a gradient.

        Args:
            inputs: [B, m + T, D] of the layer.
            seen: [B, T, K] the blocks that count.
        """
        assert self.compressor is not None
        attention, steps = self.attention, seen.shape[1]
        whole = blocks.steps(inputs)
        counts = seen.any(dim=-1)
        seen = seen | ~counts[..., None]

        def attend(memory: Tensor, visible: Tensor) -> Tensor:
            """[H, B, T, d], by parameters without gradient."""
            if self.pre_norm:
                norm = {name: p.detach() for name, p in self.attention_norm.named_parameters()}
                memory = torch.func.functional_call(self.attention_norm, norm, (memory,))
            key, value = attention.project_memory(memory, attention.qkv.weight.detach())
            scores = (query @ key.mT * attention.head_width**-0.5).masked_fill(~visible, -math.inf)
            return scores.softmax(dim=-1) @ value

        with torch.no_grad():
            query = attention.project_query(self.normalised(inputs[:, inputs.shape[1] - steps :]))
            exact = attend(whole.flatten(1, 2), seen.repeat_interleave(whole.shape[2], dim=-1))
        error = (attend(self.compressor(whole.flatten(2)), seen) - exact).square().sum(dim=(0, 3))
        return torch.where(counts, error, 0.0).sum() / (counts.sum().clamp(min=1) * attention.width)

    def both_ways(self, x: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """x [B, T, D] -> [B, T, D], where every step sees all T."""
        return self._output(x, self.attention.both_ways(self.normalised(x), positions, mask))


def _by_batch(of_layers: Sequence[Tensor]) -> Tensor:
    """[B, L, H, J, d] of each layer's [H, B, J, d]."""
    return torch.stack([x.transpose(0, 1) for x in of_layers], dim=1)


class GTrXL(nn.Module):
    """A recurrent core: a function of the steps' features and of the memory that it is given."""

    positions: Tensor
    layers: Sequence[GTrXLLayer]
    """An nn.ModuleList."""

    def __init__(
        self,
        layer: LayerSettings,
        *,
        num_layers: int,
        memory_length: int,
        span_ramp: int | None = None,
        compression: Compression | None = None,
    ) -> None:
        """
        Args:
            memory_length: M; with compression at least `compression.rate`.
            span_ramp: R of adaptive spans, in steps; None: every head sees all M steps.
            compression: the slots that stand for what lies beyond the last M steps; None: there are none.
        """
        super().__init__()
        self.width, self.num_layers, self.num_heads = layer.width, num_layers, layer.num_heads
        self.memory_length, self.compression = memory_length, compression
        self.window = memory_length if compression is None else compression.window
        self.packs = compression is None and span_ramp is None
        rate = None if compression is None else compression.rate
        layers = nn.ModuleList(
            GTrXLLayer(layer, memory_length=memory_length, span_ramp=span_ramp, compression_rate=rate)
            for _ in range(num_layers)
        )
        self.layers = cast("Sequence[GTrXLLayer]", layers)
        # From the farthest distance to 0, the order of scores; a function of the settings, so not saved.
        self.register_buffer("positions", sinusoid(memory_length + 1, self.width).flip(0), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        """Xavier normal, zero biases (appendix C); gates have initialised themselves and stay as they are."""
        for layer in self.layers:
            attention = layer.attention
            # Three matrices in one: as one, its height would be their fan-out.
            of_qkv = attention.qkv.weight.chunk(3)
            for weight in (*of_qkv, attention.relative.weight, attention.output.weight):
                nn.init.xavier_normal_(weight)
            for module in layer.mlp:
                if isinstance(module, nn.Linear):
                    nn.init.xavier_normal_(module.weight)
                    nn.init.zeros_(module.bias)

    def memory_spec(self) -> GTrXLMemory:
        memory: Any = MemorySpec((self.num_layers, self.width), self.window) if self.window else None
        return GTrXLMemory(memory)

    def initial_state(self, batch_size: int) -> GTrXLState:
        parameter = next(self.parameters())
        memory = parameter.new_zeros((batch_size, self.window, self.num_layers, self.width))
        zeros = torch.zeros(batch_size, dtype=torch.int64, device=parameter.device)
        return GTrXLState(memory, zeros, phase=None if self.compression is None else zeros)

    def state_from_memory(self, stored: GTrXLMemory, valid: Tensor, episode_step: Tensor) -> GTrXLState:
        """State after stored memory [B, W, ...], newest last; `valid` [B, W] marks what is real, at the end.

        Positions are relative; `episode_step` [B] says where blocks of compressed memory begin.
        """
        if self.window == 0:
            return self.initial_state(len(valid))
        memory = stored.memory[:, -self.window :]
        valid = valid[:, valid.shape[1] - memory.shape[1] :]
        # Attention gives padding a weight of 0, and 0 times NaN is NaN.
        memory = memory.masked_fill(~valid[..., None, None], 0.0).to(next(self.parameters()).dtype)
        phase = None if self.compression is None else episode_step % self.compression.rate
        return GTrXLState(memory, valid.sum(dim=1), phase=phase)

    def cache(self, state: GTrXLState) -> GTrXLState:
        """`state` with the keys and values of its memory's last M steps under the present parameters."""
        recent = self._recent(state.memory)
        pairs = [layer.project_memory(recent[:, :, i]) for i, layer in enumerate(self.layers)]
        keys, values = (_by_batch(of_layers) for of_layers in zip(*pairs, strict=True))
        return state._replace(keys=keys, values=values)

    def forward(
        self, x: Tensor, state: GTrXLState, want_memory: bool = True
    ) -> tuple[Tensor, GTrXLState | None, GTrXLMemory | None]:
        """x [B, T, D] -> output [B, T, D]; on request the state after it and its steps' memory."""
        # No gradient goes back into memory; its projections and LayerNorms do get theirs.
        memory, filled = state.memory.detach(), state.filled
        recent, steps = self._recent(memory), x.shape[1]
        num_memory = recent.shape[1]
        positions, mask = self._distances(filled, num_memory, steps, x.dtype)
        blocks = self._blocks(state, steps)
        inputs, keys, values = [], [], []
        for i, layer in enumerate(self.layers):
            inputs.append(x)
            cached = slots = None
            if state.keys is not None and state.values is not None:
                cached = state.keys[:, i].transpose(0, 1), state.values[:, i].transpose(0, 1)
            if blocks is not None and self.compression is not None:
                joined = torch.cat([memory[:, :, i], x.detach()], dim=1)
                slots = layer.slots(joined, blocks, self.compression.positions.to(x.dtype))
            x, key, value = layer(x, recent[:, :, i], cached, positions, mask, slots)
            keys.append(key)
            values.append(value)
        if not want_memory:
            return x, None, None
        left = torch.stack(inputs, dim=2)
        start = max(0, memory.shape[1] + steps - self.window)
        new_state = GTrXLState(
            memory=torch.cat([memory, left.detach()], dim=1)[:, start:],
            filled=(filled + steps).clamp(max=self.window),
        )
        if self.compression is not None and state.phase is not None:
            new_state = new_state._replace(phase=(state.phase + steps) % self.compression.rate)
        if state.keys is not None:
            start = max(0, num_memory + steps - self.memory_length)
            new_state = new_state._replace(
                keys=_by_batch(keys)[:, :, :, start:], values=_by_batch(values)[:, :, :, start:]
            )
        return x, new_state, GTrXLMemory(left)

    def packed(
        self, x: Tensor, burned: Tensor, stored: GTrXLMemory, packing: Packing, want_memory: bool
    ) -> tuple[Tensor, GTrXLMemory | None]:
        """As `PackedCore.packed`. No compression and no adaptive span."""
        memory = stored.memory if self.window else x.new_empty((0, self.num_layers, self.width))
        call = self._packed_call(packing, -packing.burn_in.shape[1], x.dtype)
        inputs = []
        for i, layer in enumerate(self.layers):
            if i == self.num_layers - 1:  # Nothing reads what it gives for the burn-in.
                call = self._packed_call(packing, 0, x.dtype)
            inputs.append(torch.cat([burned, x.detach()]) if want_memory else x)
            x, burned = layer.packed(x, burned, memory[:, i], call)
        return x, GTrXLMemory(torch.stack(inputs, dim=1)) if want_memory else None

    def _packed_call(self, packing: Packing, first_query: int, dtype: torch.dtype) -> PackedCall:
        """The shared part of a layer's call whose queries begin at position `first_query`."""
        key = ("GTrXL", first_query, self.memory_length, self.num_heads, dtype)
        return packing.once(key, lambda: self._make_packed_call(packing, first_query, dtype))

    def _make_packed_call(self, packing: Packing, first_query: int, dtype: torch.dtype) -> PackedCall:
        memory, burn_in, learn = packing.memory, packing.burn_in, packing.learn
        steps = learn.shape[1] - first_query
        positions, mask = self._distances(
            memory.counts + burn_in.counts + first_query,
            memory.shape[1] + burn_in.shape[1] + first_query,
            steps,
            dtype,
        )
        reach = len(positions) - 1
        queries = 2 if first_query < 0 else 1
        return PackedCall(
            positions, mask, layout([memory, burn_in, learn], queries, first_query, reach, self.num_heads)
        )

    def both_ways(self, x: Tensor, real: Tensor) -> Tensor:
        """Every step sees all steps of x [B, T, D] that are `real` [B, T], and no memory: [B, T, D]."""
        steps = x.shape[1]
        positions = sinusoid(2 * steps - 1, self.width, 1 - steps).flip(0).to(x)
        mask = torch.zeros(real.shape, dtype=x.dtype, device=x.device).masked_fill(~real, -math.inf)
        for layer in self.layers:
            x = layer.both_ways(x, positions, mask[:, None])
        return x

    def reconstruction_loss(self, state: GTrXLState, inputs: Tensor, real: Tensor) -> Tensor:
        """The attention-reconstruction loss of the layers' compressors, summed over layers (algorithm 2).

        Args:
            state: before the steps.
            inputs: [B, T, L, D] the layers' inputs at the steps.
            real: [B, T] the steps that count.
        """
        total = inputs.new_zeros(())
        blocks = self._blocks(state, inputs.shape[1])
        for i, layer in enumerate(self.layers):
            assert layer.compressor is not None
            if blocks is None:
                total = total + 0.0 * layer.compressor.weight.sum()
            else:
                joined = torch.cat([state.memory[:, :, i], inputs[:, :, i]], dim=1).detach()
                total = total + layer.reconstruction_loss(joined, blocks, blocks.visible & real[..., None])
        return total

    def _recent(self, memory: Tensor) -> Tensor:
        """The steps [B, m, ...] of a state's memory that are seen as they are, at most M."""
        return memory[:, max(0, memory.shape[1] - self.memory_length) :]

    def _blocks(self, state: GTrXLState, steps: int) -> Blocks | None:
        if self.compression is None or state.phase is None:
            return None
        return self.compression.blocks(state.filled, state.phase, state.memory.shape[1], steps)

    def _distances(
        self, filled: Tensor, num_memory: int, steps: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """The sinusoids [E, D] of the distances E - 1..0 that a call has, and their mask [B, T, E].

        The mask is minus infinity where a distance reaches beyond `filled` [B] steps before the call. It is
        None if there is a step everywhere.
        """
        reach = min(self.memory_length, num_memory + steps - 1)
        # Kept in float64, so that the table is exact at any precision.
        positions = self.positions[len(self.positions) - reach - 1 :].to(dtype)
        if follow_data(filled) and bool((filled >= reach).all()):
            return positions, None
        distance = torch.arange(reach, -1, -1, device=filled.device)
        held = (filled[:, None] + torch.arange(steps, device=filled.device)).clamp(min=0)
        nothing = distance > held[..., None]
        mask = torch.zeros(nothing.shape, dtype=dtype, device=filled.device)
        return positions, mask.masked_fill_(nothing, -math.inf)


def make_core(config: NetworkConfig) -> GTrXL:
    core, compression = cast(cores.GTrXL, config.core), None
    if core.compressed_slots:
        compression = Compression(
            width=config.width,
            memory_length=core.memory_length,
            num_slots=core.compressed_slots,
            rate=cores.COMPRESSION_RATE,
        )
    return GTrXL(
        LayerSettings.of(config.width, core),
        num_layers=core.num_layers,
        memory_length=core.memory_length,
        span_ramp=SPAN_RAMP if core.adaptive_span else None,
        compression=compression,
    )
