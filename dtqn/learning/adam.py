"""Adam (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1), with its moments and its count of steps.

RAdam (Liu et al. 2020, arXiv 1908.03265, algorithm 2) is Adam with other step sizes. The first few gradients
do not show their variance, so the first steps use momentum alone. Later ones are multiplied by r_t, which
rises to 1.

With weight decay it is AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2): before its step a
matrix is multiplied by 1 - lambda times the step size. Biases, norms' gains and frozen matrices are not.

Torch's own fused kernel does the arithmetic. `torch.optim.Adam`, which wraps that kernel, would import
torch's compiler, which takes seconds at every start of a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

BETAS = (0.9, 0.999)
TRACTABLE = 5.0
"""rho_t up to which the variance is not used; the paper has 4, optax and torch 5."""


def rectification(step: int) -> float | None:
    """r_t of RAdam's step t, from 1; None where the variance is not tractable yet.

    rho_t = rho - 2 t b^t / (1 - b^t),  rho = 2 / (1 - b) - 1,  b = beta_2
    r_t = sqrt( (rho_t - 4) (rho_t - 2) rho / ((rho - 4) (rho - 2) rho_t) )
    """
    beta = BETAS[1]
    longest = 2 / (1 - beta) - 1
    length = longest - 2 * step * beta**step / (1 - beta**step)
    if length <= TRACTABLE:
        return None
    return math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))


class Flat:
    """A network's parameters, joined in a few tensors. The parameters become views of these.

    On a CPU an operator on a bias of 64 numbers takes as long as one on thousands, and a network has dozens
    of parameters. On other devices torch's own lists of tensors gain as much, and some kernels need the
    parameters where they are.
    """

    tensors: list[Tensor]
    """On a CPU one [n] for each dtype, elsewhere the parameters themselves."""
    learns: list[bool]
    """Whether each parameter learns; one that is frozen (`requires_grad` False) has its place here too."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self.learns = [parameter.requires_grad for parameter in self._parameters]
        self._groups: list[list[int]] = []
        """The places, among the parameters, of those in each of `tensors`."""
        by_dtype: dict[torch.dtype, list[int]] = {}
        for place, parameter in enumerate(self._parameters):
            if parameter.device.type == "cpu":
                by_dtype.setdefault(parameter.dtype, []).append(place)
            else:
                self._groups.append([place])
        self._groups += by_dtype.values()
        self.move(self.join([parameter.detach() for parameter in self._parameters]), keep=False)

    def move(self, tensors: list[Tensor], keep: bool) -> None:
        """The parameters are views of `tensors` from now on; `keep`: with the values that they have."""
        if keep:
            torch._foreach_copy_(tensors, self.tensors)
        self.tensors = tensors
        for parameter, view in zip(self._parameters, self.views(tensors), strict=True):
            parameter.data = view

    def join(self, each: Sequence[Tensor]) -> list[Tensor]:
        """Tensors of the shapes of the parameters, joined as these are and in their dtypes."""
        joined = [
            each[group[0]] if len(group) == 1 else torch.cat([each[place].reshape(-1) for place in group])
            for group in self._groups
        ]
        return [x.to(self._parameters[group[0]].dtype) for x, group in zip(joined, self._groups, strict=True)]

    def views(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The inverse of `join`, without a copy."""
        found: dict[int, Tensor] = {}
        for group, tensor in zip(self._groups, tensors, strict=True):
            sizes = [self._parameters[place].numel() for place in group]
            for place, part in zip(group, tensor.view(-1).split(sizes), strict=True):
                found[place] = part.view(self._parameters[place].shape)
        return [found[place] for place in range(len(self._parameters))]


class Adam:
    """Changes parameters in place."""

    def __init__(
        self,
        names: Sequence[str],
        parameters: Flat,
        *,
        epsilon: float,
        rectified: bool,
        weight_decay: float = 0.0,
    ) -> None:
        """
        Args:
            names: the parameters' names, under which the moments are saved.
            epsilon: the constant in the denominator.
            rectified: RAdam.
            weight_decay: lambda.
        """
        self._names, self._parameters, self._epsilon = names, parameters, epsilon
        self._rectified = rectified
        tensors = parameters.tensors
        self._steps = [torch.zeros((), dtype=torch.float32, device=x.device) for x in tensors]
        self._exp_avg, self._exp_avg_sq = ([torch.zeros_like(x) for x in tensors] for _ in range(2))
        self._decay: list[Tensor] = []
        """lambda at each number of a parameter of two dimensions or more, 0 elsewhere; empty where nothing
        decays."""
        if weight_decay:
            shares = [
                torch.full_like(x, weight_decay if learns and x.dim() > 1 else 0.0)
                for x, learns in zip(parameters.views(tensors), parameters.learns, strict=True)
            ]
            self._decay = parameters.join(shares)

    @torch.no_grad()
    def step(self, gradients: list[Tensor], learning_rate: float | Tensor, finite: Tensor) -> None:
        """One step by gradients that are joined as the parameters are; none, where these are not `finite`.

        Args:
            learning_rate: the step's size; a tensor [], float32 on the device, where it is recorded.
            finite: [] bool.
        """
        for decay, x in zip(self._decay, self._parameters.tensors, strict=False):
            x.addcmul_(x, (decay * finite).mul_(-learning_rate))
        if self._rectified:
            if not finite:
                return None
            share = rectification(int(self._steps[0]) + 1)
            if share is None:
                return self._momentum_step(gradients, float(learning_rate))
            learning_rate = learning_rate * share
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
            found_inf=(~finite).to(torch.float32),
            weight_decay=0.0,
            eps=self._epsilon,
            maximize=False,
        )

    def _momentum_step(self, gradients: list[Tensor], learning_rate: float) -> None:
        """One step by the mean of the gradients, whatever their size."""
        torch._foreach_add_(self._steps, 1)
        torch._foreach_lerp_(self._exp_avg, gradients, 1 - BETAS[0])
        torch._foreach_mul_(self._exp_avg_sq, BETAS[1])
        torch._foreach_addcmul_(self._exp_avg_sq, gradients, gradients, 1 - BETAS[1])
        correction = 1 - BETAS[0] ** int(self._steps[0])
        torch._foreach_add_(self._parameters.tensors, self._exp_avg, alpha=-learning_rate / correction)

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
