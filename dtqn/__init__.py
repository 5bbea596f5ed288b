"""Off-policy Q-learning for memory agents: networks, losses, learner, actors, evaluation, run loop.

`dtqn.load(run_dir)` gives a trained run's policy.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """`load` is imported when it is asked for: torch takes seconds, and most of this package needs none."""
    if name == "load":
        from dtqn.program import shadowed

        if mistake := shadowed():
            raise ImportError(mistake)
        from dtqn.policy import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
