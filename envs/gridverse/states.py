"""Reads and checks a state that a user gives to `reset(options={"state": ...})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes, functions
from envs.gridverse.functions import State
from envs.gridverse.world import WorldSpec
from envs.vector import check_fields, read_field


def read_state(given: Mapping[str, Any], spec: WorldSpec, num: int) -> State:
    """The state of `num` copies that `given` asks for: `grid`, `agent` and, where something is held, `item`.

    Raises:
        ValueError: one line that names the field, the value and what would be right.
    """
    check_fields(given, ("grid", "agent"), ("item",))
    state = State(
        _codes("grid", given["grid"], (*spec.shape, 3), num),
        _codes("agent", given["agent"], (3,), num),
        _codes("item", given.get("item", (codes.NOTHING, 0, codes.NO_COLOUR)), (3,), num),
    )
    check_state(state, spec)
    return state


def _codes(name: str, value: Any, shape: tuple[int, ...], num: int) -> NDArray[np.uint8]:
    return read_field(name, value, shape, num, np.uint8, 0, 255)


def check_state(state: State, spec: WorldSpec) -> None:
    """Raises ValueError, naming the first offence, unless every state is one of the world's."""
    objects = [codes.OBJECTS.index(name) for name in spec.objects]
    _check_cells("grid", state.grid, objects, spec)
    _check_cells("item", state.item, [codes.NOTHING, *(o for o in objects if codes.CAN_BE_HELD[o])], spec)
    for reward in spec.rewards:
        needed = functions.NEEDS_OBJECT.get(reward.name)
        if needed is not None and not (state.grid[..., 0] == needed).any(axis=(1, 2)).all():
            raise ValueError(
                f"state 'grid' holds no {codes.OBJECTS[needed]}; {reward.name} needs at least one"
            )
    height, width = spec.shape
    for y, x, heading in np.unique(state.agent, axis=0):
        if y >= height or x >= width:
            raise ValueError(
                f"state 'agent' is at {(int(y), int(x))};"
                f" it must be within (0, 0) to {(height - 1, width - 1)}"
            )
        if heading >= len(codes.HEADINGS):
            raise ValueError(f"state 'agent' has heading {heading}; it must be 0 to 3 {codes.HEADINGS}")
    here = functions.under_agent(state)
    for row in np.flatnonzero(codes.BLOCKS_MOVEMENT[here[:, 0], here[:, 1]])[:1]:
        y, x, _ = state.agent[row]
        raise ValueError(
            f"state 'agent' is at {(int(y), int(x))}, on a {codes.OBJECTS[here[row, 0]]};"
            " it must be on a cell that does not block movement"
        )


def _check_cells(name: str, cells: NDArray[np.uint8], types: list[int], spec: WorldSpec) -> None:
    """Raises unless each of `cells` [..., 3] is one of `types` in a status and colour that it can have."""
    colours = [codes.COLOURS.index(colour) for colour in spec.colors]
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
