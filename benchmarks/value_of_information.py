"""The value of having seen the cue, by place and over a training run, on 7x7 and T-Maze.

    python -m benchmarks.value_of_information [--env gridverse-memory-7x7] [--agent gtrxl] [--seed 1]
        [--every 25000] [--points 512] [--json FILE] [--picture FILE.png] [--setting value ...]

One agent is trained. Every so many env steps its online network plays copies of the task of its own, at
random for the first steps of an episode and then nearly greedily, and at decision points drawn from these
episodes, as many of each place as there are, three numbers are compared, all as the learner has them: discounted, with scaled rewards.

    V               max Q, turned back where the learner rescales values; with Munchausen's rewards it
                    holds entropies too and is no return
    greedy return   what the same network gets without exploration from a clone of the environment's state
                    and of its own memory; the clone has the whole time limit before it
    optimum         V* of an agent that forgets nothing, without time limit (`benchmarks.optimum`; 7x7)

They are averaged by place and by whether the cue has been seen in the episode. On 7x7 a place is a cell and
the cue a beacon's colour; on T-Maze a part of the corridor and the goal's side, and there is no optimum.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import envs
from benchmarks.optimum import Optimum
from benchmarks.value_picture import draw
from dtqn.acting.rows import VectorRows
from dtqn.files import write_whole
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.presets import resolve
from dtqn.text import columns
from dtqn.training import machine
from dtqn.training.trainer import Trainer
from dtqn.types import State, map_tree, reset_rows
from envs.vector import NativeVectorEnv

COPIES = 64

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


class Points(NamedTuple):
    """Decision points, an array of n each."""

    place: Integers
    cue_age: Integers
    """Steps since the cue was last in view; -1: it has not been, in this episode."""
    value: Floats
    greedy_return: Floats
    optimum: Floats
    """NaN where it is not known."""


class Watch(ABC):
    """Where the copies of a task are, and what they have seen."""

    places: Mapping[str, Sequence[int]]
    """Places that have a name."""
    cells: Mapping[int, str]
    """`row,column` of every place that is a cell; empty where none is."""
    random_steps: int
    """An episode's steps at random are from 0 to so many."""
    epsilon: float
    """Share of random actions after them."""
    ticks: int
    """Steps of each copy over which points are drawn."""
    time_limit: int | None
    """Steps of an episode over which they are, so that there are many episodes; None: the task's own."""
    num_kinds: int
    """Kinds of points, by place and cue."""

    cue_age: Integers

    def look(self, rows: VectorRows) -> None:
        """Note the rows as they have arrived."""
        state = rows.env.get_state()["state"]  # type: ignore[attr-defined]
        if rows.first.all():
            self.cue_age = np.full(len(rows.first), -1)
        self.cue_age = np.where(rows.first | (self.cue_age < 0), -1, self.cue_age + 1)
        self.cue_age[self._look(rows, state)] = 0

    @abstractmethod
    def _look(self, rows: VectorRows, state: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Note the rows beside the environment's state; [N] whether the cue is in view."""

    @abstractmethod
    def place(self, copies: Integers) -> Integers:
        """The places of some copies."""

    def optimum(self, copies: Integers) -> Floats:
        """V* of some copies, none of them at its episode's end."""
        return np.full(len(copies), np.nan)


class GridWatch(Watch):
    """Gridverse memory: places are cells, numbered row by row."""

    random_steps, epsilon, ticks, time_limit = 40, 0.2, 400, 80

    def __init__(self, optimum: Optimum) -> None:
        self._optimum = optimum
        width, (row, column) = optimum.width, optimum.start[:2].tolist()
        beside = {
            name: [y * width + x + (1 if x < column else -1) for y, x in cells]
            for name, cells in optimum.cells.items()
        }
        self.places = {
            "before an exit": beside["exit"],
            "junction": [optimum.cells["exit"][0][0] * width + column],
            "start": [row * width + column],
            "cue in view": beside["beacon"],
        }
        self.cells = {y * width + x: f"{y},{x}" for y, x in optimum.free.tolist()}
        self.num_kinds = 2 * (len(self.cells) - len(optimum.cells["exit"]))

    def _look(self, rows: VectorRows, state: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        self._agent = state["agent"]
        if rows.first.all():
            self._belief = self._optimum.ignorance(len(rows.first))
        belief = self._belief | rows.first[:, None]
        self._belief = self._optimum.updated(belief, self._agent, rows.observation)
        return self._optimum.cue_in_view(self._agent)

    def place(self, copies: Integers) -> Integers:
        y, x = self._agent[copies, :2].T.astype(np.intp)
        return y * self._optimum.width + x

    def optimum(self, copies: Integers) -> Floats:
        return self._optimum.values(self._agent[copies], self._belief[copies])


class CorridorWatch(Watch):
    """T-Maze: the start and what is behind it, the corridor's quarters, the junction.

    Few steps may be lost there before an episode is, so few are at random.
    """

    random_steps, time_limit, cells = 2, None, {}
    _names = ("start", "quarter 1", "quarter 2", "quarter 3", "quarter 4", "junction")
    places = {name: (place,) for place, name in enumerate(_names)}  # noqa: RUF012
    num_kinds = 2 * len(_names)

    def __init__(self, *, active: bool, length: int, horizon: int) -> None:
        self._start, self._length = int(active), length
        self.epsilon, self.ticks = min(0.2, 1 / length), max(100, horizon)

    def _look(self, rows: VectorRows, state: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        self._x = state["position"][:, 0]
        return (self._x == 0) & ~state["visited"]

    def place(self, copies: Integers) -> Integers:
        steps = self._x[copies] - self._start
        quarter = 1 + 4 * (steps - 1) // max(1, self._length - 1)
        return np.where(steps <= 0, 0, np.where(steps == self._length, 5, quarter)).astype(np.intp)


def watch_of(config: Config) -> Watch:
    """Of the run's task; a ConfigError where it is no task of these or its observations are changed."""
    maze = re.fullmatch(r"t-maze-(passive|active)-(\d+)", config.env)
    if config.env != "gridverse-memory-7x7" and not maze:
        raise ConfigError(
            f"env is {config.env}; it must be gridverse-memory-7x7 or t-maze-(passive|active)-N"
        )
    task = envs.registry.task(config.env, **config.task.model_dump())
    if not isinstance(task.make_vector(1, 0), NativeVectorEnv):
        raise ConfigError("task has options that change what is observed, or another backend; leave them out")
    if maze:
        assert task.spec.horizon is not None
        return CorridorWatch(active=maze[1] == "active", length=int(maze[2]), horizon=task.spec.horizon)
    return GridWatch(Optimum(task, config.learner.gamma, config.learner.reward_scale))


@torch.no_grad()
def measure(
    network: QNetwork,
    make_env: Callable[[int, int | None], NativeVectorEnv],
    watch: Watch,
    count: int,
    gamma: float,
    generator: np.random.Generator,
) -> Points:
    """At most `count` decision points, as many of each place and cue as there are.

    V is max Q as it is, and the return has rewards as they are.

    Args:
        make_env: so many copies, which nobody else steps, with a time limit or (None) the task's own.
    """
    rows = VectorRows(make_env(COPIES, watch.time_limit))
    actions = int(rows.env.single_action_space.n)  # type: ignore[attr-defined]
    parameter = next(network.parameters())
    initial = network.initial_state(1)
    state = map_tree(lambda x: x.expand(COPIES, *x.shape[1:]), initial)
    random_steps = np.zeros(COPIES, np.intp)
    drawn = Reservoirs(max(1, count // watch.num_kinds), generator)
    for _ in range(watch.ticks):
        watch.look(rows)
        state = reset_rows(state, initial, torch.from_numpy(rows.first).to(parameter.device))
        deciding = np.flatnonzero(~rows.last)
        kinds = zip(watch.place(deciding).tolist(), (watch.cue_age[deciding] >= 0).tolist(), strict=True)
        chosen = [(kind, copy) for kind, copy in zip(kinds, deciding, strict=True) if drawn.wants(kind)]
        for (kind, copy), clone in zip(
            chosen, _clones(rows, state, [copy for _, copy in chosen]), strict=True
        ):
            one = np.array([copy])
            drawn.put(kind, (*clone, watch.place(one), watch.cue_age[one], watch.optimum(one)))
        output, state, _ = network(rows.inputs(parameter.device, parameter.dtype), state)
        random_steps = np.where(
            rows.first, generator.integers(watch.random_steps + 1, size=COPIES), random_steps
        )
        explore = (rows.length < random_steps) | (generator.random(COPIES) < watch.epsilon)
        greedy = output.q[:, 0].argmax(dim=-1).cpu().numpy()
        rows.step(np.where(explore, generator.integers(actions, size=COPIES), greedy))
    kept, memory, place, age, optimum = zip(*drawn.all(), strict=True)
    value, greedy_return = _play_out(network, make_env(len(place), None), kept, memory, gamma)
    return Points(np.concatenate(place), np.concatenate(age), value, greedy_return, np.concatenate(optimum))


class Reservoirs:
    """A uniform sample, without replacement, of each kind of what comes by (Vitter 1985, algorithm R)."""

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._size, self._generator = size, generator
        self._met: dict[Any, int] = {}
        self._kept: dict[Any, list[Any]] = {}
        self._slot: dict[Any, list[int]] = {}

    def wants(self, kind: Any) -> bool:
        """Whether one more of a kind is taken; then `put` owes it."""
        met = self._met[kind] = self._met.get(kind, 0) + 1
        slot = met - 1 if met <= self._size else int(self._generator.integers(met))
        if slot < self._size:
            self._slot.setdefault(kind, []).append(slot)
        return slot < self._size

    def put(self, kind: Any, item: Any) -> None:
        """The items of a kind come in the order in which they were wanted."""
        kept, slot = self._kept.setdefault(kind, []), self._slot[kind].pop(0)
        kept[slot : slot + 1] = [item]

    def all(self) -> list[Any]:
        return [item for kept in self._kept.values() for item in kept]


def _clones(rows: VectorRows, state: State, copies: Sequence[int]) -> Iterator[tuple[Any, State]]:
    """Each copy's row and environment, with the whole time limit before it, and its memory."""
    kept = rows.get_state()
    kept["env"] = {name: kept["env"][name] for name in ("episode", "state")}
    kept["env"]["episode"]["elapsed"][:] = 0
    for copy in copies:
        yield (
            map_tree(lambda x, i=copy: x[[i]].copy(), kept),
            map_tree(lambda x, i=copy: x[i : i + 1].clone(), state),
        )


def _play_out(
    network: QNetwork, env: NativeVectorEnv, clones: Sequence[Any], memory: Sequence[State], gamma: float
) -> tuple[Floats, Floats]:
    """max Q of the clones, and their discounted greedy returns."""
    rows, parameter = VectorRows(env), next(network.parameters())
    kept = map_tree(lambda *parts: np.concatenate(parts), *clones)
    kept["env"]["rng"] = env.get_state()["rng"]
    rows.set_state(kept, np.random.default_rng(0))
    state = network.cache(map_tree(lambda *parts: torch.cat(parts), *memory))
    value: Floats | None = None
    returns, weight = np.zeros(env.num_envs), np.ones(env.num_envs)
    while weight.any():
        output, state, _ = network(rows.inputs(parameter.device, parameter.dtype), state)
        q = output.q[:, 0].cpu().numpy()
        value = q.max(axis=1).astype(np.float64) if value is None else value
        rows.step(q.argmax(axis=1))
        returns += weight * rows.reward
        weight = np.where(rows.last, 0.0, gamma * weight)
    assert value is not None
    return value, returns


def measure_run(trainer: Trainer, watch: Watch, count: int) -> Points:
    """The points of a run at this moment, on its learner's scale; the run goes on as if there were none."""
    config = trainer.config
    env_seed, play_seed = np.random.SeedSequence((config.seed, trainer.env_steps)).spawn(2)

    def make_env(copies: int, time_limit: int | None) -> NativeVectorEnv:
        options = config.task.model_dump()
        options["time_limit"] = time_limit or options["time_limit"]
        env = envs.make_vector(config.env, copies, env_seed, **options)
        assert isinstance(env, NativeVectorEnv)
        return env

    points = measure(
        trainer.network, make_env, watch, count, config.learner.gamma, np.random.default_rng(play_seed)
    )
    value = trainer.learner.objective.transform.inverse(torch.from_numpy(points.value)).numpy()
    return points._replace(value=value, greedy_return=config.learner.reward_scale * points.greedy_return)


def summary(points: Points, watch: Watch) -> dict[str, Any]:
    """`places` by name and `cells` by row and column: means where the cue is seen, and where it is not."""

    def means(places: Sequence[int]) -> dict[str, Any]:
        here, seen = np.isin(points.place, places), points.cue_age >= 0
        return {name: _means(points, here & chosen) for name, chosen in (("seen", seen), ("unseen", ~seen))}

    return {
        "places": {name: means(places) for name, places in watch.places.items()},
        "cells": {name: means([place]) for place, name in watch.cells.items()},
    }


def _means(points: Points, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    def mean(values: NDArray[Any]) -> float | None:
        return float(values[chosen].mean()) if chosen.any() and not np.isnan(values[chosen]).any() else None

    age = mean(points.cue_age)
    return {
        "samples": int(chosen.sum()),
        "value": mean(points.value),
        "greedy_return": mean(points.greedy_return),
        "optimum": mean(points.optimum),
        "cue_age": None if age is None or age < 0 else age,
    }


def table(point: Mapping[str, Any]) -> str:
    """The named places of one moment."""
    heads = ["V seen", "unseen", "difference", "greedy seen", "unseen", "optimum seen", "unseen", "samples"]
    success = "" if point["success"] is None else f", success {point['success']:.1%}"
    rows = [[f"{point['env_steps']:,} env steps, {point['learner_steps']:,} updates{success}", *heads]]
    for name, place in point["places"].items():
        both = place["seen"], place["unseen"]
        value, greedy, optimum = ([x[k] for x in both] for k in ("value", "greedy_return", "optimum"))
        gain = None if None in value else value[0] - value[1]
        cells = ["-" if x is None else f"{x:.2f}" for x in (*value, gain, *greedy, *optimum)]
        rows.append([f"  {name}", *cells, "+".join(str(x["samples"]) for x in both)])
    return "\n".join(columns(rows))


def run(config: Config, every: int, count: int, report: Callable[[list[dict[str, Any]]], None]) -> None:
    """Train, and report all measurements so far after each."""
    watch = watch_of(config)
    machine.prepare()
    trainer = Trainer(config)
    points: list[dict[str, Any]] = []
    while not trainer.finished:
        before = trainer.env_steps
        trainer.advance()
        over = trainer.evaluator.evaluated()
        if before // every == trainer.env_steps // every:
            continue
        clocks = {"env_steps": trainer.env_steps, "learner_steps": trainer.learner_steps}
        success = over.metrics["eval/success"] if over else None
        points.append(clocks | {"success": success} | summary(measure_run(trainer, watch, count), watch))
        report(points)


def _settings(rest: Sequence[str]) -> dict[str, str]:
    """Settings by dotted name, given as `--name value` or `--name=value`."""
    words = [part for text in rest for part in (text.split("=", 1) if text.startswith("--") else [text])]
    names, values = words[::2], words[1::2]
    if wrong := [name for name in names if not name.startswith("--")]:
        raise ConfigError(f"{wrong[0]} is no option; settings are --name value")
    if len(names) > len(values):
        raise ConfigError(f"{names[-1]} has no value")
    return {name.removeprefix("--").replace("-", "_"): x for name, x in zip(names, values, strict=True)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else None, allow_abbrev=False
    )
    parser.add_argument("--env", default="gridverse-memory-7x7")
    parser.add_argument("--agent", default="gtrxl")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--every", type=int, default=25_000, help="env steps between measurements")
    parser.add_argument("--points", type=int, default=512, help="decision points of each, at most")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE.png")
    args, rest = parser.parse_known_args(arguments)
    try:
        for name in ("every", "points"):
            if getattr(args, name) < 1:
                raise ConfigError(f"--{name} is {getattr(args, name)}; it must be at least 1")
        settings = _settings(rest)
        if args.picture and args.picture.suffix not in (".png", ".svg"):
            raise ConfigError(f"--picture is {args.picture}; it must end in .png or .svg")
        flags = {"env": args.env, "agent": args.agent, "seed": args.seed, "wandb": "disabled", **settings}
        config = resolve(None, flags, {})
        title = f"{config.agent} on {config.env}, seed {config.seed}"
        about = {"env": config.env, "agent": config.agent, "seed": config.seed, "settings": settings}

        def report(points: list[dict[str, Any]]) -> None:
            print(table(points[-1]), flush=True)
            if args.json:
                write_whole(args.json, json.dumps({**about, "points": points}, indent=2) + "\n")
            if args.picture:
                draw(points, title, args.picture)

        for file in (args.json, args.picture):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
        run(config, args.every, args.points, report)
    except (ConfigError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
