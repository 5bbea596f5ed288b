"""Settings of every test."""

from __future__ import annotations

import signal

import torch

# As runs have it: on tensors this small, two threads spend their time waiting for each other.
torch.set_num_threads(1)

# A shell that starts pytest in the background lets it ignore Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)
