"""The subject of a report: runs that are named, or those of a comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.experiments import comparison_forms, comparison_notes, comparison_table
from dtqn.experiments.compare import scores_of
from dtqn.experiments.comparison_forms import Table
from dtqn.experiments.records import Outcome, Record, of_record
from dtqn.settings.config import Config, ConfigError, fields_of
from dtqn.settings.layers import Layer, build, setting_in
from dtqn.settings.record_files import find, names_records, settings_of
from dtqn.settings.task import task_of
from dtqn.text import number, one_line
from dtqn.training import chance
from dtqn.training.directory import RunDir, deciding_settings
from dtqn.training.metrics import read_run

_TABLE = "table.json"


class Run(NamedTuple):
    """A run of the report."""

    label: str
    """Its name among the others."""
    outcome: Outcome
    directory: RunDir | None
    """None where only its record is left, so that no episode of it can be played."""

    @property
    def config(self) -> Config:
        return self.outcome.config


class Sources(NamedTuple):
    runs: list[Run]
    table: Table
    """The comparison's own, or one of the runs that are named."""
    notes: list[str]
    """Remarks to be told with it."""
    home: Path
    """The folder where the page goes by default."""


def read(paths: Sequence[Path]) -> Sources:
    """The runs in these directories, or of the one comparison.

    Raises:
        ConfigError: where a path holds neither, or a run has not been evaluated yet.
    """
    if any((path / _TABLE).is_file() for path in paths):
        if len(paths) > 1:
            raise ConfigError(
                f"{_comparison_of(paths)}: holds a comparison; give it alone, or runs without it"
            )
        return _comparison(paths[0])
    given = [path.resolve() for path in paths]
    if twice := [path for path, real in zip(paths, given, strict=True) if given.count(real) > 1]:
        raise ConfigError(f"{twice[0]}: is given twice; give each run once")
    runs = _labelled([_of_directory(path) for path in paths])
    parents = {path.parent for path in given}
    home = paths[0] if len(paths) == 1 else _common(sorted(parents))
    return Sources(runs, _table(runs), [], home)


def _comparison_of(paths: Sequence[Path]) -> Path:
    return next(path for path in paths if (path / _TABLE).is_file())


def _common(folders: Sequence[Path]) -> Path:
    """The deepest folder that all of these are in."""
    first = folders[0]
    return next(
        folder for folder in (first, *first.parents) if all(other.is_relative_to(folder) for other in folders)
    )


def _of_directory(path: Path) -> tuple[Outcome, RunDir]:
    directory = RunDir(path)
    if not directory.config_file.exists():
        raise ConfigError(
            f"{path}: holds no run (there is no config.yaml) and no comparison (there is no {_TABLE})"
        )
    if directory.is_exported:
        raise ConfigError(
            f"{path}: is an exported agent, whose README.md has its figures; give the run that it was made of"
        )
    config = directory.read_config()
    task_of(config)
    rows, result = read_run(directory)
    if not any(row.get("eval/return") is not None for row in rows):
        raise ConfigError(
            f"{path}: has not been evaluated yet, so there is nothing to report; "
            f"the first evaluation comes after {number(config.evaluation.period)} env steps"
        )
    state = "finished" if result is not None else "unfinished"
    why = "" if result is not None else "it has not finished"
    return Outcome(config, state, rows, result, str(path), why), directory


def _comparison(folder: Path) -> Sources:
    """The comparison as its own files have it, with those of its runs that have finished and can be found."""
    file = folder / _TABLE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        table = comparison_forms.from_json(content)
        told = [
            (str(run["run_dir"]), run["error"], (run["env_steps"], run["return"])) for run in content["runs"]
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file}: is no table of a comparison ({one_line(error, 80)})") from None
    found, notes = [], []
    for where, failure, figures in told:
        if failure:
            continue  # the table's own notes tell
        outcome = _found(where, folder)
        if outcome is None:
            notes.append(
                f"{where}: is not there any more, damaged, or being made again, so it is in the table only."
            )
        elif (end := _end(outcome[0])) != figures:
            notes.append(
                f"{where}: ends with {_told(*end)}, in the table with {_told(*figures)}; has gone on or is "
                "another run, so it is in the table only."
            )
        else:
            found.append(outcome)
    if not found:
        raise ConfigError(f"{folder}: none of the runs of its {_TABLE} has finished and can be found")
    return Sources(_labelled(found), table, notes, folder)


def _end(outcome: Outcome) -> tuple[Any, Any]:
    """Env steps and return of the last evaluation, as the table of a comparison has them."""
    last = [row for row in outcome.rows if row.get("eval/return") is not None][-1]
    return int(last["env_steps"] or 0), last["eval/return"]


def _told(env_steps: int, episode_return: float) -> str:
    return f"a return of {episode_return:.3g} after {number(env_steps)} env steps"


def _found(where: str, folder: Path) -> tuple[Outcome, RunDir | None] | None:
    """A run by its directory or the name of its record, seen from where the comparison was made.

    That is a folder which the comparison is in, by default, and else the present one.
    """
    for base in (*folder.resolve().parents, Path()):
        path = base / where
        if names_records(path):
            try:
                content = find(str(path))
                record, settings = Record.model_validate(content), settings_of(content, where)
            except ValueError:
                continue
            config = build([Layer(None, settings)])
            task_of(config)
            return _at_hand(config, folder) or (of_record(config, record, where), None)
        if (path / "config.yaml").is_file():
            return _of_directory(path) if RunDir(path).has_result else None
    return None


def _at_hand(config: Config, folder: Path) -> tuple[Outcome, RunDir] | None:
    """The run of a record in a folder of runs that the comparison is in, or in the usual one."""
    for runs_dir in (*folder.resolve().parents, Path("runs")):
        directory = RunDir.of_config(config, runs_dir)
        if directory.config_file.exists() and directory.read_result() is not None:
            return _of_directory(directory.path)
    return None


def _labelled(found: Sequence[tuple[Outcome, RunDir | None]]) -> list[Run]:
    """The runs with the shortest names that tell them apart."""

    def differs(name: str) -> bool:
        return len({getattr(outcome.config, name) for outcome, _ in found}) > 1

    parts = [name for name in ("env", "agent") if differs(name)]
    labels = [
        " ".join([*(getattr(outcome.config, name) for name in parts), f"seed {outcome.config.seed}"])
        for outcome, _ in found
    ]
    counts = Counter(labels)
    labels = [
        label if counts[label] == 1 else f"{label} ({outcome.where})"
        for label, (outcome, _) in zip(labels, found, strict=True)
    ]
    return [Run(label, *each) for label, each in zip(labels, found, strict=True)]


def _mixed(configs: Sequence[Config]) -> list[str]:
    """A line for each agent in a task whose runs, one row and one curve, differ in more than their seeds."""
    notes = []
    for env, agent in dict.fromkeys((config.env, config.agent) for config in configs):
        alike = [config for config in configs if (config.env, config.agent) == (env, agent)]
        deciding = [deciding_settings(config) for config in alike]
        names = [
            name
            for name in fields_of()
            if name != "seed" and len({repr(setting_in(settings, name)) for settings in deciding}) > 1
        ]
        if names:
            notes.append(
                f"Runs of {agent} on {env} DIFFER in {', '.join(names)}: their mean is of no one agent."
            )
        elif len({config.seed for config in alike}) < len(alike):
            notes.append(f"Runs of {agent} on {env} have the SAME SEED: they are one run, made again.")
    return notes


def _table(runs: Sequence[Run]) -> Table:
    """That of a comparison of the runs' agents."""
    outcomes = [run.outcome for run in runs]
    configs = [outcome.config for outcome in outcomes]
    scores = scores_of(configs, None)
    floors = {
        config.env: chance.play(config, config.evaluation.episodes)
        for config in {config.env: config for config in reversed(configs)}.values()
    }
    figures = [comparison_table.run_figures(outcome, scores[outcome.config.env]) for outcome in outcomes]
    lines = comparison_table.agent_figures(figures, None, floors, scores)
    notes = [
        *_mixed(configs),
        comparison_notes.policies(configs),
        "Success and return are of the last evaluation, the mean over finished runs; random: "
        "uniform actions, one evaluation's episodes.",
        comparison_notes.TO_90,
    ]
    return Table(lines, None, {}, notes)
