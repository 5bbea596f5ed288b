"""A world's description of itself: the key `task` of its data, which gym-gridverse's own files lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from envs.errors import meant
from envs.gridverse import values
from envs.vector import brief


@dataclass(frozen=True)
class WorldFacts:
    """All may be left out; None leaves it to whoever shows the world as a task."""

    description: str | None = None
    """One line."""
    source: str | None = None
    """The world's origin, on one line."""
    observation: str = "grid"
    """The observation where a user does not choose, one of `representations.OBSERVATIONS`."""
    time_limit: int = 250
    """Steps after which an episode is truncated, unless another limit is asked for. 250 is DTQN's for its
    worlds; the package has none. The longest of 5,000 shortest ways to an exit in its largest world was 20
    steps, so this leaves room to search."""
    best_return: float | None = None
    """The best achievable expected undiscounted return, where it is known."""
    success_ceiling: float = 1.0
    """The highest success rate that any agent can reach, where that is known to be below 1."""

    @classmethod
    def from_data(cls, data: Any) -> WorldFacts:
        """The facts of a mapping.

        Raises:
            ValueError: one line that names the key and what would be right.
        """
        known = [field.name for field in fields(cls)]
        if not isinstance(data, Mapping):
            raise ValueError(f"task is {brief(data)}; it must be a mapping with some of {', '.join(known)}")
        for key, value in data.items():
            if key not in known:
                hint = f"{meant(key, known)} (known: {', '.join(known)})"
                raise ValueError(f"task holds the unknown key {key!r}{hint}")
            values.read(value, f"task.{key}", values.FACTS[key])
        return cls(**data)
