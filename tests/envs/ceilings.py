"""An exact search of gridverse layouts: which of them an agent can win."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.state import State
from envs.gridverse.world import Engine


def chance(engine: Engine, layouts: State) -> NDArray[np.float64]:
    """The success, at best, of an agent in each of the layouts, deadlines aside, [N].

    0 where the good exit cannot be reached without ending on another. 1/2 where no beacon can be seen before
    the end: with the colours of the two exits swapped the layout looks the same, so of each such pair one is
    lost. 1 elsewhere. Nothing but the agent moves in these worlds.
    """
    shape, num = layouts.geometry, len(layouts.pose)
    poses = np.arange(4 * shape.outside)
    sees = np.zeros((num, len(poses)), np.bool_)
    for pose in poses:
        view = engine.observe(layouts._replace(pose=np.full(num, pose)))
        sees[:, pose] = codes.is_type(view, codes.BEACON).any(axis=0)
    exits = codes.is_type(layouts.cells, codes.EXIT)
    stops = (layouts.cells & codes.STOPS_MOVEMENT) != 0
    beacon = codes.is_type(layouts.cells, codes.BEACON).argmax(axis=1)
    good = exits & (
        codes.COLOUR[layouts.cells] == codes.COLOUR[layouts.cells[np.arange(num), beacon]][:, None]
    )
    reached = np.zeros((num, shape.num_cells), np.bool_)
    reached[np.arange(num), layouts.place] = True
    while True:  # from cell to cell; an exit is an end
        wider = reached.copy()
        ways_on = reached & ~exits
        for place in range(shape.outside):
            wider[:, shape.neighbours[place]] |= ways_on[:, place, None]
        wider &= ~stops
        if (wider == reached).all():
            break
        reached = wider
    # The agent can turn on the spot, so that it sees in all four headings wherever it gets; what it sees on
    # an exit comes too late.
    found = (sees.reshape(num, -1, 4).any(axis=2) & (reached & ~exits)[:, :-1]).any(axis=1)
    return np.where(found, (reached & good).any(axis=1), 0.5)
