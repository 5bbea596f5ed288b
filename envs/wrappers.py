"""Changes of any task's observations: `--task.hide`, `frame_stack`, ...

They apply to the vector environment, in this order:

    grayscale, resize   pictures: luminance; an area average of fewer pixels
    hide                components of a vector that are left out: CartPole without its velocities
    frame_stack         the last observations of the episode side by side, the newest last

An observation is one array [N, ...] or, for a Dict space, one a key; all but `hide` apply to each.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envs.adapters.spaces import Observations, each, parts
from envs.options import TaskOptions
from envs.task import Task
from envs.vector import AnyVectorEnv, AnyWrapper, FirstStep, Seed, positive_int

Array = NDArray[Any]
Observation = Any
"""An array [N, ...], or a dict of such arrays."""


def wrapped(task: Task, options: TaskOptions) -> Task:
    """The task with the wrappers that the options ask for; the task itself where they ask for none.

    Raises:
        ValueError: for a value out of range, and where the task's observations lack what an option is for.
    """
    layers = [  # each makes its change from the space before it
        functools.partial(change, id=task.spec.id, value=getattr(options, name))
        for name, change in _CHANGES.items()
        if getattr(options, name) != getattr(TaskOptions, name)
    ]
    if not layers:
        return task
    space = task.spec.observation_space
    for layer in layers:
        space = layer(space).space
    is_as_long = space.shape == task.spec.observation_space.shape
    spec = replace(
        task.spec,
        observation_space=space,
        best_return=task.spec.best_return if options.hide is None else None,
        view=task.spec.view if is_as_long else None,
    )

    def make_vector(num_envs: int, seed: Seed = None, *, render_mode: str | None = None) -> AnyVectorEnv:
        env = task.make_vector(num_envs, seed, render_mode=render_mode)
        for layer in layers:
            env = ObservationWrapper(env, layer(env.single_observation_space))
        return env

    language = task.language and task.language._replace(
        observation_space=space, observations=Observations(space, lambda seen: seen, ())
    )
    return task._replace(spec=spec, make_vector=make_vector, language=language)


class Change:
    """One change of observations, array by array; made for the observation space of one environment.

    A subclass has `convert`, and `apply` where more than the present observation decides. All are made from a
    space, the task's id, which errors name, and the option's value.
    """

    def __init__(self, space: gymnasium.Space[Any], id: str, value: Any) -> None:
        self._before: Any = dict(space.spaces) if isinstance(space, Dict) else space
        changed = each(self.changed, self._before)
        self.space: gymnasium.Space[Any] = Dict(changed) if isinstance(changed, dict) else changed
        """After the change, of one environment."""

    def changed(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        """The space of an array after the change, from that before it: its bounds are changed like arrays."""

        def of(bound: Any) -> Array:
            return self.convert(np.asarray(bound)[None], space)[0]

        match space:
            case Box():
                return Box(of(space.low), of(space.high), dtype=space.dtype.type)
            case MultiDiscrete():
                return MultiDiscrete(of(space.nvec), dtype=space.dtype.type, start=of(space.start))
            case MultiBinary():
                return MultiBinary(list(of(np.zeros(space.shape)).shape))
        return space

    def convert(self, array: Array, space: gymnasium.Space[Any]) -> Array:
        """A changed array [N, ...], from one of `space` before the change."""
        raise NotImplementedError

    def apply(self, observation: Observation, first: NDArray[np.bool_]) -> Any:
        """The changed observation [N, ...], a new one; `first` [N]: where it begins an episode."""
        return each(self.convert, observation, self._before)

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        return


class ObservationWrapper(AnyWrapper):
    """A vector environment (NEXT_STEP autoreset) with one change of its observations.

    Args:
        env: what is wrapped; this wrapper is its only user.
        change: made for its observation space; this wrapper is its only user.
    """

    def __init__(self, env: AnyVectorEnv, change: Change) -> None:
        super().__init__(env)
        self._change = change
        self.single_observation_space = change.space
        self.observation_space = batch_space(change.space, env.num_envs)
        self._last = np.zeros(env.num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> FirstStep:
        observation, infos = self.env.reset(seed=seed, options=options)
        self._last = np.zeros(self.num_envs, np.bool_)
        return self._change.apply(observation, np.ones(self.num_envs, np.bool_)), infos

    def step(self, actions: Any) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, infos = self.env.step(actions)
        first, self._last = self._last, terminated | truncated
        return self._change.apply(observation, first), reward, terminated, truncated, infos

    def get_state(self) -> dict[str, Any] | None:
        """As the environment's, with the wrapper's own; None where the environment's cannot be saved."""
        state = self.env.get_state()  # type: ignore[attr-defined]
        if state is None:
            return None
        return {"env": state, "last": self._last.copy(), "change": self._change.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned, in an environment of the same task, options and size."""
        if set(state) - {"rng"} != {"env", "last", "change"}:  # earlier checkpoints have a generator's too
            raise ValueError(
                f"environment state has the keys {sorted(state)}; it must come from a "
                f"{type(self._change).__name__} wrapper"
            )
        self.env.set_state(state["env"])  # type: ignore[attr-defined]
        self._last = np.array(state["last"], np.bool_)
        self._change.set_state(state["change"])


class Hide(Change):
    """A vector without the components `hidden`."""

    def __init__(self, space: gymnasium.Space[Any], id: str, value: tuple[int, ...]) -> None:
        text = ",".join(map(str, value))
        if not isinstance(space, Box | MultiDiscrete | MultiBinary) or len(space.shape) != 1:
            raise ValueError(f"task.hide is {text}, but {id} observes no vector but {space}")
        size = space.shape[0]
        if not all(0 <= index < size for index in value) or len(set(value)) in (0, size):
            some = f"some of 0 to {size - 1}, not all"
            raise ValueError(f"task.hide is {text}, but {id} observes {size} components; use {some}")
        self.kept = np.setdiff1d(np.arange(size), value)
        super().__init__(space, id, value)

    def changed(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        return MultiBinary(len(self.kept)) if isinstance(space, MultiBinary) else super().changed(space)

    def convert(self, array: Array, space: gymnasium.Space[Any]) -> Array:
        return array[:, self.kept]


def is_picture(space: gymnasium.Space[Any]) -> bool:
    """uint8 [H, W] or [H, W, C]."""
    return isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


class Pictures(Change):
    """A change of those arrays that are pictures."""

    wanted = "picture"

    def __init__(self, space: gymnasium.Space[Any], id: str, value: Any) -> None:
        if not any(self.applies(part) for _, part in parts(space)):
            option = f"{type(self).__name__} is {value}".lower()
            raise ValueError(f"task.{option}, but {id} observes no {self.wanted} but {space}")
        super().__init__(space, id, value)

    def applies(self, space: gymnasium.Space[Any]) -> bool:
        return is_picture(space)

    def convert(self, array: Array, space: gymnasium.Space[Any]) -> Array:
        return self.draw(array) if self.applies(space) else array

    def draw(self, pictures: Array) -> Array:
        """The changed pictures [N, ...]."""
        raise NotImplementedError


class Grayscale(Pictures):
    """[H, W, 3] -> [H, W]: luminance 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), rounded."""

    wanted = "coloured picture"

    def applies(self, space: gymnasium.Space[Any]) -> bool:
        return is_picture(space) and len(space.shape or ()) == 3 and (space.shape or ())[2] == 3

    def draw(self, pictures: Array) -> Array:
        return np.rint(pictures @ np.array([0.299, 0.587, 0.114], np.float32)).astype(np.uint8)


class Resize(Pictures):
    """[H, W] or [H, W, C] -> `side` x `side`: the average over the area of each new pixel, rounded."""

    def __init__(self, space: gymnasium.Space[Any], id: str, value: int) -> None:
        self.side = positive_int("task.resize", value)
        super().__init__(space, id, value)

    def draw(self, pictures: Array) -> Array:
        rows, columns = (_area_weights(pictures.shape[axis], self.side) for axis in (1, 2))
        channels = pictures.reshape(*pictures.shape[:3], -1).transpose(0, 3, 1, 2).astype(np.float32)
        small = np.rint((rows @ channels @ columns.T).transpose(0, 2, 3, 1)).astype(np.uint8)
        return small.reshape(len(pictures), self.side, self.side, *pictures.shape[3:])


def _area_weights(old: int, new: int) -> NDArray[np.float32]:
    """[new, old] the share of each old pixel in a new one; rows sum to 1."""
    edges = np.linspace(0, old, new + 1)
    pixel = np.arange(old)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return (np.maximum(overlap, 0) * (new / old)).astype(np.float32)


class FrameStack(Change):
    """The last `k` observations of the episode, the newest last; at its start, k times the first one.

    Single values become [k], vectors [d] become [k d], pictures [H, W] of uint8 become [H, W, k]; whatever
    else there is, such as [H, W, C], is joined along its last axis, [H, W, k C].
    """

    def __init__(self, space: gymnasium.Space[Any], id: str, value: int) -> None:
        self.k = positive_int("task.frame_stack", value)
        super().__init__(space, id, value)
        self._frames: Any = None

    def changed(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        if isinstance(space, Discrete):
            return MultiDiscrete([int(space.n)] * self.k, start=[int(space.start)] * self.k)
        if isinstance(space, Box | MultiDiscrete | MultiBinary):
            return super().changed(space)
        raise ValueError(f"task.frame_stack is {self.k}, but observations of {space} cannot be stacked")

    def convert(self, array: Array, space: gymnasium.Space[Any]) -> Array:
        return self._side_by_side(np.repeat(array[:, None], self.k, axis=1), is_picture(space))

    @staticmethod
    def _side_by_side(frames: Array, are_pictures: bool) -> Array:
        """[N, k, ...] -> what the class says, [N, ...]."""
        if frames.ndim == 2:
            return frames.copy()
        if frames.ndim == 4 and are_pictures:
            return np.moveaxis(frames, 1, -1).copy()
        joined = np.moveaxis(frames, 1, -2).copy()
        return joined.reshape(*joined.shape[:-2], -1)

    def apply(self, observation: Observation, first: NDArray[np.bool_]) -> Any:
        if self._frames is None:
            self._frames = each(
                lambda array: np.repeat(np.zeros_like(array)[:, None], self.k, axis=1), observation
            )

        def push(frames: Array, array: Array, space: gymnasium.Space[Any]) -> Array:
            frames[:, :-1] = frames[:, 1:]
            frames[:, -1] = array
            frames[first] = array[first, None]
            return self._side_by_side(frames, is_picture(space))

        return each(push, self._frames, observation, self._before)

    def get_state(self) -> dict[str, Any]:
        return {"frames": each(np.copy, self._frames)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._frames = each(np.copy, state["frames"])


_CHANGES: Final[dict[str, type[Change]]] = {
    "grayscale": Grayscale,
    "resize": Resize,
    "hide": Hide,
    "frame_stack": FrameStack,
}
"""By the name of the option, in their order."""
