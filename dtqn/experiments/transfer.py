"""A run's files from one machine to another, for machines that share no folder.

All of them travel that a run goes on from or that are looked at: the current checkpoint and what lies beside
the folder `checkpoint`. A reader takes the checkpoint first and a writer makes it current last. So whatever
comes between, there are rows of metrics up to the checkpoint, at least.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from dtqn.files import replacing

_CHECKPOINTS, _POINTER = "checkpoint", "checkpoint/latest"
_ATTEMPTS = 20

Files = dict[str, bytes]
"""Contents by their name relative to the run's directory."""
Stamps = dict[str, tuple[int, int]]
"""When a file was changed, and its size."""


def read(directory: Path, known: Stamps) -> Files:
    """The files that have changed since the last call with the same `known`, which is brought up to date.

    Raises:
        FileNotFoundError: where checkpoints come and go faster than they can be read.
    """
    for attempt in range(_ATTEMPTS):
        stamps: Stamps = {}
        try:
            files = {name: _read(directory / name, name, known, stamps) for name in _names(directory)}
        except FileNotFoundError:  # a checkpoint that gave way to the next one
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        known.clear()
        known.update(stamps)
        return {name: content for name, content in files.items() if content is not None}
    raise AssertionError


def _names(directory: Path) -> list[str]:
    """The checkpoint's first."""
    names = []
    if (directory / _POINTER).exists():
        current = directory / _CHECKPOINTS / (directory / _POINTER).read_text().strip()
        names = [_POINTER, *(path.relative_to(directory).as_posix() for path in sorted(current.iterdir()))]
    beside = [*(directory / _CHECKPOINTS).glob("*"), *directory.iterdir()]
    return names + [
        name
        for path in sorted(beside)
        if path.is_file()
        and not path.name.startswith(".")
        and (name := path.relative_to(directory).as_posix()) != _POINTER
    ]


def _read(path: Path, name: str, known: Stamps, stamps: Stamps) -> bytes | None:
    """The content; None where it is known."""
    status = path.stat()
    stamps[name] = status.st_mtime_ns, status.st_size
    return None if known.get(name) == stamps[name] else path.read_bytes()


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Put files where `read` has found them elsewhere; older checkpoints go."""
    for name in sorted(files, key=lambda name: name == _POINTER):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(files[name])
    if _POINTER in files:
        current = files[_POINTER].decode().strip()
        for path in (directory / _CHECKPOINTS).iterdir():
            if path.is_dir() and path.name != current:
                shutil.rmtree(path)
