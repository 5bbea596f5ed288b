"""The value of having seen the cue, by place and over a training run, on 7x7 and T-Maze.

    python -m benchmarks.value_of_information [--env gridverse-memory-7x7] [--agent gtrxl] [--seed 1]
        [--every 25000] [--points 512] [--json FILE] [--picture FILE.png] [--setting value ...]

One agent is trained. Every so many env steps its online network plays copies of the task of its own, at
random for the first steps of an episode and then nearly greedily. At decision points drawn from these
episodes, as many of each place as of the others where there are enough, three numbers are compared. All are
as the learner has them: discounted, with scaled rewards.

    V               max Q, turned back where the learner rescales values; with Munchausen's rewards it
                    holds entropies too and is no return
    greedy return   what the same network gets without exploration from a clone of the environment's state
                    and of its own memory; the clone has the whole time limit before it
    optimum         V* of an agent that forgets nothing, without time limit (`benchmarks.optimum`; 7x7)

They are averaged by place and by whether the cue has been seen in the episode. On 7x7 a place is a cell and
the cue a beacon's colour; on T-Maze a part of the corridor and the goal's side, and there is no optimum.

Beside them stands what there was to learn from: how many of the training's own episodes terminated, how many
of these with the cue seen, and how many of those with a reward.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import envs
from benchmarks.options import one_line_errors, settings_of, write
from benchmarks.value_picture import draw
from benchmarks.value_places import Floats, Integers, Watch, watch_of
from dtqn.acting.rows import VectorRows
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.presets import resolve
from dtqn.text import columns
from dtqn.training import machine
from dtqn.training.evaluations import reached
from dtqn.training.setup import make_goal
from dtqn.training.trainer import Trainer
from dtqn.types import State, map_tree, reset_rows
from envs.vector import NativeVectorEnv

COPIES = 64


class Points(NamedTuple):
    """Decision points, an array of n each."""

    place: Integers
    cue_age: Integers
    """Steps since the cue was last in view; -1: it has not been, in this episode."""
    value: Floats
    greedy_return: Floats
    optimum: Floats
    """NaN where it is not known."""


@torch.no_grad()
def measure(
    network: QNetwork,
    make_env: Callable[[int, int | None], NativeVectorEnv],
    watch: Watch,
    count: int,
    gamma: float,
    generator: np.random.Generator,
) -> Points:
    """At most `count` decision points, as many of each place and cue as of the others where there are enough.

    V is max Q as it is, and the return has rewards as they are.

    Args:
        make_env: so many copies, which nobody else steps, with a time limit or (None) the task's own.
    """
    rows = VectorRows(make_env(COPIES, watch.time_limit))
    parameter = next(network.parameters())
    initial = network.initial_state(1)
    state = map_tree(lambda x: x.expand(COPIES, *x.shape[1:]), initial)
    random_steps = np.zeros(COPIES, np.intp)
    drawn = Reservoirs(max(1, count // watch.num_kinds), generator)
    for _ in range(watch.ticks):
        watch.look(rows)
        state = reset_rows(state, initial, torch.from_numpy(rows.first).to(parameter.device))
        copies, clone = np.flatnonzero(~rows.last), _cloning(rows, state)
        places, ages, best = watch.place(copies), watch.cue_age[copies], watch.optimum(copies)
        for which, *point in zip(copies, places, ages, best, strict=True):
            kind = (int(point[0]), bool(point[1] >= 0))
            if (slot := drawn.slot(kind)) is not None:
                drawn.kept[kind, slot] = (*clone(which), *point)
        output, state, _ = network(rows.inputs(parameter.device, parameter.dtype), state)
        random_steps = np.where(
            rows.first, generator.integers(watch.random_steps + 1, size=COPIES), random_steps
        )
        explore = (rows.length < random_steps) | (generator.random(COPIES) < watch.epsilon)
        greedy = output.q[:, 0].argmax(dim=-1).cpu().numpy()
        rows.step(np.where(explore, generator.integers(rows.num_actions, size=COPIES), greedy))
    kept, memory, place, age, optimum = zip(*drawn.kept.values(), strict=True)
    value, greedy_return = _play_out(network, make_env(len(place), None), kept, memory, gamma)
    return Points(np.array(place), np.array(age), value, greedy_return, np.array(optimum))


class Experience:
    """The training's episodes that terminate, those with the cue seen, and those of these with a reward."""

    def __init__(self, watch: Watch) -> None:
        """`watch` has seen no copies yet; the training's are followed beside it."""
        self._watch = copy.copy(watch)
        self._counts = np.zeros(3, np.intp)
        self._since = 0

    def look(self, rows: VectorRows) -> None:
        """Before each step of the copies."""
        self._watch.look(rows)

    def count(self, rows: VectorRows) -> None:
        """After it."""
        over = rows.last & rows.terminated
        informed = over & (self._watch.cue_age >= 0)
        self._counts += (over.sum(), informed.sum(), (informed & (rows.reward > 0)).sum())

    def taken(self, env_steps: int) -> dict[str, float | None]:
        """Episodes for 10 000 environment steps since the last call; of those with the cue, a share."""
        (over, informed, rewarded), steps = self._counts.tolist(), env_steps - self._since
        self._counts[:], self._since = 0, env_steps
        return {
            "terminated": 1e4 * over / steps,
            "with_cue": 1e4 * informed / steps,
            "rewarded_with_cue": rewarded / informed if informed else None,
        }


class Reservoirs:
    """A uniform sample of each kind of what comes by (Vitter 1985, algorithm R)."""

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        """`size` of each kind are kept."""
        self._size, self._generator = size, generator
        self._met: Counter[Hashable] = Counter()
        self.kept: dict[tuple[Hashable, int], Any] = {}
        """By kind and slot."""

    def slot(self, kind: Hashable) -> int | None:
        """The slot that one more of a kind takes; None for none."""
        self._met[kind] += 1
        met = self._met[kind]
        slot = met - 1 if met <= self._size else int(self._generator.integers(met))
        return slot if slot < self._size else None


def _cloning(rows: VectorRows, state: State) -> Callable[[int], tuple[Any, State]]:
    """Copy -> its row and environment, with the whole time limit before it, and its memory."""
    kept = rows.get_state()
    kept["env"] = {name: kept["env"][name] for name in ("episode", "state")}
    kept["env"]["episode"]["elapsed"][:] = 0
    return lambda copy: (
        map_tree(lambda x: x[[copy]], kept),
        map_tree(lambda x: x[copy : copy + 1].clone(), state),
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
        limits = [limit for limit in (time_limit, options["time_limit"]) if limit is not None]
        options["time_limit"] = min(limits, default=None)
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
    of, share = point["training"], point["training"]["rewarded_with_cue"]
    rewarded = "" if share is None else f", {share:.0%} of these with a reward"
    training = (
        f"{of['terminated']:.0f} episodes terminated for 10,000 env steps, {of['with_cue']:.1f} with the cue"
    )
    return "\n".join([*columns(rows), f"  training: {training}{rewarded}"])


def run(
    config: Config, every: int, count: int, report: Callable[[list[dict[str, Any]]], None]
) -> list[dict[str, Any]]:
    """Train and measure, and report all measurements so far after each.

    Like a run it ends early where an evaluation has reached `stop_at_success` or `stop_at_return`.
    """
    watch = watch_of(config)
    experience = Experience(watch)
    machine.prepare()
    goal, trainer = make_goal(config), Trainer(config)
    points: list[dict[str, Any]] = []
    while not trainer.finished:
        before = trainer.env_steps
        experience.look(trainer.actor.rows)
        trainer.advance()
        experience.count(trainer.actor.rows)
        over = trainer.evaluator.evaluated()
        if before // every == trainer.env_steps // every:
            continue
        clocks = {"env_steps": trainer.env_steps, "learner_steps": trainer.learner_steps}
        evaluated = over.metrics if over else {}
        success = evaluated.get("eval/success")
        measured = summary(measure_run(trainer, watch, count), watch)
        points.append(
            clocks | {"success": success, "training": experience.taken(trainer.env_steps)} | measured
        )
        report(points)
        if reached(goal, evaluated):
            break
    return points


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
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
    for name in ("every", "points"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} is {getattr(args, name)}; it must be at least 1")
    settings = settings_of(rest)
    if args.picture and args.picture.suffix not in (".png", ".svg"):
        raise ConfigError(f"--picture is {args.picture}; it must end in .png or .svg")
    flags = {"env": args.env, "agent": args.agent, "seed": args.seed, "wandb": "disabled", **settings}
    config = resolve(None, flags, {})
    title = f"{config.agent} on {config.env}, seed {config.seed}"
    about = {"env": config.env, "agent": config.agent, "seed": config.seed, "settings": settings}
    about |= {"gamma": config.learner.gamma, "reward_scale": config.learner.reward_scale}

    def report(points: list[dict[str, Any]]) -> None:
        print(table(points[-1]), flush=True)
        write(args.json, {**about, "points": points})

    for file in (args.json, args.picture):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
    points = run(config, args.every, args.points, report)
    if args.picture and points:
        draw(points, title, args.picture)


if __name__ == "__main__":
    sys.exit(main())
