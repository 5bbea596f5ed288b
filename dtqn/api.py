"""Runs from Python: `dtqn.train`, `dtqn.evaluate` and what they hand back. The commands call these too.

run = dtqn.train("CartPole-v1", agent="gtrxl", total_env_steps=50_000, task={"hide": "1,3"})
run.policy.act(observation)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dtqn.settings import trust
from dtqn.settings.config import Config, ConfigError
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
        try:
            import pandas
        except ImportError:
            raise ConfigError('to_pandas needs pandas; pip install "dtqn[pandas]"') from None
        return pandas.DataFrame(self.metrics).set_index("env_steps")


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
        if line := objects.told(asked.config, asked.directory):
            print(line, file=out, flush=True)
        code = asked._replace(config=objects.settled(asked.config)).train(out, told)
    run._policy = None  # a callback may have read an earlier one
    if told.error is not None:
        raise told.error
    if code > 128:
        raise KeyboardInterrupt if code == 130 else SystemExit(code)
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


def _given(env: Any, agent: str | Path | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> Any:
    """All that the caller asks for, by group."""
    below = dict(agent) if isinstance(agent, Mapping) else {"agent": agent}
    own = {"env": env, "agent": below.pop("agent", None)}
    named = {
        name: str(value) if name == "agent" else value for name, value in own.items() if value is not None
    }
    return merge(merge(nested(below), nested(settings)), named)
