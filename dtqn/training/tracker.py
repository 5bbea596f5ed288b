"""An experiment tracker beside the metrics file: Weights & Biases where it is wanted and works."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dtqn.program import versions
from dtqn.settings.config import Config
from dtqn.text import one_line
from dtqn.training.directory import HOW_IT_RUNS, config_hash
from dtqn.training.metrics import Row

_WAIT_SECONDS = 10
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("dtqn", "torch", "numpy", "gymnasium", "wandb")
_LONGEST_TAG = 64


class Tracker(Protocol):
    """An experiment tracker beside the metrics file."""

    id: str
    """The run's name there. Inside a W&B sweep it is another one after each restart."""

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        """Send row `number` of the metrics file."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set figures of the run as a whole."""

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        """Show pictures (`.png`) and films (`.gif`) at row `number`, the last one so far."""

    def artifact(self, files: Mapping[str, Path]) -> None:
        """Keep files, under the names that they have in the run's directory."""

    def close(self, exit_code: int = 0) -> None: ...


class NoTracker:
    """Nothing beside the metrics file."""

    def __init__(self, run_id: str) -> None:
        self.id = run_id

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        pass

    def summary(self, values: Mapping[str, Any]) -> None:
        pass

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        pass

    def artifact(self, files: Mapping[str, Path]) -> None:
        pass

    def close(self, exit_code: int = 0) -> None:
        pass


class WandbTracker:
    """A W&B run. Whatever breaks in it is said in one line, and the training goes on without it.

    W&B's own step is twice the row's number, so a row that is sent again is known as the same one. The odd
    steps are free for pictures, which are shown after a row without taking the next one's place.
    """

    def __init__(self, run: Any, say: Callable[[str], None]) -> None:
        self.id = str(run.id)
        self._run, self._say = run, say
        self._files = Path(run.settings.sync_dir)

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        values = {key: value for key, value in row.items() if value is not None}
        self._try(lambda run: run.log(values, step=2 * number, commit=True))

    def summary(self, values: Mapping[str, Any]) -> None:
        self._try(lambda run: run.summary.update(dict(values)))

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        import wandb

        def show(run: Any) -> None:
            shown: dict[str, Any] = {
                name: wandb.Video(str(file), format="gif")
                if file.suffix == ".gif"
                else wandb.Image(str(file))
                for name, file in files.items()
            }
            clocks = {name: row[name] for name in ("env_steps", "learner_steps")}
            run.log(clocks | shown, step=2 * number + 1, commit=True)

        self._try(show, "does not take the pictures")

    def artifact(self, files: Mapping[str, Path]) -> None:
        import wandb

        def keep(run: Any) -> None:
            artifact = wandb.Artifact(f"run-{run.id}", type="model")
            with _waiting_in(self._files / "artifacts"):
                for name, file in files.items():
                    artifact.add_file(str(file), name=name)
            run.log_artifact(artifact)

        self._try(keep, "does not take the artifact")

    def close(self, exit_code: int = 0) -> None:
        self._try(lambda run: run.finish(exit_code=exit_code))

    def _try(self, action: Callable[[Any], object], lost: str | None = None) -> None:
        """Do something with the run; where it fails, W&B is given up, or only what is said to be `lost`."""
        if self._run is None:
            return
        try:
            action(self._run)
        except TimeoutError:
            self._run = None
            self._say(f"W&B did not take everything; the rest is kept: wandb sync {self._files}")
        except (Exception, SystemExit) as error:
            if lost is None:
                self._run = None
                lost = "stopped working, the run goes on without it"
            self._say(f"W&B {lost}: {one_line(error)}")


@contextlib.contextmanager
def _waiting_in(folder: Path) -> Iterator[None]:
    """Let files of an artifact wait beside the run until they are sent, not in the user's home."""
    before = os.environ.get("WANDB_DATA_DIR")
    os.environ["WANDB_DATA_DIR"] = before or str(folder.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ["WANDB_DATA_DIR"]


def in_sweep() -> bool:
    """Whether a W&B agent started this process: then every start is a new run there, whatever id is asked."""
    return bool(os.environ.get("WANDB_SWEEP_ID"))


def open_tracker(
    config: Config,
    directory: Path,
    run_id: str,
    rows: Sequence[Row],
    say: Callable[[str], None],
    about: Mapping[str, Any] | None = None,
) -> Tracker:
    """Start or continue the run at W&B and send it the rows that it lacks; never asks, waits 10 s at most.

    Args:
        directory: the run's directory, for W&B's files.
        run_id: the same after a resume. Inside a W&B sweep it is the run that rows were last sent to; where
            there are rows, the new one is marked as its continuation, in the configuration as `continues`.
        rows: the metrics file so far.
        say: for the one line where W&B is not to be had.
        about: what else is known of the run's first start, kept with its configuration.
    """
    if config.wandb == "disabled":
        return NoTracker(run_id)
    try:
        tags: list[str] | None = _tags(config)
        known = config.model_dump(mode="json") | dict(about or {}) | _provenance()
        if rows and not in_sweep():
            # W&B keeps what the first start said of the machine, and the tags as they are by now.
            known, tags = config.model_dump(mode="json", exclude=HOW_IT_RUNS), None
        if in_sweep() and rows:
            known["continues"] = run_id
        run = _start(config, directory, run_id, known, tags, say)
        tracker = WandbTracker(run, say)
        # Online, W&B knows how far it got. An offline file stands for itself, so it gets every row.
        for number in range((int(run.starting_step) + 1) // 2, len(rows)):
            tracker.log(number, rows[number])
    except (Exception, SystemExit) as error:
        say(f"W&B could not be started, the run goes on without it: {one_line(error)}")
        return NoTracker(run_id)
    return tracker


def _provenance() -> dict[str, Any]:
    """The versions and the machine behind a result. W&B itself adds the machine's memory and GPUs."""
    return {
        "versions": versions(_PACKAGES),
        "machine": {"host": platform.node(), "platform": platform.platform(), "cpus": os.cpu_count()},
    }


def _tags(config: Config) -> list[str]:
    """The tags by which runs are found: task, agent, core and the user's own."""
    users = [tag.strip() for tag in os.environ.get("WANDB_TAGS", "").split(",")]
    tags = [config.env, config.agent, config.network.core, *users]
    return list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in tags if tag))


def _start(
    config: Config,
    directory: Path,
    run_id: str,
    known: dict[str, Any],
    tags: list[str] | None,
    say: Callable[[str], None],
) -> Any:
    # WANDB_MODE is in `config.wandb` by now. Error reporting would wait at exit for a server that is away.
    os.environ.pop("WANDB_MODE", None)
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    settings = wandb.Settings(
        silent=True,
        console="off",
        init_timeout=_WAIT_SECONDS,
        finish_timeout=_WAIT_SECONDS,
        finish_timeout_raises=True,
        x_transaction_log_flush_interval=0.5,  # a run that is killed early is on the disk all the same
    )
    if (_ROOT / ".git").exists():  # the commit of this program, not of the folder that it was started in
        settings.git_root = str(_ROOT)
    wandb.setup(settings=settings)
    mode = config.wandb
    if mode == "auto":
        mode = "online" if wandb.login(prompt=False, verify=False) else "offline"
    # A W&B sweep sets the project, the id and the name itself.
    own: dict[str, Any] = {
        "project": os.environ.get("WANDB_PROJECT", "dtqn"),
        "id": run_id,
        "resume": "allow",
        "name": f"{config.env}-{config.agent}-seed{config.seed}-{config_hash(config)}",
    }

    def init(mode: Any) -> Any:
        return wandb.init(
            **({} if in_sweep() else own),
            group=os.environ.get("WANDB_RUN_GROUP", f"{config.env}-{config.agent}"),
            job_type=os.environ.get("WANDB_JOB_TYPE", "sweep" if in_sweep() else "train"),
            tags=tags,
            config=known,
            dir=str(directory),
            mode=mode,
            settings=settings,
        )

    try:
        run = init(mode)
    except Exception as error:
        if mode == "offline":
            raise
        wandb.teardown()  # else the id counts as in use
        run = init("offline")
        say(f"W&B is not to be reached, its files are kept under {directory / 'wandb'}: {one_line(error)}")
    run.define_metric("env_steps")
    run.define_metric("learner_steps", step_metric="env_steps")
    run.define_metric("*", step_metric="env_steps")
    return run
