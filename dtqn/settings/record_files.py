"""Files of records, a line of JSON a run: `FILE.jsonl#task/agent/seed` names one of them.

`dtqn.experiments.records` says what a record holds. Here one is found by its name, and its settings are read.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtqn.settings.config import ConfigError, leaves
from dtqn.settings.layers import of_today
from envs.errors import check_is_file

SUFFIX = ".jsonl"
_KEYS = {"env": str, "agent": str, "seed": int, "settings_hash": str, "settings": object}
"""Keys that a record of a run has, and no file of settings; what each holds."""


def is_record(content: Mapping[str, Any]) -> bool:
    return all(key in content and isinstance(content[key], kind) for key, kind in _KEYS.items())


def lines(file: Path) -> list[bytes]:
    """The lines of a file; a ConfigError where it cannot be read."""
    try:
        check_is_file(file)
        return file.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None


def key_of(content: Mapping[str, Any]) -> str:
    """`task/agent/seed-hash`: a record's name in its file."""
    return f"{content['env']}/{content['agent']}/{content['seed']}-{content['settings_hash']}"


def find(name: str) -> dict[str, Any]:
    """The record of a name such as `dtqn.jsonl#hallway/gtrxl/101`.

    A file with several records of that task, agent and seed needs the hash of the settings too:
    `hallway/gtrxl/101-0a1b2c3d`.

    Raises:
        ConfigError: where there is no such file or record, or there are several.
    """
    place, _, asked = name.partition("#")
    file = Path(place)
    by_key = {key_of(content): content for content in map(parsed, lines(file)) if content}
    found = [key for key in by_key if asked in (key, key.rpartition("-")[0])]
    if len(found) == 1:
        return by_key[found[0]]
    if found:
        raise ConfigError(f"{name}: the file has several of it; must be one of {', '.join(found)}")
    if not asked:
        raise ConfigError(f"{name}: is a file of records; must be FILE.jsonl#TASK/AGENT/SEED")
    known = dict.fromkeys(key.rpartition("-")[0] for key in by_key)
    near = difflib.get_close_matches(asked, known, n=3, cutoff=0.0)
    raise ConfigError(f"{name}: the file has no such record; the nearest: {', '.join(near) or 'none'}")


def parsed(line: bytes) -> dict[str, Any]:
    """A record's content; nothing where the line is none."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) and is_record(content) else {}


def settings_of(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """All settings of a record's run by dotted name, as far as it tells them: early ones have no defaults.

    Args:
        source: what the record is called.

    Raises:
        ConfigError: where it holds no settings, or one that has gone and was not off.
    """
    groups = [content.get("defaults", {}), content["settings"]]
    if not all(isinstance(group, Mapping) for group in groups):
        raise ConfigError(f"{source}: settings and defaults of a record must be groups of settings")
    run = {name: content[name] for name in ("env", "agent", "seed")}
    return of_today(dict(leaves(groups[0])) | dict(leaves(groups[1])), source) | run
