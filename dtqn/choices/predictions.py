"""What a head predicts of the return, named by `network.distribution`: settings and what makes each."""

from __future__ import annotations

import math

from pydantic import Field

from dtqn.settings.group import Member, misfit
from dtqn.settings.values import Choice


class Prediction(Member):
    """The head's estimate of a return."""


class Expectation(Prediction):
    """Its mean."""

    name: str = "none"
    made_by = "dtqn.learning.predictions:Expectation"


class Categorical(Prediction):
    """Probabilities of atoms (C51)."""

    name: str = "categorical"
    made_by = "dtqn.learning.predictions:Categorical"
    rules_of_group = (
        misfit(
            lambda c: c.v_min >= c.v_max,
            "network.distribution.v_min is {c.v_min}, not below network.distribution.v_max {c.v_max}; "
            "try {more}",
            lambda c: c.v_max - 1,
        ),
    )
    rules_of_run = (
        misfit(
            lambda c: (
                not c.learner.value_rescaling and c.learner.reward_scale > _largest(c.network.distribution)
            ),
            "learner.reward_scale is {c.learner.reward_scale:g} with network.distribution.v_min "
            "{c.network.distribution.v_min:g} and network.distribution.v_max "
            "{c.network.distribution.v_max:g}: no atom is the return of a single reward of 1; "
            "try network.distribution.v_max {more} and network.distribution.v_min -{more}",
            lambda c: math.ceil(c.learner.reward_scale),
        ),
        misfit(
            lambda c: c.learner.bootstrap.name == "munchausen",
            "learner.bootstrap is munchausen with network.distribution categorical; try none",
        ),
    )

    num_atoms: int = Field(51, ge=2, le=1_000_000)
    """Atoms from `v_min` to `v_max`."""
    v_min: float = -10.0
    """The smallest return an atom stands for, with `reward_scale` and value rescaling."""
    v_max: float = 10.0
    """The largest return an atom stands for, with `reward_scale` and value rescaling."""


def _largest(prediction: Categorical) -> float:
    return max(abs(prediction.v_min), abs(prediction.v_max))


PREDICTIONS = Choice(Expectation, Categorical)
