"""What a head predicts of the return, named by `network.distribution`: settings and what makes each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from dtqn.settings.group import Member
from dtqn.settings.values import Choice


class Expectation(Member):
    """Its mean."""

    name: str = "none"
    made_by = "dtqn.learning.predictions:Expectation"


class Categorical(Member):
    """Probabilities of atoms (C51)."""

    name: str = "categorical"
    made_by = "dtqn.learning.predictions:Categorical"

    num_atoms: int = Field(51, ge=2, le=1_000_000)
    """Number of atoms (returns), evenly spaced from `v_min` to `v_max`."""
    v_min: float = -10.0
    """Smallest atom: a return after `reward_scale` and value rescaling."""
    v_max: float = 10.0
    """Largest atom: a return after `reward_scale` and value rescaling."""

    def misfits(self, run: Any) -> Iterator[str]:
        if self.v_min >= self.v_max:
            yield (
                f"network.distribution.v_min is {self.v_min}, not below network.distribution.v_max "
                f"{self.v_max}; try {self.v_max - 1}"
            )
        scale, largest = run.learner.reward_scale, max(abs(self.v_min), abs(self.v_max))
        if scale != "auto" and not run.learner.value_rescaling and scale > largest:
            yield (
                f"learner.reward_scale is {scale:g} with network.distribution.v_min {self.v_min:g} and "
                f"network.distribution.v_max {self.v_max:g}: no atom reaches the return of a reward of 1; "
                f"try network.distribution.v_max {math.ceil(scale)} and network.distribution.v_min "
                f"-{math.ceil(scale)}"
            )


PREDICTIONS = Choice(Expectation, Categorical)
