"""Ray, joined or started. It is an extra and takes long to import: here alone, by those who need it."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

import ray
from ray import exceptions

__all__ = ["NoRayError", "answered", "connect", "exceptions", "ray"]
_STORE_BYTES = 200 << 20
"""Bytes of a local Ray's object store."""
_ANSWER_SECONDS = 10.0


class NoRayError(Exception):
    """Ray does not answer, or did not start: why, as it says itself."""


def connect(address: str | None, num_cpus: int) -> None:
    """Join the cluster at an address, or start a Ray of this machine; neither prints anything.

    Args:
        address: None: start one.
        num_cpus: those of the one that is started.

    Raises:
        NoRayError: where none answers or starts.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        quiet |= {"num_cpus": num_cpus, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    try:
        _look(address or "local")
        ray.init(address=address or "local", **quiet)
    except (OSError, ValueError, RuntimeError, exceptions.RayError) as error:
        raise NoRayError(f"{type(error).__name__}: {error}") from None


def _look(address: str) -> None:
    """Ray itself asks for minutes where nobody answers."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()


def answered(reference: Any, timeout: float = 0.0) -> bool:
    """Whether a call's result is there, after so many seconds at most."""
    return bool(ray.wait([reference], timeout=timeout)[0])
