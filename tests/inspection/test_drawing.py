"""Steps as text, beside numbers worked out by hand."""

from __future__ import annotations

import contextlib
import io
import itertools

import numpy as np
import pytest
import torch
from rich.console import Console

from dtqn.inspection import watch
from dtqn.inspection.recorder import Episode
from dtqn.inspection.watch import Shown
from dtqn.training import display
from dtqn.types import StepInputs
from tests.training.fake import Terminal

RED, BLUE, BLACK = (255, 0, 0), (0, 0, 255), (0, 0, 0)


def _shown(**changed: object) -> Shown:
    """Two decisions; the second one depends on the first step twice as much as on its own."""
    picture = np.array([[RED, BLUE], [BLUE, RED], [BLACK, RED]], np.uint8)
    observation, zeros = torch.tensor([[[1.0], [0.0]]]), torch.zeros(1, 2)
    episode = Episode(
        inputs=StepInputs(observation, zeros.long(), zeros, zeros.bool()),
        other=torch.zeros(1, 2, 1),  # which differs from what the first step showed
        action=np.array([1, 0]),
        q=torch.tensor([[0.0, 1.0], [0.5, 0.25]]),
        reward=np.array([-0.05, 1.0]),
        episode_return=0.95,
        success=True,
        pictures=[picture] * 3,
    )
    made = Shown(1, ("turn", "1"), episode, np.array([[0.1, 0.0], [0.4, 0.2]]), True)
    return made._replace(**changed)


@pytest.mark.parametrize(
    ("columns", "lines", "factor", "size"),
    [(12, 4, 1, (8, 12)), (6, 10, 2, (4, 6)), (20, 2, 2, (4, 6)), (5, 9, 3, (3, 4)), (1, 1, 12, (1, 1))],
)
def test_a_picture_is_shrunk_to_what_fits(
    columns: int, lines: int, factor: int, size: tuple[int, int]
) -> None:
    """By a whole number, to means of squares; a line of text has two lines of pixels."""
    picture = np.random.default_rng(0).integers(256, size=(8, 12, 3)).astype(np.uint8)
    small = watch.shrunk(picture, columns, lines)
    assert small.shape == (*size, 3) and small.dtype == np.uint8
    if factor <= 8:
        square = picture[:factor, :factor].astype(float).mean(axis=(0, 1))
        np.testing.assert_allclose(small[0, 0], square, atol=0.6)


def test_a_step_in_one_line_and_beside_a_picture() -> None:
    episode = _shown()
    assert watch.plain(episode, 0) == (
        "step   0  action 1  reward -0.050  Q 0.000 [1.000]  depends on 0 (0.10)"
    )
    assert watch.plain(episode, 1).endswith("Q [0.500] 0.250  depends on 0 (0.40), 1 (0.20)")
    lines = watch.panel(episode, 1)
    assert lines[0] == "episode 1   step 1 of 2   return -0.050"
    assert f"turn < {'█' * 10}{'·' * 10}    0.500" in lines
    assert f"1      {'█' * 5}{'·' * 15}    0.250" in lines
    assert "action turn   reward 1.000" in lines
    assert lines[-3:] == ["depends on step 0 to 1 (at most 40% of the Q-values' range; ^: cue)", "█▄", "^ "]
    assert watch.panel(episode, 2)[-1] == "episode 1: return 0.950 in 2 steps, a success"


def test_the_strip_shows_the_latest_steps_and_says_where_there_is_none() -> None:
    episode = _shown()
    assert watch.strip(episode, 1, most=1)[:2] == [
        "depends on step 1 to 1 (at most 40% of the Q-values' range; ^: cue)",
        "▄",
    ]
    long = _shown(dependence=None)
    assert watch.strip(long, 1, 60) == ["depends on: not computed, the episode is too long"]
    assert "depends on" not in watch.plain(long, 1)
    assert len(watch.strip(_shown(episode=episode.episode._replace(other=None)), 1, 60)) == 2


def test_frames_of_a_film_are_of_one_size_and_change() -> None:
    frames = watch.frames(_shown())
    assert len(frames) == 3 and len({frame.shape for frame in frames}) == 1
    assert (frames[0][10, 10] == RED).all(), "the task's picture, enlarged"
    beside = [frame[:, 230:] for frame in frames]
    assert all((one != other).any() for one, other in itertools.combinations(beside, 2))
    assert all((part[:10] == 255).all() and (part[-10:] == 255).all() for part in beside), "all text has room"


def test_a_terminal_gets_coloured_half_blocks_and_a_file_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, terminal = io.StringIO(), Terminal()
    console = Console(file=terminal, color_system="truecolor", force_terminal=True, width=80)
    monkeypatch.setattr(display, "Console", lambda file: console)
    for out in (plain, terminal):
        with contextlib.closing(display.FilmView(out)) as view:
            picture = np.array([[RED, BLUE], [BLUE, RED], [BLACK, RED]], np.uint8)
            view.show(picture, ["beside it"], "step 0", keep=False)
            view.show(None, ["the end"], "it ended", keep=True)
    assert plain.getvalue() == "step 0\nit ended\n"
    red, blue, black = "2;255;0;0", "2;0;0;255", "2;0;0;0"
    for upper, lower in ((red, blue), (blue, red), (black, black), (red, black)):
        assert f"\x1b[38;{upper};48;{lower}m▀" in terminal.getvalue()
    assert "beside it" in terminal.getvalue() and "it ended" in terminal.getvalue()
    assert "step 0" not in terminal.getvalue()
