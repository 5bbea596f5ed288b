"""Networks that run an update in bfloat16, beside parameters in float32.

Mixed precision (Micikevicius et al. 2018, arXiv 1710.03740) with the type of Kalamkar et al. 2019 (arXiv
1905.12322), whose range is that of float32, so that no loss has to be scaled. Encoder and core run on a
rounded copy of their parameters. The head, losses, sums of gradients, Adam and the target network's average
stay in float32: what Q-values are made of is rounded, Q-values are not.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn


def _in_float32(head: nn.Module, features: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.float() for x in features)


class Rounded:
    """A copy of a network with encoder and core in bfloat16."""

    network: Any
    """A Q-network, as the one it is made of."""

    def __init__(self, network: Any) -> None:
        self._parameters = [x.detach() for x in network.parameters()]
        self.network = copy.deepcopy(network)
        for name, part in self.network.named_children():
            if name != "head":
                part.to(torch.bfloat16)
        self.network.head.register_forward_pre_hook(_in_float32)
        self._copies = [x.detach() for x in self.network.parameters()]

    def refresh(self) -> None:
        """Take over the parameters of the network that this is a copy of."""
        torch._foreach_copy_(self._copies, self._parameters)
