"""`compare` and `sweep`, which start many runs, and `records`, which sorts what they leave."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, add_config, option
from dtqn.experiments.suites import RECORDS
from dtqn.program import program
from dtqn.settings.config import wrong
from dtqn.settings.record_files import SUFFIX

if TYPE_CHECKING:
    from dtqn.experiments.sweep_results import Line

_AGENTS = """presets, YAML files of your own and variants such as long=gtrxl+network.core.memory_length=80,
with commas between"""
_RECORDS_HELP = f"""JSON Lines where finished runs are found and leave their records; default none, with
--suite and its full budget {RECORDS}/SUITE{SUFFIX} if that folder is there"""
_METRICS = """metrics that get a column in the tables, such as replay/stale_action_share: the mean over the
second half of a run; default none"""
_SEARCH = """train every agent with each of these values of one setting, such as
learner.learning_rate=0.0003,0.001,0.003, and write what suits each into search.md and chosen.yaml"""


def compare(arguments: Sequence[str]) -> int:
    """Compare agents on the same tasks and seeds; what has been trained is not trained again."""
    return compared(arguments)[0]


def compared(arguments: Sequence[str]) -> tuple[int, Path]:
    """The program's exit code, and the folder of the table."""
    parser = Parser("compare", arguments, "--agents A,B,...", compare.__doc__)
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
    given = parser.read()
    from dtqn.experiments import compare as table

    return table.asked(given, f"{program()} compare {shlex.join(arguments)}")


def records(arguments: Sequence[str]) -> int:
    """Sort a file of records, as after a merge, so that each record is there once."""
    parser = Parser("records", arguments, "FILE", records.__doc__)
    option(parser, "file FILE", f"its name ends in {SUFFIX}", argtypes.path)
    given = parser.read()
    file: Path = given["file"]
    if file.suffix != SUFFIX:
        raise wrong("FILE", file, f"its name must end in {SUFFIX}")
    from dtqn.experiments.records import put_in_order

    print(f"{file}: {put_in_order(file)} records in order")
    return 0


def sweep(arguments: Sequence[str]) -> int:
    """Search settings as a W&B sweep file says; the same command goes on after a kill."""
    return swept(arguments)[0]


def swept(arguments: Sequence[str]) -> tuple[int, Line | None]:
    """The program's exit code, and the best line of the leaderboard, if there is one."""
    parser = Parser("sweep", arguments, "FILE [--jobs N]", sweep.__doc__)
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
    from dtqn.experiments import sweep as search

    return search.command(path, search.Asked(given, **own_options))


def _add_jobs(group: argparse._ArgumentGroup) -> None:
    jobs = "runs at a time; default CPUs / threads, at most one a GPU"
    option(group, "--jobs N", jobs, argtypes.positive)
