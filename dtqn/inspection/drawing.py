"""An episode's steps as text: Q-values as bars, dependence as a strip, beside pictures that fit.

Legend: T decisions of an episode, A actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from dtqn.inspection.recorder import Episode

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


def panel(shown: Shown, t: int) -> list[str]:
    """The text beside the picture of step t: the decision there; at t = T, the outcome."""
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
    return lines + strip(shown, t)


def acted(shown: Shown, t: int) -> str:
    """The name of the action at step t."""
    return shown.actions[shown.episode.action[t]]


def _bar(share: float) -> str:
    return ("█" * round(share * _BAR)).ljust(_BAR, "·")


def strip(shown: Shown, t: int, most: int = 60) -> list[str]:
    """The dependence of the decision at t on each step up to it, and below it the steps that show the cue.

    Args:
        most: steps that are shown, the latest ones.
    """
    if shown.dependence is None:
        return ["depends on: not computed, the episode is too long"]
    start = max(0, t + 1 - most)
    largest = float(shown.dependence.max()) or 1.0
    shares = shown.dependence[t, start : t + 1] / largest
    lines = [
        f"depends on step {start} to {t} (highest: {largest:.0%} of the Q-values' range)",
        "".join(_EIGHTHS[int(np.ceil(share * 8 - 1e-9))] for share in shares),
    ]
    cue = shown.episode.cue
    if cue is not None:
        lines.append("".join("^" if shows else " " for shows in cue[start : t + 1]) + "  ^ cue")
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
