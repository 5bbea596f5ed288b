"""Parameters side by side: one operator then changes them all.

On a CPU an operator on a bias of 64 numbers takes as long as one on thousands, and a network has dozens of
parameters. On other devices torch's own lists of tensors do as much, and some kernels want their parameters
where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


class Flat:
    """The parameters of a network as few tensors, of which they become views."""

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
        self.tensors = self.join([parameter.detach() for parameter in self._parameters])
        for parameter, view in zip(self._parameters, self.views(self.tensors), strict=True):
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
