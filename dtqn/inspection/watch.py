"""The command `watch`: greedy episodes of a trained agent in the terminal, and as a film.

An episode is played to its end first, as the dependence of its decisions is known only then, and shown
afterwards.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dtqn.inspection import dependence
from dtqn.inspection.recorder import Episode, TrainedRun, play
from dtqn.plots import MONOSPACE
from dtqn.settings.config import Config, wrong
from dtqn.text import one_line
from dtqn.training.display import FilmView
from dtqn.training.setup import make_env
from envs import pictures

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_BAR = 20
_NAMED = 3
"""Past steps that a plain line names."""
_LEAST = 0.005
"""A smaller dependence is not named."""


class Shown(NamedTuple):
    """An episode and what is told of it."""

    number: int
    """From 1."""
    actions: tuple[str, ...]
    """[A] words for the actions."""
    episode: Episode
    """With pictures, uint8 [height, width, 3], where the task has any and they are wanted."""
    dependence: np.ndarray | None
    """[T, T] of the decision at t (row) on what step k showed (column); None where it is too long."""
    success: bool | None
    """None where the task defines none."""

    @property
    def q(self) -> np.ndarray:
        """[T, A]"""
        values: np.ndarray = self.episode.q.numpy()
        return values


def shrunk(picture: np.ndarray, columns: int, lines: int) -> np.ndarray:
    """A picture [height, width, 3], uint8, as means of squares, so that it fits; 2 pixels a line."""
    height, width = picture.shape[:2]
    size = max(-(-width // columns), -(-height // (2 * lines)), 1)
    return np.asarray(Image.fromarray(picture).reduce(size))


def panel(shown: Shown, t: int, most: int = 60) -> list[str]:
    """The text next to the picture of step t: the decision there; at t = T, the outcome."""
    length, reward = shown.episode.length, shown.episode.reward
    lines = [f"episode {shown.number}   step {t} of {length}   return {reward[:t].sum():.3f}", ""]
    if t == length:
        return [*lines, outcome(shown)]
    q, low, high = shown.q[t], shown.q.min(), shown.q.max()
    width = max(map(len, shown.actions))
    for action, value in enumerate(q):
        share = (value - low) / (high - low) if high > low else 0.0
        mark = "<" if action == shown.episode.action[t] else " "
        lines.append(f"{shown.actions[action]:<{width}} {mark} {_bar(share)} {value:8.3f}")
    lines += ["", f"action {acted(shown, t)}   reward {reward[t]:.3f}", ""]
    return lines + strip(shown, t, most)


def acted(shown: Shown, t: int) -> str:
    """The name of the action at step t."""
    return shown.actions[shown.episode.action[t]]


def _bar(share: float) -> str:
    return ("█" * round(share * _BAR)).ljust(_BAR, "·")


def strip(shown: Shown, t: int, most: int) -> list[str]:
    """The dependence of the decision at t on each step up to it, and below it the steps that show the cue.

    Args:
        most: steps that are shown, the latest ones.
    """
    if shown.dependence is None:
        return ["depends on: not computed, the episode is too long"]
    start = max(0, t + 1 - most)
    largest = float(shown.dependence.max()) or 1.0
    shares = shown.dependence[t, start : t + 1] / largest
    cue = shown.episode.cue
    legend = "" if cue is None else "; ^: cue"
    lines = [
        f"depends on step {start} to {t} (at most {largest:.0%} of the Q-values' range{legend})",
        "".join(_EIGHTHS[int(np.ceil(share * 8 - 1e-9))] for share in shares),
    ]
    if cue is not None:
        lines.append("".join("^" if shows else " " for shows in cue[start : t + 1]))
    return lines


def plain(shown: Shown, t: int) -> str:
    """The decision at step t in one line."""
    values = " ".join(
        f"[{value:.3f}]" if action == shown.episode.action[t] else f"{value:.3f}"
        for action, value in enumerate(shown.q[t])
    )
    line = f"step {t:>3}  action {acted(shown, t)}  reward {shown.episode.reward[t]:.3f}  Q {values}"
    return f"{line}{_largest(shown, t)}"


def _largest(shown: Shown, t: int) -> str:
    """The steps that a decision depends on most, and how much, in words."""
    if shown.dependence is None:
        return ""
    row = shown.dependence[t, : t + 1]
    order: Sequence[int] = np.argsort(-row, kind="stable")[:_NAMED].tolist()
    named = [f"{k} ({row[k]:.2f})" for k in order if row[k] >= _LEAST]
    return f"  depends on {', '.join(named)}" if named else ""


def outcome(shown: Shown) -> str:
    """How the episode ended."""
    end = {True: ", a success", False: ", a failure", None: ""}[shown.success]
    episode = shown.episode
    return f"episode {shown.number}: return {episode.reward.sum():.3f} in {episode.length} steps{end}"


MOST_TIMESTEPS = 2_000_000
"""Timesteps that the network runs for an episode's dependence, at most: seconds on one core."""
_COLUMNS, _LINES, _BESIDE = 48, 24, 44  # of the picture at most, and of the text beside it
"""The most that a picture takes of the terminal."""
_SIDE = 300
"""Pixels of the longer side of the task's picture in a film, about."""
_LETTERS, _LINE, _EDGE = 12, 16, 10
"""Pixels of letters, of a line and around all."""
_SLOWER = 4
"""A step is shown so many times as long as in other films, as it has figures to be read."""


def watch(run: TrainedRun, delay_seconds: float, gif: Path | None, out: TextIO) -> None:
    """Show the run's episodes on `out`, and keep the first one as the film `gif`.

    Raises:
        ConfigError: a film is asked for of a task that cannot be drawn, or cannot be written.
    """
    is_terminal = out.isatty()
    draws = (is_terminal or gif is not None) and _draws(run.config, gif)
    with contextlib.closing(FilmView(out)) as view:
        for number in range(1, run.episodes + 1):
            shown = record(run, number, draws)
            if number == 1 and gif is not None:
                _write(frames(shown), gif)
            for t in range(shown.episode.length + 1):
                at_end = t == shown.episode.length
                line = outcome(shown) if at_end else plain(shown, t)
                picture = _small(shown, t) if is_terminal else None
                view.show(picture, panel(shown, t, _BESIDE), line, keep=at_end)
                if is_terminal:
                    time.sleep(delay_seconds)
    if gif is not None:
        print(f"film of episode 1: {gif}", file=out)


def _small(shown: Shown, t: int) -> np.ndarray | None:
    """The picture of step t for the terminal."""
    if shown.episode.pictures is None:
        return None
    room = shutil.get_terminal_size()
    columns, lines = min(_COLUMNS, room.columns - _BESIDE - 2), min(_LINES, room.lines - 2)
    return shrunk(shown.episode.pictures[t], max(columns, 1), max(lines, 1))


def record(run: TrainedRun, number: int, draws: bool) -> Shown:
    """Greedy episode `number` of the run's seed; every number begins another one.

    Args:
        draws: keep pictures of it; the task must be one that can be drawn.
    """
    env = run._replace(episodes=1, seed=(run.seed, number)).make_envs("rgb_array" if draws else None)
    (episode,) = play(run.network, env, pictures_of=[0] if draws else [])
    return Shown(
        number=number,
        actions=run.task.name_actions(),
        episode=episode,
        dependence=_dependence(run, episode),
        success=episode.success if run.task.has_success else None,
    )


def _dependence(run: TrainedRun, episode: Episode) -> np.ndarray | None:
    """By replacement of each step with what other episodes showed there (docs/debug.md)."""
    if dependence.REPLACEMENTS * episode.length**2 / 2 > MOST_TIMESTEPS:
        return None
    others = play(run.network, run._replace(episodes=dependence.REPLACEMENTS, seed=(run.seed, 0)).make_envs())
    generator = np.random.default_rng(run.seed)
    shown = dependence.replacements([episode, *others], 0, dependence.REPLACEMENTS, generator)
    return dependence.one_step(run.network, episode, shown).advantage


def _draws(config: Config, gif: Path | None) -> bool:
    """Whether the task has pictures; a ConfigError where a film needs them."""
    try:
        make_env(config, 1, np.random.SeedSequence(0), "rgb_array").close()
    except ValueError as error:
        if gif is not None:
            raise wrong("--gif", gif, f"the task cannot be drawn: {error}") from None
        return False
    return True


def frames(shown: Shown) -> list[np.ndarray]:
    """The film: what a terminal shows, but the picture as it is, in black on white.

    Of T + 1 pictures the first `pictures.MAX_FRAMES`, as all are in memory until they are written; uint8
    [height, width, 3], all of one size.
    """
    assert shown.episode.pictures is not None
    texts = [panel(shown, t) for t in range(shown.episode.length + 1)]
    font = ImageFont.truetype(MONOSPACE, _LETTERS)
    width = max(round(font.getlength(line)) for text in texts for line in text)
    height = _LINE * max(map(len, texts))
    return [
        _frame(_scaled(picture), text, (width, height), font)
        for picture, text in zip(shown.episode.pictures[: pictures.MAX_FRAMES], texts, strict=False)
    ]


def _frame(
    picture: Image.Image, text: Sequence[str], room: tuple[int, int], font: ImageFont.FreeTypeFont
) -> np.ndarray:
    """A picture with its text next to it; the text has `room`, (width, height) in pixels."""
    size = (picture.width + room[0] + 3 * _EDGE, max(picture.height, room[1]) + 2 * _EDGE)
    image = Image.new("RGB", size, "white")
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


def _write(drawn: Sequence[np.ndarray], file: Path) -> None:
    try:
        pictures.write(drawn, file, _SLOWER * pictures.FRAME_MILLISECONDS)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise wrong("--gif", file, f"cannot be written: {one_line(error)}") from None
