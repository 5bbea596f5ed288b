"""Runs from Python: `train`, `evaluate`, `compare`, `sweep` and what they hand back, as of the commands.

run = dtqn.train("CartPole-v1", agent="gtrxl", total_env_steps=50_000, task={"hide": "1,3"})
run.policy.act(observation)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import yaml

from dtqn.settings import trust
from dtqn.settings.config import Config, ConfigError, setting_of, spelled, wrong
from dtqn.settings.layers import merge, nested
from dtqn.settings.task import task_of
from dtqn.training import objects
from dtqn.training.directory import RunDir, trained_at
from dtqn.training.plan import AUTO, plan

if TYPE_CHECKING:
    from dtqn.acting.evaluation import EvaluationResult
    from dtqn.policy import Policy
    from dtqn.training.metrics import Row


class Run:
    """A run in its directory, finished or not; all that it tells is read from the files there."""

    def __init__(self, run_dir: str | Path) -> None:
        self.run_dir = Path(run_dir)
        self._policy: Policy | None = None

    def __repr__(self) -> str:
        return f"dtqn.Run({str(self.run_dir)!r})"

    @property
    def config(self) -> Config:
        """Every setting."""
        return RunDir(self.run_dir).read_config()

    @property
    def metrics(self) -> list[Row]:
        """The rows of `metrics.jsonl` so far, in order."""
        from dtqn.training.metrics import read_rows

        return read_rows(RunDir(self.run_dir).metrics_file)

    @property
    def evaluation(self) -> Row:
        """The last row with an evaluation; empty before the first."""
        from dtqn.training.metrics import is_evaluation

        return next((row for row in reversed(self.metrics) if is_evaluation(row)), {})

    @property
    def finished(self) -> bool:
        """Whether it has come to its end, and not been stopped before."""
        return RunDir(self.run_dir).read_result() is not None

    @property
    def policy(self) -> Policy:
        """The greedy policy of the last checkpoint, read once; `dtqn.load` has more choices."""
        if self._policy is None:
            from dtqn.policy import load

            self._policy = load(self.run_dir)
        return self._policy

    def to_pandas(self) -> Any:
        """The metrics as a `pandas.DataFrame`, a row each, with `env_steps` as its index.

        Raises:
            ConfigError: pandas is not installed.
        """
        return _pandas().DataFrame(self.metrics).set_index("env_steps")


class Comparison:
    """A comparison in its folder; all that it tells is read from `table.json` there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"dtqn.Comparison({str(self.folder)!r})"

    def __str__(self) -> str:
        """The table as the command shows it."""
        from dtqn.experiments import comparison_table

        return comparison_table.told(comparison_table.of_json(self._content), self.folder)

    @property
    def _content(self) -> Mapping[str, Any]:
        content: Mapping[str, Any] = json.loads((self.folder / "table.json").read_text(encoding="utf-8"))
        return content

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The figures of each agent in each task, of random actions too; docs/compare.md explains them."""
        return list(self._content["table"])

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The figures of each run behind them, with its `run_dir`, and its `error` where it has none."""
        return list(self._content["runs"])

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`, with `iqm.low` for the `low` of `iqm`; errors as of a `Run`."""
        return _pandas().json_normalize(self.rows)


@dataclasses.dataclass(frozen=True)
class Best:
    """What a sweep has found."""

    settings: Mapping[str, Any]
    """The best values of what was searched but the seed, by dotted name, as `train` takes them."""
    score: float
    """The sweep's metric, its mean over the runs that differ in nothing but their seed."""
    run_dir: Path
    """The first of these runs."""


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ConfigError('to_pandas needs pandas; pip install "dtqn[pandas]"') from None
    return pandas


def train(
    env: Any = None,
    agent: str | Path | Mapping[str, Any] | None = None,
    *,
    callbacks: Sequence[Any] = (),
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    runs_dir: str | Path | None = None,
    resume: str | Path | None = None,
    accept_changed_code: bool = False,
    trust_code: bool = False,
    out: TextIO | None = None,
    **settings: Any,
) -> Run:
    """Train an agent, or go on with a run: as the command `train`, with its settings, checks and files.

    Args:
        env: a task's name, a class that is a `gymnasium.Env` or an `envs.vector.Dynamics`, or a function
            that makes a `gymnasium.Env`.
        agent: a preset's name or a file, as `--agent`; or settings over the preset that its `agent` names.
        callbacks: `dtqn.training.callbacks.Callbacks` says what they may be.
        config, run_dir, runs_dir, resume, accept_changed_code, trust_code: the options of these names.
        out: where progress is written; standard output by default.
        settings: by name or by group: `seed=1`, `learner={"learning_rate": 3e-4}`. `network.core` and
            `network.encoder` may be classes or functions.

    What is no object of a module is found in this process alone: evaluations are played here, workers in
    other processes are refused, and whoever goes on with the run, or loads it, hands the object over again.

    Raises:
        ConfigError: a mistake, in the one line that the command prints. Nothing has been trained.
        KeyboardInterrupt: Ctrl-C, after saving.
        Exception: what a callback or the task has raised, after saving.
    """
    file, folder, folders, resumed = (
        None if path is None else Path(path) for path in (config, run_dir, runs_dir, resume)
    )
    given = _given(env, agent, settings)
    with trust.given(trust_code):
        began = None if resumed in (None, AUTO) else RunDir(resumed)
        names = objects.named(objects.among(given), began)
        given = merge(given, nested(names))
        asked = plan(given, file, folder, folders, resumed, accept_changed_code)
        from dtqn.training.callbacks import Callbacks

        run = Run(asked.directory.path)
        told = Callbacks(callbacks, run)
        go_on = f"to go on: dtqn.train(resume={str(asked.directory.path)!r}, ...) with it"
        if line := objects.told(asked.config, go_on):
            print(line, file=out, flush=True)
        code = asked._replace(config=objects.settled(asked.config)).train(out, told)
    run._policy = None  # a callback may have read an earlier one
    if told.error is not None:
        raise told.error
    _interrupt(code)
    return run


def evaluate(
    run: Run | str | Path,
    episodes: int = 500,
    seed: int = 7,
    weights: str = "last",
    epsilon: float | None = None,
    handed: Mapping[str, Any] | None = None,
    trust_code: bool = False,
) -> EvaluationResult:
    """Episodes of a run's weights on seeds of their own, as the command `eval`.

    Args:
        weights: `last` or `best`.
        epsilon: the share of random actions; None is that of the run's evaluations, mostly 0.
        handed, trust_code: as of `dtqn.load`.
    """
    directory = RunDir(run.run_dir if isinstance(run, Run) else trained_at(Path(run)))
    from dtqn.training import trained

    with trust.given(trust_code):
        objects.named(handed or {}, directory)
        task_of(directory.read_config())
        return trained.evaluate_run(directory, episodes, seed, weights, epsilon)


def compare(
    agents: Mapping[str, Any] | Sequence[str] | str,
    env: Any = None,
    *,
    seeds: int = 5,
    trust_code: bool = False,
    **more: Any,
) -> Comparison:
    """Compare agents on the same tasks and seeds: as the command `compare`, whose files it finds and writes.

        table = dtqn.compare({"gtrxl": {}, "wide": {"agent": "gtrxl", "network": {"width": 128}}}, env=MyEnv)

    Args:
        agents: by name, settings over the preset that their `agent` names, or the preset or file alone;
            or the text of `--agents`.
        env: as of `train`, or several names with commas between.
        more: settings of all runs, as of `train`, and the command's other options: `baseline="drqn"`,
            `jobs=2`, `suite="dtqn"`, `out="folder"`.

    Runs are processes. Those of an object that no module has, which no process finds, are trained in this
    one, one after the other; the same call goes on after an interruption, in a new process too.

    Raises:
        ConfigError: a mistake, in the one line that the command prints. Nothing has been trained.
        KeyboardInterrupt: Ctrl-C, after saving.
    """
    from dtqn.commands import experiments

    if isinstance(agents, Mapping):
        agents = [_agent(name, own) for name, own in agents.items()]
    given = {"agents": agents} | ({} if env is None else {"env": env}) | {"seeds": seeds}
    with trust.given(trust_code), _environment_kept():
        ended = experiments.asked_comparison(_words(given | more)).run()
    _interrupt(ended.code)
    return Comparison(ended.folder)


def sweep(
    file: str | Path, env: Any = None, *, trials: int | None = None, trust_code: bool = False, **more: Any
) -> Best:
    """Search settings as a sweep file says, or go on with it: as the command `sweep`, with its files.

    Args:
        env: as of `train`; None leaves it to the file.
        trials: the command's `--run-cap`: runs in all, those of before included; None leaves it to the file.
        more: settings of all runs, as of `train`, and the command's other options: `search_seed=1`.

    Runs of objects are where those of `compare` are; errors are as there.

    Raises:
        RuntimeError: no run has a result.
    """
    from dtqn.commands import experiments

    given = ({} if env is None else {"env": env}) | {"run_cap": trials}
    with trust.given(trust_code), _environment_kept():
        ended = experiments.asked_sweep([str(file), *_words(given | more)]).run()
    _interrupt(ended.code)
    if ended.best is None or ended.best.value is None:
        raise RuntimeError(f"no configuration has a result; all in {ended.folder}")
    return Best(ended.best.parameters, ended.best.value, Path(ended.best.trials[0].run_dir))


def _interrupt(code: int) -> None:
    """Raise what has ended a run by this exit code, if it was a signal."""
    if code > 128:
        raise KeyboardInterrupt if code == 130 else SystemExit(code)


@contextlib.contextmanager
def _environment_kept() -> Iterator[None]:
    """A block that leaves no variable behind, as that of a process does."""
    before = set(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - before:
            del os.environ[name]


def _agent(name: str, own: Any) -> str:
    """What stands for an agent in `--agents`: `gtrxl`, or `wide=gtrxl+network.width=128`."""
    settings = dict(_flat({"agent": name} | (own if isinstance(own, Mapping) else {"agent": own})))
    text = "+".join([_text(settings.pop("agent")), *(f"{key}={_text(x)}" for key, x in settings.items())])
    return text if text == name else f"{name}={text}"


def _words(given: Mapping[str, Any]) -> list[str]:
    """The arguments of a command line with these options and settings.

    So what is given from Python is read, checked and told as what is typed.
    """
    words = []
    for name, value in _flat(given):
        option = f"--{name}" if "." in name else f"--{name.replace('_', '-')}"
        if setting_of(name) is not None or not (value is None or isinstance(value, bool)):
            words.append(f"{option}={_text(value)}")
        elif value:  # a switch
            words.append(option)
    return words


def _flat(given: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """Options and settings by dotted name, objects by the names that they are found by."""
    for key, value in given.items():
        name = spelled(f"{group}{key}")
        if setting_of(group[:-1]):  # a name of the user's own in a mapping
            yield name, _yaml(name, value)
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif name in objects.SETTINGS and not isinstance(value, str):
            yield from objects.named({name: value}).items()
        else:
            yield name, value


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _yaml(name: str, value: Any) -> str:
    try:
        return yaml.safe_dump(value, default_flow_style=True, width=math.inf).removesuffix("...\n").strip()
    except yaml.YAMLError:
        right = "must be numbers, text, true, false, None, or lists and mappings of these"
        raise wrong(name, repr(value), right) from None


def _given(env: Any, agent: str | Path | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> Any:
    """All that the caller asks for, by group."""
    below = dict(agent) if isinstance(agent, Mapping) else {"agent": agent}
    own = {"env": env, "agent": below.pop("agent", None)}
    named = {
        name: str(value) if name == "agent" else value for name, value in own.items() if value is not None
    }
    return merge(merge(nested(below), nested(settings)), named)
