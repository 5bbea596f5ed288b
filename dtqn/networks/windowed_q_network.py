"""The Q-network of agents that re-read a window of raw steps: encoder, decoder, head.

Esslinger, Platt and Amato 2022, arXiv 2206.01078. The Q-values of a step come from the last K timesteps of
its episode, the oldest of them at position 0. Positions are absolute, so once the window slides all features
change, and all of it is run again at each step: keys and values kept from the step before would belong to
another model.

Nothing is stored with a step. The state is the last K - 1 raw timesteps, which the learner reads from replay.

Legend: B batch, T steps of the call, K context length, H timesteps of a state, P of burn-in (here: context),
R of the learned segment, S positions of a window, D width, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor

from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.q_network import Encoder, Head, QNetwork
from dtqn.shapes import largest
from dtqn.types import QOutput, Sequences, State, StepInputs, StoredMemory, from_leaves, map_tree


class WindowState(NamedTuple):
    """The raw timesteps that the next step is read with."""

    rows: StepInputs
    """[B, H, ...] the last timesteps as they arrived, newest last; checkpoints hold the field's name."""
    filled: Tensor
    """[B] how many of the newest of `rows` are of this episode."""


def pick(tree: StepInputs, index: Tensor) -> StepInputs:
    """Timesteps `index` [B, S] of every array [B, T, ...]."""
    batch = torch.arange(len(index), device=index.device)[:, None]
    picked: StepInputs = map_tree(lambda x: x[batch, index], tree)
    return picked


class WindowedQNetwork(QNetwork):
    """A Q-network that reads the last timesteps of an episode anew at every step."""

    auxiliary = None

    def __init__(
        self,
        *,
        encoder: Encoder,
        decoder: TransformerDecoder,
        head: Head,
        observation_space: gymnasium.Space,
    ) -> None:
        """`observation_space` gives the shapes of the raw observations that a state holds."""
        super().__init__()
        self.encoder, self.decoder, self.head = encoder, decoder, head
        self.observation_space, self.context_length = observation_space, decoder.context_length
        self.held_timesteps = self.context_length - 1

    def forward(
        self, inputs: StepInputs, state: WindowState, want_memory: bool = True
    ) -> tuple[QOutput, State, StoredMemory]:
        """Q-values of T steps, each from the K timesteps that end with it, or as many as its episode has."""
        filled, device = state.filled, state.filled.device
        held, steps = state.rows.first.shape[1], inputs.first.shape[1]
        joined = map_tree(lambda old, x: torch.cat([old.to(x.dtype), x], dim=1), state.rows, inputs)
        # Real timesteps from position 0 on. At the end the newest is repeated, which no step before it sees.
        longest = largest(filled, held)
        index = torch.arange(longest + steps, device=device) + (held - filled)[:, None]
        features = self.encoder(pick(joined, index.clamp(max=held + steps - 1)))
        place = filled[:, None] + torch.arange(steps, device=device)
        output = self.head(self._decode(features, place, longest))
        if not want_memory:
            return output, None, None
        newest = map_tree(lambda x: x[:, steps:], joined)
        return output, WindowState(newest, (filled + steps).clamp(max=held)), {}

    def _decode(self, features: Tensor, place: Tensor, longest: int) -> Tensor:
        """Decode the K timesteps that end at each of `place` [B, T] and keep the last of them: [B, T, D].

        Args:
            features: [B, S, D] of all timesteps, from the oldest on.
            longest: the largest of `place[:, 0]`.
        """
        size, batch = self.context_length, torch.arange(len(place), device=place.device)
        if place.shape[1] == 1:  # acting: the step is within the first K, as a state holds K - 1
            return self.decoder(features, at=place)
        begun = self.decoder(features[:, :size])[batch[:, None], place.clamp(max=size - 1)]
        start = max(0, size - longest)  # the first step at which some window has slid
        ends = place[:, start:]
        if ends.shape[1] == 0:
            return begun
        index = (ends[..., None] - torch.arange(size - 1, -1, -1, device=place.device)).clamp(min=0)
        windows = features[batch[:, None, None], index]
        last = torch.full((ends.numel(), 1), size - 1, device=place.device)
        slid = self.decoder(windows.flatten(0, 1), at=last)[:, 0].unflatten(0, ends.shape)
        return torch.cat(
            [begun[:, :start], torch.where((ends >= size)[..., None], slid, begun[:, start:])], 1
        )

    def window(self, inputs: StepInputs, at: Tensor | None = None) -> QOutput:
        """Q-values [B, T, A] at every position of windows [B, T, ...] in one pass, T at most K.

        This is the paper's intermediate Q-value prediction. The values equal the acting function's if the
        window begins an episode, and at the last position if T = K.

        Args:
            at: [B, S] the positions that are wanted, for [B, S, A].
        """
        return self.head(self.decoder(self.encoder(inputs), at))

    def learn_values(
        self, batch: Sequences, want_memory: bool = False
    ) -> tuple[QOutput, dict[str, Tensor] | None]:
        """From windows of K timesteps; no memory is stored.

        The burn-in, here context with gradient, and the learned segment are one run of timesteps. Its first K
        are a window, which holds all learned ones. Those beyond are only bootstrapped from; their values come
        from a second window, the run's last K timesteps, without gradient.
        """
        size = self.context_length
        memory: dict[str, Tensor] | None = {} if want_memory else None
        context, device = batch.burn_in.first.shape[1], batch.learn_timesteps.device
        before = batch.burn_in_timesteps[:, None]
        total = before + batch.learn_timesteps[:, None]
        joined = map_tree(lambda a, b: torch.cat([a, b], dim=1), batch.burn_in, batch.learn)

        def window(start: Tensor | int, steps: int, at: Tensor) -> QOutput:
            """The values at the places `at` [B, R] of each run, by its `steps` timesteps from `start` on."""
            # Places past the run's end, which no real timestep sees, repeat its last one.
            place = torch.minimum(start + torch.arange(steps, device=device), total - 1)
            index = torch.where(place < before, place, place - before + context)
            return self.window(pick(joined, index), at - start)

        longest = largest(total, context + batch.learn.first.shape[1])
        place = torch.minimum(before + torch.arange(batch.learn.first.shape[1], device=device), total - 1)
        output = window(0, min(size, longest), place.clamp(max=size - 1))
        if longest <= size:
            return output, memory
        with torch.no_grad():
            beyond = torch.minimum(size + torch.arange(longest - size, device=device), total - 1)
            second = window((total - size).clamp(min=0), size, beyond)
            sequence = torch.arange(len(total), device=device)[:, None]
            later = map_tree(lambda x: x[sequence, (place - size).clamp(min=0)], second)

        def join(x: Tensor, y: Tensor) -> Tensor:
            return torch.where((place < size).view(*place.shape, *[1] * (x.dim() - 2)), x, y)

        return map_tree(join, output, later), memory

    def initial_state(self, batch_size: int) -> WindowState:
        """The state at an episode's start: no timestep is real."""
        like, space = next(self.parameters()), self.observation_space
        shape, device = (batch_size, self.held_timesteps), like.device

        def zeros(part: gymnasium.Space) -> Tensor:
            dtype = torch.from_numpy(np.zeros(0, part.dtype)).dtype
            return torch.zeros((*shape, *(part.shape or ())), dtype=dtype, device=device)

        nothing = StepInputs(
            map_tree(zeros, dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else space),
            torch.zeros(shape, dtype=torch.int64, device=device),
            like.new_zeros(shape),
            torch.zeros(shape, dtype=torch.bool, device=device),
        )
        return WindowState(nothing, torch.zeros(batch_size, dtype=torch.int64, device=device))

    def state_from_memory(
        self, memory: dict[str, Tensor], valid: Tensor, episode_step: Tensor
    ) -> WindowState:
        """The state after timesteps of context [B, W, ...], by their paths in `StepInputs`, newest last.

        `valid` [B, W] marks the real ones, at the end. There may be none at all.
        """
        empty = self.initial_state(len(valid))
        if not memory:
            return empty
        real = valid[:, max(0, valid.shape[1] - self.held_timesteps) :]

        def newest(zeros: Tensor, given: Tensor) -> Tensor:
            kept = given[:, given.shape[1] - real.shape[1] :]
            kept = kept.masked_fill(~real.view(*real.shape, *[1] * (kept.dim() - 2)), 0)
            return torch.cat([zeros[:, real.shape[1] :].to(kept.dtype), kept], dim=1)

        return WindowState(map_tree(newest, empty.rows, from_leaves(empty.rows, memory)), real.sum(dim=1))
