"""A run's directory: what lies where, and whether a run may start or go on there. Knows nothing of torch."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

import envs
from dtqn.files import fault, lock_file, write_whole
from dtqn.program import program
from dtqn.settings import trust
from dtqn.settings.config import SETTLED, Config, ConfigError, fields_of, settings_of
from dtqn.settings.faults import first_fault
from dtqn.settings.layers import (
    Layer,
    build,
    environment_layer,
    file_layer,
    layer_of,
    named,
    nested,
    of_run,
    of_today,
    to_yaml,
)
from dtqn.settings.names import folder_of, name_of
from dtqn.text import one_line
from envs import this_process

HOW_IT_RUNS = {
    *("checkpoint_every", "wandb", "device", "cuda_graphs", "threads", "evaluator"),
    "actor.pool.step_timeout",
}
"""Settings that runs with the same `config_hash` may differ in. `total_env_steps` is none of them: the step
size falls over a run's whole length, so a short run that was extended is not the long one."""
ONCE_FIXED = {"evaluation.period": 25_000}
"""Defaults of an earlier version of settings that are now a function of the run's length: such a value is
left out where settings that differ from their defaults are told."""
ENDS = ("total_env_steps", "stop_at_success", "stop_at_return")
"""Settings that decide where a run ends, in the order of `ends_at`."""
MAY_CHANGE = HOW_IT_RUNS | {*ENDS}
"""Settings that a resumed run may be given anew: where it ends and how it is run, not what is learned."""


_SUFFIXES = {
    *(".yaml", ".json", ".jsonl", ".png", ".svg", ".gif", ".log", ".txt", ".md", ".html", ".safetensors"),
}
"""Of the files that a run, its reports and an exported agent hold."""
_CALLS = {"eval": "dtqn.evaluate({!r})", "report": "dtqn.Run({!r})", "--resume": "dtqn.train(resume={!r})"}
"""The commands as calls."""
EXPORTED_WEIGHTS = "model.safetensors"
"""The last weights in the folder of an exported agent; the best are in `best.safetensors`."""


DEMO = Path(__file__).resolve().parents[1] / "demo"
"""The trained agent that comes with this program."""


def trained_at(path: Path) -> Path:
    """The folder of a trained agent; `demo` is this program's own, where there is no such folder."""
    return DEMO if path == Path(DEMO.name) and not path.exists() else path


def pages_of(path: Path) -> Path:
    """The folder where pages about a trained agent go: its own, or here."""
    return Path() if path == DEMO else path


def config_hash(config: Config) -> str:
    """Eight hexadecimal digits of the settings that decide a run's result and differ from their defaults.

    So a setting that a later version adds leaves the hash as it was. Where a later version changes a default,
    `RunDir.prepare` meets the old value in the run's own configuration and refuses. For a task or a network
    that is not this suite's own its digest is a part too: an edited one is another run.
    """
    identity = run_identity(config)
    return hash_of(deciding_settings(config), None if identity.is_native else identity.digest)


def hash_of(settings: Mapping[str, Any], task_digest: str | None) -> str:
    """`config_hash` of these `deciding_settings`; `task_digest` is None where all is this suite's own."""
    content = dict(settings) if task_digest is None else {**settings, "task_digest": task_digest}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def deciding_settings(config: Config) -> dict[str, Any]:
    """The settings that decide a run's result and differ from their defaults, by group."""
    return nested(apart(lasting_settings(resolved(config))))


def lasting_settings(config: Config) -> dict[str, Any]:
    """All settings except `HOW_IT_RUNS`, by dotted name."""
    return {name: value for name, value in named(config).items() if name not in HOW_IT_RUNS}


def apart(settings: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted name, the settings that differ from today's defaults, and those that are no settings now."""
    return {name: value for name, value in settings.items() if value != defaults().get(name, _ABSENT)}


@functools.cache
def defaults() -> dict[str, Any]:
    """By dotted name, today's defaults."""
    usual = {name: getattr(field.default, "name", field.default) for name, field in fields_of().items()}
    return usual | ONCE_FIXED


def changed_settings(then: Mapping[str, Any], config: Config) -> list[str]:
    """The settings in `then` that are others in `config`, in words: `learner.gamma is 0.9, now 0.99`."""
    lines = []
    for name, now in lasting_settings(resolved(config)).items():
        if (was := then.get(name, now)) != now:
            lines.append(f"{name} is {was}, now {now}")
    return lines


def task_identity(config: Config) -> envs.Identity:
    """The identity of the run's task at this moment; a ConfigError where it cannot be found out."""
    try:
        return envs.identify(config.env, **config.task.model_dump())
    except ValueError as error:
        raise ConfigError(f"env is {config.env}: {error}") from None


def run_identity(config: Config) -> envs.Identity:
    """The identity of the run's task and of a user's own core and encoder; errors as `task_identity`."""
    task = task_identity(config)
    names = own_networks(config)
    modules = [name if this_process.holds(name) else name.partition(":")[0] for name in names]
    try:
        return envs.with_modules(task, modules)
    except ValueError as error:
        raise ConfigError(f"the run needs {error}") from None


def own_networks(config: Config) -> list[str]:
    """The run's core and encoder, as far as they are of the user's own."""
    return [one.name for one in (config.network.core, config.network.encoder) if one.is_own]


def own_code(config: Config) -> tuple[str, ...]:
    """What of the run may be of the user's own: its task, and such networks."""
    return (config.env, *own_networks(config))


@contextlib.contextmanager
def file_errors(path: Path, what: str) -> Iterator[None]:
    """An `OSError` in the block as a `ConfigError`: `<path>: <what>: <reason>`."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: {what}: {error.strerror or one_line(error)}") from None


class _About(BaseModel):
    """What is read of a checkpoint's description of its run."""

    model_config = ConfigDict(strict=True)
    config: dict[str, Any]
    env_steps: NonNegativeInt
    learner_steps: NonNegativeInt
    rows: NonNegativeInt
    finished: bool
    ends_at: list[float | None]
    seconds: float = Field(ge=0, allow_inf_nan=False)
    parameters: int | None = None
    gamma: float | None = Field(None, ge=0, le=1)
    reward_scale: float | None = Field(None, gt=0, allow_inf_nan=False)
    task: str | None = None
    wandb_id: str | None = Field(None, pattern=r"^[\w.-]+$")
    changed_at: list[int] = []
    code: list[str] = []
    held: list[Any] = []


class RunDir:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.task_file = path / "task.json"
        self.metrics_file = path / "metrics.jsonl"
        self.curve = path / "learning_curve.png"
        self.film = path / "evaluation.gif"
        self.log = path / "output.log"
        self.result_file = path / "result.json"
        self.id_file = path / "wandb-id.txt"

    @classmethod
    def default(cls, config: Config, runs_dir: Path = Path("runs")) -> RunDir:
        """`<runs_dir>/<env>/<agent>/seed<k>`, with the settings that are not the presets'."""
        task, agent = map(folder_of, name_of(config))
        return cls(runs_dir / task / agent / f"seed{config.seed}")

    @classmethod
    def of_config(cls, config: Config, runs_dir: Path = Path("runs")) -> RunDir:
        """`<runs_dir>/<env>/<agent>/seed<k>-<hash>`: where the run with these settings is, or will be.

        A run that an earlier version began may have another hash there; its own file tells.
        """
        env = re.sub(r"[^\w.-]+", "-", config.env)
        digest = config_hash(config)
        path = runs_dir / env / config.agent / f"seed{config.seed}-{digest}"
        if path.exists() or not run_identity(config).is_native:  # whose code may be another by now
            return cls(path)
        others = sorted(path.parent.glob(f"seed{config.seed}-*/config.yaml"))
        found = (file.parent for file in others if _hash_at(file.parent, file.stat().st_mtime_ns) == digest)
        return cls(next(found, path))

    @property
    def is_exported(self) -> bool:
        """Whether it is what `dtqn.export.export` made of a run: weights, and nothing to go on from."""
        return (self.path / EXPORTED_WEIGHTS).exists()

    @property
    def checkpoints(self) -> Path:
        """The folder of the weights."""
        return self.path if self.is_exported else self.path / "checkpoint"

    def command(self, name: str) -> str:
        """`eval`, `report` or `--resume` of the run; a call where only one process has its objects."""
        with contextlib.suppress(ConfigError):
            if any(map(this_process.holds, own_code(self.read_config()))):
                return _CALLS[name].format(str(self.path))
        return f"{program()} {name} {shlex.quote(str(self.path))}"

    @property
    def wandb_id(self) -> str:
        """The run's id at W&B, made at the first call. Inside a W&B sweep each start gets another one."""
        if not self.id_file.exists():
            self.wandb_id = secrets.token_hex(4)
        with file_errors(self.id_file, "cannot be read"):
            value = self.id_file.read_text(encoding="utf-8", errors="replace").strip()
        if not re.fullmatch(r"[\w.-]+", value):
            raise ConfigError(
                f"{self.id_file}: holds {value[:40]!r}; must hold the run's id at W&B (letters, digits, "
                "- and _); without this file the run gets a new one"
            )
        return value

    @wandb_id.setter
    def wandb_id(self, value: str) -> None:
        with file_errors(self.id_file, "cannot be written"):
            write_whole(self.id_file, value + "\n")

    def kept_files(self) -> dict[str, Path]:
        """The files that an evaluation of the run needs, and its figures, by name in the directory."""
        patterns = [
            *("config.yaml", "task.json", "metrics.jsonl", "result.json"),
            *("learning_curve.png", "evaluation.gif"),
            *("checkpoint/latest", "checkpoint/best.safetensors"),
            *("checkpoint/[0-9]*/network.safetensors", "checkpoint/[0-9]*/state.json"),
        ]
        files = [file for pattern in patterns for file in sorted(self.path.glob(pattern))]
        return {file.relative_to(self.path).as_posix(): file for file in files}

    @property
    def holds_run(self) -> bool:
        return self.config_file.exists() or self.metrics_file.exists() or self.checkpoints.exists()

    def check_files(self) -> None:
        """A ConfigError where a file of the run is not there, but a link to somewhere else, or is no file.

        The folder of the checkpoints may be on another disk; what lies there is looked at when it is opened.
        """
        for path in self.path.glob("*") if self.path.is_dir() else ():
            is_used = path.suffix in _SUFFIXES or (path.is_dir() and path.name != "checkpoint")
            if is_used and (problem := fault(path, self.path)):
                raise ConfigError(f"{path}: {problem}")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """The directory for this process alone, to its end at most; a ConfigError where another has it."""
        make_writable("run_dir", self.path)
        self.check_files()
        with file_errors(self.path, "cannot be read"):
            descriptor = os.open(self.path, os.O_RDONLY)
        try:
            if not lock_file(descriptor):
                raise ConfigError(f"run_dir {self.path} is in use: another process trains there")
            yield
        finally:
            os.close(descriptor)

    @property
    def in_use(self) -> bool:
        """Whether a process trains here now."""
        if not self.path.exists():
            return False
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return not lock_file(descriptor)
        finally:
            os.close(descriptor)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Keep what a finished run came to, in `result.json`."""
        with file_errors(self.result_file, "cannot be written"):
            write_whole(self.result_file, json.dumps(result, indent=2) + "\n")

    def read_result(self) -> dict[str, Any] | None:
        """The run's result; None where it has not finished, or its length or its task has changed.

        A damaged file counts as missing: going on with the finished run writes it again from the checkpoint.
        """
        if not (result := _object_in(self.result_file)):
            return None
        config = self.read_config()
        is_elsewhere = any(map(this_process.problem, own_code(config)))  # what it ran on cannot be looked at
        same = is_elsewhere or not self.task_change(config, result.get("task"))
        return result if same and result.get("ends_at") == ends_at(config) else None

    def claim(self) -> None:
        """Make the directory for a new run; a ConfigError where it holds one already, or is not writable."""
        if self.holds_run:
            on = f"a run; to continue it: {self.command('--resume')}; or"
            done = f"a finished run; to evaluate it: {self.command('eval')}; or"
            held = done if self.read_result() else on
            raise ConfigError(f"run_dir {self.path} holds {held} choose another seed or run_dir")
        make_writable("run_dir", self.path)

    def write_config(self, config: Config) -> None:
        """Store the configuration in full, with what depends on the run's length made explicit, and the task.

        So a run that is extended keeps the warm-up that it had.
        """
        identity = run_identity(config)
        content = {"id": config.env, "digest": identity.digest, "made_of": identity.made_of}
        with file_errors(self.task_file, "cannot be written"):  # first: a run with settings has a task
            write_whole(self.task_file, json.dumps(content, indent=2) + "\n")
        with file_errors(self.config_file, "cannot be written"):
            write_whole(self.config_file, to_yaml(resolved(config)))
        trust.remember(settings_of(config))

    def read_task_digest(self) -> str | None:
        """`run_identity`'s digest as it was when the run began; None where task.json does not tell."""
        digest = _object_in(self.task_file).get("digest")
        return digest if isinstance(digest, str) else None

    def task_change(self, config: Config, trained: str | None = None) -> str:
        """One line that says that the task, or a network of the user's own, is not what the run began with.

        It is empty if both are. `trained` is the digest that the checkpoint or the result holds.
        """
        old = self.read_task_digest()
        if old is None:
            return (
                f"{self.task_file} is missing or damaged, so whether task {config.env} has changed is unknown"
            )
        try:
            now = run_identity(config)
        except ConfigError as error:
            return str(error)
        if trained is not None and trained != now.digest:
            old = trained
        if old == now.digest:
            return ""
        what = " or ".join([f"the task {config.env}", *own_networks(config)])
        digests = f"digest {one_line(old, 20)}, now {now.digest} of {now.made_of}"
        return f"{self.path}: {what} has changed since the run began ({digests})"

    def task_warning(self, config: Config) -> str:
        """One line for users of the run's weights if its task has changed; empty if it has not.

        It is also empty if the task cannot be made here; code that makes it reports that.
        """
        try:
            run_identity(config)
        except ConfigError:
            return ""
        change = self.task_change(config)
        return f"{change}; the weights are used on the task as it is now" if change else ""

    def prepare(self, config: Config) -> None:
        """Make the directory ready for `--resume`, whether or not it has a run with these settings already.

        Raises:
            ConfigError: naming the first setting in which a run that is there differs, or its task where
                that has changed.
        """
        if self.config_file.exists():
            self._check_same(self.read_config(), resolved(config), HOW_IT_RUNS, "move the run away")
            if change := self.task_change(config):
                raise ConfigError(f"{change}; move the run away, or start anew with another --run-dir")
        make_writable("run_dir", self.path)
        self.write_config(config)

    def settled(self, config: Config) -> Config:
        """`config` with what is `auto` as it is in the run that is there, if there is one."""
        if config.is_settled or not self.config_file.exists():
            return config
        stored = self.read_config()
        for name in SETTLED:
            if attrgetter(name)(config) == "auto":
                config = config.replaced(name, attrgetter(name)(stored))
        return config

    def read_config(self) -> Config:
        """The configuration that the run was started or last resumed with."""
        self.check_files()
        if not self.config_file.exists():
            lost = "; put that file back, or move the folder away" if self.holds_run else ""
            missing = "there is no config.yaml" if self.path.exists() else "there is no such folder"
            raise ConfigError(f"{self.path}: holds no run ({missing}){lost}")
        layer = file_layer(self.config_file)
        for name in ("env", "agent", "seed"):
            if name not in layer.values:
                raise ConfigError(
                    f"{self.config_file}: has no {name}; a run's own file has every setting, so this one is "
                    "damaged: put it back, or move the folder away"
                )
        return build([of_run(layer)])

    def resumed_config(self, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Config:
        """The run's configuration with the flags that a resumed run may be given.

        Raises:
            ConfigError: naming the first flag that contradicts what the run was started with.
        """
        stored = self.read_config()
        if self.is_exported:
            raise ConfigError(f"{self.path}: is an exported agent, which has no checkpoint to continue from")
        # The warm-up comes later: it may not fit a length that is refused in any case.
        of_run = settings_of(stored) | {"warmup_env_steps": None}
        layers = [Layer(str(self.config_file), of_run), *environment_layer(environment)]
        given = layer_of(None, flags)
        config = build([*layers, given])
        if config.total_env_steps < stored.total_env_steps:
            raise ConfigError(
                f"total_env_steps is {config.total_env_steps}, but the run in {self.path} has "
                f"{stored.total_env_steps}; a resumed run can only be made longer"
            )
        if "warmup_env_steps" not in given.values:
            config = config.model_copy(update={"warmup_env_steps": stored.warmup_env_steps})
        self._check_same(stored, config, MAY_CHANGE, "leave it out to resume")
        return config

    def check_trained(self, config: Config, about: Mapping[str, Any]) -> None:
        """Compare with the settings that the run's checkpoint says it was trained with.

        Raises:
            ConfigError: where config.yaml has been changed since, or the checkpoint does not tell.
        """
        try:
            trained = _About.model_validate(about).config
        except ValidationError as error:
            raise ConfigError(f"{self.checkpoints}: is damaged: {one_line(first_fault(error))}") from None
        then = of_today(trained, str(self.checkpoints))
        for name, new in named(resolved(config)).items():
            old = then.get(name, new)
            if old != new and name not in MAY_CHANGE:
                raise ConfigError(
                    f"{self.config_file}: {name} is {new}, but the run's checkpoint was made with {old}"
                )

    def _check_same(self, stored: Config, config: Config, but: set[str], remedy: str) -> None:
        before = settings_of(stored)
        for name, new in settings_of(config).items():
            old = before.get(name)
            if old != new and name not in but:
                raise ConfigError(f"{name} is {new}, but the run in {self.path} has {old}; {remedy}")


def _object_in(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where the file is missing or damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def make_writable(name: str, folder: Path) -> None:
    """Make a folder that a setting or option `name` names, and see that files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"{name} {folder} cannot be written: {error.strerror}") from None


def ends_at(config: Config) -> list[float | None]:
    """The values of `ENDS`; a finished run goes on only where they have changed."""
    *ends, of_return = (getattr(config, name) for name in ENDS)
    # Left out where there is none, as in the results of runs from before there was such a setting.
    return ends if of_return is None else [*ends, of_return]


def resolved(config: Config) -> Config:
    """With what depends on the run's length made explicit."""
    lengths = {"warmup_env_steps": config.warmup, "evaluation.period": config.evaluation_period}
    return build([Layer(None, settings_of(config) | lengths)])


_ABSENT = object()


@functools.cache
def _hash_at(path: Path, changed: int) -> str:
    """`config_hash` of a run by today's names, read once: a sweep looks for each of its runs among all."""
    try:
        return config_hash(RunDir(path).read_config())
    except ConfigError:  # another run's damage is no matter here
        return ""
