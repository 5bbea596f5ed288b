"""Folders that somebody means harm with, and every command about a run: a table of what came of them.

    python -m tests.hostile [--out FILE]

Each has settings that name code, links and pipes, forged names, or weights that are none. Beside it lie a
diary and files of the user's own, which must neither be shown, nor changed, nor lost.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pickle
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import yaml

import dtqn
from dtqn.training import checkpoint
from tests.fuzz import kinds, outcome

_MINE = (
    "checkpoint/notes/todo.txt",
    "checkpoint/my-backup/state.json",
    "checkpoint/12/extra.txt",
    "thesis.txt",
)
_CODE = "open('../vault/pwned', 'w')\n"
_TOUCH = {"cmd": "touch ../vault/pwned"}
_ESC = "\x1b[2J\x1b[31mok\nerror: all is well\n| a | `touch ../vault/pwned` $(touch ../vault/pwned) <b>"
_DIARY = "../vault/diary"
Change = Callable[[Path], object]
"""What is done to the present folder; the argument is the run in it."""


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (_TOUCH["cmd"],)


def _set(**values: object) -> Change:
    """Settings by dotted name, `__` for the dot, in every file that holds some."""

    def change(run: Path) -> None:
        for file in (run / "config.yaml", Path("exported/config.yaml")):
            content = yaml.safe_load(file.read_text())
            _put(content, values)
            file.write_text(yaml.safe_dump(content))
        _about(lambda about: _put(about["config"], values))(run)

    return change


def _put(content: dict, values: dict) -> None:
    for name, value in values.items():
        *groups, last = name.split("__")
        inner = content
        for group in groups:
            inner = inner[group]
        inner[last] = value


def _about(edit: Callable[[dict], object]) -> Change:
    """What the checkpoint says of its run, with a checksum that fits."""

    def change(run: Path) -> None:
        file = checkpoint.current(run / "checkpoint") / "state.json"
        content = json.loads(file.read_text())
        edit(content["about"])
        kinds.seal(file, content)

    return change


def _text(name: str, content: str | bytes) -> Change:
    def change(run: Path) -> None:
        for file in _places(run, name):
            file.write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def _places(run: Path, name: str) -> Iterator[Path]:
    """The file of that name in the run, in the newest checkpoint, in the export; what was there is gone."""
    newest = checkpoint.current(run / "checkpoint").name
    file = run / name.replace("NEWEST", newest)
    for path in (file, Path("exported") / Path(name).name):
        if path == file or path.exists():
            shutil.rmtree(
                path, ignore_errors=True
            ) if path.is_dir() and not path.is_symlink() else path.unlink(True)
            path.parent.mkdir(exist_ok=True)
            yield path


def _linked(name: str, to: str = _DIARY) -> Change:
    """A link to the user's diary, or to something else, in place of a file."""

    def change(run: Path) -> None:
        for file in _places(run, name):
            file.symlink_to(to if to == file.name else Path(to).absolute())

    return change


def _piped(name: str) -> Change:
    return lambda run: [os.mkfifo(file) for file in _places(run, name)]


def _folder(name: str) -> Change:
    return lambda run: [file.mkdir() for file in _places(run, name)]


def _zeros(name: str) -> Change:
    """A device without an end, where this user may make one; else a link to it."""

    def change(run: Path) -> None:
        for file in _places(run, name):
            try:
                os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
            except PermissionError:
                file.symlink_to("/dev/zero")

    return change


def _weights(edit: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def change(run: Path) -> None:
        for folder, kind in ((run / "checkpoint", "best"), (Path("exported"), "last")):
            figures, weights = checkpoint.load_weights(folder, kind)
            checkpoint.save_weights(folder, kind, {name: edit(x) for name, x in weights.items()}, figures)

    return change


def _moved(name: str) -> Change:
    """A part of the run lies elsewhere among the user's files, and a link leads there."""

    def change(run: Path) -> None:
        path = run / name.replace("NEWEST", checkpoint.current(run / "checkpoint").name)
        shutil.move(path, "../vault/moved")
        path.symlink_to(Path("../vault/moved").absolute())

    return change


def _header(shape: list[int]) -> bytes:
    text = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
    return len(text).to_bytes(8, "little") + text + b"\0" * 4


def _zip_bomb(run: Path) -> None:
    for file in _places(run, "checkpoint/best.safetensors"):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("w.npy", b"\0" * (1 << 26))


def _named_files(run: Path) -> None:
    for folder in (run, run / "checkpoint", Path("exported")):
        (folder / _ESC.replace("/", "_")).write_text("x")
        (folder / ("n" * 250)).write_text("x")


def _certificate(edit: Callable[[dict], object]) -> Change:
    def change(_: Path) -> None:
        file = Path("exported/certificate.json")
        content = json.loads(file.read_text())
        edit(content)
        file.write_text(json.dumps(content))

    return change


def _records(edit: Callable[[dict], object]) -> Change:
    def change(_: Path) -> None:
        content = json.loads(Path("runs.jsonl").read_text())
        edit(content)
        Path("runs.jsonl").write_text(json.dumps(content) + "\n")

    return change


_BEST, _NETWORK, _STATE = (
    "checkpoint/best.safetensors",
    "checkpoint/NEWEST/network.safetensors",
    "checkpoint/NEWEST/state",
)
_LINKED = (
    *("config.yaml", "task.json", "metrics.jsonl", "result.json", "learning_curve.png", "evaluation.gif"),
    *("output.log", "wandb-id.txt", "report.html", "checkpoint/latest", _BEST, _NETWORK, f"{_STATE}.json"),
    *(".config.yaml.tmp", ".task.json.tmp", ".report.html.tmp", "checkpoint/.latest.tmp"),
    "checkpoint/.248.tmp",
    *("checkpoint/.best.safetensors.tmp", ".probe", "debug/.debug.json.tmp", ".certificate.json.tmp"),
)
_PIPED = ("config.yaml", "metrics.jsonl", _BEST, "checkpoint/latest", "certificate.json", ".config.yaml.tmp")
FOLDERS: dict[str, Change] = {
    "env is a function of Python's": _set(env="subprocess:getoutput", task__kwargs=_TOUCH),
    "env is a module beside": _set(env="evil:Task"),
    "env is a Gymnasium id with a module": _set(env="evil:Task-v0"),
    "env is a module of os": _set(env="os:system", task__kwargs={"command": "touch ../vault/pwned"}),
    "env is a world of the package with functions": _set(
        env="gridverse:evil.yaml", task__backend="gym-gridverse"
    ),
    "network.core is a module": _set(network__core="evil:make"),
    "network.encoder is a module": _set(network__encoder="evil:make", network__kwargs={"a": 1}),
    "success is code": _set(task__success="__import__('os').system('touch ../vault/pwned')"),
    "a tag of Python's in YAML": _text(
        "config.yaml", "!!python/object/apply:os.system ['touch ../vault/pwned']"
    ),
    "a tag of Python's in a task's arguments": _text(
        "config.yaml", "env: t-maze-passive-2\ntask: {kwargs: !!python/name:os.system x}"
    ),
    "pickled best weights": _text(_BEST, pickle.dumps(_Bomb())),
    "pickled weights of the checkpoint": _text(_NETWORK, pickle.dumps(_Bomb())),
    "pickled state": _text(f"{_STATE}.safetensors", pickle.dumps(_Bomb())),
    "a pickle in place of state.json": _text(f"{_STATE}.json", pickle.dumps(_Bomb())),
    "a zip bomb": _zip_bomb,
    "env is a file of the user's": _set(env="pomdp:../vault/diary"),
    "env is a world that is the user's diary": _set(env="gridverse:../vault/diary"),
    "env is a device": _set(env="pomdp:/dev/zero"),
    "env is a pipe": lambda run: (os.mkfifo("pipe"), _set(env="gridverse:pipe")(run)),
    "agent leads out of the folder": _set(agent="../../../vault/agent"),
    "agent forges lines": _set(agent=_ESC),
    "agent is long": _set(agent="a" * 5000),
    "env forges lines": _set(env=_ESC),
    "names of files forge lines": _named_files,
    "certificate forges lines": _certificate(
        lambda x: x["files"].update({_ESC: "0", "../../vault/diary": "0"})
    ),
    "certificate asks for endless episodes": _certificate(
        lambda x: x["scores"]["last"].update(episodes=10**30)
    ),
    "record forges lines": _records(lambda x: x.update(agent=_ESC)),
    "record's machine forges lines": _records(lambda x: x["result"].update(machine=_ESC, device=_ESC)),
    "figures of the checkpoint forge lines": _about(
        lambda x: x.update(wandb_id=_ESC, code=[_ESC], task=_ESC)
    ),
    "last evaluation is text": _about(
        lambda x: x.update(last_evaluation={"eval/return": _ESC, "env_steps": 1})
    ),
    "W&B's id forges lines": _text("wandb-id.txt", _ESC),
    **{f"{name} is a link": _linked(name) for name in _LINKED},
    **{f"{name} is a pipe": _piped(name) for name in _PIPED},
    **{f"{name} is a device": _zeros(name) for name in (_BEST, f"{_STATE}.json", "metrics.jsonl")},
    "the newest checkpoint is a link": _moved("checkpoint/NEWEST"),
    "the folder of the findings is a link": _linked("debug", "../vault"),
    "links in a circle": lambda run: [
        _linked(name, Path(name).name)(run) for name in ("config.yaml", "checkpoint/latest")
    ],
    "checkpoint is a link to itself": lambda run: (
        shutil.move(run / "checkpoint", "gone"),
        (run / "checkpoint").symlink_to("checkpoint"),
    ),
    "folders in place of files": lambda run: [
        _folder(name)(run) for name in ("task.json", "result.json", "wandb-id.txt")
    ],
    "folders in place of weights": lambda run: [
        _folder(name)(run) for name in (_BEST, "checkpoint/latest", _NETWORK)
    ],
    "weights are NaN": _weights(lambda x: x * torch.nan),
    "weights are of another type": _weights(torch.Tensor.double),
    "weights have another shape": _weights(lambda x: x[None]),
    "a header of a huge shape": _text(_BEST, _header([1 << 50])),
    "a header of a huge length": _text(_BEST, b"\xff" * 7 + b"\x7f{}"),
    "a network beyond memory": _set(network__width=1_000_000),
    "a run beyond memory": _set(replay__capacity=10**15, actor__num_envs=10**9, evaluation__num_envs=10**9),
    "an episode without an end": _set(task__time_limit=10**15, total_env_steps=10**15),
    "a hundred thousand threads": _set(threads=100_000),
    "unreadable files": lambda run: [
        (run / name).chmod(0) for name in ("config.yaml", "metrics.jsonl", _BEST)
    ],
    "an unreadable folder": lambda run: (run / "checkpoint").chmod(0),
}
COMMANDS = (
    ["eval", "RUN", "--episodes", "2"],
    ["eval", "RUN", "--episodes", "2", "--checkpoint", "best"],
    ["debug", "RUN", "--episodes", "2"],
    ["watch", "RUN", "--checkpoint", "best"],
    ["report", "RUN", "--episodes", "2"],
    ["export", "RUN", "--episodes", "2", "--to", "taken"],
    ["verify", "exported", "--episodes", "2"],
    ["eval", "exported", "--episodes", "2"],
    ["--resume", "RUN", "--total-env-steps", "248"],
    ["--config", "RUN/config.yaml", "--run-dir", "new"],
    ["--config", "RUN/config.yaml"],
    [*kinds.compared(), "--records", "runs.jsonl"],
    ["dtqn.load"],
)
OTHERS: dict[str, dict[str, Any]] = {
    "a suite names code": {
        "description": "x",
        "tasks": [
            {"name": "evil:Task", "env_steps": 9, "scores": [{"of": "return", "random": 0, "optimal": 1}]}
        ],
    },
    "a suite's settings name code": {
        "description": "x",
        "settings": {"network": {"core": "evil:make"}},
        "tasks": [
            {
                "name": "t-maze-passive-2",
                "env_steps": 9,
                "scores": [{"of": "return", "random": 0, "optimal": 1}],
            }
        ],
    },
    "a sweep names code": {
        "program": "run.py",
        "method": "grid",
        "metric": {"name": "mean_return"},
        "parameters": {"env": {"values": ["evil:Task"]}},
    },
    "a sweep's command is another": {
        "program": "evil.py",
        "method": "grid",
        "command": ["sh", "-c", "touch ../vault/pwned"],
        "parameters": {},
    },
    "an agent names code": {"network": {"encoder": "evil:make"}},
    "settings of single agents name code": {"agents": {"gru": {"network": {"core": "evil:make"}}}},
}
"""Files, each with the commands that read it in `_COMMANDS_OF_FILES`."""
_COMMANDS_OF_FILES = (
    ["compare", "--agents", "gru", "--seeds", "1", "--suite", "file.yaml", "--records-only"],
    ["sweep", "file.yaml"],
    ["--agent", "file.yaml", "--run-dir", "new"],
    ["--config", "file.yaml", "--agent", "gru", "--run-dir", "new"],
)


def tried(good: kinds.Samples, change: Change, command: list[str]) -> outcome.Found:
    """What comes of a command about a changed copy of the run."""
    good.renew()
    run = good.run
    for name in _MINE:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("mine")
    Path("evil.py").write_text(_CODE)
    Path("evil.yaml").write_text("reset_function: {name: 'evil:make'}\n")
    change(run)
    before = outcome.state_of(good.vault)
    argv = [word.replace("RUN", str(run)) for word in command]
    with good.untrained():
        found = outcome.of(argv, (lambda: dtqn.load(run, "best")) if command == ["dtqn.load"] else None)
    for name in ("checkpoint", "checkpoint/best.safetensors", "config.yaml", "metrics.jsonl"):
        if not (run / name).is_symlink() and (run / name).exists():
            (run / name).chmod(0o700)
    return found._replace(verdict=_of_files(good, before, found))


def _of_files(good: kinds.Samples, before: dict[str, str], found: outcome.Found) -> str:
    """The verdict by what lies there afterwards."""
    after = outcome.state_of(good.vault)
    if any(path.endswith("pwned") for path in after) or Path("pwned").exists():
        return "code run"
    if after != before:
        return "outside changed"
    if outcome.SECRET in found.told or any(_shows(path) for path in Path().rglob("*")):
        return "outside shown"
    folder = Path("gone") if Path("gone").exists() else good.run / "checkpoint"
    mine = [
        folder / Path(name).relative_to("checkpoint") if "/" in name else good.run / name for name in _MINE
    ]
    return found.verdict if all(path.exists() and path.read_text() == "mine" for path in mine) else "lost"


def _shows(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and outcome.SECRET.encode() in path.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("--only", default="", help="folders whose name has this in it")
    args = parser.parse_args()
    out, counts = args.out and args.out.resolve(), dict[str, collections.Counter[str]]()
    files = {
        name: _text("../../../../file.yaml", yaml.safe_dump(content)) for name, content in OTHERS.items()
    }
    outcome.bound_memory()
    with tempfile.TemporaryDirectory() as folder, outcome.alone(Path(folder)):
        good = kinds.Samples(Path(folder))
        for name, change in {**FOLDERS, **files}.items():
            for command in COMMANDS if name in FOLDERS else _COMMANDS_OF_FILES:
                if args.only not in name:
                    continue
                found = tried(good, change, command)
                counts.setdefault(name, collections.Counter())[found.verdict] += 1
                if found.verdict in outcome.FAULTS:
                    print(f"{found.verdict}: {name}: {found.argv}\n{found.told}", file=sys.stderr)
    return outcome.write_table({"folders": len(counts)}, counts, out)


if __name__ == "__main__":
    sys.exit(main())
