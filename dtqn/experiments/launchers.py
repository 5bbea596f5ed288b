"""The choice of a launcher: processes of this machine, actors of a Ray cluster or jobs of Slurm."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dtqn.experiments.launcher import Launcher
from dtqn.experiments.local_launcher import LocalLauncher
from dtqn.settings.config import ConfigError, wrong
from envs.errors import meant

_NAMES = ("local", "ray", "slurm")


class Asked(NamedTuple):
    """The options of the command line that choose a launcher."""

    name: str = "local"
    ray_address: str | None = None
    ray_gpus: float | None = None
    slurm: Mapping[str, str] = {}
    """`--slurm.NAME` by name."""

    def check(self) -> None:
        """A ConfigError where the options do not go together, or the launcher's library is missing."""
        if self.name not in _NAMES:
            right = f"must be one of {', '.join(_NAMES)}{meant(self.name, _NAMES)}"
            raise wrong("--launcher", self.name, right)
        others = {
            "--ray-address": ("ray", self.ray_address),
            "--ray-gpus": ("ray", self.ray_gpus),
            **{f"--slurm.{name}": ("slurm", value) for name, value in self.slurm.items()},
        }
        for option, (launcher, value) in others.items():
            if value is not None and self.name != launcher:
                raise wrong(option, value, f"leave it out, or give --launcher {launcher}")
        for launcher, package in (("ray", "ray"), ("slurm", "submitit")):
            if self.name == launcher and importlib.util.find_spec(package) is None:
                raise ConfigError(
                    f"--launcher {launcher} needs {package}, which is not installed; "
                    f'pip install "dtqn[{launcher}]"'
                )
        if self.name == "ray" and self.ray_address is None:
            raise ConfigError(
                "--launcher ray needs --ray-address HOST:PORT, as `ray start --head` tells it, or auto"
            )

    @property
    def is_local(self) -> bool:
        return self.name == "local"


@contextlib.contextmanager
def opened(asked: Asked, runs_dir: Path) -> Iterator[Launcher]:
    """The launcher that the options ask for, inside of a `with` block.

    Args:
        runs_dir: where a launcher may keep files of its own.

    Raises:
        ConfigError: where there is no such place.
    """
    asked.check()
    launcher = _made(asked, runs_dir)
    try:
        yield launcher
    finally:
        launcher.close()


def _made(asked: Asked, runs_dir: Path) -> Launcher:
    if asked.name == "ray" and asked.ray_address is not None:
        from dtqn.experiments.ray_launcher import RayLauncher

        return RayLauncher(asked.ray_address, asked.ray_gpus)
    if asked.name == "slurm":
        from dtqn.experiments.slurm_launcher import SlurmLauncher

        return SlurmLauncher(runs_dir / "slurm", asked.slurm)
    return LocalLauncher()
