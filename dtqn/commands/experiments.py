"""`compare` and `sweep`, which start many runs, and `records`, which sorts what they leave."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, option
from dtqn.experiments import options
from dtqn.program import program
from dtqn.settings.config import wrong
from dtqn.settings.record_files import SUFFIX


def compare(arguments: Sequence[str]) -> int:
    """Compare agents on the same tasks and seeds; finished runs are not repeated."""
    parser = Parser("compare", arguments, "--agents A,B,...", compare.__doc__)
    parser.add_options(options.Comparison)
    run = parser.add_argument_group("settings of all runs (--env: one task, or several separated by commas)")
    parser.add_settings(lambda name: name not in ("agent", "seed"), run)
    given = parser.read()
    from dtqn.experiments import compare as table

    return table.asked(given, f"{program()} compare {shlex.join(arguments)}")[0]


def records(arguments: Sequence[str]) -> int:
    """Sort a file of run records and drop duplicates, for example after a merge."""
    parser = Parser("records", arguments, "FILE", records.__doc__)
    option(parser, "file FILE", f"file of run records; its name must end in {SUFFIX}", argtypes.path)
    given = parser.read()
    file: Path = given["file"]
    if file.suffix != SUFFIX:
        raise wrong("FILE", file, f"its name must end in {SUFFIX}")
    from dtqn.experiments.records import put_in_order

    print(f"{file}: {put_in_order(file)} records in order")
    return 0


def sweep(arguments: Sequence[str]) -> int:
    """Search for the best settings as a W&B sweep file specifies; rerunning continues a killed sweep."""
    parser = Parser("sweep", arguments, "FILE [--jobs N]", sweep.__doc__)
    parser.add_options(options.Sweep)
    option(parser, "file FILE", "sweep file, such as configs/sweeps/learning-rate.yaml", argtypes.path)
    parser.add_settings(lambda _: True, parser.add_argument_group("settings of all runs"))
    given = parser.read()
    from dtqn.experiments import sweep as search

    return search.asked(given.pop("file"), given)[0]
