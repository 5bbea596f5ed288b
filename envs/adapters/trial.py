"""A short play of a foreign task on an environment of its own, in which every value is looked at."""

from __future__ import annotations

import contextlib
import copy
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, MultiBinary, MultiDiscrete
from numpy.typing import NDArray

from envs.adapters.plain import PlainEnv, float_or_nan
from envs.adapters.spaces import at, leaves, part_name, parts
from envs.checks import is_reward, reward_problem
from envs.vector import brief

STEPS: Final = 20
"""Random steps of a trial."""
STEPS_TO_END: Final = 1000
"""Most steps for which it waits for an episode to end, where the last info decides on success."""


class TriedEnv(PlainEnv):
    """A `PlainEnv` that also looks into each observation, reward and flag. Slow."""

    largest: dict[str, float]
    """By part of an observation, the largest number in size that the environment has shown."""

    def try_out(self) -> None:
        """A reset, a few random steps, and on to an episode's end where only that shows success.

        Raises:
            TaskError: for the first thing that is wrong.
        """
        self.largest, began_in = {}, Path.cwd()
        actions = copy.deepcopy(self.action_space)  # one that the environment does not draw from
        actions.seed(0)
        self.reset(seed=0)
        waits = self._success is not None and self._success.key is not None
        step = 0
        while step < STEPS or (waits and step < STEPS_TO_END):
            _, _, terminated, truncated, _ = self.step(actions.sample())
            step += 1
            if terminated or truncated:
                waits = waits and not terminated
                self.reset()
        if Path.cwd() != began_in:
            os.chdir(began_in)
            raise self.error("its reset or step changed the working directory; it must leave that as it is")

    def _seen(self, observation: Any) -> Any:
        self._fits(observation, self.env.observation_space)
        seen = super()._seen(observation)
        self._fits(seen, self.observation_space)
        for key, part in parts(seen):
            size = float(np.abs(np.asarray(part, float)).max(initial=0.0))
            self.largest[key] = max(size, self.largest.get(key, 0.0))
        return seen

    def _fits(self, observation: Any, space: gymnasium.Space[Any]) -> None:
        for key, path, part in leaves(space):
            try:
                value = at(observation, path)
            except (KeyError, IndexError, TypeError):
                raise self.error(f"it gave no {part_name(key)}; it gave {brief(observation)}") from None
            problem = misfit(value, part)
            if problem:
                raise self.error(f"its {part_name(key)} {problem}")

    def timestep(self, what: str, call: Callable[[], Any]) -> Any:
        values = super().timestep(what, call)
        if what == "step":
            _, reward, *flags, _ = values
            if np.ndim(reward) or not is_reward(float_or_nan(reward)):
                raise self.error(reward_problem(brief(reward)))
            for name, flag in zip(("terminated", "truncated"), flags, strict=True):
                if not isinstance(flag, bool | np.bool_) and not (isinstance(flag, int) and flag in (0, 1)):
                    raise self.error(f"its step gave {name} {brief(flag)}; it must be True or False")
        return values


def compare_envs(task: str, make: Callable[[], PlainEnv]) -> None:
    """Plays two environments in turn, and one alone: what it sees must not depend on the other.

    A task that comes out otherwise each time, whatever its seed, is told of: neither its environments nor two
    runs of one seed can be compared.

    Raises:
        TaskError: where the environments are one object or share what they change.
    """
    with contextlib.ExitStack() as closing:
        made = [closing.enter_context(contextlib.closing(make())) for _ in range(4)]
        alone, again, first, second = made
        if first.unwrapped is second.unwrapped:
            raise first.error("its environments are one object; a new one must be made at each call")
        expected = list(_played(alone, 0))
        if list(_played(again, 0)) != expected:
            print(
                f"task {task}: does not follow the seed given to reset, so two runs with one seed differ",
                file=sys.stderr,
            )
            return
        turns = zip(_played(first, 0), _played(second, 1), strict=True)
        if [timestep for timestep, _ in turns] != expected:
            raise first.error(
                "two of its environments share what they change, such as a variable of its class or module: "
                "one alone sees something else; each must have its own"
            )


def _played(env: PlainEnv, seed: int) -> Iterator[tuple[Any, ...]]:
    """The timesteps of some random steps, each as values that the environment cannot change.

    The generators of the process, which a task may draw from, are its own meanwhile, as if it were alone, and
    begin anywhere: what comes out the same all the same has been seeded.
    """
    actions = copy.deepcopy(env.action_space)
    actions.seed(seed)
    generators = np.random.RandomState().get_state(), random.Random().getstate()
    over = True
    for step in range(STEPS):
        others = _exchanged(generators)
        if over:
            values: tuple[Any, ...] = env.reset(seed=None if step else seed)[:1]
            over = False
        else:
            values = env.step(actions.sample())[:4]
            over = bool(values[2] or values[3])
        generators = _exchanged(others)
        yield _frozen(values)


def _exchanged(generators: tuple[Any, Any]) -> tuple[Any, Any]:
    """The states of the process's generators, which get those that are given."""
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    np.random.set_state(generators[0])  # noqa: NPY002
    random.setstate(generators[1])
    return before


def _frozen(values: tuple[Any, ...]) -> tuple[Any, ...]:
    seen = [(key, np.asarray(part).tobytes()) for key, part in parts(values[0])]
    return tuple(seen), *values[1:]


def misfit(value: Any, space: gymnasium.Space[Any]) -> str | None:
    """How a value is not one of a space that holds arrays or numbers; None where it is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a list in place of an array, say, which Gymnasium reads
        contained = space.contains(value)
    if contained and not isinstance(space, Box | MultiBinary | MultiDiscrete):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        return f"is {brief(value)}; its space is {brief(space)}"
    arrays = Box | MultiBinary | MultiDiscrete
    if isinstance(space, arrays) and (other := _other_form(array, space, contained)):
        return other
    if array.dtype.kind == "f" and not np.isfinite(array).all():  # an unbounded Box contains infinity
        return f"holds {array[~np.isfinite(array)].flat[0]}; must be finite in {array.dtype}"
    if contained:
        return None
    if isinstance(space, Box):
        wrong = array[(array < space.low) | (array > space.high)]
        return f"holds {wrong.flat[0]}, which is outside its space {brief(space)}"
    return f"is {brief(value)}, which is outside its space {brief(space)}"


def _other_form(array: NDArray[Any], space: Box | MultiBinary | MultiDiscrete, contained: bool) -> str | None:
    """How an array's shape or type is not its space's."""
    if array.shape != space.shape:
        return f"has the shape {array.shape}; its space has {space.shape}"
    casting: Literal["same_kind", "safe"] = "same_kind" if contained else "safe"  # as a batch takes it
    if array.dtype.kind == "O" or not np.can_cast(array.dtype, space.dtype, casting):
        return f"is {array.dtype}; its space is {space.dtype}"
    return None
