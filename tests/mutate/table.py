"""The breaks, from `table.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml


class Break(NamedTuple):
    name: str
    symbol: str
    """Qualified name of the function, class or value that has the expression."""
    old: str
    """Expression or statement that the symbol has exactly once."""
    new: str
    test: str
    """That must notice."""


_ROWS = yaml.safe_load(Path(__file__).with_name("table.yaml").read_text(encoding="utf-8"))
TABLE = [Break(*row, test) for test, rows in _ROWS.items() for row in rows]
