"""`compare` and `sweep`, which start many runs, and `records`, which sorts what they leave."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtqn.commands import argtypes, train
from dtqn.commands.parser import Parser, add_config, plain
from dtqn.program import program
from dtqn.settings.config import ConfigError, wrong
from dtqn.settings.record_files import SUFFIX
from dtqn.settings.values import nearest

if TYPE_CHECKING:
    from dtqn.experiments.launchers import Asked
    from dtqn.experiments.suites import Suite

_RECORDS = Path("docs/results/records")
"""The files of records that a checkout holds, one a suite, from its root."""
_MOST_SEEDS = 10_000
"""A seed given as a number of seeds would be planned for minutes."""
_SLURM = "--slurm."


def compare(arguments: Sequence[str]) -> int:
    """Compare agents on the same tasks and seeds."""
    command = f"{program()} compare {shlex.join(arguments)}"
    arguments, slurm = _split_slurm(arguments)
    given = _compare_parser(arguments).read()
    names = ("config", "agents", "seeds", "first_seed", "baseline", "jobs", "runs_dir", "out")
    file, text, seeds, first, baseline, jobs, runs_dir, out = (given.pop(name) for name in names)
    share, minutes, columns = (given.pop(name) for name in ("budget_share", "budget_minutes", "metrics"))
    searched, *more = given.pop("search") or [None]
    if more:
        raise wrong("--search", more[0], "it is there twice; search one setting at a time")
    suite, records = _suite(given, share), given.pop("records")
    if suite is not None and records is None and share == 1 and _RECORDS.is_dir():
        records = _RECORDS / f"{suite.name}{SUFFIX}"
    places = _launcher(given, slurm)
    if minutes is not None and jobs is None and not places.is_local:
        raise wrong("--budget-minutes", minutes, f"needs --jobs with --launcher {places.name}")
    from dtqn.experiments import compare, launchers
    from dtqn.experiments import jobs as workers
    from dtqn.experiments import search as searches

    metrics = compare.read_metrics(columns) if columns else []
    agents = compare.read_agents(text)
    own_agents = [item for name, item in agents.items() if name != item]
    here = places.is_here or minutes is not None  # estimates are made on this machine
    search = None
    if searched is not None:
        # Values are compared as they are given: a share of the suite's budgets scales some of them.
        whole = suite if suite is None else suite._replace(share=1.0)
        own = compare.plan(list(agents.values()), [first], file, given, whole, here=False)
        search = searches.read(searched, agents, given, suite)
        agents = search.items()
        items = list(agents.values())[: len(search.values)]  # of one agent: values mean the same to all
        search = search.settled(own, compare.plan(items, [first], file, given, whole, here=False))
    if baseline is not None and baseline not in agents:
        raise wrong("--baseline", baseline, f"it is none of --agents{nearest(baseline, agents)}")
    configs = compare.plan(list(agents.values()), range(first, first + seeds), file, given, suite, here)
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
            budget_minutes=minutes,
            launcher=launcher,
            metrics=metrics,
            search=search,
            command=command,
        )


def _compare_parser(arguments: Sequence[str]) -> Parser:
    parser = Parser(
        "compare",
        arguments,
        usage="--agents A,B,... [--option value ...]",
        description="Compare agents on the same tasks and seeds; what has been trained is not trained again.",
    )
    own = parser.add_argument_group("comparison")
    own.add_argument(
        "--agents",
        metavar="A,B",
        required=True,
        help="presets, YAML files of your own and variants such as long=gtrxl+network.memory_length=80, with "
        "commas between",
    )
    own.add_argument(
        "--seeds",
        type=argtypes.up_to(_MOST_SEEDS),
        default=5,
        metavar="N",
        help="how many seeds; default %(default)s",
    )
    own.add_argument(
        "--first-seed",
        type=argtypes.natural,
        default=1,
        metavar="S",
        help="the first seed; take seeds that no setting was chosen on; default %(default)s",
    )
    own.add_argument("--baseline", metavar="A", help="compare the others with this agent; default none")
    _add_jobs(own)
    own.add_argument(
        "--suite",
        metavar="NAME",
        help="the tasks, budgets and scores of a suite, or of a YAML file of your own",
    )
    own.add_argument(
        "--tasks",
        metavar="A,B",
        help="these tasks of the suite alone, such as 'bsuite-*,t-maze-passive-50'; default all",
    )
    own.add_argument(
        "--budget-share",
        type=argtypes.share,
        default=1.0,
        metavar="X",
        help="run this share of the suite's env steps, for a first look; default all",
    )
    own.add_argument(
        "--budget-minutes",
        type=argtypes.above_zero,
        metavar="M",
        help="estimate beforehand what every run will take, and train only those that fit into M minutes",
    )
    own.add_argument(
        "--records",
        metavar="FILE",
        type=argtypes.path,
        help=f"JSON Lines where finished runs are found and leave their records; default none, with --suite "
        f"and its full budget {_RECORDS}/SUITE{SUFFIX} if that folder is there",
    )
    own.add_argument(
        "--metrics",
        metavar="A,B",
        default="",
        help="metrics that get a column in the tables, such as replay/stale_action_share: the mean over the "
        "second half of a run; default none",
    )
    own.add_argument(
        "--search",
        metavar="SETTING=A,B",
        action="append",
        help="train every agent with each of these values of one setting, such as "
        "learner.learning_rate=0.0003,0.001,0.003, and write what suits each into search.md and chosen.yaml",
    )
    own.add_argument(
        "--runs-dir", metavar="DIR", type=argtypes.path, default=Path("runs"), help="default %(default)s"
    )
    own.add_argument(
        "--out",
        metavar="DIR",
        type=argtypes.path,
        help="folder of table and curves; default <runs-dir>/compare/<task or suite>-<hash>",
    )
    run = parser.add_argument_group("settings of all runs (--env: one task, or several with commas between)")
    add_config(run)
    parser.add_settings(lambda name: name not in ("agent", "seed"), run)
    return parser


def records(arguments: Sequence[str]) -> int:
    """Bring a file of records into order."""
    parser = Parser(
        "records",
        arguments,
        usage="FILE [MORE ...]",
        description="Sort a file of records, as after a merge, so that each record is there once.",
    )
    parser.add_argument("file", metavar="FILE", type=argtypes.path, help=f"its name ends in {SUFFIX}")
    parser.add_argument(
        "more",
        metavar="MORE",
        type=argtypes.path,
        nargs="*",
        help="files whose records it gets too, or folders with a file a record, as were kept before",
    )
    given = parser.read()
    file: Path = given["file"]
    if file.suffix != SUFFIX:
        raise wrong("FILE", file, f"its name must end in {SUFFIX}")
    from dtqn.experiments.records import put_in_order

    count, new = put_in_order(file, given["more"])
    print(f"{file}: {count} records in order, {new} of them new")
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
    arguments, slurm = _split_slurm(arguments)
    parser = Parser(
        "sweep",
        arguments,
        usage="FILE [--jobs N] [--option value ...]",
        description="Search settings as a W&B sweep file says; the same command goes on after a kill.",
    )
    own = parser.add_argument_group("sweep")
    own.add_argument(
        "file", metavar="FILE", type=argtypes.path, help="such as configs/sweeps/learning-rate.yaml"
    )
    _add_jobs(own)
    own.add_argument(
        "--run-cap", type=argtypes.positive, metavar="N", help="runs in all; default the file's run_cap"
    )
    own.add_argument(
        "--search-seed",
        type=argtypes.natural,
        default=0,
        metavar="N",
        help="seed of the choices; default %(default)s",
    )
    own.add_argument("--runs-dir", metavar="DIR", type=argtypes.path, help="default the file's, or runs")
    own.add_argument(
        "--out",
        metavar="DIR",
        type=argtypes.path,
        help="folder of results; default <runs-dir>/sweeps/<name>-<hash>",
    )
    run = parser.add_argument_group("settings of all runs")
    add_config(run)
    parser.add_settings(lambda _: True, run)
    given = parser.read()
    path = given.pop("file")
    own_options = {
        name: given.pop(name) for name in ("config", "runs_dir", "out", "run_cap", "jobs", "search_seed")
    }
    places = _launcher(given, slurm)
    from dtqn.experiments import sweep

    asked = sweep.Asked(given, places, **own_options)
    return sweep.command(path, asked, lambda flags: train.parser_of(flags).read())


def _add_jobs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--jobs",
        type=argtypes.positive,
        metavar="N",
        help="trainings at a time; default CPUs / threads, at most one a GPU; elsewhere the launcher's room",
    )
    group.add_argument(
        "--launcher",
        metavar="X",
        default="local",
        help="where trainings run: local, ray or slurm (docs/launchers.md); default %(default)s",
    )
    group.add_argument(
        "--ray-address", metavar="ADDR", help="join this Ray cluster; default: start a Ray on this machine"
    )
    group.add_argument(
        "--ray-gpus",
        type=argtypes.gpus,
        metavar="X",
        help="GPUs of a training; default 1 with --device cuda, else 0",
    )
    group.add_argument(
        f"{_SLURM}NAME", metavar="X", help="sbatch's option NAME of each training, such as --slurm.partition"
    )


def _split_slurm(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments without `--slurm.NAME X`, and these by name."""
    left, found = list[str](), dict[str, str]()
    words = iter(arguments)
    for word in words:
        if not word.startswith(_SLURM):
            left.append(word)
            continue
        name, equals, value = word.removeprefix(_SLURM).partition("=")
        if not equals:
            value = next(words, "")
        if not name or not value or (not equals and value.startswith("--")):
            raise ConfigError(f"{word} has no value; must be {_SLURM}NAME X")
        found[plain(name)] = value
    return left, found


def _launcher(given: dict[str, Any], slurm: dict[str, str]) -> Asked:
    """Where trainings are to run; its options are taken out of `given`."""
    from dtqn.experiments.launchers import Asked

    del given["slurm.NAME"]
    asked = Asked(given.pop("launcher"), given.pop("ray_address"), given.pop("ray_gpus"), slurm)
    asked.check()
    return asked
