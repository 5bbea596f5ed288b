"""The values that pass between modules. Batch first everywhere.

Legend: B batch, T time, W memory window, N environments, A actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dtqn.shapes import follow_data

State: TypeAlias = Any
"""A tree of tensors [B, ...] that a network carries from step to step."""

StoredMemory: TypeAlias = Any
"""A tree of tensors [B, T, ...] that a network leaves behind for replay, at each step."""

# A tree is a NamedTuple or dict of trees, down to its leaves; None is an empty place. So the state of a
# network that is made of parts is made of their states. The path of a leaf is `<field>/<field>/...`.

Observation: TypeAlias = Tensor | dict[str, Tensor]
"""[B, T, *observation shape]; for a Dict space one such tensor a key."""

OBSERVATION = "observation"
"""The name of an observation among a timestep's named arrays, and what begins the names of a Dict's parts."""


class StepInputs(NamedTuple):
    """The inputs of a network at each step; timestep t as it arrives."""

    observation: Observation
    """[B, T, *observation shape], or key -> such a tensor."""
    prev_action: Tensor
    """[B, T] integer: a_{t-1}; ignored where `first`."""
    reward: Tensor
    """[B, T] float: r_t, as it arrives with the observation; 0 where `first`."""
    first: Tensor
    """[B, T] bool: the timestep begins an episode."""


class QOutput(NamedTuple):
    """What a network says at B x T steps."""

    q: Tensor
    """[B, T, A] Q-values at every step; of a distributional head, the expected values."""
    distribution: Tensor | None = None
    """[B, T, A, Z] of a distributional head: log-probabilities of the atoms."""
    recall: Tensor | None = None
    """[B, T, V] logits of the values that the episode has shown, of a head that learns to name them."""


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """One field of stored memory."""

    shape: tuple[int, ...]
    window: int
    """W: the state is a function of the last W timesteps' field, at least 1."""
    dtype: np.dtype[Any] | None = None
    """The dtype to store it in; None: a float of `replay.memory_dtype`."""


class Sequences(NamedTuple):
    """A batch of sequences as the learner reads it: three blocks, each cropped to its longest real member.

    Padding holds arbitrary values that a network can take (in range, finite); no result depends on them.
    """

    memory: dict[str, Tensor]
    """Path -> [B, W, ...]: stored memory before the first burn-in (or learned) timestep, newest last."""
    memory_valid: Tensor
    """[B, W] bool"""
    episode_step: Tensor
    """[B] steps since the episode's start of the sequence's first timestep."""
    burn_in: StepInputs
    """[B, P, ...] right-padded."""
    burn_in_timesteps: Tensor
    """[B] real timesteps of `burn_in`."""
    learn: StepInputs
    """[B, R, ...] the learned steps and the n-step tail, right-padded."""
    discount: Tensor
    """[B, R] float, 0 at the timestep that terminates."""
    learn_timesteps: Tensor
    """[B] real timesteps of `learn`."""
    learned_steps: Tensor
    """[B] timesteps that get a TD error; the first ones of `learn`."""
    importance_weights: Tensor
    """[B] float"""
    burn_in_facts: dict[str, Tensor] = {}  # noqa: RUF012 (nobody writes to it)
    """[B, P] each: what actors told besides inputs (`dtqn.acting.timesteps.FACTS`), if it is known."""
    learn_facts: dict[str, Tensor] = {}  # noqa: RUF012
    """[B, R] each."""
    packing: Any = None
    """A `dtqn.networks.packing.Packing` of this batch, for networks to share; None: each makes its own."""

    def by_block(self, memory: Any, burn_in: Any, learn: Any, sequence: Any) -> Sequences:
        """Each tensor by the function for the block that it lies in, or by `sequence` if it is [B]."""
        of = dict.fromkeys(("memory", "memory_valid"), memory)
        of |= dict.fromkeys(("burn_in", "burn_in_facts"), burn_in)
        of |= dict.fromkeys(("learn", "learn_facts", "discount"), learn)
        parts = zip(self._fields, self, strict=True)
        return Sequences(*(map_tree(of.get(name, sequence), part) for name, part in parts))


class FreshMemory(NamedTuple):
    """Stored memory that a learner's forward pass made anew, n of them over a whole batch."""

    sequence: Tensor
    """[n] which sequence of the batch."""
    offset: Tensor
    """[n] timesteps after that sequence's start; negative in its burn-in."""
    memory: dict[str, Tensor]
    """Path -> [n, ...]"""


class NonFiniteError(RuntimeError):
    """A number that no training goes on with: a reward, a Q-value, the loss of too many updates in a row."""


def map_tree(function: Any, *trees: Any) -> Any:
    """`function` on the corresponding leaves of trees (dicts, NamedTuples) of one shape; None stays None."""
    tree = trees[0]
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map_tree(function, *(other[key] for other in trees)) for key in tree}
    if isinstance(tree, tuple):
        return type(tree)(*(map_tree(function, *parts) for parts in zip(*trees, strict=True)))
    return function(*trees)


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    """The leaves of a tree by their paths, such as `transformer/memory`, each below `path`."""
    if tree is None:
        return {}
    parts = tree._asdict() if hasattr(tree, "_asdict") else tree
    if not isinstance(parts, dict):
        return {path: tree}
    below = (leaves(part, _join(path, key)).items() for key, part in parts.items())
    return {name: leaf for part in below for name, leaf in part}


def from_leaves(template: Any, named: Mapping[str, Any], path: str = "") -> Any:
    """The tree shaped like `template` with the leaves in `named`: the inverse of `leaves`.

    `named` must hold the paths of the template's leaves. It may hold the paths of its Nones, and others.
    """
    if isinstance(template, dict):
        return {key: from_leaves(part, named, _join(path, key)) for key, part in template.items()}
    if hasattr(template, "_asdict"):
        return type(template)(**from_leaves(template._asdict(), named, path))
    return named.get(path) if template is None else named[path]


def _join(path: str, key: str) -> str:
    return f"{path}/{key}" if path else key


def named_parts(observation: Any) -> dict[str, Any]:
    """An observation as named arrays: `observation` alone, or `observation/<key>` for each part of a dict."""
    return leaves(observation, OBSERVATION)


def observation_of(named: Any) -> Any:
    """The observation among named arrays: the inverse of `named_parts`; other names are passed over."""
    if OBSERVATION in named:
        return named[OBSERVATION]
    prefix = f"{OBSERVATION}/"
    return {name.removeprefix(prefix): named[name] for name in named if name.startswith(prefix)}


def length_mask(counts: Tensor, size: int) -> Tensor:
    """[B, size] bool: the first `counts` [B] timesteps of each sequence."""
    return torch.arange(size, device=counts.device) < counts[:, None]


def reset_states(state: State, initial: State, first: Tensor) -> State:
    """`state`, but `initial` wherever `first` [B] holds."""
    if follow_data(first) and not bool(first.any()):
        return state

    def select(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(first.view(-1, *[1] * (old.dim() - 1)), new, old)

    return map_tree(select, state, initial)
