"""Agents of ours beside sb3-contrib's recurrent PPO: env steps a second, and minutes until a task is solved.

    python -m benchmarks.recurrent_ppo --rival PYTHON [--env ID ...] [--agents A,B] [--seeds N] [--json FILE]

PYTHON is that of an environment with sb3-contrib. The rival has the package's own settings and `ENVS`
environments, ours have their defaults. Runs come one after the other, each on one core. A run ends at its
first evaluation whose 95 % interval lies at the task's bar or above, or with its env steps. Its minutes
include its evaluations.
"""

from __future__ import annotations

import importlib
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

ENVS, EPISODES, EVALUATIONS = 16, 112, 40
"""Environments of the rival; episodes of each of its evaluations; how many these are at most."""


class Bar(NamedTuple):
    """When a task counts as solved."""

    of: Literal["success", "return"]
    at: float
    env_steps: int
    """Those of a run at most; the rival's go on to the end of a rollout."""


BARS = {
    "t-maze-passive-50": Bar("success", 0.9, 306_000),
    "popgym-repeat-previous-easy": Bar("return", 0.9, 400_000),
}


def serve(env: str, seed: int) -> None:
    """The rival's process: rows of its evaluations, a line each, as those of a run's metrics."""
    ppo: Any = importlib.import_module("sb3_contrib")
    make_vec_env: Any = importlib.import_module("stable_baselines3.common.env_util").make_vec_env
    importlib.import_module("envs")  # registers the tasks with Gymnasium
    bar, began = BARS[env], time.monotonic()
    model = ppo.RecurrentPPO("MlpLstmPolicy", make_vec_env(env, ENVS, seed), seed=seed)
    for number in range(1, EVALUATIONS + 1):
        model.learn(bar.env_steps // EVALUATIONS, reset_num_timesteps=False)
        row = evaluated(model, make_vec_env(env, ENVS, seed + 1000 * number))
        row |= {"env_steps": model.num_timesteps, "seconds": time.monotonic() - began, "eval/stage": 2}
        print(json.dumps(row), flush=True)


def evaluated(model: Any, vector: Any) -> dict[str, float | None]:
    """Greedy episodes, as many of each environment, the first ones."""
    import numpy as np

    count = EPISODES // ENVS
    returns: list[list[float]] = [[0.0] for _ in range(ENVS)]
    successes: list[list[Any]] = [[] for _ in range(ENVS)]
    observation, state, begins = vector.reset(), None, np.ones(ENVS, bool)
    while min(map(len, returns)) <= count:
        action, state = model.predict(observation, state, begins, deterministic=True)
        observation, reward, begins, infos = vector.step(action)
        for env_id, info in enumerate(infos):
            returns[env_id][-1] += float(reward[env_id])
            if begins[env_id]:
                returns[env_id].append(0.0)
                successes[env_id].append(info.get("is_success"))
    vector.close()
    played = [x for of_env in returns for x in of_env[:count]]
    told = [x for of_env in successes for x in of_env[:count]]
    return {
        "eval/episodes": len(played),
        "eval/return": statistics.fmean(played),
        "eval/return_error": statistics.stdev(played) / math.sqrt(len(played)),
        "eval/success": None if None in told else statistics.fmean(told),
    }


def rival(python: Path, env: str, seed: int) -> list[dict[str, Any]]:
    """The rows of a run of the rival, which is ended as soon as one shows the bar."""
    words = [str(python), "-P", __file__, "--serve", env, str(seed)]
    root = Path(__file__).resolve().parents[1]
    rows = []
    environment = {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            rows.append(json.loads(line))
            if is_solved(env, rows[-1]):
                process.kill()
    if process.returncode > 0:
        sys.exit(f"error: {python} has ended with exit code {process.returncode}")
    return rows


def own(agent: str, env: str, seed: int) -> list[dict[str, Any]]:
    """The evaluations of a run of ours."""
    from benchmarks.options import run_alone  # only here, as the rival's environment has nothing of ours

    bar = BARS[env]
    settings = {"env": env, "agent": agent, "seed": seed, "total_env_steps": bar.env_steps}
    with run_alone(settings | {f"stop_at_{bar.of}": bar.at}) as run:
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row.get("eval/return") is not None]


def is_solved(env: str, row: dict[str, Any]) -> bool:
    """By the rule of `compare`."""
    from dtqn.experiments.scores import Score, shows

    bar = BARS[env]
    return shows(row, Score(of=bar.of, random=0.0, optimal=1.0, solved_above=bar.at))


def figures(env: str, agent: str, runs: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """One line of the table."""
    last = [rows[-1] for rows in runs]
    solved = [row for row in last if is_solved(env, row)]
    return {
        "env": env,
        "agent": agent,
        "solved": len(solved),
        "runs": len(runs),
        "env_steps_per_second": statistics.median(row["env_steps"] / row["seconds"] for row in last),
        "minutes_to_solved": [row["seconds"] / 60 for row in solved],
        "env_steps_to_solved": [row["env_steps"] for row in solved],
        "most_env_steps": BARS[env].env_steps,
        "rows": runs,
    }


RIVAL = "recurrent PPO"


def main() -> None:
    from benchmarks.options import parser_of, write
    from dtqn.training import machine

    parser = parser_of(__doc__)
    parser.add_argument("--rival", type=Path, required=True, help="the Python of the rival's environment")
    parser.add_argument("--env", nargs="+", choices=BARS, default=list(BARS))
    parser.add_argument("--agents", default="gtrxl,lstm", help="ours, with commas between them")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    agents = given.agents.split(",")
    versions = "import importlib.metadata as m; print(m.version('sb3-contrib'), m.version('torch'))"
    found = subprocess.run([given.rival, "-c", versions], check=True, capture_output=True, text=True)
    package, torch = found.stdout.split()
    result: dict[str, Any] = {"machine": machine.name(), "sb3-contrib": package, "torch": torch, "table": []}
    for env in given.env:
        runs: dict[str, list[list[dict[str, Any]]]] = {agent: [] for agent in (*agents, RIVAL)}
        for seed in range(1, given.seeds + 1):
            for agent, rows in runs.items():
                rows.append(rival(given.rival, env, seed) if agent == RIVAL else own(agent, env, seed))
                told = rows[-1][-1]
                print(
                    env,
                    agent,
                    seed,
                    f"{told['env_steps']} env steps, {told['seconds'] / 60:.1f} min",
                    flush=True,
                )
        result["table"] += [figures(env, agent, rows) for agent, rows in runs.items()]
        write(given.json, result)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        main()
