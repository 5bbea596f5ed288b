"""Pictures as PNG files in the page, each once however often it is shown, and only those that are shown."""

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
        self._shown: set[int] = set()

    def __len__(self) -> int:
        return len(self._files)

    def add(self, picture: np.ndarray) -> int:
        """The number of a picture, uint8 [height, width, 3] or [height, width], that may be shown."""
        key = repr(picture.shape).encode() + picture.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._files)
            self._files.append(_png(Image.fromarray(picture), LARGEST_SIDE))
        return self._numbers[key]

    def show(self, number: int) -> int:
        """The number again, of a picture that the page shows."""
        self._shown.add(number)
        return number

    def links(self, most_bytes: int = MOST_BYTES) -> list[str]:
        """The pictures as `data:` links, which take `most_bytes` together if their sides allow it.

        Those that are not shown are empty, so that the numbers of the others stay.
        """
        shown = {number: self._files[number] for number in sorted(self._shown)}
        files, side = dict(shown), LARGEST_SIDE
        while sum(map(len, files.values())) * 4 / 3 > most_bytes and side > SMALLEST_SIDE:
            side //= 2
            files = {n: _png(Image.open(io.BytesIO(x)).convert("RGB"), side) for n, x in shown.items()}
        links = {n: f"data:image/png;base64,{base64.b64encode(x).decode()}" for n, x in files.items()}
        return [links.get(number, "") for number in range(len(self))]


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
