"""The kinds of files that this program reads: a good one of each, and the commands that read it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
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
from tests.fuzz.damage import changed_value, spoiled

_FLAGS = {
    **{
        "env": "t-maze-passive-2",
        "wandb": "disabled",
        "threads": "1",
        "device": "cpu",
        "evaluator": "inline",
    },
    **{
        "total-env-steps": "240",
        "warmup-env-steps": "100",
        "metrics-every": "80",
        "checkpoint-every": "1000",
    },
    **{"evaluation.period": "80", "evaluation.episodes": "4", "evaluation.num_envs": "2"},
    **{"actor.num_envs": "2", "replay.capacity": "400", "learner.batches.size": "2"},
    **{"learner.batches.env_steps_per_update": "40", "network.width": "8", "network.core.mlp_width": "8"},
}
_SETTINGS = [f"--{name}={value}" for name, value in _FLAGS.items()]
_COMPARE = compare.compare
_TIGER = """\
discount: 0.95
values: reward
states: left right
actions: listen open
observations: a b
start: uniform
T: listen
identity
T: open
uniform
O: listen
0.85 0.15
0.15 0.85
O: open
uniform
R: listen : * : * : * -1
R: open : left : * : * -100.0
"""
_WORLD = """\
state_space: {objects: [Floor, Wall, Exit], colors: [NONE, RED]}
observation_space: {objects: [Floor, Wall, Exit], colors: [NONE, RED]}
action_space: [MOVE_FORWARD, TURN_LEFT, TURN_RIGHT]
reset_function: {name: empty, shape: [5, 5], random_agent: true}
transition_functions: [{name: move_agent}, {name: turn_agent}]
reward_functions: [{name: reach_exit, reward_on: 1.0, reward_off: 0.0}]
observation_function: {name: partially_occluded, area: [[-2, 0], [-1, 1]]}
terminating_function: {name: reach_exit}
"""


class Kind(NamedTuple):
    """A kind of file."""

    file: str
    """Where it lies among the samples."""
    commands: list[list[str]]
    share: int
    spoil: Callable[[random.Random, Path], None]
    samples: Sequence[Path] = ()
    """Good files, where it is none of a run."""


class Samples:
    """A folder with a good file of each kind, from which copies are spoiled."""

    def __init__(self, folder: Path) -> None:
        self._good, self._work, self.vault = folder / "good", folder / "work", folder / "vault"
        for path in (self._good, self._work):
            path.mkdir()
        os.chdir(self._good)
        self.run = _made()
        """From the folder of the copies, which is the working directory."""
        self.kinds = _kinds(self.run)
        self.renew()

    def renew(self) -> None:
        """Make the copies anew, with the user's diary beside them."""
        os.chdir(self._good)
        for path in (self._work, self.vault):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self._good, self._work)
        self.vault.mkdir()
        (self.vault / "diary").write_text(outcome.SECRET)
        os.chdir(self._work)
        trust._of_this_process.clear()

    @contextlib.contextmanager
    def untrained(self) -> Iterator[None]:
        """A block in which nothing is trained but some steps of a run that is resumed."""
        with contextlib.ExitStack() as stack:
            for module, runner, instead in _RUNNERS:
                stack.enter_context(mock.patch.object(module, runner, instead))
            yield

    def tried(self, name: str, seed: str) -> outcome.Found:
        """What comes of a spoiled file of that kind, or of an odd command line."""
        rng, kind = random.Random(f"{name}/{seed}"), self.kinds[name]
        self.renew()
        before = outcome.state_of(self.vault)
        file = Path(kind.file)
        if kind.samples:
            shutil.copyfile(rng.choice(kind.samples), file)
        if kind.file:
            kind.spoil(rng, file)
        argv = rng.choice(kind.commands) if kind.commands else _command_line(rng)
        with self.untrained():
            found = outcome.of(argv)
        if outcome.state_of(self.vault) != before:
            return found._replace(verdict="outside changed")
        ran = Path("ran").exists() or Path("pwned").exists()
        return found._replace(verdict="code run") if ran else found


def _nothing(*_: object, **__: object) -> int:
    return 0


def _only_tables(*args: object, **options: object) -> int:
    return _COMPARE(*args, **options) if options["records_only"] and options["suite"] is None else 0


def _claim(search: sweep.Sweep, *_: object) -> None:
    """Choose a run, and do not run it."""
    search.next_job()


_RUNNERS = (
    (session, "start", _nothing),
    (sweep, "_train", _claim),
    (compare, "compare", _only_tables),
    (comparison_pictures, "draw_curves", _nothing),
)


def compared() -> list[str]:
    """The command that makes a table of the run."""
    return ["compare", "--agents", "gru", "--seeds", "1", "--records-only", "--out", "out", *_SETTINGS]


def _made() -> Path:
    """Good files in the present folder; the run among them."""
    assert cli.main(["--resume", "auto", "--agent", "gru", *_SETTINGS]) == 0
    (run,) = Path("runs").glob("*/*/seed1-*")
    assert cli.main([*(x for x in compared() if x != "--records-only"), "--records", "runs.jsonl"]) == 0
    assert cli.main(["export", str(run), "--to", "exported", "--episodes", "2"]) == 0
    Path("tiger.pomdp").write_text(_TIGER)
    Path("world.yaml").write_text(_WORLD)
    Path("own.py").write_text("open('ran', 'w')\n")
    values = {**{name.replace("-", "_"): value for name, value in _FLAGS.items()}, "agent": "gru"}
    searched = {name: {"value": value} for name, value in values.items()} | {"seed": {"values": [1, 2, 3]}}
    about = {"program": "run.py", "method": "random", "metric": {"name": "mean_return", "goal": "maximize"}}
    Path("one.yaml").write_text(yaml.safe_dump({**about, "run_cap": 3, "parameters": searched}))
    with mock.patch.object(sweep, "_train", _claim):
        cli.main(["sweep", "one.yaml", "--out", "swept"])
    state = trust.known_file()
    Path("code.yaml").write_text("env: own:Task\n")
    trust.remember({"env": "strange:Task"})
    shutil.copyfile(state, "trusted-code.txt")
    return run


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
    array = arrays[name]
    match rng.randrange(7):
        case 0:
            del arrays[name]
        case 1:
            arrays[f"{name}{rng.choice(['x', chr(27) + '[2J', '/a'])}"] = arrays.pop(name)
        case 2:
            arrays[name] = array.to(rng.choice([torch.float64, torch.int8, torch.bool, torch.bfloat16]))
        case 3:
            arrays[name] = array.reshape(-1)[: rng.randrange(2)]
        case 4:
            arrays[name] = array.unsqueeze(0)
        case 5:
            arrays[name] = torch.full_like(
                array, rng.choice([1, -1, 120]) if not array.is_floating_point() else torch.nan
            )
        case 6:
            arrays[name] = (
                torch.randint(-128, 127, (array.nbytes,), dtype=torch.int8)
                .view(array.dtype)
                .reshape(array.shape)
            )
    if metadata and "checksum" in metadata:
        metadata["checksum"] = str(checkpoint._checksum_of_tensors(metadata["figures"], arrays))
    save_file(arrays, file, metadata)
    return None


def _kinds(run: Path) -> dict[str, Kind]:
    """By name, in the folder of the copies."""
    words = {
        "RUN": str(run),
        "NEWEST": str(next(run.glob("checkpoint/[0-9]*"))),
        "TABLE": " ".join(compared()),
    }
    found = {}
    for line in _TABLE.strip().splitlines():
        for name, text in words.items():
            line = line.replace(name, text)
        name, file, share, spoil, *commands = [cell.strip() for cell in line.split("|")]
        shipped = sorted((layers.CONFIGS / _SHIPPED[name]).rglob("*.yaml")) if name in _SHIPPED else []
        found[name] = Kind(file, [one.split() for one in commands], int(share), _SPOILERS[spoil], shipped)
    return found


_SHIPPED = {"--config": "envs", "agent": "agents", "suite": "suites", "sweep": "sweeps"}
_SPOILERS = {"any": _spoil, "state": _spoil_state, "arrays": _spoil_arrays, "tensors": _spoil_tensors}
_RESUME, _NEW = "--resume RUN --total-env-steps 248", "--run-dir new"
_LAST, _BEST = ("eval RUN --episodes 1 --checkpoint " + name for name in ("last", "best"))
_EXPORT = "export RUN --episodes 1 --to taken"
_RECORD = "records runs.jsonl | --config runs.jsonl#t-maze-passive-2/gru/1"
_VERIFY = "verify exported --episodes 1"
_TABLE = f"""
config.yaml of a run | RUN/config.yaml | 3 | any | {_LAST} | {_RESUME} | --config RUN/config.yaml {_NEW}
--config | file.yaml | 8 | any | --config file.yaml --print-config | --config file.yaml --run-dir new
agent | file.yaml | 5 | any | --agent file.yaml --print-config | --agent file.yaml --run-dir new
suite | file.yaml | 1 | any | compare --agents gru --seeds 1 --suite file.yaml
sweep | file.yaml | 3 | any | sweep file.yaml --run-cap 2
journal of a sweep | swept/journal.log | 1 | any | sweep one.yaml --out swept
records | runs.jsonl | 4 | any | TABLE --records runs.jsonl --runs-dir none | {_RECORD}
metrics.jsonl | RUN/metrics.jsonl | 2 | any | {_RESUME} | TABLE | {_EXPORT} | report RUN --episodes 2
result.json | RUN/result.json | 1 | any | TABLE | --resume RUN
task.json | RUN/task.json | 1 | any | {_LAST} | {_RESUME} | {_EXPORT}
wandb-id.txt | RUN/wandb-id.txt | 1 | any | {_RESUME}
random.json of a table | out/random.json | 1 | any | TABLE
latest | RUN/checkpoint/latest | 2 | any | {_LAST} | {_RESUME}
state.json | NEWEST/state.json | 1 | any | {_LAST} | {_RESUME}
state.json, sealed anew | NEWEST/state.json | 3 | state | {_LAST} | {_RESUME} | {_EXPORT} | --resume RUN
state.safetensors | NEWEST/state.safetensors | 1 | any | {_RESUME}
arrays of a checkpoint, sealed anew | NEWEST/state.json | 2 | arrays | {_LAST} | {_RESUME}
best.safetensors | RUN/checkpoint/best.safetensors | 1 | any | {_BEST} | {_RESUME}
best.safetensors, sealed anew | RUN/checkpoint/best.safetensors | 2 | tensors | {_BEST} | {_EXPORT}
certificate.json | exported/certificate.json | 3 | any | verify exported --episodes 0 | {_VERIFY}
config.yaml of an export | exported/config.yaml | 1 | any | {_VERIFY} | watch exported
model.safetensors of an export | exported/model.safetensors | 1 | tensors | {_VERIFY} | watch exported
.pomdp | tiger.pomdp | 6 | any | envs --env pomdp:tiger.pomdp | --env pomdp:tiger.pomdp {_NEW}
gridverse world | world.yaml | 6 | any | envs --env gridverse:world.yaml | --env gridverse:world.yaml {_NEW}
trusted-code.txt | trusted-code.txt | 2 | any | --config code.yaml --print-config
command lines | | 12 | any
"""
"""Name, file, share of the inputs, how it is spoiled, commands."""


def _command_line(rng: random.Random) -> list[str]:
    commands = [
        "train",
        "eval",
        "debug",
        "report",
        "export",
        "verify",
        "watch",
        "compare",
        "records",
        "sweep",
        "envs",
    ]
    words = [*VALUES_TYPED, *presets.agents(), "one.yaml", "runs.jsonl", "exported", "runs", "world.yaml"]
    options = [word for _ in range(rng.randint(0, 3)) for word in _option(rng, words)]
    match rng.randrange(6):
        case 0:
            return [rng.choice(commands), *rng.sample(words, rng.randint(0, 2)), *options]
        case 1:
            return ["train", "--agent", rng.choice(words), *options]
        case 2:
            names = ",".join(rng.choice(words) for _ in range(rng.randint(1, 2)))
            return ["compare", "--agents", names, "--seeds", "1", *options]
        case 3:
            return ["envs", "--env", rng.choice(words), *options]
        case 4:
            return ["verify", "exported", "--episodes", "0", *options]
    return [rng.choice([*commands, *words]), *options]


def _option(rng: random.Random, words: list[str]) -> list[str]:
    others = (
        "run-dir",
        "resume",
        "config",
        "jobs",
        "seeds",
        "out",
        "help_all",
        "xyz",
        "",
        "episodes",
        "suite",
        "records",
    )
    name = rng.choice(
        [*fields_of(), *others, "search", "metrics", "tasks", "launcher", "slurm.x", "memoryless", "gif"]
    )
    if rng.random() < 0.1:
        name = name.replace("_", "-").upper() if rng.random() < 0.3 else name[:-1]
    value = rng.choice(words)
    return [f"--{name}={value}"] if rng.random() < 0.4 else [f"--{name}", value]


VALUES_TYPED = [
    *("", "0", "-1", "1", "2", "7", "0.5", "64", "1e3", "nan", "-inf", "1e400", "1e308", "9" * 400),
    *("9" * 5000, "1e18"),
    *("none", "true", "no", "x", "a:", ":b", "é", "\udc80", "[1", "{a: b}", "*a", "..", "a" * 300, "%s"),
    *("{0}", "1,2"),
    *("1,,2", " ", "a b", "--", "-", "=", "+", "a=b", "a/b", "refreshed", "quantile", "vector"),
    *("gym-gridverse", "\x1b[2J"),
    *("t-maze-passive-3", "memory-cards-5", "t-maze-passive-99999999", "CartPole-v1", "absent:Task", "a\nb"),
    *("\0", "/"),
    *("x=gtrxl+network.width=32", "q=dqn+seed=1", "/dev/null", "auto", "999999", "runs.jsonl#x"),
]
