"""Weights & Biases as a tracker of a run; the only file that imports `wandb`."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from dtqn.program import versions
from dtqn.settings.config import Config
from dtqn.settings.layers import named
from dtqn.signals import signal_of
from dtqn.text import one_line
from dtqn.training.directory import HOW_IT_RUNS, RunDir, config_hash
from dtqn.training.metrics import Row, read_rows
from dtqn.training.setup import device_of

Say = Callable[[str], None]

_WAIT_SECONDS = 10
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("dtqn", "torch", "numpy", "gymnasium", "wandb")
_LONGEST_TAG = 64


class Tracker:
    """Where a run's figures are sent to, W&B or nowhere. What breaks there costs the run one line.

    W&B's own step is twice the row's number, so a row that is sent again is known as the same one. The odd
    steps are free for pictures, which are shown after a row without taking the next one's place.
    """

    def __init__(self, run_id: str, run: Any = None, say: Say = print) -> None:
        """`run` is W&B's; None: nothing is sent."""
        self.id = run_id
        """The run's name there. Inside a W&B sweep it is another one after each restart."""
        self._run, self._say = run, say

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        """Send row `number` of the metrics file."""
        values = {key: value for key, value in row.items() if value is not None}
        self._try(lambda run: run.log(values, step=2 * number, commit=True))

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        """Show pictures (`.png`) and films (`.gif`) at row `number`, the last one so far."""

        def show(run: Any) -> None:
            import wandb

            shown: dict[str, Any] = {name: row[name] for name in ("env_steps", "learner_steps")}
            for name, file in files.items():
                is_film = file.suffix == ".gif"
                shown[name] = wandb.Video(str(file), format="gif") if is_film else wandb.Image(str(file))
            run.log(shown, step=2 * number + 1, commit=True)

        self._try(show, "did not accept the pictures")

    def artifact(self, files: Mapping[str, Path]) -> None:
        """Keep files of the run, under the names that they have in its directory."""

        def keep(run: Any) -> None:
            import wandb

            artifact = wandb.Artifact(f"run-{run.id}", type="model")
            with _waiting_in(Path(run.settings.sync_dir, "artifacts")):
                for name, file in files.items():
                    artifact.add_file(str(file), name=name)
            run.log_artifact(artifact)

        self._try(keep, "did not accept the artifact")

    def close(self, exit_code: int = 0) -> None:
        """A run that a signal has ended, other than Ctrl-C, is handed out again where it is a sweep's."""
        if signal_of(exit_code) not in (None, signal.SIGINT):
            self._try(lambda run: run.mark_preempting())
        self._try(lambda run: run.finish(exit_code=exit_code))

    def _try(self, action: Callable[[Any], object], lost: str = "") -> None:
        """Do something; where it fails, nothing more is sent, or only what is said to be `lost` is not."""
        if (run := self._run) is None:
            return
        try:
            action(run)
        except TimeoutError:
            self._run = None
            self._say(
                f"W&B did not receive everything; to send the rest: wandb sync {Path(run.settings.sync_dir)}"
            )
        except (Exception, SystemExit) as error:
            self._run = run if lost else None
            said = lost or "stopped working; the run goes on without it"
            self._say(f"W&B {said}: {one_line(error)}")


@contextlib.contextmanager
def _waiting_in(folder: Path) -> Iterator[None]:
    """Keep an artifact's files in `folder` until they are sent, not in the user's home."""
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


def open_tracker(config: Config, directory: RunDir, run_id: str, say: Say, parameters: int | None) -> Tracker:
    """The run at W&B, or none where it is off or cannot be started, which is said in one line.

    Args:
        run_id: the same after a resume. Inside a W&B sweep it is the run that rows were last sent to.
        parameters: of its network, as far as that is known.
    """
    if config.wandb != "disabled":
        rows = read_rows(directory.metrics_file)
        try:
            return _opened(config, directory.path, run_id, rows, say, parameters)
        except (Exception, SystemExit) as error:
            say(f"W&B could not be started; the run goes on without it: {one_line(error)}")
    return Tracker(run_id)


def _opened(
    config: Config, folder: Path, run_id: str, rows: Sequence[Row], say: Say, parameters: int | None
) -> Tracker:
    """Start or continue the run at W&B and send it the rows that it lacks; never asks, waits 10 s at most.

    Inside a W&B sweep, where there are rows already, the new run is marked as a continuation of the one that
    rows were last sent to, in the configuration as `continues`.
    """
    tags: list[str] | None = _tags(config)
    # The versions and the machine behind a result. W&B itself adds the machine's memory and GPUs.
    machine = {"host": platform.node(), "platform": platform.platform(), "cpus": os.cpu_count()}
    known = named(config) | {"parameters": parameters, "device_used": device_of(config).type}
    known |= {"versions": versions(_PACKAGES), "machine": machine}
    if rows and in_sweep():
        known["continues"] = run_id
    elif rows:  # W&B keeps what the first start said of the machine, and the tags as they are by now
        known, tags = {x: y for x, y in named(config).items() if x not in HOW_IT_RUNS}, None
    asked = {
        "config": known,
        "tags": tags,
        "group": os.environ.get("WANDB_RUN_GROUP", f"{config.env}-{config.agent}"),
        "job_type": os.environ.get("WANDB_JOB_TYPE", "sweep" if in_sweep() else "train"),
    }
    if not in_sweep():  # which sets the project, the id and the name itself
        name = f"{config.env}-{config.agent}-seed{config.seed}-{config_hash(config)}"
        project = os.environ.get("WANDB_PROJECT", "dtqn")
        asked |= {"project": project, "id": run_id, "resume": "allow", "name": name}
    mode = os.environ.get("WANDB_MODE")
    run = _start(config.wandb, folder, asked, say)
    if mode is not None:  # the next run of this process reads it too
        os.environ["WANDB_MODE"] = mode
    tracker = Tracker(str(run.id), run, say)
    # Online, W&B knows how far it got. An offline file stands for itself, so it gets every row.
    for number in range((int(run.starting_step) + 1) // 2, len(rows)):
        tracker.log(number, rows[number])
    return tracker


def _tags(config: Config) -> list[str]:
    """The tags by which runs are found: task, agent, core and the user's own."""
    users = [tag.strip() for tag in os.environ.get("WANDB_TAGS", "").split(",")]
    tags = [config.env, config.agent, config.network.core.name, *users]
    return list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in tags if tag))


def _start(mode: str, folder: Path, asked: dict[str, Any], say: Say) -> Any:
    # WANDB_MODE is in `mode` by now. Error reporting would wait at exit for a server that is away.
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
    if mode == "auto":
        mode = "online" if wandb.login(prompt=False, verify=False) else "offline"
    # The new run leaves the runs of other threads alone.
    init = functools.partial(wandb.init, **asked, dir=str(folder), settings=settings, reinit="create_new")

    try:
        run = init(mode=cast(Any, mode))
    except Exception as error:
        if mode == "offline":
            raise
        wandb.teardown()  # else the id counts as in use
        run = init(mode="offline")
        say(f"W&B cannot be reached; the run's files are kept under {folder / 'wandb'}: {one_line(error)}")
    run.define_metric("env_steps")
    run.define_metric("learner_steps", step_metric="env_steps")
    run.define_metric("*", step_metric="env_steps")
    return run
