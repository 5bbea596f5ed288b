"""Runs from Python: `train`, `evaluate`, `compare`, `sweep`, each with the checks and files of its command.

    run = dtqn.train("CartPole-v1", agent="gtrxl", total_env_steps=50_000, task={"hide": "1,3"})
    action = run.policy.act(observation)

A mistake is a `ConfigError` of one line.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import yaml

from dtqn.program import program
from dtqn.settings import presets, trust
from dtqn.settings.config import Config, ConfigError, setting_of, spelled, wrong
from dtqn.settings.task import task_of
from dtqn.settings.values import typed
from dtqn.training import objects
from dtqn.training.directory import RunDir, trained_at
from dtqn.training.metrics import Row, frame, is_evaluation, read_rows
from dtqn.training.plan import AUTO, plan
from envs.options import is_plain

if TYPE_CHECKING:
    from dtqn.acting.evaluation import EvaluationResult
    from dtqn.experiments.comparison_table import Table
    from dtqn.policy import Policy


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
        return read_rows(RunDir(self.run_dir).metrics_file)

    @property
    def evaluation(self) -> Row:
        """The last row with an evaluation; empty before the first."""
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
        """The metrics as a `pandas.DataFrame` by `env_steps`; a ConfigError where pandas is not installed."""
        return frame(self.metrics).set_index("env_steps")


@dataclasses.dataclass(frozen=True)
class Best:
    """What a sweep has found: values by setting, as `train` takes them, their mean score and first run."""

    settings: Mapping[str, Any]
    score: float
    run_dir: Path


def train(
    env: Any = None,
    agent: str | Path | Mapping[str, Any] | None = None,
    *,
    callbacks: Any = (),
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    runs_dir: str | Path | None = None,
    resume: str | Path | None = None,
    accept_changed_code: bool = False,
    trust_code: bool = False,
    out: TextIO | None = None,
    **settings: Any,
) -> Run:
    """Train an agent or resume a run, like the command `train`, with its settings, checks and files.

    Args:
        env: a task's name, a class that is a `gymnasium.Env` or an `envs.vector.Dynamics`, or a function
            that makes a `gymnasium.Env`.
        agent: a preset's name or a file, as `--agent`; or settings over the preset that its `agent` names.
        callbacks: one or several; `dtqn.training.callbacks.Callbacks` says what they may be.
        config, run_dir, runs_dir, resume, accept_changed_code, trust_code: the options of these names.
        out: where progress is written; standard output by default.
        settings: by name or by group: `seed=1`, `learner={"learning_rate": 3e-4}`. `network.core` and
            `network.encoder` may be classes or functions.

    An object that no module holds is found in this process alone: evaluations are played here, and workers
    in other processes are refused. To resume or load the run, pass the object again.

    Raises:
        ConfigError: a mistake, in the one line that the command prints. Nothing has been trained.
        KeyboardInterrupt: Ctrl-C, after saving.
        Exception: what a callback or the task raised, after saving.
    """
    if out is not None and not hasattr(out, "write"):
        raise wrong("out", out, "must be a stream, such as sys.stderr; run_dir is the run's folder")
    file, folder, folders, resumed = (
        None if path is None else Path(path) for path in (config, run_dir, runs_dir, resume)
    )
    with trust.given(trust_code):
        began = None if resumed in (None, AUTO) else RunDir(resumed)
        agent = agent if isinstance(agent, Mapping) else {"agent": agent}
        given = _texts(agent, began) | _texts({"env": env} | settings, began)
        asked = plan(given, file, folder, folders, resumed, accept_changed_code)
        from dtqn.training.callbacks import Callbacks

        run = Run(asked.directory.path)
        told = Callbacks(callbacks, run)
        go_on = f"to continue: dtqn.train(resume={str(asked.directory.path)!r}, ...) with it"
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
    other_task: Mapping[str, Any] | None = None,
) -> EvaluationResult:
    """Play episodes with a run's weights on separate seeds, like the command `eval`.

    Args:
        weights: `last` or `best`.
        epsilon: the share of random actions; None: as in the run's evaluations, mostly 0.
        handed, trust_code: as in `dtqn.load`.
        other_task: settings of another task with the same spaces, such as `{"env": "t-maze-passive-1000"}`;
            None: the run's own.
    """
    directory = RunDir(run.run_dir if isinstance(run, Run) else trained_at(Path(run)))
    from dtqn.training import trained

    with trust.given(trust_code):
        objects.named(handed or {}, directory)
        task_of(directory.read_config())
        return trained.evaluate_run(directory, episodes, seed, weights, epsilon, other_task)


def compare(agents: Any, env: Any = None, *, seeds: int = 5, trust_code: bool = False, **more: Any) -> Table:
    """Compare agents on the same tasks and seeds, like the command `compare`, with its checks and files.

    Args:
        agents: by name, a preset, a file, or settings over the preset that `agent` names; or as `--agents`.
        more: settings of all runs, as in `train`, and options of the command, such as `baseline="drqn"`.

    Runs with objects that no other process finds are trained in this one, one after the other. After an
    interruption, the same call goes on. It raises what `train` raises.
    """
    from dtqn.experiments import compare, comparison_table

    if isinstance(agents, Mapping):
        agents = [_agent(name, own) for name, own in agents.items()]
    given = _texts({"agents": agents, "env": env, "seeds": seeds, **more})
    command = f"{program()} compare {shlex.join(f'--{name}={text}' for name, text in given.items())}"
    with trust.given(trust_code):
        code, folder = compare.asked(given, command)
    _interrupt(code)
    return comparison_table.read(folder / "table.json")


def sweep(
    file: str | Path, env: Any = None, *, trials: int | None = None, trust_code: bool = False, **more: Any
) -> Best:
    """Search settings as a sweep file says, or go on with it: as the command `sweep`, the rest as `compare`.

    `trials` is `--run-cap`, runs in all. Where none has a result, a RuntimeError says so.
    """
    from dtqn.experiments import sweep

    with trust.given(trust_code):
        code, found = sweep.asked(Path(file), _texts({"env": env, "run_cap": trials, **more}))
    _interrupt(code)
    if found is None or found.value is None:
        raise RuntimeError("no configuration has a result")
    return Best(found.parameters, found.value, Path(found.trials[0].run_dir))


def _interrupt(code: int) -> None:
    """Raise the signal of an exit code, if there was one."""
    if code > 128:
        raise KeyboardInterrupt if code == 130 else SystemExit(code)


def _agent(name: str, own: Any) -> str:
    """What stands for an agent in `--agents`: `gtrxl`, or `wide=gtrxl+network.width=128`."""
    if isinstance(own, Mapping) and "agent" not in own and name not in presets.agents():
        raise ConfigError(f"agents: {name} is not a preset, so its settings need one, like 'agent': 'lstm'")
    settings = {"agent": name} | _texts(own if isinstance(own, Mapping) else {"agent": own})
    text = "+".join([settings.pop("agent"), *(f"{key}={value}" for key, value in settings.items())])
    return text if text == name else f"{name}={text}"


def _texts(given: Mapping[str, Any], began: RunDir | None = None, group: str = "") -> dict[str, str]:
    """Settings and options by dotted name, as they would be typed; `began` has names for objects already."""
    found: dict[str, str] = {}
    for key, value in given.items():
        name = spelled(f"{group}{key}")
        is_own = setting_of(name) not in (None, name)  # a name of the user's own, in a mapping
        if value is None and name in ("env", "agent"):
            continue
        if isinstance(value, Mapping) and not is_own:
            found |= _texts(value, began, f"{name}.")
        elif name in objects.SETTINGS and not isinstance(value, str):
            found |= objects.named({name: value}, began)
        elif is_own:
            if not is_plain(value):
                right = "must be a number, text, true, false, None, or lists and mappings of these"
                raise wrong(name, value, right)
            found[name] = yaml.safe_dump([value], default_flow_style=True, width=10**9).strip()[1:-1]
        else:
            found[name] = typed(value)
    return found
