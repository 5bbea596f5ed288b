"""An episode as a film: the task's pictures with its decisions beside them. The only file with `imageio`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dtqn.inspection.drawing import Shown, acted, shrunk
from dtqn.settings.config import wrong
from dtqn.text import one_line
from envs import pictures

SUFFIXES = {"--gif": ".gif", "--mp4": ".mp4"}
"""The end of a film's name, by the option that asks for it."""

_SIDE = 300
"""Pixels of the longer side of the task's picture, about."""
_PANEL = 300
_NAMES, _VALUE = 100, 72
"""Pixels of a line of the panel for the action's name, and for its Q-value."""
_LONGEST_NAME = 15
"""Letters of it."""
_LINE = 16
_EDGE = 10
_SLOWER = 4
"""A step is shown so many times as long as in other films, as it has figures to be read."""
_INK, _PAPER, _FAINT, _BAR, _CHOSEN, _CUE = "#202020", "#ffffff", "#d8d8d8", "#7f9fbf", "#1f5fa8", "#d55e00"


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
    return [_frame(shown, t, picture) for t, picture in enumerate(shown.episode.pictures[:most])]


def _frame(shown: Shown, t: int, picture: np.ndarray) -> np.ndarray:
    scaled, episode, q = _scaled(picture), shown.episode, shown.q
    actions = q.shape[1]
    height = max(scaled.height, _LINE * (actions + 8)) + 2 * _EDGE
    width = scaled.width + _PANEL + 3 * _EDGE
    image = Image.new("RGB", (width + width % 2, height + height % 2), _PAPER)
    image.paste(scaled, (_EDGE, _EDGE))
    draw, font = ImageDraw.Draw(image), ImageFont.load_default()
    left, top = scaled.width + 2 * _EDGE, _EDGE

    def write(line: int, text: str, colour: str = _INK) -> None:
        draw.text((left, top + line * _LINE), text, fill=colour, font=font)

    write(0, f"episode {shown.number}  step {t} of {episode.length}  return {episode.reward[:t].sum():.3f}")
    if t == episode.length:
        end = {True: "a success", False: "a failure", None: "the end"}[shown.success]
        write(2, end)
        return np.asarray(image)
    low, high = float(q.min()), float(q.max())
    for action, value in enumerate(q[t]):
        y = top + (action + 2) * _LINE
        share = (float(value) - low) / (high - low) if high > low else 0.0
        chosen = action == episode.action[t]
        write(action + 2, shown.actions[action][:_LONGEST_NAME])
        bar, right = left + _NAMES, left + _PANEL - _VALUE
        draw.rectangle((bar, y + 1, right, y + 11), fill=_FAINT)
        draw.rectangle(
            (bar, y + 1, bar + round((right - bar) * share), y + 11), fill=_CHOSEN if chosen else _BAR
        )
        draw.text((right + 8, y), f"{value:.3f}", fill=_INK, font=font)
    write(actions + 3, f"action {acted(shown, t)}  reward {episode.reward[t]:.3f}")
    if shown.dependence is not None:
        write(actions + 4, "hangs on past steps")
        _strip(draw, shown, t, left, top + (actions + 5) * _LINE)
    return np.asarray(image)


def _scaled(picture: np.ndarray) -> Image.Image:
    """A small picture enlarged by a whole number, a large one shrunk by one."""
    small = shrunk(picture, _SIDE, _SIDE // 2)
    factor = max(1, _SIDE // max(small.shape[:2]))
    image = Image.fromarray(small)
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)


def _strip(draw: ImageDraw.ImageDraw, shown: Shown, t: int, left: int, top: int) -> None:
    """A column for each step up to t, as high as the decision hangs on it; the cue's are marked."""
    assert shown.dependence is not None
    largest, cue = float(shown.dependence.max()) or 1.0, shown.episode.cue
    column = _PANEL / shown.episode.length
    draw.line((left, top + 2 * _LINE, left + _PANEL, top + 2 * _LINE), fill=_FAINT)
    for k in range(t + 1):
        x, height = left + k * column, 2 * _LINE * float(shown.dependence[t, k]) / largest
        end, shows = x + max(column - 1, 1), cue is not None and bool(cue[k])
        draw.rectangle((x, top + 2 * _LINE - height, end, top + 2 * _LINE), fill=_CUE if shows else _BAR)
