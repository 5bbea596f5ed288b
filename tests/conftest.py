"""Settings of every test."""

from __future__ import annotations

import torch

# As runs have it: on tensors this small, two threads spend their time waiting for each other.
torch.set_num_threads(1)
