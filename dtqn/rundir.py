"""A run's directory: what lies where, and whether a run may start or go on there. Knows nothing of torch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dtqn.config import Config, ConfigError, fields_of
from dtqn.layers import Layer, build, environment_layer, file_layer, merge, nested, to_yaml

MAY_CHANGE = {
    *("total_env_steps", "stop_at_success", "checkpoint_every", "wandb", "device", "threads"),
    "task.step_timeout",
}
"""Settings that a resumed run may be given anew: where it ends and how it is run, not what is learned."""
_HOW_IT_RUNS = {"checkpoint_every", "wandb", "device", "threads"}
"""Settings that runs with the same `config_hash` may differ in. `total_env_steps` is none of them: the step
size falls over a run's whole length, so a short run that was extended is not the long one."""


def config_hash(config: Config) -> str:
    """Eight hexadecimal digits of the settings that decide a run's result and differ from their defaults.

    So a setting that a later version adds leaves the hash as it was. Where a later version changes a default,
    `RunDir.prepare` meets the old value in the run's own configuration and refuses.
    """
    settings = resolved(config).model_dump(mode="json", exclude=_HOW_IT_RUNS, exclude_defaults=True)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


class InUseError(ConfigError):
    """Another process trains in the directory."""


class RunDir:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.metrics_file = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoint"
        self.curve = path / "learning_curve.png"
        self.film = path / "evaluation.gif"
        self.log = path / "output.log"
        self._result_file = path / "result.json"
        self._id_file = path / "wandb-id.txt"

    @classmethod
    def default(cls, config: Config, runs_dir: Path = Path("runs")) -> RunDir:
        """`<runs_dir>/<env>/<agent>/seed<k>`."""
        env = re.sub(r"[^\w.-]+", "-", config.env)
        return cls(runs_dir / env / config.agent / f"seed{config.seed}")

    @classmethod
    def of_config(cls, config: Config, runs_dir: Path = Path("runs")) -> RunDir:
        """`<runs_dir>/<env>/<agent>/seed<k>-<hash>`: where the run with these settings is, or will be."""
        default = cls.default(config, runs_dir).path
        return cls(default.with_name(f"{default.name}-{config_hash(config)}"))

    @property
    def resume_command(self) -> str:
        return f"python run.py --resume {shlex.quote(str(self.path))}"

    @property
    def eval_command(self) -> str:
        return f"python run.py eval {shlex.quote(str(self.path))}"

    @property
    def wandb_id(self) -> str:
        """The run's id at W&B, made at the first call. Inside a W&B sweep each start gets another one."""
        if not self._id_file.exists():
            self.wandb_id = secrets.token_hex(4)
        return self._id_file.read_text(encoding="utf-8").strip()

    @wandb_id.setter
    def wandb_id(self, value: str) -> None:
        self._id_file.write_text(value + "\n", encoding="utf-8")

    def kept_files(self) -> dict[str, Path]:
        """What an evaluation of the run needs, and its figures, by name in the directory: no replay."""
        patterns = [
            *("config.yaml", "metrics.jsonl", "result.json", "learning_curve.png", "evaluation.gif"),
            *("checkpoint/latest", "checkpoint/best.safetensors"),
            *("checkpoint/[0-9]*/network.safetensors", "checkpoint/[0-9]*/state.json"),
        ]
        files = [file for pattern in patterns for file in sorted(self.path.glob(pattern))]
        return {file.relative_to(self.path).as_posix(): file for file in files}

    @property
    def holds_run(self) -> bool:
        return self.config_file.exists() or self.metrics_file.exists() or self.checkpoints.exists()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """The directory for this process alone; the lock ends with the process, however that ends.

        Raises:
            InUseError: where another process has it.
        """
        self.writable()
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            if not _lock(descriptor):
                raise InUseError(f"run_dir {self.path} is in use: another process trains there")
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
            return not _lock(descriptor)
        finally:
            os.close(descriptor)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Keep what a finished run came to, in `result.json`."""
        write_whole(self._result_file, json.dumps(result, indent=2) + "\n")

    def read_result(self) -> dict[str, Any] | None:
        """What the run came to; none where it has not finished (or was made longer since)."""
        try:
            result: dict[str, Any] = json.loads(self._result_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result if result["ends_at"] == ends_at(self.read_config()) else None

    def claim(self) -> None:
        """Make the directory for a new run.

        Raises:
            ConfigError: where it holds a run already, or cannot be written.
        """
        if self.holds_run:
            raise ConfigError(f"run_dir {self.path} holds a run; to go on with it: {self.resume_command}")
        self.writable()

    def writable(self) -> None:
        """Make the directory, and see that files can be written there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".probe"
            probe.write_bytes(b"")
            probe.unlink(missing_ok=True)  # two processes may look at once
        except OSError as error:
            raise ConfigError(f"run_dir {self.path} cannot be written: {error.strerror}") from None

    def write_config(self, config: Config) -> None:
        """Store the configuration in full, with what depends on the run's length made explicit.

        So a run that is extended keeps the warm-up that it had.
        """
        write_whole(self.config_file, to_yaml(resolved(config)))

    def prepare(self, config: Config) -> None:
        """Make the directory ready for `--resume`, be there a run with these settings already or none.

        Raises:
            ConfigError: naming the first setting in which a run that is there differs.
        """
        if self.config_file.exists():
            self._check_same(self.read_config(), resolved(config), _HOW_IT_RUNS, "move the run away")
        self.writable()
        self.write_config(config)

    def read_config(self) -> Config:
        """The configuration that the run was started or last resumed with."""
        if not self.config_file.exists():
            raise ConfigError(f"{self.path}: holds no run (there is no config.yaml)")
        return build([file_layer(self.config_file)])

    def resumed_config(self, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Config:
        """The run's configuration with the flags that a resumed run may be given.

        Raises:
            ConfigError: naming the first flag that contradicts what the run was started with.
        """
        stored = self.read_config()
        # The warm-up comes later: it may not fit a length that is refused in any case.
        of_run = stored.model_dump() | {"warmup_env_steps": None}
        layers = [Layer(str(self.config_file), of_run), *environment_layer(environment)]
        given = nested(flags)
        config = build([*layers, Layer(None, given)])
        if config.total_env_steps < stored.total_env_steps:
            raise ConfigError(
                f"total_env_steps is {config.total_env_steps}, but the run in {self.path} has "
                f"{stored.total_env_steps}; a resumed run can only be made longer"
            )
        if "warmup_env_steps" not in given:
            config = config.model_copy(update={"warmup_env_steps": stored.warmup_env_steps})
        self._check_same(stored, config, MAY_CHANGE, "leave it out to resume")
        return config

    def _check_same(self, stored: Config, config: Config, but: set[str], remedy: str) -> None:
        for name in fields_of():
            old, new = _value(stored, name), _value(config, name)
            if old != new and name not in but:
                raise ConfigError(f"{name} is {new}, but the run in {self.path} has {old}; {remedy}")


def ends_at(config: Config) -> list[float | None]:
    """What decides where a run ends; a finished run goes on only where this has changed."""
    return [config.total_env_steps, config.stop_at_success]


def resolved(config: Config) -> Config:
    return build([Layer(None, merge(config.model_dump(), {"warmup_env_steps": config.warmup}))])


def _value(config: Config, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _lock(descriptor: int) -> bool:
    """Lock an open file; whether no other process has it. Always true where there are no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, and some network file systems
        pass
    return True


def write_whole(file: Path, text: str) -> None:
    """Write a file whole, so that a reader meets the old one or the new one."""
    temporary = file.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, file)
