"""A run's directory: what lies where, and whether a run may start or go on there. Knows nothing of torch."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtqn.config import Config, ConfigError, fields_of
from dtqn.layers import Layer, build, environment_layer, file_layer, merge, nested, to_yaml

MAY_CHANGE = {"total_env_steps", "stop_at_success", "checkpoint_every", "wandb", "device", "threads"}
"""Settings that a resumed run may be given anew: where it ends and how it is run, not what is learned."""


class RunDir:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.metrics_file = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoint"
        self.curve = path / "learning_curve.png"
        self._id_file = path / "wandb-id.txt"

    @classmethod
    def default(cls, config: Config) -> RunDir:
        """`runs/<env>/<agent>/seed<k>`."""
        env = re.sub(r"[^\w.-]+", "-", config.env)
        return cls(Path("runs") / env / config.agent / f"seed{config.seed}")

    @property
    def resume_command(self) -> str:
        return f"python run.py --resume {shlex.quote(str(self.path))}"

    @property
    def eval_command(self) -> str:
        return f"python run.py eval {shlex.quote(str(self.path))}"

    @property
    def wandb_id(self) -> str:
        """The run's id at W&B, made at the first call."""
        if not self._id_file.exists():
            self._id_file.write_text(secrets.token_hex(4) + "\n", encoding="utf-8")
        return self._id_file.read_text(encoding="utf-8").strip()

    def claim(self) -> None:
        """Make the directory for a new run.

        Raises:
            ConfigError: where it holds a run already, or cannot be written.
        """
        if self.config_file.exists() or self.metrics_file.exists() or self.checkpoints.exists():
            raise ConfigError(f"run_dir {self.path} holds a run; to go on with it: {self.resume_command}")
        self.writable()

    def writable(self) -> None:
        """Make the directory, and see that files can be written there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".probe"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise ConfigError(f"run_dir {self.path} cannot be written: {error.strerror}") from None

    def write_config(self, config: Config) -> None:
        """Store the configuration in full, with what depends on the run's length made explicit.

        So a run that is extended keeps the warm-up that it had.
        """
        temporary = self.config_file.with_suffix(".tmp")
        temporary.write_text(to_yaml(resolved(config)), encoding="utf-8")
        os.replace(temporary, self.config_file)

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
        layers = [Layer(str(self.config_file), stored.model_dump()), *environment_layer(environment)]
        config = build([*layers, Layer(None, nested(flags))])
        for name in fields_of():
            old, new = _value(stored, name), _value(config, name)
            if old != new and name not in MAY_CHANGE:
                raise ConfigError(
                    f"{name} is {new}, but the run in {self.path} has {old}; leave it out to resume"
                )
        if config.total_env_steps < stored.total_env_steps:
            raise ConfigError(
                f"total_env_steps is {config.total_env_steps}, but the run in {self.path} has "
                f"{stored.total_env_steps}; a resumed run can only be made longer"
            )
        return config


def resolved(config: Config) -> Config:
    return build([Layer(None, merge(config.model_dump(), {"warmup_env_steps": config.warmup}))])


def _value(config: Config, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value
