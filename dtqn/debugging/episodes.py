"""Greedy episodes with all that was seen, done and valued, to be run again with another past.

Legend: N copies, T decisions of an episode, A actions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor

from dtqn.acting.rows import VectorRows
from dtqn.networks.q_network import QNetwork
from dtqn.types import Observation, State, StepInputs, leaves, map_tree, reset_rows
from envs import pictures

Intervention = Callable[[np.ndarray, State, State], State]
"""(steps [N] since each episode's start, the state before the row, the initial one) -> another state."""


class Watch(NamedTuple):
    """Copies whose pictures are wanted, in an environment that is made with a render mode."""

    copies: Sequence[int]
    see: Callable[[int, int, np.ndarray], None]
    """Told the copy, the step and the picture, uint8 [height, width, 3], at each decision of the copy's
    episode and, with step T, at its end."""


class Episode(NamedTuple):
    """The rows at which an action was taken."""

    inputs: StepInputs
    """[1, T, ...]"""
    other: Observation | None
    """[1, T, ...] what the same places would have shown with another secret; None: the task names none."""
    action: np.ndarray
    """[T]"""
    q: Tensor
    """[T, A], as the actor saw them."""
    trace: dict[str, Tensor]
    """Path -> [T, ...]: the rows that the network left behind."""
    episode_return: float
    success: bool
    """False where the task defines none."""

    @property
    def length(self) -> int:
        return len(self.action)

    @property
    def cue(self) -> np.ndarray | None:
        """[T] bool: the rows that show the secret; None where the task names none."""
        if self.other is None:
            return None
        shown, other = leaves(self.inputs.observation), leaves(self.other)
        differs = [(shown[key] != other[key]).reshape(self.length, -1).any(dim=1) for key in shown]
        return torch.stack(differs).any(dim=0).numpy()


def play(
    network: QNetwork,
    env: gymnasium.vector.VectorEnv[Any, Any, Any],
    *,
    intervene: Intervention | None = None,
    show_other: bool = False,
    watch: Watch | None = None,
) -> list[Episode]:
    """The first episode of every copy, by the action of largest Q.

    Args:
        env: fresh copies; they are closed afterwards.
        intervene: changes the network's state before each row.
        show_other: let the network see what another secret would show, in the task as it is.
        watch: is shown pictures.
    """
    with contextlib.closing(env):
        return _play(network, env, intervene, show_other, watch)


def _play(
    network: QNetwork, env: Any, intervene: Intervention | None, show_other: bool, watch: Watch | None
) -> list[Episode]:
    rows = VectorRows(env)
    initial = network.initial_state(1)
    count = env.num_envs
    state = map_tree(lambda x: x.expand(count, *x.shape[1:]), initial)
    parameter = next(network.parameters())
    seen: list[tuple[Any, ...]] = []
    length, total, success = np.zeros(count, np.int64), np.zeros(count), np.zeros(count, bool)
    over = np.zeros(count, bool)
    left = [] if watch is None else list(watch.copies)
    while not over.all():
        _show(env, watch, left, length)
        other = _other(env)
        inputs = rows.inputs(parameter.device, parameter.dtype)
        if show_other and other is not None:
            inputs = inputs._replace(observation=other)
        with torch.no_grad():
            state = reset_rows(state, initial, inputs.first[:, 0])
            if intervene is not None:
                state = intervene(rows.length, state, initial)
            output, state, trace = network(inputs, state)
        action = output.q[:, 0].argmax(dim=-1).numpy()
        seen.append(
            (inputs, other, action, output.q[:, 0], {name: x[:, 0] for name, x in leaves(trace).items()})
        )
        ended = rows.step(action)
        length += ~over
        ends = rows.last & ~over
        total[ends] = rows.episode_return[ends]
        success[rows.last] |= ended.success & ends[rows.last]
        over |= rows.last
        _show(env, watch, [copy for copy in left if over[copy]], length)
        left = [copy for copy in left if not over[copy]]
    return [
        _episode(seen, copy, int(length[copy]), float(total[copy]), bool(success[copy]))
        for copy in range(count)
    ]


def _show(env: Any, watch: Watch | None, copies: Sequence[int], length: np.ndarray) -> None:
    """Shows pictures of these copies after so many actions [N] of each."""
    if watch is not None and copies:
        for copy, picture in zip(copies, pictures.of_copies(env, copies), strict=True):
            watch.see(copy, int(length[copy]), picture)


def _other(env: Any) -> Observation | None:
    observe = getattr(env, "observe_other", None)
    shown = None if observe is None else observe()
    return None if shown is None else map_tree(lambda x: torch.from_numpy(x)[:, None], shown)


def _episode(seen: list[tuple[Any, ...]], copy: int, length: int, total: float, success: bool) -> Episode:
    inputs, others, actions, q, traces = zip(*seen[:length], strict=True)

    def joined(trees: tuple[Any, ...]) -> Any:
        """Rows [N, 1, ...] of one copy, side by side."""
        return map_tree(lambda *rows: torch.cat([x[copy : copy + 1] for x in rows], dim=1), *trees)

    return Episode(
        inputs=joined(inputs),
        other=None if others[0] is None else joined(others),
        action=np.array([x[copy] for x in actions]),
        q=torch.stack([x[copy] for x in q]),
        trace={name: torch.stack([x[name][copy] for x in traces]) for name in traces[0]},
        episode_return=total,
        success=success,
    )


def disturbances(length: float) -> dict[str, Intervention]:
    """What is done to the memory, by name, in episodes of this mean length.

    It is emptied every 1, 2, 4, ... steps, or taken from another episode in the middle.
    """
    found = {"emptied at every step": _emptied(1)}
    every = 2
    while every <= length / 2:
        found[f"emptied every {every} steps"] = _emptied(every)
        every *= 2
    middle = max(1, round(length / 2))
    return found | {f"of another episode at step {middle}": _exchanged(middle)}


def _emptied(every: int) -> Intervention:
    return lambda steps, state, initial: _where(steps % every == 0, initial, state)


def _exchanged(at: int) -> Intervention:
    return lambda steps, state, _: _where(steps == at, map_tree(lambda x: x.roll(1, 0), state), state)


def _where(condition: np.ndarray, one: State, other: State) -> State:
    """One state [N or 1, ...] where the condition [N] holds, else the other [N, ...]."""
    flags = torch.from_numpy(condition)
    return map_tree(lambda x, y: torch.where(flags.view(-1, *[1] * (y.dim() - 1)), x, y), one, other)
