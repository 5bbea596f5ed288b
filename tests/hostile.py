"""Folders that somebody means harm with, and every command about a run: a table of what came of them.

    python -m tests.hostile [--out FILE]

Each has settings that name code, links and pipes, forged names, or weights that are none; `cases.yaml` has
them. A diary beside it and files of the user's own must neither be shown, nor changed, nor lost.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pickle
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

import dtqn
from dtqn.training import checkpoint
from tests.fuzz import kinds, outcome
from tests.fuzz.damage import CASES

_EXPORT = "../../../../exported"
_WEIGHTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan": lambda x: x * torch.nan,
    "double": torch.Tensor.double,
    "shape": lambda x: x[None],
}


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ../vault/pwned",)


def _file(run: Path, name: str) -> Path:
    return run / name.replace("NEWEST", checkpoint.current(run / "checkpoint").name)


def _places(run: Path, names: Iterable[str]) -> Iterator[Path]:
    """Files in the run or its newest checkpoint, and those of the export; what was there is gone."""
    for name in names:
        file = _file(run, name)
        for path in (file, run / _EXPORT / file.name):
            if path == file or path.exists():
                if path.is_dir() and not path.is_symlink():
                    shutil.move(path, "gone")
                path.unlink(missing_ok=True)
                path.parent.mkdir(exist_ok=True)
                yield path


def _set(run: Path, values: Mapping[str, Any]) -> None:
    """Settings, in every file that holds some."""
    state = {"checkpoint/NEWEST/state.json": {"about": {"config": values}}}
    _merge(run, {"config.yaml": values, f"{_EXPORT}/config.yaml": values, **state})


def _merge(run: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Values in files of YAML and JSON; a checksum fits."""
    for name, values in files.items():
        file = _file(run, name)
        if file.exists():
            is_yaml = file.suffix == ".yaml"
            content = (yaml.safe_load if is_yaml else json.loads)(file.read_text())
            _lay(content, values)
            file.write_text((yaml.safe_dump(content) if is_yaml else json.dumps(content)) + "\n")
            if file.name == "state.json":
                kinds.seal(file, content)


def _lay(content: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(content.get(name), dict):
            _lay(content[name], value)
        else:
            content[name] = value


def _text(run: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        for file in _places(run, [name]):
            file.write_bytes(content.encode("latin-1"))


def _pickle(run: Path, names: list[str]) -> None:
    for file in _places(run, names):
        file.write_bytes(pickle.dumps(_Bomb()))


def _zip(run: Path, names: list[str]) -> None:
    for file in _places(run, names):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("w.npy", b"\0" * (1 << 26))


def _link(run: Path, files: Mapping[str, str]) -> None:
    for name, to in files.items():
        for file in _places(run, [name]):
            file.symlink_to(to if to == file.name else Path(to).absolute())


def _pipe(run: Path, names: list[str]) -> None:
    for file in _places(run, names):
        os.mkfifo(file)


def _folder(run: Path, names: list[str]) -> None:
    for file in _places(run, names):
        file.mkdir()


def _device(run: Path, names: list[str]) -> None:
    """One without an end, where this user may make one; else a link to it."""
    for file in _places(run, names):
        try:
            os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        except PermissionError:
            file.symlink_to("/dev/zero")


def _move(run: Path, names: list[str]) -> None:
    """A part of the run lies elsewhere among the user's files, and a link leads there."""
    for path in (_file(run, name) for name in names):
        shutil.move(path, "../vault/moved")
        path.symlink_to(Path("../vault/moved").absolute())


def _named(run: Path, names: list[str]) -> None:
    for folder in (run, run / "checkpoint", run / _EXPORT):
        for name in names:
            (folder / name.replace("/", "_")).write_text("x")


def _weights(run: Path, change: str) -> None:
    """Of another kind, with a checksum that fits."""
    for folder, kind in ((run / "checkpoint", "best"), (run / _EXPORT, "last")):
        if folder.exists():
            figures, weights = checkpoint.load_weights(folder, kind)
            changed = {name: _WEIGHTS[change](x) for name, x in weights.items()}
            checkpoint.save_weights(folder, kind, changed, figures)


FOLDERS: dict[str, dict[str, Any]] = {
    **CASES["folders"],
    **{f"{name} is a link": {"link": {name: "../vault/diary"}} for name in CASES["linked"]},
    **{f"{name} is a pipe": {"pipe": [name]} for name in CASES["piped"]},
    **{f"{name} is a device": {"device": [name]} for name in CASES["devices"]},
}
_FILES = {name: {"text": {"../../../../file.yaml": yaml.safe_dump(x)}} for name, x in CASES["others"].items()}


def change(run: Path, folder: Mapping[str, Any]) -> None:
    """Do to the run, in the present folder, what its name among `FOLDERS` says."""
    for name, argument in folder.items():
        globals()[f"_{name}"](run, argument)


def tried(good: kinds.Samples, folder: Mapping[str, Any], command: str) -> outcome.Found:
    """What comes of a command about a changed copy of the run."""
    call = functools.partial(dtqn.load, good.run, "best") if command == "dtqn.load" else None
    return good.tried(lambda run: change(run, folder), good.words(command), call)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("--only", default="", help="folders whose name has this in it")
    args = parser.parse_args()
    lists = ((FOLDERS, CASES["commands_of_folders"]), (_FILES, CASES["commands_of_others"]))
    table, out = outcome.Table(), args.out and args.out.resolve()
    with outcome.alone() as folder:
        good = kinds.Samples(folder)
        for folders, commands in lists:
            for name in (name for name in folders if args.only in name):
                for command in commands:
                    table.add(name, tried(good, folders[name], command))
    return table.write({"folders": len(table)}, out)


if __name__ == "__main__":
    sys.exit(main())
