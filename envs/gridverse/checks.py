"""Checks a state that a user gives to `reset(options={"state": ...})`, and a world's own states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.state import from_arrays, to_arrays
from envs.gridverse.world import Engine, WorldSpec
from envs.vector import Arrays


def check_state(state: Arrays, spec: WorldSpec) -> None:
    """Raises ValueError, naming the first offence, unless every state is one of the world's."""
    grid, agent, item = state["grid"], state["agent"], state["item"]
    objects = [codes.OBJECTS.index(name) for name in spec.objects]
    _check_cells("grid", grid, objects, spec)
    _check_cells("item", item, [codes.NOTHING, *(o for o in objects if codes.CAN_BE_HELD[o])], spec)
    for reward in spec.needs_one():
        kind = codes.OBJECTS.index(reward["object_type"])
        count = (grid[..., 0] == kind).sum(axis=(1, 2))
        for found in count[count != 1][:1]:
            raise ValueError(
                f"state 'grid' holds {found} of {codes.OBJECTS[kind]}; {reward.name} needs exactly one"
            )
    if spec.has_good_exit and not (grid[..., 0] == codes.BEACON).any(axis=(1, 2)).all():
        raise ValueError("state 'grid' holds no Beacon; reach_exit_memory needs at least one")
    _check_agent(agent, spec)
    here = codes.unpack(from_arrays(grid, agent, item).under_agent())
    for first in np.flatnonzero(codes.BLOCKS_MOVEMENT[here[:, 0], here[:, 1]])[:1]:
        y, x, _ = agent[first]
        raise ValueError(
            f"state 'agent' is at {(int(y), int(x))}, on a {codes.OBJECTS[here[first, 0]]};"
            " it must be on a cell that does not block movement"
        )


def _check_agent(agent: NDArray[np.uint8], spec: WorldSpec) -> None:
    """Raises unless each agent [N, 3] is within the grid and has a heading."""
    height, width = spec.shape
    for y, x, heading in np.unique(agent, axis=0):
        if y >= height or x >= width:
            raise ValueError(
                f"state 'agent' is at {(int(y), int(x))};"
                f" it must be within (0, 0) to {(height - 1, width - 1)}"
            )
        if heading >= len(codes.HEADINGS):
            raise ValueError(f"state 'agent' has heading {heading}; it must be 0 to 3 {codes.HEADINGS}")


def _check_cells(name: str, cells: NDArray[np.uint8], types: list[int], spec: WorldSpec) -> None:
    """Raises unless each of `cells` [..., 3] is one of `types` in a status and colour that it can have."""
    colours = sorted({codes.NO_COLOUR, *(codes.COLOURS.index(colour) for colour in spec.colors)})
    for kind, status, colour in np.unique(cells.reshape(-1, 3), axis=0):
        value = (int(kind), int(status), int(colour))
        if kind not in types:
            known = ", ".join(f"{t} {codes.OBJECTS[t]}" for t in types)
            raise ValueError(f"state {name!r} holds {value}: its type must be one of {known}")
        if status >= codes.NUM_STATUSES[kind]:
            raise ValueError(
                f"state {name!r} holds {value}: the status of a {codes.OBJECTS[kind]} must be below"
                f" {codes.NUM_STATUSES[kind]}"
            )
        possible = colours if codes.CAN_BE_COLOURED[kind] else [codes.NO_COLOUR]
        if colour not in possible:
            known = ", ".join(f"{c} {codes.COLOURS[c]}" for c in possible)
            raise ValueError(
                f"state {name!r} holds {value}: the colour of a {codes.OBJECTS[kind]} must be one of {known}"
            )


_SAMPLES = 64


def check_world(spec: WorldSpec) -> None:
    """ValueError of one line where the states that a world's reset makes do not fit the world."""
    grid, agent, item = to_arrays(Engine(spec).reset(_SAMPLES, np.random.default_rng(0)))
    try:
        check_state({"grid": grid, "agent": agent, "item": item}, spec)
    except ValueError as error:
        raise ValueError(f"reset function {spec.reset.name!r} does not fit the world: {error}") from None
