"""Adam (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1), with its moments and its count of steps.

Torch's own fused kernel does the arithmetic. `torch.optim.Adam`, which wraps that kernel, would import
torch's compiler, which takes seconds at every start of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from dtqn.learning.flat import Flat

BETAS = (0.9, 0.999)


class Adam:
    """Changes parameters in place."""

    def __init__(self, names: Sequence[str], parameters: Flat, *, epsilon: float) -> None:
        """
        Args:
            names: those of the parameters, under which the moments are saved.
            epsilon: the constant in the denominator.
        """
        self._names, self._parameters, self._epsilon = names, parameters, epsilon
        tensors = parameters.tensors
        self._steps = [torch.zeros((), dtype=torch.float32, device=x.device) for x in tensors]
        self._exp_avg, self._exp_avg_sq = ([torch.zeros_like(x) for x in tensors] for _ in range(2))
        self.learning_rate = 0.0
        """The size of the last step; 0 before the first."""

    @torch.no_grad()
    def step(self, gradients: list[Tensor], learning_rate: float) -> None:
        """One step of this size by gradients that are joined as the parameters are."""
        self.learning_rate = learning_rate
        adam(
            self._parameters.tensors,
            gradients,
            self._exp_avg,
            self._exp_avg_sq,
            [],
            self._steps,
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
        views = (self._parameters.views(x) for x in (self._exp_avg, self._exp_avg_sq))
        return {
            name: {"step": self._steps[0], "exp_avg": first, "exp_avg_sq": second}
            for name, first, second in zip(self._names, *views, strict=True)
        }

    def set_state(self, state: dict[str, Any]) -> None:
        for step in self._steps:
            step.copy_(state[self._names[0]]["step"])
        for name, moments in self.get_state().items():
            for key in ("exp_avg", "exp_avg_sq"):
                moments[key].copy_(state[name][key])
