"""Apply each break of the table to a copy of the working tree and run its tests there: they must fail.

    python -m tests.mutate [NAME ...] [--jobs N] [--list]

A name stands for every break whose name or symbol contains it. A break is `noticed`, it `SURVIVED`, or it
`DOES NOT APPLY`: its symbol has no such expression once, or its test does not run. The exit code is 0 where
all were noticed, else 1. The whole table takes half an hour or more; `--list` says what is in it.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from dtqn.signals import cause, signal_of
from tests.mutate import places
from tests.mutate.table import TABLE, Break

ROOT = Path(__file__).parents[2]
_NOTICED, _SURVIVED, _NOT_APPLIED = "noticed", "SURVIVED", "DOES NOT APPLY"


class Verdict(NamedTuple):
    word: str
    seconds: float
    why: str
    """The first test that failed, or why nothing can be said."""


def copy_tree(target: Path) -> None:
    """The working tree without what git ignores."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\0"
    ):
        if name and (ROOT / name).is_file():  # not what has been deleted and is still in the index
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Pytest's exit code in the copy, and the first test that failed or else its last line.

    Bytecode is not kept: a break of the same length in the same second would not be compiled.
    """
    environment = os.environ | {
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "0",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",  # imports hypothesis, two seconds, whatever the tests are
        *tests,
    ]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, (failed or lines or ["no output"])[0 if failed else -1]


def judge(tree: Path, row: Break) -> Verdict:
    """Break the copy, run the row's test, mend it."""
    began = time.monotonic()
    try:
        place, test = places.find(tree, row), places.find_test(tree, row.test)
    except places.NotFound as error:
        return Verdict(_NOT_APPLIED, 0.0, str(error))
    path = tree / place.file
    text = path.read_text(encoding="utf-8")
    path.write_text(place.broken, encoding="utf-8")
    try:
        code, line = run_tests(tree, [test])
    finally:
        path.write_text(text, encoding="utf-8")
    words: dict[int, str] = {
        pytest.ExitCode.OK: _SURVIVED,
        pytest.ExitCode.TESTS_FAILED: _NOTICED,
        pytest.ExitCode.INTERRUPTED: _NOTICED,  # the tests could not even be imported
    }
    killed = signal_of(code) is not None  # the break has taken the interpreter with it
    word = _NOTICED if killed else words.get(code, _NOT_APPLIED)
    return Verdict(word, time.monotonic() - began, cause(code) if killed else line)


@contextmanager
def copies(count: int) -> Iterator[queue.Queue[Path]]:
    """So many copies of the working tree, to be taken and given back."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        free: queue.Queue[Path] = queue.Queue()
        for i in range(count):
            copy_tree(tree := Path(folder, str(i)))
            free.put(tree)
        yield free


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.mutate", description="Do the tests notice these breaks?"
    )
    parser.add_argument("names", nargs="*", help="parts of names or files; none: all")
    parser.add_argument("--jobs", type=int, default=1, help="breaks that are tried side by side")
    parser.add_argument("--list", action="store_true", help="list the breaks and try none")
    options = parser.parse_args(arguments)
    rows = [
        row
        for row in TABLE
        if not options.names or any(name in row.name or name in row.symbol for name in options.names)
    ]
    if not rows or options.jobs < 1:
        parser.error(f"no break is called {' or '.join(options.names)}" if not rows else "--jobs is below 1")
    if options.list:
        for row in rows:
            print(f"{row.name:40} {row.symbol}")
        return 0
    with copies(options.jobs) as free:
        tree = free.get()
        code, line = run_tests(tree, sorted({places.find_test(tree, row.test) for row in rows}))
        if code != pytest.ExitCode.OK:
            print(f"the tests fail without any break: {line}")
            return 1
        free.put(tree)

        def attempt(row: Break) -> Verdict:
            tree = free.get()
            try:
                return judge(tree, row)
            finally:
                free.put(tree)

        bad = 0
        with ThreadPoolExecutor(options.jobs) as pool:
            pending = {pool.submit(attempt, row): row for row in rows}
            for done in as_completed(pending):
                row, verdict = pending[done], done.result()
                bad += verdict.word != _NOTICED
                print(
                    f"{verdict.word:14} {row.name:40} {verdict.seconds:4.0f} s  {verdict.why[:110]}",
                    flush=True,
                )
    print(f"{len(rows) - bad} of {len(rows)} breaks were noticed")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
