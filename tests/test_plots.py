import re

import numpy as np
import pytest
from PIL import Image

from dtqn import plots
from dtqn.plots import Curve, Panel, comparison, learning_curve

_SUCCESS = [
    {"env_steps": 1000 * n, "train/success": n / 10, "eval/success": n / 10, "eval/success_low": n / 20}
    | {"eval/success_high": 1.0, "eval/return": 0.0}
    for n in range(1, 8)
]
_RETURN = [
    {"env_steps": 1000 * n, "train/return": n, "eval/success": None, "eval/return": 2.0 * n}
    for n in range(1, 8)
]


@pytest.mark.parametrize(
    "rows", [_SUCCESS, _RETURN, _SUCCESS[:1], [{"env_steps": 1, "learner/loss": 0.1}], []]
)
def test_a_picture_is_drawn_whatever_there_is(tmp_path, rows):
    path = tmp_path / "learning_curve.png"
    learning_curve(rows, path, "task, agent, seed 1")
    with Image.open(path) as image:
        assert image.size == (816, 480)
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def figures(monkeypatch):
    """The axes of the pictures that are drawn, in place of files."""
    found = []
    monkeypatch.setattr(plots, "save", lambda figure, path: found.append(figure.axes))
    return found


@pytest.fixture
def drawn(figures, tmp_path):
    """The axes of a learning curve of these rows."""

    def draw(rows, **options):
        learning_curve(rows, tmp_path / "a.png", "t", **options)
        return figures[-1][0]

    return draw


def _labels(axes):
    return axes.get_legend_handles_labels()[1]


def test_a_learning_curve_begins_at_nothing(drawn):
    axes = drawn(_SUCCESS)
    assert (axes.get_xlim()[0], axes.get_ylim()[0]) == (0, 0)
    assert axes.lines[0].get_ydata() == pytest.approx([row["eval/success"] for row in _SUCCESS])
    assert not drawn([]).lines
    axes = drawn(_RETURN)
    assert axes.get_xlim()[0] == 0
    assert axes.get_ylim()[0] != 0, "a return has no zero of its own"


def test_the_episodes_of_an_evaluation_are_in_the_legend(drawn):
    rows = [row | {"eval/episodes": 500} for row in _SUCCESS]
    assert "greedy evaluation, n = 500" in _labels(drawn(rows))
    rows[2]["eval/episodes"] = 50
    assert "greedy evaluation, n = 50 to 500" in _labels(drawn(rows))


def test_an_evaluation_of_success_has_the_interval_of_its_episodes(drawn):
    axes = drawn(_SUCCESS)
    assert [text.get_text() for text in axes.figure.texts][
        -1
    ] == "band: 95 % interval of its episodes (Wilson)"
    (band,) = axes.collections
    assert (band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()) == (0.05, 1.0)
    axes = drawn([{"env_steps": 10, "eval/success": 0.4, "eval/success_low": 0.3, "eval/success_high": 0.6}])
    (bar,) = axes.collections
    np.testing.assert_allclose(bar.get_segments()[0], [[10, 0.3], [10, 0.6]])


@pytest.mark.parametrize(
    ("rows", "chance", "note"),
    [(_SUCCESS, 0.25, "random actions: 25.0%"), (_RETURN, -3.25, "random actions: -3.25")],
)
def test_chance_is_a_line_where_it_is_known(drawn, rows, chance, note):
    axes = drawn(rows, chance=chance, ceiling=0.5)
    assert ("ceiling 50.0%" in _labels(axes)) == (rows is _SUCCESS)
    (line,) = (line for line in axes.get_lines() if line.get_label() == "random actions")
    assert set(line.get_ydata()) == {chance}
    assert axes.figure.texts[-1].get_text().endswith(note)
    assert not any("random" in text for text in _labels(drawn(rows)))


def test_a_comparison_has_one_legend_and_a_style_for_every_agent(tmp_path):
    curves = [Curve(f"agent{i}", [0, 1000], [0.0, i / 10], [0.0, 0.0], [0.1, 1.0], [5]) for i in range(10)]
    fewer = [curve._replace(runs=[2]) for curve in curves[:3]]
    panels = [Panel("first task", "success", curves, 0.9), Panel("second task", "return", fewer)]
    for name in ("a.svg", "b.svg"):
        comparison(panels, tmp_path / name, "environment steps", "what lines are")
    picture = (tmp_path / "a.svg").read_text()
    assert (tmp_path / "b.svg").read_text() == picture
    labels = [f"{curve.label} (n = {'2 or 5' if i < 3 else 5})" for i, curve in enumerate(curves)]
    for label in [*labels, "ceiling 90.0%", "first task", "second task", "1k"]:
        assert picture.count(f"<!-- {label} -->") == (2 if label == "1k" else 1)
    lines = re.findall(r'style="fill: none; (stroke[^"]*stroke-width: 1.8[^"]*)"', picture)
    assert len(lines) == 13 + 10, "curves, and their legend"
    assert len(set(lines)) == 10


def test_the_spread_at_a_single_evaluation_is_seen(figures, tmp_path):
    """A bar from low to high; of one run a point, each at its steps. The axes have room for both."""
    curves = [Curve("a", [500], [3.0], [-1.0], [7.0], [5]), Curve("b", [500], [4.0], None, None, [1])]
    comparison([Panel("task", "return", curves)], tmp_path / "a.png", "environment steps", "")
    ((axes,),) = figures
    (bar,) = axes.collections
    (ends,) = bar.get_segments()
    assert ends[:, 1].tolist() == [-1.0, 7.0]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_ydata().tolist() for line in points] == [[3.0], [4.0]]
    low, high = axes.get_ylim()
    assert low < -1 and high > 7 and axes.get_xlim()[1] > 500
    axes.figure.draw_without_rendering()
    assert {tuple(line.get_transform().transform((500, 3.0))) for line in points} == {
        tuple(axes.transData.transform((500, 3.0)))
    }
    assert points[0].get_markersize() > points[1].get_markersize(), "each is seen where they coincide"


@pytest.mark.parametrize(("marker", "widths"), [("o", [3.8, 2.8, 1.8]), ("", [1.8] * 3)])
def test_lines_with_markers_that_coincide_are_all_seen(figures, tmp_path, marker, widths):
    """Each on its values, the first the widest and below the others; learning curves are all alike."""
    curves = [Curve(name, [10, 100], [1.0, 1.0], None, None, [1], marker) for name in "abc"]
    comparison([Panel("task", "success", curves)], tmp_path / "a.png", "steps to remember over", "", log=True)
    ((axes,),) = figures
    axes.figure.draw_without_rendering()
    exact = tuple(axes.transData.transform((10, 1.0)))
    lines = axes.lines[:3]
    assert {tuple(line.get_transform().transform((10, 1.0))) for line in lines} == {exact}
    assert [line.get_linewidth() for line in lines] == pytest.approx(widths)
    assert axes.get_xlim()[0] < 10 and axes.get_xlim()[1] > 100


def test_a_label_names_all_numbers_of_runs_and_a_profile_is_drawn_from_0_to_1(figures, tmp_path):
    curve = Curve("a", [0.0, 1.0], [1.0, 0.9], None, None, [1, 5])
    comparison([Panel("suite", plots.SHARE_OF_RUNS, [curve])], tmp_path / "a.png", "normalised score", "")
    ((axes,),) = figures
    assert axes.lines[0].get_label() == "a (n = 1 or 5)"
    assert axes.get_ylim() == (0, 1.02)


@pytest.mark.parametrize("count", [1, 2])
def test_a_long_note_stays_within_the_picture(figures, tmp_path, count):
    curve = Curve("a", [0.0, 1.0], [1.0, 0.9], None, None, [1])
    panels = [Panel(f"task {i}", "success", [curve]) for i in range(count)]
    comparison(panels, tmp_path / "a.png", "minutes", "line and band: mean, minimum and maximum; " * 6)
    figure = figures[0][0].figure
    figure.draw_without_rendering()
    (note,) = (text for text in figure.texts if "mean" in text.get_text())
    placed = note.get_window_extent()
    assert placed.x0 >= 0 and placed.x1 <= figure.bbox.x1
    assert placed.y0 >= 0 and placed.y1 <= figures[0][0].xaxis.label.get_window_extent().y0


@pytest.mark.parametrize(
    ("given", "level", "label"),
    [
        ({"ceiling": 0.9}, 0.9, "ceiling 90.0%"),
        ({"chance": 0.125}, 0.125, "random actions"),
        ({"solved": 0.7}, 0.7, "solved above"),
        ({"observation_alone": 0.5}, 0.5, "best by the observation alone"),
        ({"published": {"theirs": 0.752}}, 0.752, "theirs"),
    ],
)
def test_a_level_is_a_line_in_the_panel_that_has_it(figures, tmp_path, given, level, label):
    flat = Curve("a", [0, 1000], [0.0, 0.0], None, None, [1])
    panels = [Panel("task", "success", [flat], **given), Panel("other", "return", [flat], 0.9)]
    comparison(panels, tmp_path / "a.png", "environment steps", "")
    ((first, second),) = figures
    assert (first.get_xlim()[0], first.get_ylim()[0], second.get_xlim()[0]) == (0, 0, 0)
    assert not first.lines[0].get_clip_on(), "a line at 0 is seen in full"
    assert [line.get_ydata() for line in first.lines if line.get_label() == label] == [[level] * 2]
    assert label not in _labels(second)
