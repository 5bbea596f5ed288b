"""The result of uniformly random actions in a task, as a floor for the figures of agents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

import dtqn
from dtqn.acting.evaluation import EvaluationResult, evaluate_random
from dtqn.files import write_whole
from dtqn.settings.config import Config
from dtqn.training.directory import task_identity
from dtqn.training.setup import Stream, make_env, seed_of, task_spec

_ENTRY = TypeAdapter(tuple[dict[str, Any], EvaluationResult])


def measured(
    configs: Iterable[Config], file: Path, say: Callable[[str], None] = lambda _: None
) -> dict[str, EvaluationResult]:
    """The chance level of each task, kept in a JSON file so that no task is played twice.

    Args:
        configs: runs; of each task the first one says how it is evaluated, and on which seeds.
        say: gets a line before a task is played that may take long, as it is none of the suite's own.
    """
    known = _read(file)
    results, entries = {}, []
    for config in {config.env: config for config in reversed(list(configs))}.values():
        settings = _settings(config)
        entry = next((old for old in known if old["settings"] == settings), None)
        if entry is None:
            if not task_identity(config).is_native:
                say(f"{config.env}: {config.evaluation.episodes} episodes of random actions")
            played = play(config, config.evaluation.episodes)
            entry = {"settings": settings, "result": played._asdict()}
            known.append(entry)
            _write(file, known)  # the next task may take long
        results[config.env] = EvaluationResult(**entry["result"])
        entries.append(entry)
    if entries != known:
        _write(file, entries)
    return results


def play(config: Config, episodes: int) -> EvaluationResult:
    """So many episodes of random actions in the run's task, on the seeds of its first evaluation."""
    env = make_env(config, min(config.evaluation.num_envs, episodes), seed_of(config, Stream.EVALUATION, 0))
    return evaluate_random(env, episodes, task_spec(config).has_success, np.random.default_rng(config.seed))


def _settings(config: Config) -> dict[str, Any]:
    """All that the chance level depends on."""
    of_config = config.model_dump(
        mode="json", include={"env", "task", "evaluation", "seed"}, exclude={"evaluation": {"epsilon"}}
    )
    return of_config | {"task_digest": task_identity(config).digest, "dtqn": dtqn.__version__}


def _write(file: Path, entries: list[dict[str, Any]]) -> None:
    write_whole(file, json.dumps(entries, indent=2) + "\n")


def _read(file: Path) -> list[dict[str, Any]]:
    """The earlier measurements; empty where the file is not there or cannot be read."""
    try:
        entries: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        known = [entry for entry in entries if entry["result"].keys() == set(EvaluationResult._fields)]
        for entry in known:
            _ENTRY.validate_python((entry["settings"], entry["result"]))
        return known
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
