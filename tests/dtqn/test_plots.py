import numpy as np
import pytest
from PIL import Image

from dtqn.plots import learning_curve

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
        assert image.size == (840, 504)
    assert list(tmp_path.iterdir()) == [path]


def test_the_curve_is_there(tmp_path):
    learning_curve(_SUCCESS, tmp_path / "full.png", "t")
    learning_curve([], tmp_path / "empty.png", "t")

    def blue_pixels(name):
        with Image.open(tmp_path / name) as image:
            return sum(
                count for count, colour in image.convert("RGB").getcolors(1 << 20) if colour == (31, 95, 168)
            )

    assert blue_pixels("full.png") > 300
    assert blue_pixels("empty.png") == 0


def test_a_ceiling_is_drawn_where_success_has_one(tmp_path):
    def picture(rows, ceiling):
        learning_curve(rows, tmp_path / "a.png", "t", ceiling)
        with Image.open(tmp_path / "a.png") as image:
            return np.asarray(image.convert("RGB"), int)

    plain, with_line = picture(_SUCCESS, 1.0), picture(_SUCCESS, 0.5)
    changed = np.abs(with_line - plain).max(axis=2) > 50
    assert changed.any(axis=0).sum() > 300  # dashes across the picture
    np.testing.assert_array_equal(picture(_RETURN, 0.5), picture(_RETURN, 1.0))
