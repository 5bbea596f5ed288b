"""What came of a command: an answer, one line of refusal, or a fault."""

from __future__ import annotations

import collections
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
import tempfile
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
"""An array beyond so much memory raises, where the system would else end this process."""
FAULTS = ("lost", "traceback", "hang", "unclear", "outside changed", "outside shown", "code run")
SECRET = "THE SECRET OF THE DIARY"


class Found(NamedTuple):
    verdict: str
    """"answered", "refused", or one of `FAULTS`."""
    argv: Sequence[str]
    told: str


class _TooLongError(BaseException):
    """The command takes longer than it may."""


@contextlib.contextmanager
def alone() -> Iterator[Path]:
    """A block with a folder and a home of its own, little memory, and no account anywhere."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, limits[1]))
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        own = {"HOME": f"{folder}/home", "XDG_STATE_HOME": f"{folder}/home/state", "WANDB_MODE": "disabled"}
        with mock.patch.dict(os.environ, own):
            os.environ.pop(trust.VARIABLE, None)
            try:
                yield Path(folder)
            finally:
                os.chdir(before)
                resource.setrlimit(resource.RLIMIT_AS, limits)


def of(argv: Sequence[str], call: Callable[[], object] | None = None) -> Found:
    """What comes of a command line, or of `call` in its place, in this process."""
    out, err = io.StringIO(), io.StringIO()
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
    said = out.getvalue(), err.getvalue()
    return Found(_verdict(code, *said), argv, "".join(said))


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
    if SECRET in out + err:
        return "outside shown"
    lines = ["", *err.splitlines()]
    last, errors = lines[-1], [line for line in lines if line.startswith("error: ")]
    is_error = last.startswith("error: ") and len(last) <= LONGEST
    printable = all(c.isprintable() or c == "\n" for c in out + err)
    if not printable or len(errors) != (code == 2) or is_error != (code == 2):
        return "traceback" if "Traceback" in err else "unclear"
    return "refused" if code == 2 else "answered"


def state_of(folder: Path) -> dict[str, tuple[int, str]]:
    """By name, the mode of each file in a folder and a digest of its content."""
    return {
        str(path): (path.lstat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest() * path.is_file())
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }


def shows(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and SECRET.encode() in path.read_bytes()


class Table(collections.defaultdict[str, collections.Counter[str]]):
    """By kind, how often each verdict was found."""

    def __init__(self) -> None:
        super().__init__(collections.Counter)

    def add(self, kind: str, found: Found, about: str = "") -> None:
        """Count it; a fault is printed at once."""
        self[kind][found.verdict] += 1
        if found.verdict in FAULTS:
            print(f"{found.verdict}: {kind}: {about}: {found.argv}\n{found.told}", file=sys.stderr)

    def write(self, about: Mapping[str, Any], out: Path | None) -> int:
        """Print the table, and keep it with the commit that it is of; 1 where there is a fault."""
        verdicts = ("answered", "refused", *FAULTS)
        rows = {kind: {verdict: self[kind][verdict] for verdict in verdicts} for kind in sorted(self)}
        total = {verdict: sum(row[verdict] for row in rows.values()) for verdict in verdicts}
        for kind, row in {**rows, "all": total}.items():
            print(f"{kind:<44}", *(f"{count:>7} {verdict}" for verdict, count in row.items() if count))
        git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
        content = {"commit": commit, **about, "inputs": sum(total.values()), "total": total, "kinds": rows}
        if out:
            write_whole(out, re.sub(r"\n\s{3,}|\n\s{2,}(?=\})", " ", json.dumps(content, indent=1)) + "\n")
        return int(any(total[fault] for fault in FAULTS))
