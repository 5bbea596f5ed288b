"""Trained agents on other tasks, without more training: `compare --also`.

The last weights of each finished run play its own task and the others. `also.json` in the comparison's folder
keeps what came out, so that nothing is played twice and the table and the figure need no weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from dtqn.files import write_whole
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.task import on_task, out_of_reach, task_of
from dtqn.text import columns
from dtqn.training.directory import RunDir, config_hash

EPISODES, SEED = 500, 7
"""As of the command `eval`."""


class Played(NamedTuple):
    """A run's episodes on one task."""

    trained_on: str
    agent: str
    seed: int
    settings_hash: str
    """Of all settings, those above included."""
    env: str
    timesteps: int | None
    """Of the longest episode; None: there is no limit."""
    name: str
    """What is measured: success, or the return where the task defines none."""
    value: float
    episodes: int


_FILE = TypeAdapter(list[Played])


def read_tasks(names: Sequence[str]) -> list[str]:
    """Names of tasks; `t-maze-passive-{100,1000}` stands for two."""
    tasks = []
    for name in names:
        head, _, rest = name.partition("{")
        several, _, tail = rest.partition("}")
        tasks += [f"{head}{one}{tail}" for one in several.split(",")]
    return tasks


def check(configs: Sequence[Config], tasks: Sequence[str]) -> None:
    """Print what is out of an agent's reach; a ConfigError where a task has other spaces than a run's own."""
    for config in {(config.env, config.agent): config for config in configs}.values():
        for env in tasks:
            if warning := out_of_reach(config, on_task(config, {"env": env})):
                print(f"warning: {warning}", flush=True)


def measured(configs: Sequence[Config], runs_dir: Path, tasks: Sequence[str], file: Path) -> list[Played]:
    """What finished runs reach on their own task and the others, kept in a JSON file."""
    known = {(one.settings_hash, one.env): one for one in _read(file)}
    found = []
    for config in configs:
        directory, digest = RunDir.of_config(config, runs_dir), config_hash(config)
        name = f"{config.agent} seed {config.seed} trained on {config.env}"
        for env in dict.fromkeys([config.env, *tasks]):
            key = digest, env
            if key not in known and directory.read_result() is not None:
                print(f"{env}: {EPISODES} episodes of {name}", flush=True)
                known[key] = _play(config, digest, directory, env)
                write_whole(file, json.dumps([one._asdict() for one in known.values()], indent=1) + "\n")
            found += [known[key]] if key in known else []
    return found


def _play(config: Config, digest: str, directory: RunDir, env: str) -> Played:
    from dtqn.training import trained  # which needs torch, as hardly any comparison does

    task = task_of(on_task(config, {"env": env}))
    result = trained.evaluate_run(directory, EPISODES, SEED, "last", None, {"env": env})
    return Played(
        trained_on=config.env,
        agent=config.agent,
        seed=config.seed,
        settings_hash=digest,
        env=env,
        timesteps=task.horizon,
        name="success" if task.has_success else "return",
        value=result.score,
        episodes=result.episodes,
    )


def _read(file: Path) -> list[Played]:
    try:
        return _FILE.validate_json(file.read_bytes())
    except FileNotFoundError:
        return []
    except ValidationError:
        raise ConfigError(f"{file}: is damaged; put it back, or move it away to play again") from None


def lines(played: Sequence[Played]) -> list[str]:
    """A table: a line for each agent and task, over the seeds."""
    rows = [("trained on", "agent", "played on", "timesteps", "runs", "mean", "min to max")]
    for (trained_on, agent, env), of in grouped(played, "trained_on", "agent", "env").items():
        values, timesteps = [one.value for one in of], of[0].timesteps
        length = "no limit" if timesteps is None else str(timesteps)
        spread = f"{min(values):.3g} to {max(values):.3g}"
        mean = f"{of[0].name} {np.mean(values):.3g}"
        rows.append((trained_on, agent, env, length, str(len(of)), mean, spread))
    return columns(rows)


def grouped(played: Sequence[Played], *names: str) -> Mapping[tuple[Any, ...], list[Played]]:
    """Those with the same values of these fields, in order, by the values."""
    groups: dict[tuple[Any, ...], list[Played]] = {}
    for one in played:
        groups.setdefault(tuple(getattr(one, name) for name in names), []).append(one)
    return groups
