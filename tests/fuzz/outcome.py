"""What came of a command: an answer, one line of refusal, or a fault."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from dtqn import cli
from dtqn.files import write_whole
from dtqn.settings import trust

SECONDS, PATIENCE = 10, 120
"""That a command may take of the processor, and by the clock on a machine that does much else."""
LONGEST = 2100
"""Characters of a line of error."""
GIGABYTES = 24
FAULTS = ("lost", "traceback", "hang", "unclear", "outside changed", "outside shown", "code run")
VERDICTS = ("answered", "refused", *FAULTS)
SECRET = "THE SECRET OF THE DIARY"


class Found(NamedTuple):
    verdict: str
    """One of `VERDICTS`."""
    argv: Sequence[str]
    told: str


class _TooLongError(BaseException):
    """The command takes longer than it may."""


def bound_memory() -> None:
    """An array beyond memory raises, where the system would else end this process."""
    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, resource.RLIM_INFINITY))


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """A block with a home of its own, in `folder`, and no account anywhere."""
    own = {
        "HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "home/state"),
        "WANDB_MODE": "disabled",
    }
    before = Path.cwd()
    with mock.patch.dict(os.environ, own):
        os.environ.pop(trust.VARIABLE, None)
        try:
            yield
        finally:
            os.chdir(before)


def of(argv: Sequence[str], call: Callable[[], object] | None = None) -> Found:
    """What comes of a command line, or of `call` in its place, in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    timers = {signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE), signal.SIGPROF: (signal.ITIMER_PROF, SECONDS)}
    for number, (timer, seconds) in timers.items():
        signal.signal(number, _end)
        signal.setitimer(timer, seconds)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(argv) if call is None else _called(call)
    except SystemExit as end:  # of --help
        code = end.code
    except _TooLongError:
        return Found("hang", argv, traceback.format_exc())
    except BaseException:
        return Found("traceback", argv, traceback.format_exc())
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
    return Found(
        _verdict(code, out.getvalue(), err.getvalue()), argv, f"{code}\n{out.getvalue()}{err.getvalue()}"
    )


def _end(*_: object) -> None:
    raise _TooLongError


def _called(call: Callable[[], object]) -> int:
    try:
        call()
    except ValueError as error:  # what `dtqn.load` promises
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _verdict(code: object, out: str, err: str) -> str:
    """Of what was printed: at the end a line of error where it is refused, nothing that a terminal obeys."""
    lines = ["", *err.splitlines()]
    last, errors = lines[-1], [line for line in lines if line.startswith("error: ")]
    is_error = last.startswith("error: ") and len(last) <= LONGEST
    printable = all(c.isprintable() or c == "\n" for c in out + err)
    if not printable or len(errors) != (code == 2) or is_error != (code == 2):
        return "traceback" if "Traceback" in err else "unclear"
    return "refused" if code == 2 else "answered"


def state_of(folder: Path) -> dict[str, str]:
    """By name, the content of each file in a folder and its mode."""
    return {
        str(
            path
        ): f"{path.lstat().st_mode} {hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ''}"
        for path in sorted(folder.rglob("*"))
    }


def write_table(about: Mapping[str, Any], counts: Mapping[str, Mapping[str, int]], out: Path | None) -> int:
    """Print the table, and keep it with the commit that it is of; 1 where there is a fault."""
    rows = {kind: {verdict: counts[kind].get(verdict, 0) for verdict in VERDICTS} for kind in sorted(counts)}
    total = {verdict: sum(row[verdict] for row in rows.values()) for verdict in VERDICTS}
    for kind, row in {**rows, "all": total}.items():
        print(f"{kind:<44}", *(f"{count:>7} {verdict}" for verdict, count in row.items() if count))
    root = Path(__file__).parents[2]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True
    ).stdout.strip()
    content = {"commit": commit, **about, "inputs": sum(total.values()), "total": total, "kinds": rows}
    if out:
        write_whole(out, re.sub(r"\n\s{3,}|\n\s{2,}(?=\})", " ", json.dumps(content, indent=1)) + "\n")
    return int(any(total[fault] for fault in FAULTS))
