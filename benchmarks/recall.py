"""How long a trained agent's memory keeps what was in sight, by the steps since then.

    python -m benchmarks.recall RUN_DIR [--copies 256] [--ticks 400] [--epsilon 0.1] [--seed 0]
        [--json FILE]

The last weights of a run with `network.recall_weight` above 0 play copies of their task, nearly greedily. At
each step the layer of recall says for each value (a red beacon, say) with which probability p the episode has
shown it. Steps are sorted by the value's age, the steps since it was last in sight. For each range of ages

    p       the mean over these steps; memory that is perfect has 1
    AUC     the probability that p is larger there than at a step of an episode that has not shown the value,
            by value, then the mean over values; memory that is lost has 1/2

Values that are in sight in more than 95 % of all steps, or in less than one of a thousand, are left out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import envs
from benchmarks.options import one_line_errors, origin, write
from dtqn.acting.rows import VectorRows
from dtqn.networks.q_network import QNetwork
from dtqn.networks.recall import RecallingHead, Shown
from dtqn.settings.config import ConfigError
from dtqn.text import columns
from dtqn.training import checkpoint, machine, setup
from dtqn.training.directory import RunDir
from dtqn.types import map_tree, reset_rows

AGES = (0, 1, 10, 20, 40, 60, 80, 120, 180, 250)
"""Bounds of the ranges of ages."""
LEAST = 30
"""Steps of a kind below which nothing is said of them."""
RAREST, MOST_COMMON = 1e-3, 0.95


class Ages:
    """Steps since each copy last saw each value in its episode, [N, V]; -1 where it has not."""

    def __init__(self, shown: Shown, copies: int) -> None:
        self._shown = shown
        self.age = np.full((copies, shown.count), -1, np.int64)

    def look(self, rows: VectorRows) -> None:
        """Note the rows as they have arrived."""
        observation = map_tree(lambda part: torch.from_numpy(part)[:, None], rows.observation)
        seen = self._shown(observation, torch.ones(len(self.age), 1, dtype=torch.bool))[:, 0].numpy()
        self.age[rows.first] = -1
        self.age += self.age >= 0
        self.age[seen] = 0


def auc(positive: NDArray[np.float32], negative: NDArray[np.float32]) -> float:
    """P(a positive is above a negative) + P(they are equal) / 2 (Mann and Whitney's U, normalised)."""
    order = np.sort(negative)
    below, up_to = (np.searchsorted(order, positive, side) for side in ("left", "right"))
    return float((below + up_to).mean() / (2 * len(negative)))


@torch.no_grad()
def play(
    network: QNetwork, shown: Shown, rows: VectorRows, ticks: int, epsilon: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Ages and probabilities, [n, V] each, at all rows but the last of an episode."""
    copies, generator = rows.env.num_envs, np.random.default_rng(seed)
    parameter = next(network.parameters())
    initial, ages = network.initial_state(1), Ages(shown, copies)
    state = map_tree(lambda x: x.expand(copies, *x.shape[1:]), initial)
    kept = []
    for _ in range(ticks):
        ages.look(rows)
        state = reset_rows(state, initial, torch.from_numpy(rows.first).to(parameter.device))
        output, state, _ = network(rows.inputs(parameter.device, parameter.dtype), state)
        assert output.recall is not None
        probability = output.recall[:, 0].float().sigmoid().cpu().numpy()
        kept.append((ages.age[~rows.last].copy(), probability[~rows.last]))
        greedy = output.q[:, 0].argmax(dim=-1).cpu().numpy()
        explore = generator.random(copies) < epsilon
        rows.step(np.where(explore, generator.integers(rows.num_actions, size=copies), greedy))
    age, probability = zip(*kept, strict=True)
    return np.concatenate(age), np.concatenate(probability)


def by_age(age: NDArray[np.int64], probability: NDArray[np.float32]) -> list[dict[str, float | int]]:
    """A row for each range of ages that has steps enough."""
    in_sight = (age == 0).mean(axis=0)
    values = np.flatnonzero((in_sight > RAREST) & (in_sight < MOST_COMMON))
    found: list[dict[str, float | int]] = []
    for low, high in itertools.pairwise(AGES):
        areas, means, steps = [], [], 0
        for value in values:
            here = (age[:, value] >= low) & (age[:, value] < high)
            never = age[:, value] < 0
            if min(here.sum(), never.sum()) < LEAST:
                continue
            areas.append(auc(probability[here, value], probability[never, value]))
            means.append(probability[here, value].mean())
            steps += int(here.sum())
        if areas:
            found.append(
                {"from": low, "below": high, "p": float(np.mean(means)), "auc": float(np.mean(areas))}
                | {"values": len(areas), "steps": steps}
            )
    return found


def measure(run: Path, copies: int, ticks: int, epsilon: float, seed: int) -> dict[str, Any]:
    """The run's last weights, by age; a ConfigError where there is nothing to measure."""
    directory = RunDir(run)
    config = directory.read_config()
    network = setup.make_network(config)
    if not isinstance(network.head, RecallingHead):
        raise ConfigError(
            f"{run}: network.recall_weight is {config.network.recall_weight}; it must be above 0"
        )
    about, weights = checkpoint.load_described(directory.checkpoints)
    network.load_state_dict(weights)
    rows = VectorRows(envs.make_vector(config.env, copies, seed, **config.task.model_dump()))
    played = play(network, network.head.recall.shown, rows, ticks, epsilon, seed)
    return {**origin(config, about), "epsilon": epsilon, "ages": by_age(*played)}


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--copies", type=int, default=256)
    parser.add_argument("--ticks", type=int, default=400, help="steps of each copy")
    parser.add_argument("--epsilon", type=float, default=0.1, help="share of random actions")
    parser.add_argument("--seed", type=int, default=0, help="of tasks and actions")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    for name in ("copies", "ticks"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} is {getattr(args, name)}; it must be at least 1")
    if not 0 <= args.epsilon <= 1:
        raise ConfigError(f"--epsilon is {args.epsilon}; it must be from 0 to 1")
    machine.prepare()
    measured = measure(args.run, args.copies, args.ticks, args.epsilon, args.seed)
    cells = [
        [f"{x['from']} to {x['below'] - 1}", f"{x['p']:.2f}", f"{x['auc']:.3f}", str(x["steps"])]
        for x in measured["ages"]
    ]
    print("\n".join(columns([["steps since", "p", "AUC", "steps"], *cells])))
    write(args.json, measured)


if __name__ == "__main__":
    sys.exit(main())
