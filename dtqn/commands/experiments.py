"""`compare` and `sweep`, which start many runs, and `records`, which sorts what they leave."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, add_config, option
from dtqn.program import program
from dtqn.settings.config import wrong
from dtqn.settings.record_files import SUFFIX
from dtqn.settings.values import nearest

if TYPE_CHECKING:
    from dtqn.experiments.launchers import Asked
    from dtqn.experiments.suites import Suite

_RECORDS = Path("docs/results/records")
"""The files of records that a checkout holds, one a suite, from its root."""
_SLURM = "slurm."
_AGENTS = """presets, YAML files of your own and variants such as long=gtrxl+network.core.memory_length=80,
with commas between"""
_RECORDS_HELP = f"""JSON Lines where finished runs are found and leave their records; default none, with
--suite and its full budget {_RECORDS}/SUITE{SUFFIX} if that folder is there"""
_METRICS = """metrics that get a column in the tables, such as replay/stale_action_share: the mean over the
second half of a run; default none"""
_SEARCH = """train every agent with each of these values of one setting, such as
learner.learning_rate=0.0003,0.001,0.003, and write what suits each into search.md and chosen.yaml"""


def compare(arguments: Sequence[str]) -> int:
    """Compare agents on the same tasks and seeds."""
    command = f"{program()} compare {shlex.join(arguments)}"
    given = _compare_parser(arguments).read()
    names = ("config", "agents", "seeds", "first_seed", "baseline", "jobs", "runs_dir", "out")
    file, text, seeds, first, baseline, jobs, runs_dir, out = (given.pop(name) for name in names)
    share, records_only, columns = (given.pop(name) for name in ("budget_share", "records_only", "metrics"))
    searched, *more = given.pop("search") or [None]
    if more:
        raise wrong("--search", more[0], "it is there twice; search one setting at a time")
    suite, records = _suite(given, share), given.pop("records")
    if suite is not None and records is None and share == 1 and _RECORDS.is_dir():
        records = _RECORDS / f"{suite.name}{SUFFIX}"
    places = _launcher(given)
    from dtqn.experiments import compare, launchers
    from dtqn.experiments import jobs as workers
    from dtqn.experiments import search as searches

    metrics = compare.read_metrics(columns) if columns else []
    agents = compare.read_agents(text)
    own_agents = [item for name, item in agents.items() if name != item]
    here = places.is_local and not records_only
    search = None
    if searched is not None:
        own = compare.plan(list(agents.values()), [first], file, given, suite, here=False)
        search = searches.read(searched, agents, given, suite)
        agents = search.items()
    if baseline is not None and baseline not in agents:
        raise wrong("--baseline", baseline, f"it is none of --agents{nearest(baseline, agents)}")
    configs = compare.plan(list(agents.values()), range(first, first + seeds), file, given, suite, here)
    search = search if search is None else search.settled(own, configs)
    told = {name: value for name, value in given.items() if name != "env"}
    if file is not None:
        told = {"config": str(file)} | told
    os.environ.setdefault("WANDB_JOB_TYPE", "compare")  # what the trainings tell W&B
    out = out or compare.default_folder(configs, runs_dir, suite)
    if jobs is None and places.is_local:
        jobs = workers.fitting(configs[0])
    with launchers.opened(places, runs_dir) as launcher:
        return compare.compare(
            configs,
            jobs,
            runs_dir,
            out,
            baseline,
            told,
            own_agents,
            suite=suite,
            records=records,
            records_only=records_only,
            launcher=launcher,
            metrics=metrics,
            search=search,
            command=command,
        )


def _compare_parser(arguments: Sequence[str]) -> Parser:
    description = "Compare agents on the same tasks and seeds; what has been trained is not trained again."
    parser = Parser("compare", arguments, "--agents A,B,...", description)
    own = parser.add_argument_group("comparison")
    option(own, "--agents A,B", _AGENTS, required=True)
    option(own, "--seeds N", "how many seeds", argtypes.num_seeds, 5)
    first = "the first seed; take seeds that no setting was chosen on"
    option(own, "--first-seed S", first, argtypes.natural, 1)
    option(own, "--baseline A", "compare the others with this agent; default none")
    _add_jobs(own)
    option(own, "--suite NAME", "the tasks, budgets and scores of a suite, or of a YAML file of your own")
    tasks = "these tasks of the suite alone, such as 'bsuite-*,t-maze-passive-50'; default all"
    option(own, "--tasks A,B", tasks)
    share = "run this share of the suite's env steps, for a first look"
    option(own, "--budget-share X", share, argtypes.share, 1.0)
    option(own, "--records-only", "train nothing: a table of the runs that have finished, in seconds")
    option(own, "--records FILE", _RECORDS_HELP, argtypes.path)
    option(own, "--metrics A,B", _METRICS)
    option(own, "--search SETTING=A,B", _SEARCH, action="append")
    option(own, "--runs-dir DIR", "", argtypes.path, Path("runs"))
    out = "folder of table and curves; default <runs-dir>/compare/<task or suite>-<hash>"
    option(own, "--out DIR", out, argtypes.path)
    run = parser.add_argument_group("settings of all runs (--env: one task, or several with commas between)")
    add_config(run)
    parser.add_settings(lambda name: name not in ("agent", "seed"), run)
    return parser


def records(arguments: Sequence[str]) -> int:
    """Bring a file of records into order."""
    description = "Sort a file of records, as after a merge, so that each record is there once."
    parser = Parser("records", arguments, "FILE", description)
    option(parser, "file FILE", f"its name ends in {SUFFIX}", argtypes.path)
    given = parser.read()
    file: Path = given["file"]
    if file.suffix != SUFFIX:
        raise wrong("FILE", file, f"its name must end in {SUFFIX}")
    from dtqn.experiments.records import put_in_order

    print(f"{file}: {put_in_order(file)} records in order")
    return 0


def _suite(given: dict[str, Any], share: float) -> Suite | None:
    """The suite that is compared on, if any; its options are taken out of `given`.

    Args:
        share: of the suite's budgets.
    """
    name, tasks = given.pop("suite"), given.pop("tasks")
    if name is None:
        if share != 1:
            raise wrong("--budget-share", share, "it scales the budgets of a suite; give --suite")
        if tasks is not None:
            raise wrong("--tasks", tasks, "it chooses among the tasks of a suite; without --suite give --env")
        return None
    for setting in ("env", "total_env_steps"):
        if setting in given:
            option = f"--{setting.replace('_', '-')}"
            raise wrong(option, given[setting], "leave it out with --suite, which sets it")
    from dtqn.experiments import suites

    suite = suites.read(name, share)
    return suite if tasks is None else suite.only(tasks)


def sweep(arguments: Sequence[str]) -> int:
    """Search settings as a file says."""
    description = "Search settings as a W&B sweep file says; the same command goes on after a kill."
    parser = Parser("sweep", arguments, "FILE [--jobs N]", description)
    own = parser.add_argument_group("sweep")
    option(own, "file FILE", "such as configs/sweeps/learning-rate.yaml", argtypes.path)
    _add_jobs(own)
    option(own, "--run-cap N", "runs in all; default the file's run_cap", argtypes.positive)
    option(own, "--search-seed N", "seed of the choices", argtypes.natural, 0)
    option(own, "--runs-dir DIR", "", argtypes.path, Path("runs"))
    option(own, "--out DIR", "folder of results; default <runs-dir>/sweeps/<name>-<hash>", argtypes.path)
    run = parser.add_argument_group("settings of all runs")
    add_config(run)
    parser.add_settings(lambda _: True, run)
    given = parser.read()
    path = given.pop("file")
    own_options = {
        name: given.pop(name) for name in ("config", "runs_dir", "out", "run_cap", "jobs", "search_seed")
    }
    places = _launcher(given)
    from dtqn.experiments import sweep

    return sweep.command(path, sweep.Asked(given, places, **own_options))


def _add_jobs(group: argparse._ArgumentGroup) -> None:
    jobs = """trainings at a time; default CPUs / threads, at most one a GPU; elsewhere the launcher's room"""
    option(group, "--jobs N", jobs, argtypes.positive)
    launcher = "where trainings run: local, ray or slurm (docs/launchers.md)"
    option(group, "--launcher X", launcher, default="local")
    option(group, "--ray-address ADDR", "the Ray cluster of --launcher ray: HOST:PORT or auto")
    gpus = "GPUs of a training; default 1 with --device cuda, else 0"
    option(group, "--ray-gpus X", gpus, argtypes.gpus)
    slurm = "sbatch's option NAME of each training, such as --slurm.partition"
    option(group, f"--{_SLURM}NAME X", slurm)


def _launcher(given: dict[str, Any]) -> Asked:
    """Where trainings are to run; its options are taken out of `given`."""
    from dtqn.experiments.launchers import Asked

    names = [name for name in given if name.startswith(_SLURM)]
    slurm = {name.removeprefix(_SLURM): given.pop(name) for name in names}
    del slurm["NAME"]
    asked = Asked(given.pop("launcher"), given.pop("ray_address"), given.pop("ray_gpus"), slurm)
    asked.check()
    return asked
