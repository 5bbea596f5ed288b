"""Greedy episodes of a trained run with all that was seen, done and valued.

`debug`, `watch` and `report` all read them, and run them again with another past.

Legend: N environments, T decisions of an episode, A actions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor

from dtqn.acting.episode_intervals import Figure, mean, share
from dtqn.acting.exploration import RandomActions
from dtqn.acting.timesteps import VectorTimesteps
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.task import on_task
from dtqn.text import size
from dtqn.training import machine, trained
from dtqn.training.directory import RunDir
from dtqn.training.setup import make_env, task_spec
from dtqn.types import Observation, State, StepInputs, leaves, map_tree, reset_states
from envs import TaskSpec, pictures

MOST_BYTES = 2_000_000_000
"""Bytes of the timesteps that are kept."""

Intervention = Callable[[np.ndarray, State, State], State]
"""(steps [N] since each episode's start, the state before the timestep, the initial one) -> another state."""


class Episode(NamedTuple):
    """The timesteps at which an action was taken."""

    inputs: StepInputs
    """[1, T, ...]"""
    other: Observation | None
    """[1, T, ...] what the same places would have shown with another secret; None: the task names none."""
    action: np.ndarray
    """[T]"""
    q: Tensor
    """[T, A], as the actor saw them."""
    reward: np.ndarray
    """[T] what each action brought."""
    episode_return: float
    success: bool
    """False where the task defines none."""
    pictures: list[Any] | None = None
    """What is kept of T + 1 pictures, the last one after the last action; None: they were not asked for."""

    @property
    def length(self) -> int:
        return len(self.action)

    @property
    def cue(self) -> np.ndarray | None:
        """[T] bool: the timesteps that show the secret; None where `other` is."""
        if self.other is None:
            return None
        shown, other = leaves(self.inputs.observation), leaves(self.other)
        differs = [(shown[key] != other[key]).reshape(self.length, -1).any(dim=1) for key in shown]
        return torch.stack(differs).any(dim=0).numpy()


class Outcome(NamedTuple):
    """An episode's end."""

    length: int
    episode_return: float
    success: bool
    """False where the task defines none."""


class TrainedRun(NamedTuple):
    """A run whose episodes are played, the same ones each time as far as the actions are the same."""

    config: Config
    task: TaskSpec
    network: QNetwork
    episodes: int
    """How many are played."""
    seed: Any

    def make_envs(self, render_mode: str | None = None) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
        """Fresh ones of the task, for `play` and `outcomes`."""
        return make_env(self.config, self.episodes, np.random.SeedSequence(self.seed), render_mode)

    def score(self, episodes: Sequence[Episode] | Sequence[Outcome]) -> Figure:
        """Success, or the return where the task defines none, of at least one episode."""
        wins, returns = ([getattr(x, name) for x in episodes] for name in ("success", "episode_return"))
        found = share(wins) if self.task.has_success else mean(returns)
        assert found is not None
        return found


def load(
    directory: RunDir, weights: str, episodes: int, seed: int, other_task: Mapping[str, Any] | None = None
) -> TrainedRun:
    """The run in a directory with its `last` or `best` weights, on the CPU.

    Args:
        other_task: settings of another task to play (`dtqn.settings.task.on_task`); None: the run's own.

    Raises:
        ConfigError: the directory holds no run or no such weights, or they do not fit the other task.
    """
    machine.prepare()
    config = directory.read_config()
    network = trained.load_network(directory, config, weights).requires_grad_(False)
    config = on_task(config, other_task or {})
    return TrainedRun(config, task_spec(config), network, episodes, seed)


def play(
    network: QNetwork,
    env: gymnasium.vector.VectorEnv[Any, Any, Any],
    *,
    pictures_of: Collection[int] = (),
    keep_picture: Callable[[np.ndarray], Any] = lambda picture: picture,
) -> list[Episode]:
    """The first episode of every environment, by the action of largest Q.

    Args:
        env: fresh environments; they are closed afterwards.
        pictures_of: the environments whose episodes have `pictures`; `env` must have a render mode.
        keep_picture: makes what is kept of a picture, uint8 [height, width, 3].

    Raises:
        ConfigError: their timesteps take more than `MOST_BYTES`.
    """
    kept: list[_Step] = []
    seen: dict[int, list[Any]] = {env_id: [] for env_id in pictures_of}

    def keep(step: _Step) -> None:
        kept.append(step)
        if len(kept) * _bytes(kept[0]) > MOST_BYTES:
            raise ConfigError(
                f"--episodes is {env.num_envs}: after {len(kept)} steps their timesteps take more than "
                f"{size(MOST_BYTES)}; try {max(2, env.num_envs // 10)}, and fewer --replacements"
            )

    def look(left: Collection[int]) -> None:
        wanted = [env_id for env_id in left if env_id in seen]
        if wanted:
            for env_id, picture in zip(wanted, pictures.of_envs(env, wanted), strict=True):
                seen[env_id].append(keep_picture(picture))

    ends = outcomes(network, env, keep=keep, look=look)
    return [
        _episode(kept, env_id, end)._replace(pictures=seen.get(env_id)) for env_id, end in enumerate(ends)
    ]


def outcomes(
    network: QNetwork,
    env: gymnasium.vector.VectorEnv[Any, Any, Any],
    *,
    intervene: Intervention | None = None,
    random_actions: RandomActions | None = None,
    show_other: bool = False,
    keep: Callable[[_Step], None] | None = None,
    look: Callable[[Collection[int]], None] = lambda env_ids: None,
) -> list[Outcome]:
    """The ends of these episodes.

    Args:
        env: fresh environments; they are closed afterwards.
        intervene: changes the network's state before each timestep.
        random_actions: takes some actions at random; None: each action has the largest Q.
        show_other: let the network see what another secret would show, in the task as it is.
        keep: is given all that is seen and done, and what another secret would show.
        look: is told the environments at each decision of their episodes, and at their ends.
    """
    with contextlib.closing(env):
        timesteps, count = VectorTimesteps(env), env.num_envs
        initial = network.initial_state(1)
        state = copied(initial, count)
        parameter = next(iter(network.parameters()))
        ends: list[Outcome | None] = [None] * count
        while left := [env_id for env_id, end in enumerate(ends) if end is None]:
            look(left)
            inputs = timesteps.inputs(parameter.device, parameter.dtype)
            asks = show_other or keep is not None
            other = _other(env, left, inputs.observation) if asks else None
            if show_other and other is not None:
                inputs = inputs._replace(observation=other)
            with torch.no_grad():
                state = reset_states(state, initial, inputs.first[:, 0])
                if intervene is not None:
                    state = intervene(timesteps.length, state, initial)
                output, state, _ = network(inputs, state)
            q = output.q[:, 0]
            action = q.argmax(dim=-1).numpy()
            if random_actions is not None:
                action = random_actions.act(action)
            ended = timesteps.step(action)
            if keep is not None:
                keep(_Step(inputs, other, action, q, timesteps.reward))
            for env_id, value, length, success in zip(np.flatnonzero(timesteps.last), *ended, strict=True):
                ends[env_id] = ends[env_id] or Outcome(int(length), float(value), bool(success))
            look([env_id for env_id in left if ends[env_id] is not None])
        return [end for end in ends if end is not None]


def copied(tree: Any, count: int) -> Any:
    """Tensors [1, ...] as [count, ...] of the same values, which nobody may write."""
    return map_tree(lambda x: x.expand(count, *x.shape[1:]), tree)


class _Step(NamedTuple):
    """One timestep of every environment."""

    inputs: StepInputs
    """[N, 1, ...]"""
    other: Observation | None
    """Environments whose episode is over show their own; None: the task names no secret."""
    action: np.ndarray
    """[N]"""
    q: Tensor
    """[N, A]"""
    reward: np.ndarray
    """[N] that came of the action."""


def _bytes(step: _Step) -> int:
    parts = [*leaves(step.inputs).values(), *leaves(step.other).values(), step.q]
    return sum(part.numel() * part.element_size() for part in parts)


def _other(env: Any, env_ids: list[int], observation: Observation) -> Observation | None:
    """The observation [N, 1, ...], as another secret would show it in these environments."""
    observe = getattr(env, "observe_other", None)
    shown = None if observe is None else observe(env_ids)
    if shown is None:
        return None

    def put(own: Tensor, found: np.ndarray) -> Tensor:
        return own.index_copy(0, torch.tensor(env_ids), torch.from_numpy(found)[:, None])

    found: Observation = map_tree(put, observation, shown)
    return found


def _episode(steps: list[_Step], env_id: int, end: Outcome) -> Episode:
    inputs, others, actions, q, rewards = zip(*steps[: end.length], strict=True)
    return Episode(
        inputs=of_env(env_id, inputs),
        other=None if others[0] is None else of_env(env_id, others),
        action=np.array([x[env_id] for x in actions]),
        q=torch.stack([x[env_id] for x in q]),
        reward=np.array([x[env_id] for x in rewards]),
        episode_return=end.episode_return,
        success=end.success,
    )


def of_env(env_id: int, trees: Sequence[Any]) -> Any:
    """The timesteps [1, T, ...] of one environment, of T trees of tensors [N, 1, ...]."""
    return map_tree(lambda *parts: torch.cat([x[env_id : env_id + 1] for x in parts], dim=1), *trees)


def disturbances(length: float) -> dict[str, Intervention]:
    """Changes of the memory, by name, in episodes of this mean length.

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
    return lambda steps, state, initial: reset_states(state, initial, torch.from_numpy(steps % every == 0))


def _exchanged(at: int) -> Intervention:
    """Memory of the next environment that is at the same step; one that is alone there keeps its own."""

    def change(steps: np.ndarray, state: State, initial: State) -> State:
        here, donor = np.flatnonzero(steps == at), np.arange(len(steps))
        donor[here] = np.roll(here, 1)
        return map_tree(lambda x: x[torch.from_numpy(donor)], state)

    return change
