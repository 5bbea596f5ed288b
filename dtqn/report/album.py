"""Pictures as PNG files in the page, each once however often it is shown."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

LARGEST_SIDE = 320
"""Pixels; larger pictures are made smaller."""
SMALLEST_SIDE = 40
MOST_BYTES = 2_500_000
"""Bytes of all pictures together; where there are more, all are made smaller."""


class Album:
    """Pictures by number, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._files: list[bytes] = []

    def __len__(self) -> int:
        return len(self._files)

    def add(self, picture: np.ndarray) -> int:
        """The number of a picture, uint8 [height, width, 3] or [height, width]."""
        key = repr(picture.shape).encode() + picture.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._files)
            self._files.append(_png(Image.fromarray(picture), LARGEST_SIDE))
        return self._numbers[key]

    def links(self, most_bytes: int = MOST_BYTES) -> list[str]:
        """The pictures as `data:` links, which take `most_bytes` together if their sides allow it."""
        files, side = self._files, LARGEST_SIDE
        while sum(map(len, files)) * 4 / 3 > most_bytes and side > SMALLEST_SIDE:
            side //= 2
            files = [_png(Image.open(io.BytesIO(file)).convert("RGB"), side) for file in self._files]
        return [f"data:image/png;base64,{base64.b64encode(file).decode()}" for file in files]


def _png(image: Image.Image, side: int) -> bytes:
    """The file; without loss where the picture is small enough and has 256 colours at most."""
    if max(image.size) > side:
        scale = side / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.BOX)
    if image.mode == "RGB" and image.getcolors(256) is not None:
        palette = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=256)
        if palette.convert("RGB").tobytes() == image.tobytes():
            image = palette
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()
