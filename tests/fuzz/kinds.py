"""The kinds of files that this program reads: a good one of each, and the commands that read it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
import yaml
from safetensors import safe_open
from safetensors.torch import save_file

from dtqn import cli
from dtqn.experiments import compare, comparison_pictures, sweep
from dtqn.settings import layers, presets, trust
from dtqn.settings.config import fields_of
from dtqn.training import checkpoint, session
from tests.fuzz import outcome
from tests.fuzz.damage import CASES, changed_value, spoiled

_SETTINGS = [f"--{name}={value}" for name, value in CASES["settings"].items()]
_TABLE = ["compare", "--agents", "gru", "--seeds", "1", "--out", "out", *_SETTINGS]
_SHIPPED = {"--config": "envs", "agent": "agents", "suite": "suites", "sweep": "sweeps"}
_COMPARE = compare.compare
_MINE = ("notes/todo.txt", "my-backup/state.json", "12/extra.txt")
"""Files of the user's own, in the folder of the checkpoints."""


class Kind(NamedTuple):
    """A kind of file; without commands, odd command lines."""

    file: str
    share: int
    spoil: Callable[[random.Random, Path], object]
    commands: list[list[str]]
    samples: Sequence[Path]
    """Good files, where it is none of a run."""


class Samples:
    """A folder with a good file of each kind, of which copies are changed."""

    def __init__(self, folder: Path) -> None:
        self._good, self._work, self._vault = folder / "good", folder / "work", folder / "vault"
        for path in (self._good, self._work):
            path.mkdir()
        os.chdir(self._good)
        self.run = _made()
        """From the folder of the environments, which is the working directory."""
        self.kinds = {name: self._kind(name, row) for name, *row in _rows(CASES["kinds"])}

    def words(self, command: str) -> list[str]:
        words = {**CASES["words"], "TABLE": " ".join([*_TABLE, "--records-only"])}
        text = " ".join(words.get(word, word) for word in command.split())
        newest = checkpoint.current(self._good / self.run / "checkpoint").name
        return text.replace("RUN", str(self.run)).replace("NEWEST", newest).split()

    def _kind(self, name: str, row: list[str]) -> Kind:
        file, share, spoil, *commands = row
        shipped = sorted((layers.CONFIGS / _SHIPPED[name]).rglob("*.yaml")) if name in _SHIPPED else []
        (path,) = self.words(file)
        return Kind(path, int(share), _SPOILERS[spoil], [self.words(one) for one in commands], shipped)

    def spoiled(self, name: str, seed: str) -> outcome.Found:
        """What comes of a spoiled file of that kind, or of an odd command line."""
        rng, kind = random.Random(f"{name}/{seed}"), self.kinds[name]

        def spoil(_: Path) -> None:
            if kind.samples:
                shutil.copyfile(rng.choice(kind.samples), kind.file)
            kind.spoil(rng, Path(kind.file))

        return self.tried(spoil, rng.choice(kind.commands) if kind.commands else _command_line(rng))

    def tried(
        self, change: Callable[[Path], object], argv: Sequence[str], call: Callable[[], object] | None = None
    ) -> outcome.Found:
        """What comes of a command, or of `call`, once the environments have been changed."""
        self._renew()
        change(self.run)
        before = outcome.state_of(self._vault)
        with contextlib.ExitStack() as stack:
            for module, runner, instead in _RUNNERS:
                stack.enter_context(mock.patch.object(module, runner, instead))
            found = outcome.of(argv, call)
        return found._replace(verdict=self._seen_in_files(before) or found.verdict)

    def _renew(self) -> None:
        """Make the environments anew, with a diary beside them that must neither be shown nor changed."""
        os.chdir(self._good)
        for path in (self._work, self._vault):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self._good, self._work)
        self._vault.mkdir()
        (self._vault / "diary").write_text(outcome.SECRET)
        os.chdir(self._work)
        trust._of_this_process.clear()

    def _seen_in_files(self, before: dict[str, tuple[int, str]]) -> str:
        after = outcome.state_of(self._vault)
        if any(path.endswith("pwned") for path in after):
            return "code run"
        if after != before:
            return "outside changed"
        if any(outcome.shows(path) for path in Path().rglob("*")):
            return "outside shown"
        folder = Path("gone") if Path("gone").exists() else self.run / "checkpoint"
        mine = [folder / name for name in _MINE]
        return "" if all(path.exists() and path.read_text() == "mine" for path in mine) else "lost"


def counted(seed: int, numbers: range) -> dict[str, Counter[str]]:
    """What came of the inputs of these numbers, by kind."""
    table = outcome.Table()
    with outcome.alone() as folder:
        samples = Samples(folder)
        names = [name for name, kind in samples.kinds.items() for _ in range(kind.share)]
        for number in numbers:
            name = names[number % len(names)]
            table.add(name, samples.spoiled(name, f"{seed}/{number}"), f"{seed}/{number}")
    return dict(table)


def _nothing(*_: object, **__: object) -> int:
    return 0


def _only_tables(asked: compare.Comparison) -> int:
    return _COMPARE(asked) if asked.own.records_only and asked.suite is None else 0


def _claim(search: sweep.Sweep, *_: object) -> None:
    """Choose a run, and do not run it."""
    search.next_job()


_RUNNERS = (
    (session, "start", _nothing),
    (sweep, "_train", _claim),
    (compare, "compare", _only_tables),
    (comparison_pictures, "draw_curves", _nothing),
)


def _made() -> Path:
    """Good files in the present folder; the run among them."""
    for name, content in CASES["files"].items():
        Path(name).write_text(content)
    assert cli.main(["--resume", "auto", "--agent", "gru", *_SETTINGS]) == 0
    (run,) = Path("runs").glob("*/*/seed1-*")
    assert cli.main([*_TABLE, "--records", "runs.jsonl"]) == 0
    assert cli.main(["export", str(run), "--to", "exported", "--episodes", "2"]) == 0
    searched = {name: {"value": value} for name, value in {**CASES["settings"], "agent": "gru"}.items()}
    about = {"program": "run.py", "method": "random", "metric": {"name": "mean_return", "goal": "maximize"}}
    about |= {"run_cap": 3, "parameters": searched | {"seed": {"values": [1, 2, 3]}}}
    Path("one.yaml").write_text(yaml.safe_dump(about))
    with mock.patch.object(sweep, "_train", _claim):
        cli.main(["sweep", "one.yaml", "--out", "swept"])
    trust.remember({"env": "strange:Task"})
    shutil.copyfile(trust.known_file(), "trusted-code.txt")
    for name in _MINE:
        (run / "checkpoint" / name).parent.mkdir()
        (run / "checkpoint" / name).write_text("mine")
    return run


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(" | ")] for line in table.splitlines()]


def _spoil(rng: random.Random, file: Path) -> None:
    file.write_bytes(spoiled(rng, file.read_bytes()))


def _spoil_state(rng: random.Random, file: Path) -> None:
    """One place of `state.json`, with a checksum that fits."""
    content = json.loads(file.read_text())
    part = rng.choice(["about", "about", "state", "state", "checksums", "format"])
    content[part] = changed_value(rng, content[part])
    seal(file, content)


def seal(file: Path, content: dict) -> None:
    content["checksum"] = checkpoint._checksum_of(content)
    file.write_text(json.dumps(content))


def _spoil_arrays(rng: random.Random, file: Path) -> None:
    """The arrays beside a `state.json`, with checksums that fit."""
    content = json.loads(file.read_text())
    name = rng.choice(sorted(content["checksums"]))
    _spoil_tensors(rng, file.with_name(name))
    content["checksums"][name] = checkpoint._checksum(file.with_name(name))
    seal(file, content)


def _spoil_tensors(rng: random.Random, file: Path) -> None:
    """A file of safetensors: its bytes, or one array in a file that is whole."""
    if rng.random() < 0.3:
        return _spoil(rng, file)
    with safe_open(file, "pt") as opened:
        metadata, arrays = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    name = rng.choice(sorted(arrays))
    x = arrays.pop(name)
    noise = torch.randint(-128, 127, (x.nbytes,), dtype=torch.int8).view(x.dtype).reshape(x.shape)
    changes = (
        {},
        {name + rng.choice(["x", "\x1b[2J", "/a"]): x},
        {name: x.to(rng.choice([torch.float64, torch.int8, torch.bool, torch.bfloat16]))},
        {name: x.reshape(-1)[: rng.randrange(2)]},
        {name: x.unsqueeze(0)},
        {name: torch.full_like(x, torch.nan if x.is_floating_point() else rng.choice([1, -1, 120]))},
        {name: noise},
    )
    arrays |= rng.choice(changes)
    if metadata and "checksum" in metadata:
        metadata["checksum"] = str(checkpoint._checksum_of_tensors(metadata["figures"], arrays))
    return save_file(arrays, file, metadata)


_SPOILERS = {
    **{"any": _spoil, "state": _spoil_state, "arrays": _spoil_arrays, "tensors": _spoil_tensors},
    "none": _nothing,
}


def _command_line(rng: random.Random) -> list[str]:
    commands, words = CASES["commands"], [*CASES["typed"], *presets.agents()]
    options = [word for _ in range(rng.randint(0, 3)) for word in _option(rng, words)]
    word, names = rng.choice(words), ",".join(rng.choice(words) for _ in range(rng.randint(1, 2)))
    beginnings = (
        [rng.choice(commands), *rng.sample(words, rng.randint(0, 2))],
        ["train", "--agent", word],
        ["compare", "--agents", names, "--seeds", "1"],
        ["envs", "--env", word],
        ["verify", "exported", "--episodes", "0"],
        [rng.choice([*commands, *words])],
    )
    return rng.choice(beginnings) + options


def _option(rng: random.Random, words: list[str]) -> list[str]:
    name, value = rng.choice([*fields_of(), *CASES["options"]]), rng.choice(words)
    if rng.random() < 0.1:
        name = name.replace("_", "-").upper() if rng.random() < 0.3 else name[:-1]
    return [f"--{name}={value}"] if rng.random() < 0.4 else [f"--{name}", value]
