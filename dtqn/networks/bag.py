"""DTQN with a bag: observations that have left the window and are still attended to.

Esslinger, Platt and Amato 2022, arXiv 2206.01078, and github.com/kevslinger/DTQN. When the window of K rows
slides, the row that leaves it is put into the bag, as long as that holds fewer than S rows. Then the leaving
row takes the place of the one in the bag, or of none, for which

    mean over the window's steps of max_a Q(step, a)

is largest. With X the decoder's output and E the features of the bag's rows, which have no positions, the
head reads [X, MHA(X, E, E)]; with an empty bag the second half is zero.

In the public code the learner draws a bag at random from the rows before its window, and attends to a bag's
free places too. Here the learner reads the actor's own bag: it is stored with each step, and a window reads
the one that is stored with its last row. So both compute the same.

Legend: B batch, T steps, K context length, S rows of a bag, H heads, D width, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.products import Linear
from dtqn.networks.q_network import Encoder, Head
from dtqn.networks.windowed import (
    Window,
    WindowState,
    appended,
    empty_rows,
    empty_window,
    learn_in_windows,
    pick,
    window_after,
)
from dtqn.shapes import follow_data, largest
from dtqn.types import (
    QOutput,
    SequenceGenerator,
    Sequences,
    State,
    StepInputs,
    Trace,
    TraceSpec,
    first_rows,
    from_leaves,
    leaves,
    map_tree,
)


class Bag(NamedTuple):
    rows: StepInputs
    """[B, S, ...] as they arrived, the first `size` of them real."""
    size: Tensor
    """[B]"""


class BagState(NamedTuple):
    window: WindowState
    """The last K rows: one more than a step reads, as the oldest may go into the bag."""
    bag: Bag


class BagTrace(NamedTuple):
    bag: Bag
    """[B, T, S, ...] and [B, T]: the bag after each step."""


class BagAttention(nn.Module):
    """Multi-head attention over a bag's rows, which have no positions."""

    def __init__(self, *, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = Linear(width, width)
        self.key = Linear(width, width)
        self.value = Linear(width, width)
        self.output = Linear(width, width)
        for module in self.children():
            assert isinstance(module, nn.Linear)
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)

    def forward(self, x: Tensor, bag: Tensor, size: Tensor) -> Tensor:
        """Steps x [B, T, D] read the features [B, S, D] of a bag's rows: [B, T, D]; zero of an empty bag.

        Args:
            size: [B] how many of the rows are real, the first ones.
        """
        q, k, v = (
            y.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for y in (self.query(x), self.key(bag), self.value(bag))
        )
        # The first place of an empty bag is seen, so that the softmax has a value; the result is dropped.
        seen = first_rows(size.clamp(min=1), bag.shape[1])
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None])
        y: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return y.masked_fill((size == 0)[:, None, None], 0.0)


class BagQNetwork(nn.Module):
    """A windowed Q-network with a bag; its `head` reads 2 D features."""

    auxiliary = None
    input_window = 0  # its raw rows come as burn-in

    def __init__(
        self,
        *,
        encoder: Encoder,
        decoder: TransformerDecoder,
        head: Head,
        observation_space: gymnasium.Space,
        attention: BagAttention,
        bag_size: int,
    ) -> None:
        """
        Args:
            observation_space: no Dict, which is a ValueError.
            bag_size: S, at least 1.
        """
        if isinstance(observation_space, gymnasium.spaces.Dict):
            raise ValueError(
                f"network.bag_size is {bag_size}, but no bag is made of a Dict observation; try 0"
            )
        super().__init__()
        self.encoder, self.decoder, self.head = encoder, decoder, head
        self.observation_space, self.context_length = observation_space, decoder.context_length
        self.attention, self.bag_size = attention, bag_size
        self.held_rows = self.context_length

    def forward(
        self, inputs: StepInputs, state: BagState, want_trace: bool = True
    ) -> tuple[QOutput, State, Trace]:
        """As `WindowedQNetwork`; step by step, since each may change the bag that the next one sees."""
        outputs, bags = [], []
        for t in range(inputs.first.shape[1]):
            output, state = self._step(map_tree(lambda x, t=t: x[:, t : t + 1], inputs), state)
            outputs.append(output)
            bags.append(state.bag)
        joined: QOutput = map_tree(lambda *steps: torch.cat(steps, dim=1), *outputs)
        if not want_trace:
            return joined, None, None
        return joined, state, BagTrace(map_tree(lambda *steps: torch.stack(steps, dim=1), *bags))

    def _step(self, row: StepInputs, state: BagState) -> tuple[QOutput, BagState]:
        """The output of one row [B, 1, ...] and the state after it."""
        held, filled = self.held_rows, state.window.filled
        batch = torch.arange(len(filled), device=filled.device)
        rows = appended(state.window.rows, row)
        # Real rows from position 0 on. At the end the newest is repeated, which no step before it sees.
        length = (filled + 1).clamp(max=held)
        index = torch.arange(largest(length, held), device=batch.device) + (held + 1 - length)[:, None]
        x = self.decoder(self.encoder(pick(rows, index.clamp(max=held))))
        bag = self._updated(state.bag, map_tree(lambda x: x[:, :1], rows), filled == held, x)
        output = self._output(x[batch, length - 1][:, None], self._features(bag, row), bag.size)
        return output, BagState(WindowState(map_tree(lambda x: x[:, 1:], rows), length), bag)

    def _features(self, bag: Bag, row: StepInputs) -> Tensor:
        """Features [B, S, D] of the bag's rows, and of `row` [B, 1, ...] in free places.

        Any encoder can read `row`, which is real; a free place may hold anything.
        """
        free = torch.arange(self.bag_size, device=bag.size.device) >= bag.size[:, None]
        return self.encoder(map_tree(lambda new, old: _where(free, new, old), row, bag.rows))

    def _output(self, x: Tensor, bag_features: Tensor, size: Tensor) -> QOutput:
        """The output of steps whose features are x [B, T, D]."""
        return self.head(torch.cat([x, self.attention(x, bag_features, size)], dim=-1))

    @torch.no_grad()
    def _updated(self, bag: Bag, row: StepInputs, leaving: Tensor, x: Tensor) -> Bag:
        """The bag after `row` [B, 1, ...] has, if `leaving` [B], left a window of features x [B, K, D]."""
        full = bag.size == self.bag_size
        place = torch.where(leaving & ~full, bag.size, self.bag_size)  # S: in no place
        if not follow_data(full):
            place = torch.where(leaving & full, self._best_place(bag.rows, row, x), place)
        elif len(choosing := (leaving & full).nonzero()[:, 0]):
            rows, new = (map_tree(lambda y: y[choosing], tree) for tree in (bag.rows, row))
            place[choosing] = self._best_place(rows, new, x[choosing])
        taken = torch.arange(self.bag_size, device=place.device) == place[:, None]
        rows = map_tree(lambda new, old: _where(taken, new, old), row, bag.rows)
        return Bag(rows, bag.size + (leaving & ~full))

    def _best_place(self, rows: StepInputs, row: StepInputs, x: Tensor) -> Tensor:
        """The place [n] in a full bag to give up for `row` [n, 1, ...]; S: none."""
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
        """As `WindowedQNetwork.window`; every position reads `bag` [B, S, ...], or an empty one."""
        x = self.decoder(self.encoder(inputs), generator, at)
        if bag is None:
            bag = self.initial_state(len(x)).bag
        first = map_tree(lambda x: x[:, :1], inputs)
        return self._output(x, self._features(bag, first), bag.size)

    def learn_values(
        self, batch: Sequences, generator: SequenceGenerator | None = None, want_trace: bool = False
    ) -> tuple[QOutput, dict[str, Tensor] | None]:
        """As `WindowedQNetwork.learn_values`; each window reads the bag that is stored with its last row."""

        def read(window: Window, draws: SequenceGenerator | None) -> QOutput:
            bag = from_leaves(self._trace_spec(), window.beside).bag
            return self.window(window.rows, draws, window.at, bag._replace(size=bag.size.long()))

        return learn_in_windows(batch, self.context_length, read, generator), {} if want_trace else None

    def initial_state(self, batch_size: int) -> BagState:
        """The state at an episode's start: no row is real, and the bag is empty."""
        space, like = self.observation_space, next(self.parameters())
        window = empty_window(space, batch_size, self.held_rows, like)
        bag = Bag(empty_rows(space, (batch_size, self.bag_size), like), torch.zeros_like(window.filled))
        return BagState(window, bag)

    def state_from_trace(self, rows: dict[str, Tensor], valid: Tensor, episode_step: Tensor) -> BagState:
        """As `WindowedQNetwork.state_from_trace`, from raw rows and the bags that are stored with them."""
        empty = self.initial_state(len(valid))
        if not rows:
            return empty
        newest = map_tree(
            lambda stored, initial: _where(valid[:, -1], stored[:, -1], initial),
            from_leaves(self._trace_spec(), rows).bag,
            empty.bag,
        )
        return BagState(window_after(empty.window, rows, valid), newest)

    def trace_spec(self) -> dict[str, TraceSpec]:
        """The bag, as raw rows in their own dtypes, read beside the rows that it belongs to."""
        return leaves(self._trace_spec())

    def _trace_spec(self) -> BagTrace:
        def rows(dtype: type, *shape: int) -> Any:
            return TraceSpec((self.bag_size, *shape), 0, np.dtype(dtype))

        space: Any = self.observation_space
        content = StepInputs(
            rows(space.dtype, *space.shape), rows(np.int32), rows(np.float32), rows(np.bool_)
        )
        size: Any = TraceSpec((), 0, np.dtype(np.int32))
        return BagTrace(Bag(content, size))

    def cache(self, state: State) -> State:
        return state


def _where(condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`new` if `condition`, which has the first dimensions of both, holds, else `old`; in its dtype."""
    missing = old.dim() - condition.dim()
    return torch.where(condition.view(*condition.shape, *[1] * missing), new.to(old.dtype), old)
