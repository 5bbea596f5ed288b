"""Files that are written whole, so that a reader meets the old one or the new one; locks; files of lines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(file: Path, durable: bool = False) -> Iterator[Path]:
    """A path next to `file` to write to; the result takes `file`'s place when the block ends.

    An error in the block, such as a full disk, removes what was written and leaves `file` as it was.

    Args:
        durable: wait until the new file and its name are on the disk.
    """
    temporary = file.with_name(f".{file.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # it may be a link of a stranger's, which writing would follow
        yield temporary
        if durable:
            sync(temporary)
        os.replace(temporary, file)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(file)  # a full disk names none, and nobody knows the temporary one
        raise
    if durable:
        sync(file.parent)


def write_whole(file: Path, content: str, durable: bool = False) -> None:
    """Write a text file by `replacing`."""
    with replacing(file, durable) as temporary:
        temporary.write_text(content, encoding="utf-8")


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fault(file: Path, folder: Path) -> str:
    """Why a file of the folder must not be opened; empty where it may be, or is not there.

    A link may lead to what its owner never meant to show or to have overwritten, and a pipe has no end.
    """
    target = Path(os.path.realpath(file))
    if target.is_symlink():
        return f"is a link to {os.readlink(file)}, in a circle; put the file itself there"
    if file.is_symlink() and not target.is_relative_to(folder.resolve()):
        return f"is a link to {os.readlink(file)}, outside of its folder; put the file itself there"
    if file.exists() and not (file.is_file() or file.is_dir()):
        return "is a pipe or a device; must be a file"
    return ""


@contextlib.contextmanager
def locked(file: Path) -> Iterator[BinaryIO]:
    """Open a file for reading and appending, made if it is missing, for this process alone.

    Replace the file only within the lock; a process that waited then waits for the new file's lock.
    """
    while True:
        stream = file.open("a+b")
        lock_file(stream.fileno(), wait=True)
        if file.exists() and os.path.samestat(os.fstat(stream.fileno()), file.stat()):
            break
        stream.close()
    with stream:
        yield stream


def lock_file(descriptor: int, wait: bool = False) -> bool:
    """Lock an open file; whether no other process has it. Always true where there are no locks.

    The lock ends when the file is closed, or with the process, however that ends.

    Args:
        wait: until no other process has it.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, and some network file systems
        pass
    return True


def append_line(stream: BinaryIO, line: str) -> None:
    """Add a whole line at the end of a file, on the disk at once; an error leaves the file as it was."""
    end = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, end - 1))
    between = b"" if stream.read(1) in (b"", b"\n") else b"\n"  # after a line that was cut
    try:
        stream.write(between + line.encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    except OSError:
        stream.truncate(end)
        raise
