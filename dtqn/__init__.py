"""Off-policy Q-learning for memory agents: networks, losses, learner, actors, evaluation, run loop.

`dtqn.train` trains an agent, `dtqn.evaluate` evaluates it and `dtqn.load(run_dir)` gives its policy.
`dtqn.compare` compares agents, and `dtqn.sweep` searches their settings.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
_FROM = {
    "ConfigError": "dtqn.settings.config",
    "load": "dtqn.policy",
    **dict.fromkeys(("Best", "Run", "compare", "evaluate", "sweep", "train"), "dtqn.api"),
}
__all__ = ["Best", "ConfigError", "Run", "__version__", "compare", "evaluate", "load", "sweep", "train"]


def __getattr__(name: str) -> Any:
    """What is asked for is imported then: torch takes seconds, and most of this package needs none."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dtqn.program import shadowed

    if mistake := shadowed():
        raise ImportError(mistake)
    return getattr(importlib.import_module(_FROM[name]), name)
