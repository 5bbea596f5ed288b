"""Adam (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1), with its moments and its count of steps.

Torch's own fused kernel does the arithmetic. `torch.optim.Adam`, which wraps that kernel, would import
torch's compiler, which takes seconds at every start of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

BETAS = (0.9, 0.999)


class Adam:
    """Changes parameters in place by their `grad`."""

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], *, epsilon: float) -> None:
        """
        Args:
            parameters: with their names, under which the moments are saved.
            epsilon: the constant in the denominator.
        """
        self._parameters = dict(parameters)
        self._epsilon = epsilon
        self._moments = {
            name: {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
            }
            for name, parameter in self._parameters.items()
        }
        self.learning_rate = 0.0
        """The size of the last step; 0 before the first."""

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """One step of this size; every parameter has a gradient."""
        self.learning_rate = learning_rate
        moments = self._moments.values()
        adam(
            list(self._parameters.values()),
            [parameter.grad for parameter in self._parameters.values() if parameter.grad is not None],
            [of_one["exp_avg"] for of_one in moments],
            [of_one["exp_avg_sq"] for of_one in moments],
            [],
            [of_one["step"] for of_one in moments],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=learning_rate,
            weight_decay=0.0,
            eps=self._epsilon,
            maximize=False,
        )

    def get_state(self) -> dict[str, dict[str, Tensor]]:
        return {name: dict(of_one) for name, of_one in self._moments.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        for name, of_one in self._moments.items():
            for key, moment in of_one.items():
                moment.copy_(state[name][key])
