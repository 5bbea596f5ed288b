"""Trainings on a Ray cluster: an actor for each, which starts the process on the node where Ray has put it.

The nodes need the same installation, the folder of the runs and, where a task is named by a file, that file.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

from dtqn.clusters import answered, exceptions, join, ray
from dtqn.experiments.launcher import Command, Launcher, Needs
from dtqn.experiments.local_launcher import Process
from dtqn.settings.config import Config
from dtqn.text import one_line

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

    def arrive(self) -> tuple[str, bool]:
        """The node, and whether it sees the run's directory."""
        return ray.get_runtime_context().get_node_id(), self._command.directory.is_dir()

    def run(self) -> int | None:
        """Start the training; its exit code, once it has ended."""
        with self._lock:
            if self._asked:
                return -int(signal.SIGTERM)
            self._process = Process(self._command.here())
        return self._process.wait()

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
        self._command, self._needs, self._tries = command, needs, 0
        self._ask_for_place()
        self._exit_code: Any = None
        """A reference to the training's exit code, once it has been begun."""
        self.where: str | None = None
        self._node = ""
        self._code: int | None = None
        self._died_at: float | None = None
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
        self._arrived = self._place.arrive.remote()

    def poll(self) -> int | None:
        if self._code is None:
            try:
                self._look()
            except exceptions.RayActorError as error:
                self._died(error)
            except exceptions.RayError as error:  # it could not be started, say
                self._note_last_line(error)
                self._ended(1)
        return self._code

    def _look(self) -> None:
        """One step on, if there is one."""
        if self._exit_code is None and answered(self._arrived):
            self._begin(*ray.get(self._arrived))
        elif self._exit_code is not None and answered(self._exit_code):
            self._ended(ray.get(self._exit_code))

    def _begin(self, node: str, sees_directory: bool) -> None:
        self._node, self.where = node, _node_name(node)
        if sees_directory:
            self._exit_code = self._place.run.remote()
            return
        self._note(
            f"the node {self.where} does not see {self._command.directory}; "
            "--runs-dir must be a folder that all nodes share"
        )
        self._ended(1)

    def _ended(self, code: int) -> None:
        self._code = code
        ray.kill(self._place)

    def _died(self, error: Exception) -> None:
        """The actor has gone: with its node, or alone. The training saves and ends then, if it still can.

        Where it has gone before the training began, as with a node that dies just then, another
        one is asked for.
        """
        if self._exit_code is None and self._tries < _PLACES:
            self._ask_for_place()
            return
        alive = {node["NodeID"]: node["Alive"] for node in ray.nodes()}
        self.lost = bool(self._node) and not alive.get(self._node, False)
        self._died_at = self._died_at or time.monotonic()
        if self.lost or time.monotonic() - self._died_at > _VERDICT_SECONDS:
            if not self.lost:
                self._note_last_line(error)
            self._ended(-int(signal.SIGKILL))

    def _note_last_line(self, error: Exception) -> None:
        lines = [line for line in str(error).splitlines() if line.strip()]
        self._note(lines[-1] if lines else type(error).__name__)

    def _note(self, text: str) -> None:
        """Leave an error where the training's own would be."""
        with contextlib.suppress(OSError), self._command.log.open("a") as log:
            print(f"Ray: {one_line(text, 300)}", file=log)

    def end(self) -> None:
        if self._exit_code is None:
            self._ended(-int(signal.SIGTERM))
        else:
            self._place.end.remote(now=False)

    def kill(self) -> None:
        if self._exit_code is not None:
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


class RayLauncher(Launcher):
    """A cluster that is there, whose nodes share the folder of the runs."""

    def __init__(self, address: str, gpus: float | None) -> None:
        """
        Args:
            address: of the cluster, `HOST:PORT` or `auto`.
            gpus: of each training, in place of what `device` asks for.

        Raises:
            ConfigError: where no Ray answers at the address.
        """
        self._gpus = gpus
        join("--ray-address", address)

    def start(self, works: Sequence[tuple[Command, Config]]) -> list[RayHandle]:
        return [RayHandle(command.for_another_machine(), self._needs(config)) for command, config in works]

    def _needs(self, config: Config) -> Needs:
        needs = Needs.of(config)
        return needs if self._gpus is None else needs._replace(gpus=self._gpus)

    def close(self) -> None:
        ray.shutdown()
