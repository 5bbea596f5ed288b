"""How much of its replay a network knows by heart: whether Q tells how a coin flip ended.

    python -m benchmarks.by_heart RUN_DIR [--cue 11,12,13,14] [--fresh-steps 100000] [--json FILE]

An episode that ends without having shown the cue ends by chance. Nothing that the agent saw tells how, so the
Q-value of its last action is the same before a good end and before a bad one, unless the network knows the
episode by heart. For episodes of each kind

    AUC     the probability that Q of the last action is larger in an episode with a good end than in one with
            a bad end; 1/2 where it tells nothing

The last checkpoint's network is asked about the older and the newer half of the episodes in its replay, and
about fresh ones, which its actor plays now, with its own exploration, and which nobody learns. Only episodes
that end themselves within their first sequence count, and a good end is a reward above 0. `--cue` are the
values that make up the cue, as `network.recall_weight` counts them; by default the beacons of gridverse
memory tasks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.options import one_line_errors, origin, write
from benchmarks.recall import auc
from benchmarks.stored import stored
from dtqn.learning.returns import select_action
from dtqn.networks.recall import Shown
from dtqn.settings.config import ConfigError
from dtqn.text import columns
from dtqn.training import checkpoint, session, setup
from dtqn.training.directory import RunDir
from dtqn.training.trainer import Trainer
from dtqn.types import first_rows

BEACONS = "11,12,13,14"
LEAST = 30
"""Episodes with each end below which nothing is said of them."""


class Ends(NamedTuple):
    """Episodes that ended themselves, [n] each."""

    id: NDArray[np.int64]
    """Ids of their sequences; later ones are larger."""
    q: NDArray[np.float32]
    """Q of the last action, by the present network."""
    good: NDArray[np.bool_]
    """Whether the last reward is above 0."""
    shown: NDArray[np.bool_]
    """Whether they had shown the cue when that action was taken."""


@torch.no_grad()
def ends(trainer: Trainer, shown: Shown, cue: Sequence[int]) -> Ends:
    """The episodes of the replay that end within their first sequence."""
    found = []
    for ids, batch, last, whole in stored(trainer):
        learn, rows = batch.learn, torch.arange(len(ids))
        q = trainer.network.learn_values(batch)[0].q
        taken = select_action(q[:, :-1], learn.prev_action[:, 1:].long())
        real = first_rows(batch.learn_rows - 1, learn.first.shape[1])
        seen = shown(learn.observation, real)[..., list(cue)].any(dim=-1).any(dim=-1)
        told = taken[rows, last - 1], learn.reward[rows, last] > 0, seen
        found.append((ids[whole.numpy()], *(x[whole].cpu().numpy() for x in told)))
    return Ends(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def kinds(old: Ends, fresh: Ends) -> list[dict[str, Any]]:
    """A row for each kind of episodes that has enough of them."""
    newer = old.id >= np.median(old.id)
    parts = (
        ("the older half of replay", old, ~newer),
        ("the newer half of replay", old, newer),
        ("fresh", fresh, np.ones(len(fresh.id), bool)),
    )
    found = []
    for cue in (False, True):
        for name, episodes, among in parts:
            good, bad = (
                episodes.q[among & (episodes.shown == cue) & (episodes.good == end)] for end in (True, False)
            )
            if min(len(good), len(bad)) < LEAST:
                continue
            found.append(
                {"episodes": name, "cue shown": cue, "count": len(good) + len(bad), "auc": auc(good, bad)}
                | {"q before a good end": float(good.mean()), "q before a bad end": float(bad.mean())}
            )
    return found


def measure(run: Path, cue: Sequence[int], fresh_steps: int) -> dict[str, Any]:
    """A run's last checkpoint; a ConfigError where there is nothing to measure."""
    directory = RunDir(run)
    config = directory.read_config()
    try:
        shown = Shown(setup.task_spec(config).observation_space)
    except ValueError:
        raise ConfigError(f"{run}: env is {config.env}, whose observations have no values") from None
    if wrong := [value for value in cue if not 0 <= value < shown.count]:
        raise ConfigError(f"--cue has {wrong[0]}; values of {config.env} are from 0 to {shown.count - 1}")
    about = checkpoint.read_about(directory.checkpoints)
    trainer = session.restored_trainer(config.on_cpu(), directory)
    try:
        old, before = ends(trainer, shown, cue), trainer.env_steps
        if not len(old.id):
            raise ConfigError(f"{run}: no episode in its replay ends within its first sequence")
        while trainer.env_steps < before + fresh_steps:
            trainer.replay.append(trainer.schema.stored(trainer.actor.tick()[0]))
        after = ends(trainer, shown, cue)
    finally:
        trainer.close()
    is_fresh = after.id > old.id.max()
    fresh = Ends(*(x[is_fresh] for x in after))
    return {**origin(config, about), "cue": list(cue), "kinds": kinds(old, fresh)}


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--cue", default=BEACONS, help="values of the cue, with commas between")
    parser.add_argument("--fresh-steps", type=int, default=100_000, help="env steps of fresh episodes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    if not all(part.strip().isdecimal() for part in args.cue.split(",")):
        raise ConfigError(f"--cue is {args.cue!r}; it must be whole numbers, such as {BEACONS}")
    if args.fresh_steps < 1:
        raise ConfigError(f"--fresh-steps is {args.fresh_steps}; it must be at least 1")
    measured = measure(args.run, list(map(int, args.cue.split(","))), args.fresh_steps)
    cells = [
        [x["episodes"], "yes" if x["cue shown"] else "no", str(x["count"]), f"{x['auc']:.2f}"]
        + [f"{x[f'q before a {end} end']:.2f}" for end in ("good", "bad")]
        for x in measured["kinds"]
    ]
    heads = ["episodes", "cue shown", "number", "AUC", "Q before a good end", "a bad end"]
    print("\n".join(columns([heads, *cells])))
    write(args.json, measured)


if __name__ == "__main__":
    sys.exit(main())
