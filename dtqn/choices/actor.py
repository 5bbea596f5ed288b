"""Who steps the environments, and how they explore: `actor.pool` and `actor.exploration`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from dtqn.settings.group import Member
from dtqn.settings.values import Choice


class Inline(Member):
    """The run itself."""

    name: str = "inline"


class Processes(Member):
    """Workers that act while the run learns: processes."""

    name: str = "process"
    made_by = "dtqn.training.pool:WorkerPool"

    num_workers: int = Field(2, ge=1, le=100_000)
    """Workers that split the environments; each has a copy of the network, on the CPU."""
    max_lead: int = Field(2, ge=0, le=1000)
    """Timesteps per environment that workers may act ahead of the learner; 0: they take turns."""
    step_timeout: float = Field(300.0, gt=0, le=1_000_000)
    """Seconds without an answer after which a worker counts as hung, and is replaced."""

    def misfits(self, run: Any) -> Iterator[str]:
        if self.num_workers > (num_envs := run.actor.num_envs):
            yield (
                f"actor.pool.num_workers is {self.num_workers}, above actor.num_envs {num_envs}: "
                f"some would have no environment; try {num_envs}"
            )


class RayActors(Processes):
    """Workers that act while the run learns: Ray actors."""

    name: str = "ray"


POOLS = Choice(Inline, Processes, RayActors)


class Ladder(Member):
    """Its rung base^(1 + exponent i / (N - 1)) of Ape-X's ladder."""

    name: str = "ladder"

    base: float = Field(0.4, gt=0, lt=1)
    """Epsilon of environment 0, the largest on Ape-X's ladder."""
    exponent: float = Field(7.0, ge=0)
    """alpha of Ape-X's ladder: the last environment's epsilon is base^(1 + alpha)."""


class Annealed(Member):
    """`actor.epsilon_final`, the same for all."""

    name: str = "annealed"


EXPLORATIONS = Choice(Ladder, Annealed)
