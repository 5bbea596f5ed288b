"""Trainings on a Ray cluster: an actor for each, which starts the process on the node where Ray has put it.

The nodes need the same installation and, where a task is named by a file, that file. Where a node sees the
run's directory, the training uses it. Where it does not, the training works in a folder of the node, and its
files are brought here as it goes, so that it can go on elsewhere from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dtqn.clusters import NoRayError, answered, connect, exceptions, ray
from dtqn.experiments import transfer
from dtqn.experiments.launcher import Command, Launcher, Needs
from dtqn.experiments.local_launcher import Process
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.text import one_line, size
from dtqn.training import machine
from dtqn.training.directory import InUseError, RunDir

_COLLECT_SECONDS = 10.0
_KILL_SECONDS = 10.0
_VERDICT_SECONDS = 30.0
"""How long Ray may take to find out that a node has gone."""
_PLACES = 5
"""Actors of a training that may go before it has begun, one after the other."""
_SPARE_CHILDREN = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""A training saves and ends by itself when its actor has gone."""


class Place:
    """The actor: one training, on the node that Ray has chosen."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._process: Process | None = None
        self._asked = False
        self._lock = threading.Lock()

    def arrive(self, token: str) -> tuple[str, bool]:
        """The node, and whether it sees the run's directory, in which the token lies."""
        return ray.get_runtime_context().get_node_id(), (self._command.directory / token).exists()

    def run(
        self, files: transfer.Files | None, every_seconds: float
    ) -> Iterator[tuple[int | None, transfer.Files]]:
        """Start the training; what it has written, every so often, and at its end, with its exit code.

        Args:
            files: those of the run, where the node does not see its directory. Where it does, there is
                nothing to hand out.
        """
        if files is None:
            yield self._trained(None, None), {}
            return
        known: transfer.Stamps = {}
        with tempfile.TemporaryDirectory(prefix="dtqn-") as name:
            folder = Path(name)
            transfer.write(folder, files)
            transfer.read(folder, known)
            code = None
            while code is None:
                code = self._trained(folder, every_seconds)
                yield code, transfer.read(folder, known)

    def _trained(self, folder: Path | None, seconds: float | None) -> int | None:
        """The exit code of the training, which is begun if it has not been; None after so many seconds."""
        with self._lock:
            if self._asked and self._process is None:
                return -int(signal.SIGTERM)
            process = self._process = self._process or Process(self._command.here(folder))
        return process.wait(seconds)

    def end(self, now: bool) -> None:
        """Let the training save and end, or end it `now`; one that has not begun never does."""
        with self._lock:
            self._asked = True
            if self._process is not None and now:
                self._process.kill()
            elif self._process is not None:
                self._process.end()


class RayHandle:
    """A training in an actor, as seen from here."""

    def __init__(self, command: Command, needs: Needs) -> None:
        self._directory = RunDir(command.directory)
        self._token = f".here-{secrets.token_hex(8)}"
        self._command, self._needs, self._tries = command, needs, 0
        self._mark()
        self._ask_for_place()
        self._trained: Any = None
        """What `Place.run` hands out, once it has been called."""
        self._due: Any = None
        """A reference from there that has not been read; one to an error stays."""
        self._node = self._name = ""
        self._code: int | None = None
        self._died_at: float | None = None
        self._lock = contextlib.ExitStack()
        self.lost = False

    def _ask_for_place(self) -> None:
        """Calls of one actor: `run` lasts as long as the training, and others come meanwhile."""
        place: Any = ray.remote(Place).options(
            num_cpus=self._needs.cpus,
            num_gpus=self._needs.gpus,
            memory=self._needs.memory_bytes,
            max_concurrency=4,
            runtime_env={"env_vars": _SPARE_CHILDREN},
        )
        self._tries += 1
        self._place = place.remote(self._command)
        self._arrived = self._place.arrive.remote(self._token)

    def _mark(self) -> None:
        """Leave what the node will look for."""
        (self._directory.path / self._token).touch()

    @property
    def where(self) -> str | None:
        return self._name or None

    def poll(self) -> int | None:
        if self._code is None:
            try:
                self._look()
            except exceptions.RayActorError as error:
                self._died(error)
            except InUseError:  # another queue's training; the one here has not begun
                self._ended(2)
            except (exceptions.RayError, OSError) as error:  # it could not be started, say
                self._failed(error)
        return self._code

    def _look(self) -> None:
        """One step on, if there is one."""
        if self._trained is None and answered(self._arrived):
            self._begin(*ray.get(self._arrived))
        elif self._trained is not None and answered(self._due or self._trained):
            self._due = self._due or next(self._trained)
            code, files = ray.get(self._due)
            self._due = None
            transfer.write(self._directory.path, files)
            if code is not None:
                self._ended(code)

    def _begin(self, node: str, shared: bool) -> None:
        self._node, self._name = node, _node_name(node)
        (self._directory.path / self._token).unlink(missing_ok=True)
        files = None
        if not shared:
            self._lock.enter_context(self._directory.lock())
            files = transfer.read(self._directory.path, {})
        self._trained = self._place.run.options(num_returns="streaming").remote(files, _COLLECT_SECONDS)

    def _ended(self, code: int) -> None:
        self._code = code
        self._lock.close()
        (self._directory.path / self._token).unlink(missing_ok=True)
        ray.kill(self._place)

    def _died(self, error: Exception) -> None:
        """The actor has gone: with its node, or alone. The training saves and ends then, if it still can.

        Where it has gone before the training began, as with a node that dies just then, another
        one is asked for.
        """
        if self._trained is None and self._tries < _PLACES:
            self._ask_for_place()
            return
        alive = {node["NodeID"]: node["Alive"] for node in ray.nodes()}
        self.lost = bool(self._node) and not alive.get(self._node, False)
        self._died_at = self._died_at or time.monotonic()
        if self.lost or time.monotonic() - self._died_at > _VERDICT_SECONDS:
            if not self.lost:
                self._note(error)
            self._ended(-int(signal.SIGKILL))

    def _failed(self, error: Exception) -> None:
        self._note(error)
        self._ended(1)

    def _note(self, error: Exception) -> None:
        """Leave the error where the training's own would be."""
        lines = [line for line in str(error).splitlines() if line.strip()]
        with contextlib.suppress(OSError), self._directory.log.open("a") as log:
            print(f"Ray: {one_line(lines[-1] if lines else type(error).__name__, 300)}", file=log)

    def end(self) -> None:
        if self._trained is None:
            self._ended(-int(signal.SIGTERM))
        else:
            self._place.end.remote(now=False)

    def kill(self) -> None:
        if self._trained is not None:
            with contextlib.suppress(exceptions.RayError):
                ray.get(self._place.end.remote(now=True), timeout=_KILL_SECONDS)
        self._ended(-int(signal.SIGKILL))


def _node_name(node_id: str) -> str:
    """The name that the node was given, or else its host's."""
    node = next((node for node in ray.nodes() if node["NodeID"] == node_id), None)
    if node is None:
        return node_id[:8]
    named = node["NodeName"] != node["NodeManagerAddress"]
    return str(node["NodeName"] if named else node["NodeManagerHostname"])


def _connect(address: str | None) -> None:
    host, _, port = (address or "").rpartition(":")
    names_port = host and port.isdigit() and 0 < int(port) < 65536 and "/" not in host
    if address not in (None, "auto") and not names_port:
        raise wrong("--ray-address", address, "must be HOST:PORT, as `ray start --head` tells it, or auto")
    try:
        connect(address, machine.cores())
    except NoRayError as error:
        if address is None:
            raise ConfigError(f"--launcher is ray: Ray did not start: {one_line(str(error))}") from None
        why = f"no Ray answers there ({one_line(str(error), 100)})"
        raise wrong("--ray-address", address, f"{why}; must be as `ray start --head` tells it") from None


class RayLauncher(Launcher):
    """A cluster that is there, or a Ray of this machine that ends with this process."""

    def __init__(self, address: str | None, gpus: float | None) -> None:
        """
        Args:
            address: of the cluster, `HOST:PORT` or `auto`; None: start a Ray here.
            gpus: of each training, in place of what `device` asks for.

        Raises:
            ConfigError: where no Ray answers at the address, or none starts.
        """
        self._gpus, self._local = gpus, address is None
        os.environ.update(_SPARE_CHILDREN)
        on_sigterm = signal.getsignal(signal.SIGTERM)
        _connect(address)
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray has put its own there

    def start(self, works: Sequence[tuple[Command, Config]]) -> list[RayHandle]:
        return [RayHandle(command.for_another_machine(), self._needs(config)) for command, config in works]

    def _needs(self, config: Config) -> Needs:
        """A ConfigError where a local Ray never has as much; a cluster may grow."""
        needs = Needs.of(config)
        if self._gpus is not None:
            needs = needs._replace(gpus=self._gpus)
        if self._local:
            has = ray.cluster_resources()
            if not has.get("CPU"):  # its processes were killed
                raise ConfigError("--launcher is ray: this machine's Ray has ended; the same command goes on")
            for name, wanted in (("CPU", needs.cpus), ("GPU", needs.gpus), ("memory", needs.memory_bytes)):
                if wanted > has.get(name, 0):
                    shown = size if name == "memory" else str
                    raise ConfigError(
                        f"--launcher is ray: a training takes {name} {shown(wanted)}, "
                        f"and this machine's Ray has {shown(int(has.get(name, 0)))}"
                    )
        return needs

    def close(self) -> None:
        ray.shutdown()
