"""The pictures of a suite: their words, and their curves by hand."""

import numpy as np
import pytest

from dtqn.experiments import comparison_pictures
from dtqn.experiments.comparison_pictures import _against_n, _profile
from dtqn.experiments.intervals import profile
from tests.experiments import suite_program
from tests.experiments.suite_program import SUITE, suite_of

run = suite_program.run


def _run(env, agent, seed, score):
    """The figures of a run whose score is normalised as it is."""
    beside = {"MMER": score}
    which = {"env": env, "agent": agent, "seed": seed, "success": 0.3}
    return which | {"score": score, "normalised": score, "beside": beside}


def test_pictures_of_a_suite(run, tmp_path):
    code, _ = run(pictures=True, seeds=[1])
    assert code == 0
    folder = tmp_path / "a/out"
    for words in ("share of runs", "normalised score", "mingru (n = 1)", "dqn (n = 1)"):
        assert words in (folder / "profile.svg").read_text()
    picture = (folder / "against-n.svg").read_text()
    for words in (
        "bsuite-memory-len-n: MMER",
        "bsuite-memory-len-n: success",
        "length",
        "random actions",
    ):
        assert words in picture, words
    assert (folder / "profile.png").stat().st_size and (folder / "against-n.png").stat().st_size


def test_tasks_that_stand_alone_have_no_picture_against_n(tmp_path):
    text = SUITE.replace("{n}", "1").replace("    n: [1, 3]\n", "").replace("    env_steps_per_n: 100\n", "")
    suite = suite_of(tmp_path, text)
    assert suite.file.figure_axis == "length"
    runs = [_run(task.name, "dqn", 1, 0.5) for task in suite.tasks]
    comparison_pictures.draw_suite(suite, runs, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["profile.png"]


def test_the_curves_of_the_pictures_by_hand(tmp_path):
    suite = suite_of(tmp_path)
    runs = [
        _run(env, agent, seed, score)
        for env in ("bsuite-memory-len-1", "bsuite-memory-len-3")
        for agent, scores in {"mingru": [0.2, 0.8, 0.5], "dqn": [0.4]}.items()
        for seed, score in enumerate(scores)
        if (env, agent) != ("bsuite-memory-len-3", "dqn")
    ]
    names = ["bsuite-memory-len-1", "bsuite-memory-len-3"]
    tasks = suite.families["bsuite-memory-len-n"]
    panel = _against_n(suite, "memory", tasks, 0, ["mingru", "dqn"], runs)
    one, two = panel.curves
    assert (one.x, one.y, one.low, one.high, one.runs) == ([1, 3], [0.5, 0.5], [0.2, 0.2], [0.8, 0.8], [3])
    assert (two.x, two.y, two.low, panel.chance, panel.solved) == ([1], [0.4], None, -1, pytest.approx(0.2))
    fewer = _against_n(
        suite, "memory", tasks, 0, ["mingru"], [run for run in runs if run["seed"] == 0 or "3" in run["env"]]
    )
    (uneven,) = fewer.curves
    assert (uneven.runs, uneven.y, uneven.low, uneven.high) == ([1, 3], [0.2, 0.5], [0.2, 0.2], [0.2, 0.8])
    curve = _profile("mingru", names, runs)
    assert _profile("dqn", names, runs) is None, "it has no run on a task"
    levels = np.array(curve.x)
    assert curve.y == [np.mean([(score > level) for score in (0.2, 0.8, 0.5)]) for level in levels]
    five = [np.array([0.1, 0.3, 0.5, 0.7, 0.9]), np.array([0.2, 0.2, 0.2, 0.9, 0.9])]
    found = profile(five, np.array([0.0, 0.25, 0.95]))
    assert found.middle == pytest.approx([1.0, (4 / 5 + 2 / 5) / 2, 0.0])
    assert found.low[1] < found.middle[1] < found.high[1]
    end = 0.025 ** (1 / 10)  # Clopper and Pearson: ten runs of ten
    assert (found.low[0], found.high[2]) == pytest.approx((end, 1 - end))
    perfect = [np.array([1.0000000000000002, 0.9999999999999988])]
    assert profile(perfect, np.array([0.5, 1.0])).middle.tolist() == [1.0, 0.0]
