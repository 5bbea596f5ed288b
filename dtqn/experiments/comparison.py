"""A comparison that is asked for, by a command line or from Python: its options, and what they amount to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dtqn.experiments import launchers, suites
from dtqn.settings.config import wrong
from dtqn.settings.record_files import SUFFIX
from dtqn.settings.values import nearest
from dtqn.training import objects

RECORDS = Path("docs/results/records")
"""The files of records that a checkout holds, one a suite, from its root."""


class Ended(NamedTuple):
    """What came of it."""

    code: int
    """The program's exit code, as `compare.compare` returns it."""
    folder: Path
    """That of the table and the curves."""


class Asked(NamedTuple):
    """The options of the command line by name, as it reads them."""

    settings: Mapping[str, str]
    """Of all runs."""
    launcher: launchers.Asked
    command: str
    """What was typed."""
    agents: str
    seeds: int
    first_seed: int
    baseline: str | None
    jobs: int | None
    suite: str | None
    tasks: str | None
    budget_share: float
    records: Path | None
    records_only: bool
    metrics: str | None
    search: list[str] | None
    config: Path | None
    runs_dir: Path
    out: Path | None

    def run(self) -> Ended:
        """Train what has not finished, and write the table.

        Raises:
            ConfigError: before anything is trained, where an option or a setting is wrong.
        """
        searched, *more = self.search or [None]
        if more:
            raise wrong("--search", more[0], "it is there twice; search one setting at a time")
        suite, file, given = self._suite(), self.config, self.settings
        self.launcher.check()
        from dtqn.experiments import compare, jobs, search  # only now, as they import torch

        metrics = compare.read_metrics(self.metrics) if self.metrics else []
        agents = compare.read_agents(self.agents)
        own_agents = [item for name, item in agents.items() if name != item]
        found = None
        if searched is not None:
            first = [self.first_seed]
            own = compare.plan(list(agents.values()), first, file, given, suite, here=False)
            found = search.read(searched, agents, given, suite)
            agents = found.items()
        if self.baseline is not None and self.baseline not in agents:
            why = f"it is none of --agents{nearest(self.baseline, agents)}"
            raise wrong("--baseline", self.baseline, why)
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        here = self.launcher.is_local and not self.records_only
        configs = compare.plan(list(agents.values()), seeds, file, given, suite, here)
        found = found and found.settled(own, configs)
        only_here = next(filter(objects.kept, configs), configs[0])
        launchers.check_here(only_here, self.launcher, self.jobs)
        told = {name: value for name, value in given.items() if name != "env"}
        told = told if file is None else {"config": str(file)} | told
        os.environ.setdefault("WANDB_JOB_TYPE", "compare")  # what the trainings tell W&B
        folder = self.out or compare.default_folder(configs, self.runs_dir, suite)
        at_a_time = self.jobs or (jobs.fitting(only_here) if self.launcher.is_local else None)
        with launchers.opened(self.launcher, self.runs_dir) as launcher:
            code = compare.compare(
                configs,
                at_a_time,
                self.runs_dir,
                folder,
                self.baseline,
                told,
                own_agents,
                suite=suite,
                records=self._records(suite),
                records_only=self.records_only,
                launcher=launcher,
                metrics=metrics,
                search=found,
                command=self.command,
            )
        return Ended(code, folder)

    def _records(self, suite: suites.Suite | None) -> Path | None:
        """The file of records; of a suite at its full budget, that of the checkout, if this is one."""
        if suite is not None and self.records is None and self.budget_share == 1 and RECORDS.is_dir():
            return RECORDS / f"{suite.name}{SUFFIX}"
        return self.records

    def _suite(self) -> suites.Suite | None:
        """The suite that is compared on, if any."""
        if self.suite is None:
            if self.budget_share != 1:
                why = "it scales the budgets of a suite; give --suite"
                raise wrong("--budget-share", self.budget_share, why)
            if self.tasks is not None:
                why = "it chooses among the tasks of a suite; without --suite give --env"
                raise wrong("--tasks", self.tasks, why)
            return None
        for setting in ("env", "total_env_steps"):
            if setting in self.settings:
                option = f"--{setting.replace('_', '-')}"
                raise wrong(option, self.settings[setting], "leave it out with --suite, which sets it")
        suite = suites.read(self.suite, self.budget_share)
        return suite if self.tasks is None else suite.only(self.tasks)
