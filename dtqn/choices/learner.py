"""What an update is made of: batches, returns, bootstrap and target network, by settings of those names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dtqn.settings.group import Member
from dtqn.settings.values import AutoOr, Choice


class Batches(Member):
    """Where the batches of updates come from."""

    from_replay: ClassVar[bool] = True

    def steps_of_update(self, num_envs: int, learn_length: int) -> float:
        """Environment steps, of all environments, for one learner step, on average."""
        raise NotImplementedError


class Replayed(Batches):
    """Sequences that are drawn from replay."""

    name: str = "replay"

    size: int = Field(32, ge=1)
    """B, sequences in a batch."""
    env_steps_per_update: Annotated[float | Literal["auto"], AutoOr(float, gt=0)] = 48.0
    """Environment steps (summed over all environments, after warm-up) per update; auto: 48, or
    48 sqrt(L / 80) where `replay.learn_length`, L, is above 80."""

    def steps_of_update(self, num_envs: int, learn_length: int) -> float:
        if self.env_steps_per_update == "auto":
            return 48.0 * max(1.0, math.sqrt(learn_length / 80))
        return self.env_steps_per_update


class Rollouts(Batches):
    """The last vector steps and no others, which are forgotten then (PQN)."""

    name: str = "rollout"
    from_replay = False

    length: int = Field(128, ge=1, le=1_000_000)
    """T, timesteps of a rollout in each environment."""
    epochs: int = Field(4, ge=1)
    """Passes over each rollout."""
    minibatches: int = Field(16, ge=1)
    """Updates per epoch, each on a different share of environments; must divide `actor.num_envs`."""

    def steps_of_update(self, num_envs: int, learn_length: int) -> float:
        return self.length * num_envs / (self.epochs * self.minibatches)

    def misfits(self, run: Any) -> Iterator[str]:
        count, num_envs = self.minibatches, run.actor.num_envs
        if run.network.core.is_windowed:
            yield (
                f"learner.batches is rollout, but network.core is {run.network.core.name}, which re-reads a "
                "window at each step and cannot read a rollout in one go; try replay, or another core"
            )
        if num_envs % count:
            fitting = max(n for n in range(1, min(count, num_envs) + 1) if num_envs % n == 0)
            yield (
                f"learner.batches.minibatches is {count}, not a divisor of actor.num_envs {num_envs}; "
                f"try {fitting}"
            )


BATCHES = Choice(Replayed, Rollouts)


class NStep(Member):
    """An n-step return."""

    name: str = "n_step"
    made_by = "dtqn.learning.returns:NStep"


class Peng(Member):
    """Peng's Q(lambda), which goes on at every action."""

    name: str = "peng"
    made_by = "dtqn.learning.returns:Peng"

    q_lambda: float = Field(0.9, ge=0, le=1)
    """lambda of Q(lambda): 0 is the one-step return, 1 uses all rewards up to the sequence's end."""


class Watkins(Peng):
    """Watkins' Q(lambda), which is cut at exploring actions."""

    name: str = "watkins"
    made_by = "dtqn.learning.returns:Watkins"

    tolerance: float = Field(0.0, ge=0)
    """kappa: a trace survives an action whose Q is below the best by at most kappa times `tolerance_of`."""
    tolerance_of: Literal["values", "gaps"] = "values"
    """Unit of `tolerance`: a sequence's largest |max_a Q| (values) or max_a Q - min_a Q (gaps)."""


RETURNS = Choice(NStep, Peng, Watkins)


class Greedy(Member):
    """The best action (Q-learning)."""

    name: str = "greedy"


class Advantage(Member):
    """The best action, and a cost for the others (advantage learning, Bellemare et al. 2016)."""

    name: str = "advantage"

    alpha: float = Field(0.9, ge=0, le=1)
    """alpha: a worse action's target falls by alpha times its gap to the best action, at most by alpha."""


BOOTSTRAPS = Choice(Greedy, Advantage)


class Soft(Member):
    """It moves a little at every update."""

    name: str = "soft"

    rate: float = Field(0.02, gt=0, le=1)
    """tau: weight of the online network when each update mixes it into the target network."""


class Hard(Member):
    """It becomes a copy every so often."""

    name: str = "hard"

    period: int = Field(2500, ge=1)
    """Updates between copies to the target network."""


class NoTarget(Member):
    """There is none: the online network bootstraps itself."""

    name: str = "none"


TARGET_UPDATES = Choice(Soft, Hard, NoTarget)
