"""Random command lines, settings files, agents and sweep files: exit code 0, or 2 and one line of error.

Nothing is trained: the commands go as far as to what would be run. `-m slow` tries two thousand.
"""

from __future__ import annotations

import contextlib
import io
import random
import traceback
from pathlib import Path

import pytest
import yaml

from dtqn import cli
from dtqn.experiments import compare, sweep
from dtqn.settings import layers, presets
from dtqn.settings.config import fields_of
from dtqn.training import preflight, session, trained

_VALUES = [
    *("", "0", "-1", "1", "2", "7", "0.5", "64", "1e3", "nan", "-inf", "1e400", "1e308", "9" * 400),
    *("none", "true", "no", "x", "gtrxl", "a:", ":b", "é", "\udc80", "[1", "{a: b}", "*a", "..", "a" * 300),
    *("%s", "{0}", "1,2", "1,,2", " ", "a b", "--", "-", "=", "+", "a=b", "a/b", "lstm", "dtqn", "refreshed"),
    *("categorical", "vector", "gym-gridverse", "t-maze-passive-3", "memory-cards-5", "gridverse-memory-5x5"),
    *("t-maze-passive-99999999", "CartPole-v1", "absent:Task", "x=gtrxl+network.width=32", "q=dqn+seed=1"),
    *("9" * 5000, "1e18", "999999"),
]
_SCALARS = [
    *("1", "-1", "0.5", "1e3", "2020-01-01", "2020-99-99", "!!int x", "!!float x", "!!bool 3", "!!null x"),
    *("!!timestamp x", "!!python/name:os.system ''", "!!set {a}", "~", "true", "*a", "&a 1", "<<", "'"),
    *("[1, 2]", "{a: 1}", "[[[[1]]]]", "[" * 60 + "]" * 60, "9" * 5000, "0x" + "f" * 900, "?", "-", "|"),
    *("1:30:45", ".inf", ".nan", "none", "horizon", "grid", "bayes", "maximize", "'\\udc80'", "é", "\x07"),
    *("\t", '"\\0"'),
]
_SHIPPED = sorted(layers.CONFIGS.rglob("*.yaml"))
_SWEEP_KEYS = [
    *("program", "project", "name", "method", "run_cap", "metric", "goal", "early_terminate", "type"),
    *("min_iter", "eta", "s", "max_iter", "parameters", "value", "values", "distribution", "min", "max"),
    *("q", "probabilities", "command", "description", "controller"),
]


def _text(rng: random.Random, keys: list[str], depth: int = 0) -> str:
    """A mapping in block style, often wrong."""
    lines = []
    for _ in range(rng.randint(0, 4)):
        key, value = rng.choice(keys), rng.choice(_SCALARS)
        if depth < 3 and rng.random() < 0.4:
            value = "\n" + _text(rng, keys, depth + 1)
        lines.append("  " * depth + f"{key}: {value}")
    return "\n".join(lines)


def _damaged(rng: random.Random, text: str) -> str:
    """A text with lines and characters taken out, doubled and replaced."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        place = rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines.insert(rng.randrange(len(lines)), lines[place])
            case 1:
                del lines[place]
            case 2:
                head, colon, _ = lines[place].partition(":")
                lines[place] = f"{head}{colon} {rng.choice(_SCALARS)}"
            case 3:
                at = rng.randrange(len(lines[place]) + 1)
                lines[place] = lines[place][:at] + rng.choice("{}[]:,&*!|>'\"%@`#-? \t") + lines[place][at:]
            case 4:
                lines[place] = "  " + lines[place]
        text = "\n".join(lines)
    return text


def _file(rng: random.Random, folder: Path) -> str:
    shipped = rng.choice(_SHIPPED)
    keys = [*fields_of(), *(name.rpartition(".")[2] for name in fields_of()), "learner", *_SWEEP_KEYS]
    value = rng.choice([1, -1, 0.5, None, True, [1], {"a": 1}, "x", 10**40])
    content = rng.choice(
        [
            _damaged(rng, shipped.read_text(encoding="utf-8")),
            _text(rng, rng.choice([keys, _SWEEP_KEYS])),
            yaml.safe_dump({rng.choice(keys): value}),
        ]
    )
    path = folder / "file.yaml"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    return rng.choice([str(path)] * 8 + [str(folder), "absent.yaml", str(shipped)])


def _option(rng: random.Random) -> list[str]:
    others = ("run-dir", "resume", "config", "jobs", "seeds", "out", "help_all", "xyz", "")
    name = rng.choice([*fields_of(), *others])
    if rng.random() < 0.1:
        name = name.replace("_", "-").upper() if rng.random() < 0.3 else name[:-1]
    value = rng.choice(_VALUES)
    return [f"--{name}={value}"] if rng.random() < 0.4 else [f"--{name}", value]


def _command_line(rng: random.Random, folder: Path) -> list[str]:
    options = [word for _ in range(rng.randint(0, 2)) for word in _option(rng)]
    file = _file(rng, folder)
    agents = [*presets.agents(), file, f"v={file}", "v=gtrxl+network.width=32", *_VALUES]
    match rng.randrange(7):
        case 0 | 1:
            return ["--config", file, *options]
        case 2:
            return ["train", "--agent", rng.choice(agents), *options]
        case 3:
            names = ",".join(rng.choice(agents) for _ in range(rng.randint(1, 2)))
            return ["compare", "--agents", names, "--seeds", "1", *options]
        case 4:
            return ["sweep", file, "--run-cap", "2", *options]
        case 5:
            return ["envs", *(["--env", rng.choice(_VALUES)] if rng.random() < 0.7 else []), *options]
    return [rng.choice(["eval", "envs", "train", "swep", *_VALUES]), *options]


def _mistake(argv: list[str]) -> str:
    """The fault in the answer to a command line; empty if there is none."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code: object = cli.main(argv)
    except SystemExit as end:  # of --help
        code = end.code
    except Exception:
        return f"{argv!r}\n{traceback.format_exc()}"
    printed = err.getvalue()
    is_right = (code == 0) if not printed else (code == 2 and printed.startswith("error: "))
    return "" if is_right and printed.count("\n") <= 1 else f"{argv!r}\n{code}: {printed}"


def _try(monkeypatch, tmp_path, seed):
    """One random case; what is wrong with it, if anything is."""
    rng = random.Random(seed)
    folder = tmp_path / str(seed)
    folder.mkdir()
    monkeypatch.chdir(folder)
    mistake = _mistake(_command_line(rng, folder))
    return mistake and f"seed {seed}: {mistake}"


@pytest.fixture
def nothing_runs(monkeypatch):
    runners = [(session, "start"), (session, "resume"), (trained, "evaluate_run")]
    for module, name in [*runners, (compare, "compare"), (sweep, "run")]:
        monkeypatch.setattr(module, name, lambda *_, **__: 0)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    "seeds",
    [
        *(range(first, first + 30) for first in range(0, 120, 30)),
        *(pytest.param(range(n, n + 100), marks=pytest.mark.slow) for n in range(1000, 3000, 100)),
    ],
    ids=lambda seeds: str(seeds[0]),
)
def test_random_inputs_are_answered(monkeypatch, tmp_path, seeds):
    wrong = [text for seed in seeds if (text := _try(monkeypatch, tmp_path, seed))]
    assert not wrong, "\n\n".join(wrong)


_SWEEP = yaml.safe_load((layers.CONFIGS / "sweeps" / "memory-length.yaml").read_text())
_OF_SETTINGS = ("seed", "learner", "env", "network.core", "task.hide")
_OF_SWEEPS = ("run_cap", "method", "command", "name", "metric", "parameters", "early_terminate")


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("key", "whole", "commands"),
    [
        *((key, {}, [["--config"], ["--agent"]]) for key in _OF_SETTINGS),
        *((key, _SWEEP, [["sweep", "--run-cap", "2"]]) for key in _OF_SWEEPS),
    ],
)
def test_every_odd_value_of_a_file_is_answered(monkeypatch, tmp_path, key, whole, commands):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "check", lambda *_: None)  # builds a network for every configuration
    rest = "".join(yaml.safe_dump({name: value}) for name, value in whole.items() if name != key)
    file, wrong = tmp_path / "file.yaml", []
    for scalar in _SCALARS:
        file.write_text(f"{rest}{key}: {scalar}", encoding="utf-8")
        wrong += [_mistake([*command, str(file)]) for command in commands]
    assert not any(wrong), "\n\n".join(wrong)
