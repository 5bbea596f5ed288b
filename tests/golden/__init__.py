"""Recordings, by names: `settings.yaml` of presets, `runs.json` of short runs, `losses.json` of updates.

The tests that compare them record them anew, all or single names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
SETTINGS, RUNS, LOSSES = FOLDER / "settings.yaml", FOLDER / "runs.json", FOLDER / "losses.json"


def read(file: Path) -> dict[str, Any]:
    """What a file holds of each name."""
    text = file.read_text()
    found: dict[str, Any] = yaml.safe_load(text) if file.suffix == ".yaml" else json.loads(text)
    return found


def updated(file: Path, anew: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """What a file is to hold: `anew` in place of what it held, and nothing of other than these names."""
    before = read(file) if file.exists() else {}
    return {name: value for name, value in sorted((before | anew).items()) if name in names}


def write(file: Path, anew: Mapping[str, list[Any]], names: Collection[str]) -> None:
    """Update a file of JSON: lists, an item a line."""
    found = updated(file, anew, names).items()
    lists = (f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, items)) + "\n]" for name, items in found)
    file.write_text("{\n" + ",\n".join(lists) + "\n}\n")
