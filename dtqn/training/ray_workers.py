"""Workers as Ray actors on the nodes of a cluster: timesteps and parameters go as arrays.

A worker has an exchange of its own. The timesteps that it puts there are its answer, and are put into the
pool's when the answer is taken; parameters go into Ray's store once, from which every node reads them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections import deque
from typing import Any

import numpy as np
import ray
from ray import exceptions

from dtqn.program import worker_environment
from dtqn.settings.config import Config, wrong
from dtqn.text import one_line
from dtqn.training.acting_worker import ActingWorker
from dtqn.training.exchange import Exchange
from dtqn.training.setup import Share
from dtqn.training.worker import WorkerError

_NAME = "actor.pool is ray: RAY_ADDRESS"
_ANSWER_SECONDS = 10.0
_RIGHT = "must be HOST:PORT, as `ray start --head` tells it, or auto"


def _join(address: str) -> None:
    """Join a cluster, without a word and with this process's own answer to a SIGTERM; else a ConfigError."""
    host, _, port = address.rpartition(":")
    names_port = host and "/" not in host and port.isdigit() and 0 < int(port) < 65536
    if address != "auto" and not names_port:
        raise wrong(_NAME, address, _RIGHT)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        if names_port:  # Ray itself asks for minutes where nobody answers
            socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError, exceptions.RayError) as error:
        raise wrong(_NAME, address, f"no Ray answers there ({one_line(error, 100)}); {_RIGHT}") from None
    signal.signal(signal.SIGTERM, on_sigterm)


class RayWorkers:
    """The cluster that `RAY_ADDRESS` names."""

    def __init__(self, exchange: Exchange) -> None:
        """A ConfigError where no Ray answers."""
        self.exchange = exchange
        self._puts: dict[int, tuple[int, Any]] = {}
        """Place of parameters in the exchange -> their version, and a reference to them in Ray's store."""
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _join(os.environ.get("RAY_ADDRESS") or "unset")

    def start(self, task: str, config: Config, share: Share, env_steps: int) -> RayWorker:
        return RayWorker(self, task, (config, share, env_steps))

    def put(self, version: int, place: int) -> Any:
        """A reference to the parameters at a place of the exchange."""
        if self._puts.get(place, (None,))[0] != version:
            arrays = [one.numpy().copy() for one in self.exchange.parameters[place]]
            self._puts[place] = version, ray.put(arrays)
        return self._puts[place][1]

    def close(self) -> None:
        self._puts.clear()
        if self._is_ours:
            ray.shutdown()


class _Remote:
    """The actor: a worker, and what it raised where it could not be made."""

    def __init__(self, config: Config, share: Share, env_steps: int) -> None:
        self._fault: Exception | None = None
        try:
            self._worker = ActingWorker(config, share, env_steps, descriptor=None)
        except Exception as error:
            self._fault = error

    def call(self, method: str, arguments: tuple[Any, ...], parameters: list[np.ndarray] | None) -> Any:
        """Call a method of the worker; `parameters` are those whose place a step's last argument is."""
        if self._fault is not None:
            raise self._fault
        exchange = self._worker.exchange
        if parameters is not None:
            for place, one in zip(exchange.parameters[arguments[-1]], parameters, strict=True):
                place.numpy()[...] = one
        answer = getattr(self._worker, method)(*arguments)
        return (
            exchange.get_vector_step(arguments[0], self._worker.share.env_slice)
            if method == "vector_step"
            else answer
        )


class RayWorker:
    """One worker as the pool sees it, with the methods of `Worker`."""

    def __init__(self, cluster: RayWorkers, task: str, arguments: tuple[Config, Share, int]) -> None:
        self._cluster, self._task, self._share = cluster, task, arguments[1]
        self._version = -1
        """The learner step of the parameters that it was sent last."""
        path = {"PYTHONPATH": worker_environment()["PYTHONPATH"]}
        actor: Any = ray.remote(_Remote).options(num_cpus=1, runtime_env={"env_vars": path})
        self._actor = actor.remote(*arguments)
        self._calls: deque[tuple[Any, int | None]] = deque()
        """Calls that are not answered yet, in turn, and the place of a vector step's timesteps."""

    def ask(self, method: str, *arguments: Any) -> None:
        vector_step, parameters = None, None
        if method == "vector_step":
            vector_step, version, place = arguments
            if version != self._version:
                self._version, parameters = version, self._cluster.put(version, place)
        try:
            self._calls.append((self._actor.call.remote(method, arguments, parameters), vector_step))
        except exceptions.RayError as error:
            raise self._lost(error) from None

    def answered(self, timeout: float) -> bool:
        return bool(ray.wait([self._calls[0][0]], timeout=timeout)[0])

    def answer(self) -> Any:
        reference, vector_step = self._calls.popleft()
        try:
            value = ray.get(reference)
        except exceptions.RayTaskError as error:
            raise error.cause from None
        except exceptions.RayError as error:
            raise self._lost(error) from None
        if vector_step is None:
            return value
        self._cluster.exchange.set_vector_step(vector_step, value, self._share.env_slice)
        return None

    def _lost(self, error: Exception) -> WorkerError:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return WorkerError(f"the actor that {self._task} has ended: {one_line(lines[0] if lines else error)}")

    def end(self) -> None:
        with contextlib.suppress(exceptions.RayError):
            ray.kill(self._actor)

    close = kill = end
