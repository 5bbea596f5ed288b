"""Classes that differ from another in a few members, each to be had as `module:Class`."""

from __future__ import annotations

import sys
from typing import Any


def define(module: str, base: type, classes: dict[str, dict[str, Any]]) -> None:
    """Makes each a class of the module: `base` with other members."""
    for name, members in classes.items():
        setattr(sys.modules[module], name, type(name, (base,), {"__module__": module, **members}))
