"""A user's file by today's names of settings: one of settings, a suite or a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dtqn.settings import gone
from dtqn.settings.config import spelled
from dtqn.settings.layers import fitted, nested, read_names

Moved = dict[str, list[str]]


def updated(content: Mapping[str, Any]) -> tuple[dict[str, Any], Moved]:
    """The content of a file by today's names, and what has moved."""
    moved: Moved = {}
    if isinstance(content.get("parameters"), Mapping):
        return {**content, "parameters": _by_name(dict(of_sweep(content["parameters"])), moved)}, moved
    if isinstance(content.get("tasks"), list):
        tasks = [_of_suite(task, moved) if isinstance(task, Mapping) else task for task in content["tasks"]]
        return {**_of_suite(content, moved), "tasks": tasks}, moved
    agents = content.get("agents")
    rest = _of_settings({name: value for name, value in content.items() if name != "agents"}, moved)
    if isinstance(agents, Mapping):
        rest["agents"] = {name: _of_settings(values or {}, moved) for name, values in agents.items()}
    return rest, moved


def _of_settings(values: Mapping[str, Any], moved: Moved) -> dict[str, Any]:
    today, found = read_names(values)
    if not found:
        return dict(values)
    moved |= found
    fitting = fitted(today)
    # Where the file does not choose, another file or a flag may.
    kept = {x: value for x, value in today.items() if x in fitting or x.rpartition(".")[0] not in today}
    return nested(kept, brief=True)


def _of_suite(content: Mapping[str, Any], moved: Moved) -> dict[str, Any]:
    changed = dict(content)
    if isinstance(content.get("settings"), Mapping):
        changed["settings"] = _of_settings(content["settings"], moved)
    return changed


def of_sweep(parameters: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """A sweep's parameters by dotted name, be they nested or not."""
    for key, spec in parameters.items():
        name = spelled(f"{group}{key}")
        if isinstance(spec, Mapping) and isinstance(spec.get("parameters"), Mapping):
            yield from of_sweep(spec["parameters"], f"{name}.")
        else:
            yield name, spec


def _by_name(values: Mapping[str, Any], moved: Moved) -> dict[str, Any]:
    """Values by dotted name, of settings that moved as they are; the others keep their names."""
    changed = {}
    for name, value in values.items():
        today = gone.MOVED.get(name)
        if isinstance(today, str):
            moved[name] = [today]
        changed[today if isinstance(today, str) else name] = value
    return changed
