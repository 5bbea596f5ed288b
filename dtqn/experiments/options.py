"""The options of `compare` and `sweep` apart from settings, typed or passed in Python."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError

from dtqn.settings.config import flag, wrong
from dtqn.settings.group import Group
from dtqn.settings.values import legal


def _is_named(path: Any) -> Any:
    if path == "":  # of an unset variable of the shell; Path would take it for the present folder
        raise ValueError("the name is empty")
    return path


_Path = Annotated[Path, BeforeValidator(_is_named)]


class Options(Group):
    """The options of both; the text below each is its help on the command line."""

    config: _Path | None = None
    """YAML file of settings, which override the presets"""
    jobs: int | None = Field(None, ge=1)
    """runs at a time; none: CPU cores divided by a run's threads and workers, at most one per GPU"""
    runs_dir: _Path = Path("runs")
    """folder for all runs"""
    out: _Path | None = None
    """folder for results; none: one in <runs-dir> for these settings"""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Takes the options out of options and settings by name; a ConfigError for one that is wrong."""
        own = {name: given.pop(name) for name in cls.model_fields if name in given}
        try:
            return cls.model_validate(own)
        except ValidationError as error:
            name, value = str(error.errors()[0]["loc"][0]), error.errors()[0]["input"]
            right = "a path" if value == "" else legal(cls.model_fields[name])
            raise wrong(flag(name), value, f"must be {right}") from None


class Comparison(Options):
    """The options of `compare`."""

    agents: str
    """agents, separated by commas: presets, YAML files of your own, or variants such as
    long=gtrxl+network.core.memory_length=80"""
    seeds: int = Field(5, ge=1, le=10_000)  # a seed given as a number of seeds would be planned for minutes
    """number of seeds per agent and task"""
    first_seed: int = Field(1, ge=0)
    """the first seed; use seeds on which no setting was tuned"""
    baseline: str | None = None
    """agent to compare the others with"""
    suite: str | None = None
    """a suite, or a YAML file of your own, with tasks, budgets and scores"""
    tasks: str | None = None
    """only these tasks of the suite, such as 'bsuite-*,t-maze-passive-50'; none: all"""
    budget_share: float = Field(1.0, gt=0, le=1)
    """share of the suite's env steps to run, for a first look"""
    records_only: bool = False
    """train nothing, only tabulate the runs that have finished"""
    records: _Path | None = None
    """JSON Lines file of finished runs' records, read and added to; none: no file, except that --suite
    at its full budget uses docs/results/records/SUITE.jsonl if that folder exists"""
    metrics: str | None = None
    """metrics to add as columns, separated by commas, such as replay/stale_action_share; the table shows
    the mean over the second half of each run"""
    also: str | None = None
    """other tasks with the same spaces, such as "t-maze-passive-{100,1000}", on which the trained agents are
    then evaluated; writes also.png"""
    search: str | list[str] | None = None  # a list where it is typed, of one
    """train every agent with each of these values of one setting, such as
    learner.learning_rate=0.0003,0.001,0.003; write each agent's best value to search.md and chosen.yaml"""


class Sweep(Options):
    """The options of `sweep`."""

    run_cap: int | None = Field(None, ge=1)
    """largest number of runs in the sweep; none: the file's run_cap"""
    search_seed: int = Field(0, ge=0)
    """seed of the search's random choices"""


@contextlib.contextmanager
def told_to_wandb(**variables: str) -> Iterator[None]:
    """A block whose runs tell W&B these, but for what the user's environment has already."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
