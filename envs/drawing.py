"""Parts that the pictures of all native tasks share: colours, and the pixels of a square tile."""

from __future__ import annotations

from typing import Final

import numpy as np

FLOOR: Final = (236, 232, 222)
WALL: Final = (84, 88, 96)
LINE: Final = (208, 203, 190)
AGENT: Final = (40, 40, 48)
VIEW: Final = (255, 190, 60)
# They keep apart in hue and in lightness, for readers with other colour vision.
RED: Final = (206, 52, 52)
GREEN: Final = (46, 148, 84)
BLUE: Final = (48, 98, 204)
YELLOW: Final = (232, 200, 40)

TILE: Final = 32  # pixels per side of a cell of a map
Y, X = np.meshgrid(*[(np.arange(TILE) + 0.5) * 2 / TILE - 1] * 2, indexing="ij")
"""Pixel centres of a tile from -1 to 1, downward and rightward."""
