"""DTQN with a bag: observations that have left the window and are still attended to.

Esslinger, Platt and Amato 2022, arXiv 2206.01078, and github.com/kevslinger/DTQN. When the window of K rows
slides, the row that leaves it is put into the bag, as long as that holds fewer than S rows. Then the leaving
row takes the place of the one in the bag, or of none, for which

    mean over the window's steps of max_a Q(step, a)

is largest. With X the decoder's output and E the features of the bag's rows, which have no positions, the
head reads [X, MHA(X, E, E)]; of an empty bag the second half is zero.

There the learner draws a bag at random from the rows before its window, and a bag's free places are attended
to. Here the bag is what the actor had: it is stored with each step, and the learner's windows read the one of
their own last row, so that both compute the same.

Legend: B batch, T steps, K context length, S rows of a bag, H heads, D width, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.windowed import WindowedQNetwork, pick
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


class Bag(NamedTuple):
    rows: StepInputs
    """[B, S, ...] as they arrived, the first `size` of them real."""
    size: Tensor
    """[B]"""


class BagState(NamedTuple):
    """The last K rows [B, K, ...], newest last, how many are real, and the bag [B, S, ...]."""

    observation: Observation
    prev_action: Tensor
    reward: Tensor
    first: Tensor
    count: Tensor  # type: ignore[assignment]  # hides tuple.count; checkpoints hold the name
    bag_observation: Tensor
    bag_prev_action: Tensor
    bag_reward: Tensor
    bag_first: Tensor
    bag_size: Tensor


class BagTrace(NamedTuple):
    """The bag after each step, [B, T, S, ...], and its rows, [B, T]."""

    bag_observation: Tensor
    bag_prev_action: Tensor
    bag_reward: Tensor
    bag_first: Tensor
    bag_size: Tensor


class BagAttention(nn.Module):
    """[B, T, D] and the features of a bag [B, S, D], the first `size` [B] of them real -> [B, T, D]."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        for module in self.children():
            assert isinstance(module, nn.Linear)
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)

    def forward(self, x: Tensor, bag: Tensor, size: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for y in (self.query(x), self.key(bag), self.value(bag))
        )
        # Of an empty bag the first place is seen, so that the softmax has a value, and the result dropped.
        seen = torch.arange(bag.shape[1], device=size.device) < size.clamp(min=1)[:, None]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None])
        y: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return y.masked_fill((size == 0)[:, None, None], 0.0)


class BagQNetwork(WindowedQNetwork):
    """`head` reads 2 D features. A Dict observation is refused: a ValueError."""

    def __init__(
        self,
        encoder: nn.Module,
        decoder: TransformerDecoder,
        head: nn.Module,
        observation_space: gymnasium.Space,
        attention: BagAttention,
        bag_size: int,
    ) -> None:
        """`bag_size` is S."""
        if isinstance(observation_space, gymnasium.spaces.Dict):
            raise ValueError(
                f"network.bag_size is {bag_size}, but no bag is made of a Dict observation; try 0"
            )
        super().__init__(encoder, decoder, head, observation_space)
        self.attention, self.bag_size = attention, bag_size
        self.held_rows = self.context_length  # one more, which the next step may put into the bag

    def forward(
        self, inputs: StepInputs, state: State, want_trace: bool = True
    ) -> tuple[QOutput, State, Trace]:
        """As of `WindowedQNetwork`; step by step, as each may change the bag that the next one sees."""
        outputs, bags = [], []
        for t in range(inputs.first.shape[1]):
            output, state = self._step(map_tree(lambda x, t=t: x[:, t : t + 1], inputs), state)
            outputs.append(output)
            bags.append(state[5:])
        joined: QOutput = map_tree(lambda *steps: torch.cat(steps, dim=1), *outputs)
        if not want_trace:
            return joined, None, None
        return joined, state, BagTrace(*(torch.stack(steps, dim=1) for steps in zip(*bags, strict=True)))

    def _step(self, row: StepInputs, state: BagState) -> tuple[QOutput, BagState]:
        """One row [B, 1, ...]: its output and the state after it."""
        held, batch = self.held_rows, torch.arange(len(state.count), device=state.count.device)
        rows = map_tree(
            lambda old, new: torch.cat([old.to(new.dtype), new], dim=1), StepInputs(*state[:4]), row
        )
        # Real rows from position 0 on. At the end the newest is repeated, which no step before it sees.
        length = (state.count + 1).clamp(max=held)
        index = torch.arange(int(length.max()), device=batch.device) + (held + 1 - length)[:, None]
        x = self.decoder(self.encoder(pick(rows, index.clamp(max=held))))
        leaving, oldest = state.count == held, map_tree(lambda x: x[:, :1], rows)
        bag = self._updated(Bag(StepInputs(*state[5:9]), state.bag_size), oldest, leaving, x)
        output = self._output(x[batch, length - 1][:, None], self._features(bag, row), bag.size)
        newest = map_tree(lambda x: x[:, 1:], rows)
        return output, BagState(**newest._asdict(), count=length, **_named(bag))

    def _features(self, bag: Bag, row: StepInputs) -> Tensor:
        """[B, S, D] of the bag's rows; in free places of `row` [B, 1, ...], which any encoder can read."""
        free = torch.arange(self.bag_size, device=bag.size.device) >= bag.size[:, None]
        features: Tensor = self.encoder(map_tree(lambda new, old: _where(free, new, old), row, bag.rows))
        return features

    def _output(self, x: Tensor, bag_features: Tensor, size: Tensor) -> QOutput:
        """Of steps whose features are x [B, T, D]."""
        output: QOutput = self.head(torch.cat([x, self.attention(x, bag_features, size)], dim=-1))
        return output

    @torch.no_grad()
    def _updated(self, bag: Bag, row: StepInputs, leaving: Tensor, x: Tensor) -> Bag:
        """The bag with `row` [B, 1, ...], where it is `leaving` [B] a window of features x [B, K, D]."""
        full = bag.size == self.bag_size
        place = torch.where(leaving & ~full, bag.size, self.bag_size)  # S: in no place
        choosing = (leaving & full).nonzero()[:, 0]
        if len(choosing):
            rows, new = (map_tree(lambda y: y[choosing], tree) for tree in (bag.rows, row))
            place[choosing] = self._best_place(rows, new, x[choosing])
        taken = torch.arange(self.bag_size, device=place.device) == place[:, None]
        rows = map_tree(lambda new, old: _where(taken, new, old), row, bag.rows)
        return Bag(rows, bag.size + (leaving & ~full))

    def _best_place(self, rows: StepInputs, row: StepInputs, x: Tensor) -> Tensor:
        """[n] which row of a full bag to give up for `row` [n, 1, ...]; S: none."""
        size = self.bag_size
        swapped = torch.eye(size + 1, size, dtype=torch.bool, device=x.device)[None, :, :, None]
        bags = torch.where(swapped, self.encoder(row)[:, None], self.encoder(rows)[:, None]).flatten(0, 1)
        sizes = torch.full((len(bags),), size, device=x.device)
        q = self._output(x.repeat_interleave(size + 1, dim=0), bags, sizes).q
        return q.amax(dim=-1).mean(dim=-1).unflatten(0, (-1, size + 1)).argmax(dim=-1)

    def window(
        self,
        inputs: StepInputs,
        generator: SequenceGenerator | None = None,
        at: Tensor | None = None,
        bag: Bag | None = None,
    ) -> QOutput:
        """As of `WindowedQNetwork`, all positions with one bag; without one it is empty."""
        x = self.decoder(self.encoder(inputs), generator, at)
        if bag is None:
            state = self.initial_state(len(x))
            bag = Bag(StepInputs(*state[5:9]), state.bag_size)
        first = map_tree(lambda x: x[:, :1], inputs)
        return self._output(x, self._features(bag, first), bag.size)

    def _beside(self, batch: Sequences, last: Tensor) -> tuple[Bag]:
        rows = torch.arange(len(last), device=last.device)
        stored = {name: x[rows, last] for name, x in batch.beside.items()}
        size = stored.pop("bag_size").long()
        bag = StepInputs(**{name.removeprefix("bag_"): x for name, x in stored.items()})
        return (Bag(bag, size),)

    def initial_state(self, batch_size: int) -> BagState:  # type: ignore[override]
        window = super().initial_state(batch_size)
        rows = StepInputs(*window[:4])
        empty = map_tree(lambda x: x[:, :1].repeat(1, self.bag_size, *[1] * (x.dim() - 2)), rows)
        return BagState(*window[:5], **_named(Bag(empty, torch.zeros_like(window.count))))

    def state_from_trace(  # type: ignore[override]
        self, rows: dict[str, Observation], valid: Tensor, episode_step: Tensor
    ) -> BagState:
        """As of `WindowedQNetwork`, of `rows` that have the trace beside the inputs."""
        empty = self.initial_state(len(valid))
        if not rows:
            return empty
        inputs = {name: rows[name] for name in StepInputs._fields}
        window = super().state_from_trace(inputs, valid, episode_step)

        def newest(name: str, initial: Tensor) -> Tensor:
            given = rows[name]
            assert isinstance(given, Tensor)
            return _where(valid[:, -1], given[:, -1].to(initial.dtype), initial)

        bag = {name: newest(name, getattr(empty, name)) for name in BagTrace._fields}
        return BagState(*window[:5], **bag)

    def trace_spec(self) -> dict[str, TraceSpec]:
        """The bag, as raw rows in their own dtypes, read beside the rows that it belongs to."""
        observation = self._empty_observation
        dtype = np.dtype(str(observation.dtype).removeprefix("torch."))
        size = self.bag_size
        return {
            "bag_observation": TraceSpec((size, *observation.shape), 0, dtype),
            "bag_prev_action": TraceSpec((size,), 0, np.dtype(np.int32)),
            "bag_reward": TraceSpec((size,), 0, np.dtype(np.float32)),
            "bag_first": TraceSpec((size,), 0, np.dtype(np.bool_)),
            "bag_size": TraceSpec((), 0, np.dtype(np.int32)),
        }


def _named(bag: Bag) -> dict[str, Tensor]:
    """By their names in a state and a trace."""
    return {**{f"bag_{name}": x for name, x in bag.rows._asdict().items()}, "bag_size": bag.size}


def _where(condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`new` where `condition` holds, which has the first dimensions of both, else `old`, in its dtype."""
    missing = old.dim() - condition.dim()
    return torch.where(condition.view(*condition.shape, *[1] * missing), new.to(old.dtype), old)
