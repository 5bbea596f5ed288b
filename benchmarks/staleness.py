"""How often stored memory changes the greedy action, over a training run, against whole episodes.

    python -m benchmarks.staleness [--env TASK] [--agents gtrxl drqn ...] [--seed 1] [--every 25000]
        [--sequences 2000] [--json FILE] [--setting value ...]

Each agent is trained once. Every so many env steps, sequences are drawn as training draws them. Those that
start from stored memory are run twice with the present parameters: from that memory, as the learner runs
them, and from their episode's first row. Three kinds of rows are compared: the learned ones by the online
network, those of the n-step tail by the online network, and all of them by the target network, which starts
from the online network's memory. `stale_action_share` is the share of rows with another greedy action, near
ties left out, and `stale_action_loss` the mean of what the greedy policy loses by it in scaled returns.
`never_refreshed` is the share of all rows in replay whose memory is still that of the actor.

`before_solved` pools the measurements before the first full evaluation with 95 % success, and `last_half`
those of the second half of the run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.options import one_line_errors, parser_of, settings_of, write
from dtqn.commands import argtypes
from dtqn.learning.batches import take
from dtqn.learning.discrepancy import discrepancy
from dtqn.settings.presets import resolve
from dtqn.settings.task import task_of
from dtqn.training import machine
from dtqn.training.metrics import is_full_evaluation
from dtqn.training.schema import MEMORIES, NAMES
from dtqn.training.staleness import CHUNK_ROWS, whole_episodes
from dtqn.training.trainer import Trainer
from dtqn.types import first_rows

SOLVED, CHUNK = 0.95, 40
KINDS = ("learned", "tail", "target")

Counts = dict[str, dict[str, float]]
"""Kind of rows -> sums over them."""


def measure(trainer: Trainer, sequences: int, generator: np.random.Generator) -> dict[str, Any]:
    """So many sequences, drawn as for an update: how they start, and sums over the rows of each kind."""
    learner, schema, replay = trainer.learner, trainer.schema, trainer.replay
    counts: Counts = {kind: {"clear": 0, "differ": 0, "rows": 0, "lost": 0.0} for kind in KINDS}
    drawn = {"sequences": 0, "from_memory": 0, "of_overwritten_episodes": 0}
    while drawn["sequences"] < sequences:
        sampled, info = replay.sample(min(CHUNK, sequences - drawn["sequences"]), generator)
        batch = learner.reading.learned(schema.sequences(sampled, info.importance_weights))
        available = torch.from_numpy(replay.prefix(info.ids, ()).available)
        from_memory = batch.episode_step > 0
        drawn["sequences"] += len(available)
        drawn["from_memory"] += int(from_memory.sum())
        drawn["of_overwritten_episodes"] += int((from_memory & ~available).sum())
        members = (from_memory & available).nonzero()[:, 0]
        if not len(members):
            continue
        ids, part = info.ids[members.numpy()], take(batch, members)
        real, learned = (
            first_rows(count, part.learn.first.shape[1]) for count in (part.learn_rows, part.learned_steps)
        )
        for network, parts in (
            (learner.online, {"learned": learned, "tail": real & ~learned}),
            (learner.target, {"target": real}),
        ):
            found = discrepancy(network, part, whole_episodes(replay, schema, ids), CHUNK_ROWS)
            for kind, rows in parts.items():
                differs, lost = found.greedy_actions(rows)
                counts[kind]["clear"] += len(differs)
                counts[kind]["differ"] += int(differs.sum())
                counts[kind]["rows"] += len(lost)
                counts[kind]["lost"] += float(lost.sum())
    return {"never_refreshed": never_refreshed(trainer), **drawn, **counts}


def never_refreshed(trainer: Trainer) -> float:
    """The share of stored rows whose memory no update has made anew."""
    rows, made = trainer.replay.get_state()["rows"], MEMORIES[trainer.config.replay.memory].version
    return float((rows[made] == rows[NAMES.version]).mean())


def pooled(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares and means over all measurements."""
    result: dict[str, Any] = {"measurements": len(points)}
    for kind in KINDS:
        clear, differ, rows, lost = (
            sum(point[kind][name] for point in points) for name in ("clear", "differ", "rows", "lost")
        )
        result[kind] = {
            "stale_action_share": differ / clear if clear else None,
            "stale_action_loss": lost / rows if rows else None,
        }
    sequences = sum(point["sequences"] for point in points)
    for name in ("from_memory", "of_overwritten_episodes"):
        result[name] = sum(point[name] for point in points) / max(1, sequences)
    result["never_refreshed"] = sum(point["never_refreshed"] for point in points) / max(1, len(points))
    return result


def run(agent: str, flags: dict[str, str], every: int, sequences: int) -> dict[str, Any]:
    """Train one agent and measure."""
    config = resolve(None, {"agent": agent, "wandb": "disabled", **flags}, {})
    task_of(config)  # one line for a wrong one
    machine.prepare()
    trainer, generator = Trainer(config), np.random.default_rng(0)
    points: list[dict[str, Any]] = []
    solved = math.inf
    while not trainer.finished:
        before = trainer.env_steps
        trainer.advance()
        over = trainer.evaluator.evaluated()
        if over and is_full_evaluation(over.metrics) and (over.metrics["eval/success"] or 0) >= SOLVED:
            solved = min(solved, over.env_steps)
        if before // every < trainer.env_steps // every and trainer.learner_steps:
            points.append(
                {
                    "env_steps": trainer.env_steps,
                    "learner_steps": trainer.learner_steps,
                    **measure(trainer, sequences, generator),
                }
            )
            print(agent, trainer.env_steps, _line(pooled(points[-1:])), flush=True)
    half = [p for p in points if p["learner_steps"] > trainer.learner_steps / 2]
    return {
        "solved_at_env_steps": None if solved == math.inf else solved,
        "learner_steps": trainer.learner_steps,
        "before_solved": pooled([p for p in points if p["env_steps"] < solved]),
        "last_half": pooled(half),
        "points": points,
    }


def _line(result: dict[str, Any]) -> str:
    def percent(kind: str) -> str:
        share, lost = (result[kind][f"stale_action_{name}"] for name in ("share", "loss"))
        return f"{kind} -" if share is None else f"{kind} {100 * share:.1f} %, {lost:.4f}"

    begins, never = (f"{100 * result[name]:.0f} %" for name in ("from_memory", "never_refreshed"))
    return f"{begins} from memory, {never} of rows never refreshed: " + "; ".join(map(percent, KINDS))


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--env", default="gridverse-memory-7x7")
    parser.add_argument("--agents", nargs="+", default=["gtrxl", "mingru", "lstm", "drqn"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--every", type=argtypes.positive, default=25_000, help="env steps between measurements"
    )
    parser.add_argument("--sequences", type=argtypes.positive, default=2_000)
    args, rest = parser.parse_known_args(arguments)
    flags = settings_of(rest)
    result: dict[str, Any] = {"env": args.env, "seed": args.seed, "settings": flags, "agents": {}}
    for agent in args.agents:
        flags_of_run = {"env": args.env, "seed": str(args.seed), **flags}
        found = result["agents"][agent] = run(agent, flags_of_run, args.every, args.sequences)
        for part in ("before_solved", "last_half"):
            print(f"{agent:12} {part:14} {_line(found[part])}", flush=True)
        write(args.json, result)


if __name__ == "__main__":
    sys.exit(main())
