"""Ray, joined. It is an extra and takes long to import: here alone, by those who need it."""

from __future__ import annotations

import logging
import os
import signal
import socket
from typing import Any

import ray
from ray import exceptions

from dtqn.settings.config import wrong
from dtqn.text import one_line

__all__ = ["answered", "exceptions", "join", "ray"]
_ANSWER_SECONDS = 10.0
_RIGHT = "must be HOST:PORT, as `ray start --head` tells it, or auto"


def join(name: str, address: str) -> None:
    """Join a cluster, without a word and with this process's own answer to a SIGTERM.

    Args:
        name: the option or variable that holds the address.
        address: `HOST:PORT`, or `auto` for the cluster of this machine.

    Raises:
        ConfigError: where no Ray answers.
    """
    host, _, port = address.rpartition(":")
    names_port = host and "/" not in host and port.isdigit() and 0 < int(port) < 65536
    if address != "auto" and not names_port:
        raise wrong(name, address, _RIGHT)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        if names_port:  # Ray itself asks for minutes where nobody answers
            socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError, exceptions.RayError) as error:
        raise wrong(name, address, f"no Ray answers there ({one_line(error, 100)}); {_RIGHT}") from None
    signal.signal(signal.SIGTERM, on_sigterm)


def answered(reference: Any, timeout: float = 0.0) -> bool:
    """Whether a call's result is there, after so many seconds at most."""
    return bool(ray.wait([reference], timeout=timeout)[0])
