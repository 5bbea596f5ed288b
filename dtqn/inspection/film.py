"""An episode as a film: the task's pictures beside what a terminal shows. The only file with `imageio`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dtqn.inspection.drawing import Shown, panel, shrunk
from dtqn.plots import MONOSPACE
from dtqn.settings.config import wrong
from dtqn.text import one_line
from envs import pictures

SUFFIXES = {"--gif": ".gif", "--mp4": ".mp4"}
"""The end of a film's name, by the option that asks for it."""

_SIDE = 300
"""Pixels of the longer side of the task's picture, about."""
_LETTERS, _LINE, _EDGE = 12, 16, 10
"""Pixels of letters, of a line and around all."""
_SLOWER = 4
"""A step is shown so many times as long as in other films, as it has figures to be read."""


def check(option: str, file: Path) -> None:
    """Whether a film can be written as `option` asks, before anything is played.

    Raises:
        ConfigError: its name ends in something else, or what makes it is not installed.
    """
    if file.suffix != SUFFIXES[option]:
        raise wrong(option, file, f"its name must end in {SUFFIXES[option]}")
    if option == "--mp4" and any(
        importlib.util.find_spec(name) is None for name in ("imageio", "imageio_ffmpeg")
    ):
        raise wrong(option, file, 'needs imageio; python -m pip install -e ".[video]" installs it')


def write(shown: Shown, option: str, file: Path) -> None:
    """Write an episode's film; a ConfigError where the encoder fails.

    A GIF has the first `pictures.MAX_FRAMES` pictures: all of them are in memory until it is written.
    """
    if option == "--gif":
        drawn = frames(shown, pictures.MAX_FRAMES)
        try:
            pictures.write(drawn, file, _SLOWER * pictures.FRAME_MILLISECONDS)
        except OSError as error:
            file.unlink(missing_ok=True)
            raise wrong(option, file, f"cannot be written: {one_line(error)}") from None
        return
    drawn = frames(shown)
    from imageio import v3

    file.parent.mkdir(parents=True, exist_ok=True)
    fps = 1000 / pictures.FRAME_MILLISECONDS / _SLOWER
    try:
        v3.imwrite(file, np.stack(drawn), plugin="FFMPEG", fps=fps, macro_block_size=2)
    except (OSError, RuntimeError) as error:
        raise wrong(option, file, f"cannot be written: {one_line(error)}") from None


def frames(shown: Shown, most: int | None = None) -> list[np.ndarray]:
    """T + 1 pictures, or the first so many, uint8 [height, width, 3], all of one size with even sides."""
    assert shown.episode.pictures is not None
    texts = [panel(shown, t) for t in range(shown.episode.length + 1)]
    font = ImageFont.truetype(MONOSPACE, _LETTERS)
    width = max(round(font.getlength(line)) for text in texts for line in text)
    height = _LINE * max(map(len, texts))
    return [
        _frame(_scaled(picture), text, (width, height), font)
        for picture, text in zip(shown.episode.pictures[:most], texts, strict=False)
    ]


def _frame(
    picture: Image.Image, text: Sequence[str], room: tuple[int, int], font: ImageFont.FreeTypeFont
) -> np.ndarray:
    """A picture with its text beside it, for which there is `room`, (width, height) in pixels."""
    width = picture.width + room[0] + 3 * _EDGE
    height = max(picture.height, room[1]) + 2 * _EDGE
    image = Image.new("RGB", (width + width % 2, height + height % 2), "white")
    image.paste(picture, (_EDGE, _EDGE))
    draw, left = ImageDraw.Draw(image), picture.width + 2 * _EDGE
    for number, line in enumerate(text):
        draw.text((left, _EDGE + number * _LINE), line, fill="black", font=font)
    return np.asarray(image)


def _scaled(picture: np.ndarray) -> Image.Image:
    """A small picture enlarged by a whole number, a large one shrunk by one."""
    small = shrunk(picture, _SIDE, _SIDE // 2)
    factor = max(1, _SIDE // max(small.shape[:2]))
    image = Image.fromarray(small)
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
