"""The Q-network of agents that re-read a window of raw steps: encoder, decoder, head.

Esslinger, Platt and Amato 2022, arXiv 2206.01078. The Q-values of a step come from the last K rows of its
episode, the oldest of them at position 0. Positions are absolute, so once the window slides every row's
features change and all of it is run again at each step: keys and values that were kept from the step before
would be those of another model.

Nothing is stored with a step. The state is the last K - 1 raw rows, and the learner reads them from replay.

Legend: B batch, T steps of the call, K context length, P burn-in (here: context) rows, R rows of the learn
block, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.recurrent import AuxiliaryLoss, RecurrentQNetwork
from dtqn.types import (
    Observation,
    QOutput,
    SequenceGenerator,
    Sequences,
    State,
    StepInputs,
    Trace,
    TraceSpec,
    map_tree,
)


class WindowState(NamedTuple):
    """The last K - 1 rows [B, K-1, ...] as they arrived, newest last, and how many are real."""

    observation: Observation
    prev_action: Tensor
    reward: Tensor
    first: Tensor
    count: Tensor  # type: ignore[assignment]  # hides tuple.count; checkpoints hold the name
    """[B] how many of the newest rows are of this episode."""


class WindowTrace(NamedTuple):
    """Of a network that leaves nothing behind."""


def pick(tree: StepInputs, index: Tensor) -> StepInputs:
    """Rows `index` [B, S] of every array [B, T, ...]."""
    batch = torch.arange(len(index), device=index.device)[:, None]
    picked: StepInputs = map_tree(lambda x: x[batch, index], tree)
    return picked


class WindowedQNetwork(nn.Module):
    auxiliary: AuxiliaryLoss | None = None
    """It has none."""

    def __init__(
        self,
        encoder: nn.Module,
        decoder: TransformerDecoder,
        head: nn.Module,
        observation_space: gymnasium.Space,
    ) -> None:
        """`observation_space` gives the shapes of the raw observations that a state holds."""
        super().__init__()
        self.encoder, self.decoder, self.head = encoder, decoder, head
        self.context_length = decoder.context_length
        self.held_rows = self.context_length - 1
        spaces = observation_space
        self._empty_observation = map_tree(
            lambda space: torch.from_numpy(np.zeros(space.shape, space.dtype)),
            dict(spaces.spaces) if isinstance(spaces, gymnasium.spaces.Dict) else spaces,
        )

    def forward(
        self, inputs: StepInputs, state: WindowState, want_trace: bool = True
    ) -> tuple[QOutput, State, Trace]:
        """Q-values of T steps, each from the K rows that end with it, or as many as its episode has.

        Args:
            inputs: [B, T, ...]
            state: the rows before them.
            want_trace: hand back the state and the (empty) trace.
        Returns: output [B, T, A], the state after the T steps, the trace.
        """
        held, steps = state.first.shape[1], inputs.first.shape[1]
        before = StepInputs(*state[:4])
        rows = map_tree(lambda old, new: torch.cat([old.to(new.dtype), new], dim=1), before, inputs)
        # Real rows from position 0 on. At the end the newest is repeated, which no step before it sees.
        longest = int(state.count.max())
        index = torch.arange(longest + steps, device=state.count.device) + (held - state.count)[:, None]
        features = self.encoder(pick(rows, index.clamp(max=held + steps - 1)))
        place = state.count[:, None] + torch.arange(steps, device=state.count.device)
        output = self.head(self._decode(features, place, longest))
        if not want_trace:
            return output, None, None
        newest = map_tree(lambda x: x[:, steps:], rows)
        count = (state.count + steps).clamp(max=held)
        return output, WindowState(**newest._asdict(), count=count), WindowTrace()

    def _decode(self, features: Tensor, place: Tensor, longest: int) -> Tensor:
        """[B, T, D]: what the decoder makes of the K rows that end at each of `place` [B, T].

        Args:
            features: [B, S, D] of all rows, from the oldest on.
            longest: the largest of `place[:, 0]`.
        """
        size, batch = self.context_length, torch.arange(len(place), device=place.device)
        if place.shape[1] == 1:  # acting: the row is within the first K, as a state holds K - 1
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

    def window(
        self, inputs: StepInputs, generator: SequenceGenerator | None = None, at: Tensor | None = None
    ) -> QOutput:
        """Q-values [B, T, A] at every position of windows [B, T, ...] in one pass, T at most K.

        That is the paper's intermediate Q-value prediction. They are those of the acting function where the
        window begins an episode, and at the last position where T = K.

        Args:
            generator: draws dropout, which is off without it.
            at: [B, S] the positions that are wanted, for [B, S, A].
        """
        output: QOutput = self.head(self.decoder(self.encoder(inputs), generator, at))
        return output

    def learn_values(
        self, batch: Sequences, generator: SequenceGenerator | None = None, want_trace: bool = False
    ) -> tuple[QOutput, dict[str, Tensor] | None]:
        """Output [B, R, ...] of the learn block; the trace is empty.

        The burn-in rows, here context with gradient, and the learn block's are one run of rows. The first K
        of it are a window, which holds all learned rows. Rows beyond are only bootstrapped from; they have
        their values from a second window, the run's last K rows, without gradient and without dropout.

        Args:
            generator: draws dropout, which is off without it.
        """
        trace: dict[str, Tensor] | None = {} if want_trace else None
        size, context, device = self.context_length, batch.burn_in.first.shape[1], batch.learn_rows.device
        before, total = batch.burn_in_rows[:, None], (batch.burn_in_rows + batch.learn_rows)[:, None]
        joined = map_tree(lambda a, b: torch.cat([a, b], dim=1), batch.burn_in, batch.learn)

        def run(place: Tensor) -> StepInputs:
            """The rows at `place` of the run; past its end, which no real row sees, the last one again."""
            place = torch.minimum(place, total - 1)
            return pick(joined, torch.where(place < before, place, place - before + context))

        longest = int(total.max())
        position = torch.arange(min(size, longest), device=device)
        place = torch.minimum(before + torch.arange(batch.learn.first.shape[1], device=device), total - 1)
        last = torch.minimum(total, torch.full_like(total, size))[:, 0] - 1 - batch.burn_in_rows
        first = run(position.expand(len(total), -1))
        output = self.window(first, generator, place.clamp(max=size - 1), *self._beside(batch, last))
        if longest <= size:
            return output, trace
        with torch.no_grad():
            start = (total - size).clamp(min=0)
            beyond = torch.minimum(size + torch.arange(longest - size, device=device), total - 1)
            beside = self._beside(batch, batch.learn_rows - 1)
            second = self.window(run(start + position), None, beyond - start, *beside)
            rows = torch.arange(len(total), device=device)[:, None]
            later = map_tree(lambda x: x[rows, (place - size).clamp(min=0)], second)

        def join(x: Tensor, y: Tensor) -> Tensor:
            return torch.where((place < size).view(*place.shape, *[1] * (x.dim() - 2)), x, y)

        return map_tree(join, output, later), trace

    def _beside(self, batch: Sequences, last: Tensor) -> tuple[Any, ...]:
        """What `window` reads beside windows of `batch` that end with row `last` [B] of the learn block."""
        del batch, last
        return ()

    def initial_state(self, batch_size: int) -> WindowState:
        """The state at an episode's start: no row is real."""
        shape, parameter = (batch_size, self.held_rows), next(self.parameters())
        device = parameter.device
        return WindowState(
            map_tree(lambda x: x.to(device).new_zeros((*shape, *x.shape)), self._empty_observation),
            torch.zeros(shape, dtype=torch.int64, device=device),
            parameter.new_zeros(shape),
            torch.zeros(shape, dtype=torch.bool, device=device),
            torch.zeros(batch_size, dtype=torch.int64, device=device),
        )

    def state_from_trace(
        self, rows: dict[str, Observation], valid: Tensor, episode_step: Tensor
    ) -> WindowState:
        """The state after context rows [B, W, ...] under the names of `StepInputs`, newest last.

        `valid` [B, W] marks the real ones, at the end. As nothing is stored there may be none at all.
        """
        del episode_step  # positions count from the window's start
        state = self.initial_state(len(valid))
        held = state.first.shape[1]
        if not rows:
            return state
        real = valid[:, max(0, valid.shape[1] - held) :]

        def newest(empty: Tensor, given: Tensor) -> Tensor:
            kept = given[:, given.shape[1] - real.shape[1] :]
            kept = kept.masked_fill(~real.view(*real.shape, *[1] * (kept.dim() - 2)), 0)
            return torch.cat([empty[:, real.shape[1] :].to(kept.dtype), kept], dim=1)

        kept = map_tree(newest, StepInputs(*state[:4]), StepInputs(**rows))  # type: ignore[arg-type]
        return WindowState(**kept._asdict(), count=real.sum(dim=1))

    def trace_spec(self) -> dict[str, TraceSpec]:
        """Nothing is left behind."""
        return {}

    def cache(self, state: State) -> State:
        return state


QNetwork: TypeAlias = RecurrentQNetwork | WindowedQNetwork
"""Both are called alike by the actor, and by the learner through `learn_values`."""
