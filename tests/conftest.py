"""Settings of every test."""

from __future__ import annotations

import signal

import pytest
import torch

from dtqn.training import machine

# As runs have it: on tensors this small, two threads spend their time waiting for each other.
torch.set_num_threads(1)

# A shell that starts pytest in the background lets it ignore Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are as on a machine with one free core, however busy this one is."""
    monkeypatch.setattr(machine, "free_cores", lambda: 1)
