"""Ray. It is an extra and takes long to import: here and nowhere else, by those alone who need it."""

from __future__ import annotations

import ray
from ray import exceptions

__all__ = ["exceptions", "ray"]
