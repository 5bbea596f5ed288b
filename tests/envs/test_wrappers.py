"""Changes of observations: numbers computed by hand, and exact continuation."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

import envs
from envs.options import TaskOptions
from envs.task import Task, TaskSpec
from envs.wrappers import wrapped

UNBOUNDED = Box(-np.inf, np.inf, (3,), np.float32)


class Scripted(VectorEnv[Any, Any, Any]):
    """Rows that are given beforehand: observations [T, N, ...] (or a dict of such) and ends [T, N].

    Every other copy's episodes terminate, the others' are truncated.
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, space: gymnasium.Space[Any], rows: Any, last: Any) -> None:
        self.rows, self.last, self.t = rows, np.asarray(last, np.bool_), 0
        self.num_envs = self.last.shape[1]
        self.single_observation_space = space
        self.observation_space = batch_space(space, self.num_envs)

    def observation(self) -> Any:
        if isinstance(self.rows, dict):
            return {key: rows[self.t].copy() for key, rows in self.rows.items()}
        return self.rows[self.t].copy()

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return self.observation(), {}

    def step(self, actions: Any) -> Any:
        self.t += 1
        last, even = self.last[self.t], np.arange(self.num_envs) % 2 == 0
        return self.observation(), np.zeros(self.num_envs), last & even, last & ~even, {}

    def get_state(self) -> dict[str, Any]:
        return {"t": self.t}

    def set_state(self, state: dict[str, Any]) -> None:
        self.t = state["t"]


def make(space: gymnasium.Space[Any], rows: Any, last: Any = None, seed: Any = 1, **options: Any) -> Any:
    """A scripted task with options."""
    first = next(iter(rows.values())) if isinstance(rows, dict) else rows
    ends = np.zeros(first.shape[:2], np.bool_) if last is None else last
    spec = TaskSpec("scripted", "", space, Discrete(2), "", best_return=1.0)

    def make_vector(num_envs: int, seed: Any = None, *, render_mode: str | None = None) -> Any:
        return Scripted(space, rows, ends)

    task = wrapped(Task(spec, make_vector), TaskOptions(**options))
    env = task.make_vector(1, seed)
    assert env.single_observation_space == task.spec.observation_space
    return env


def play(env: Any, steps: int) -> list[Any]:
    """The observations, row by row; each row lies in its space and stays as it was."""
    seen = [env.reset()[0]]
    seen += [env.step(None)[0] for _ in range(steps)]
    kept = [np.copy(row) if not isinstance(row, dict) else row for row in seen]
    for row in seen:
        assert row in env.observation_space
    assert env.observation_space == batch_space(env.single_observation_space, env.num_envs)
    return kept


def test_no_options_are_no_wrapper() -> None:
    env = envs.make_vector("gridverse-memory-7x7", 2)
    assert env.unwrapped is env
    assert make(UNBOUNDED, np.zeros((1, 1, 3), np.float32)).unwrapped.t == 0


def test_hidden_components_are_left_out() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    env = make(Box(-1, np.array([10, 20, 30], np.float32)), rows, hide=(0, 2))
    assert env.single_observation_space == Box(-1, np.array([20], np.float32))
    np.testing.assert_array_equal(play(env, 1), rows[:, :, 1:2])
    codes = np.array([[[1, 2, 3]]])
    env = make(MultiDiscrete([4, 5, 6], start=[0, 1, 2]), codes, hide=(1,))
    assert env.single_observation_space == MultiDiscrete([4, 6], start=[0, 2])
    np.testing.assert_array_equal(play(env, 0), [[[1, 3]]])
    assert make(
        MultiBinary(3), np.ones((1, 1, 3), np.int8), hide=(1,)
    ).single_observation_space == MultiBinary(2)


def test_frames_are_stacked_within_an_episode_only() -> None:
    """The two environments end at different times; a FIRST row fills the stack anew."""
    rows = np.arange(10, dtype=np.int64).reshape(5, 2) % 9
    last = [[0, 0], [1, 0], [0, 1], [0, 0], [0, 0]]
    env = make(Discrete(9), rows, last, frame_stack=3)
    assert env.single_observation_space == MultiDiscrete([9, 9, 9])
    copies = np.array(play(env, 4)).swapaxes(0, 1).tolist()
    assert copies[0] == [[0, 0, 0], [0, 0, 2], [4, 4, 4], [4, 4, 6], [4, 6, 8]]
    assert copies[1] == [[1, 1, 1], [1, 1, 3], [1, 3, 5], [7, 7, 7], [7, 7, 0]]
    assert env.reset()[0].tolist() == [[0] * 3, [1] * 3]


def test_the_layout_of_stacked_frames() -> None:
    a, b = np.arange(12).reshape(2, 2, 3), 100 + np.arange(12).reshape(2, 2, 3)
    picture = make(
        Box(0, 255, (2, 2, 3), np.uint8), np.stack([a, b])[:, None].astype(np.uint8), frame_stack=2
    )
    assert picture.single_observation_space == Box(0, 255, (2, 2, 6), np.uint8)
    seen = play(picture, 1)[1][0]
    assert seen[0, 1].tolist() == [3, 4, 5, 103, 104, 105]
    grey = make(
        Box(0, 255, (2, 3), np.uint8), np.stack([a[0], b[0]])[:, None].astype(np.uint8), frame_stack=2
    )
    assert play(grey, 1)[1][0][1].tolist() == [[3, 103], [4, 104], [5, 105]]
    table = make(
        Box(-np.inf, np.inf, (1, 3)),
        np.stack([a[:1, 0], b[:1, 0]])[:, None].astype(np.float32),
        frame_stack=2,
    )
    assert table.single_observation_space.shape == (1, 6), "a row of real numbers is no picture"
    assert play(table, 1)[1][0].tolist() == [[0, 1, 2, 100, 101, 102]]
    cells = MultiDiscrete(np.full((2, 2), 9, np.uint8), dtype=np.uint8)
    grid = make(cells, np.stack([a[:, :, 0] % 9, b[:, :, 0] % 9])[:, None].astype(np.uint8), frame_stack=2)
    assert play(grid, 1)[1][0].shape == grid.single_observation_space.shape == (2, 4), "nor are categories"
    vector = make(MultiDiscrete([300, 400], start=[0, 5]), np.array([[[1, 6]], [[3, 8]]]), frame_stack=2)
    assert vector.single_observation_space == MultiDiscrete([300, 400, 300, 400], start=[0, 5, 0, 5])
    assert play(vector, 1)[1][0].tolist() == [1, 6, 3, 8]
    both = {"x": np.array([[1], [2]]), "y": np.array([[[0.5]], [[1.5]]], np.float32)}
    mixed = make(Dict({"x": Discrete(4), "y": Box(0, 2, (1,))}), both, frame_stack=2)
    seen = play(mixed, 1)[1]
    assert (seen["x"].tolist(), seen["y"].tolist()) == ([[1, 2]], [[0.5, 1.5]])


def test_grey_is_luminance_and_smaller_is_an_average() -> None:
    picture = np.zeros((1, 1, 4, 2, 3), np.uint8)
    picture[0, 0, 0, 0] = [255, 0, 0]
    picture[0, 0, 1, 0] = [0, 255, 0]
    picture[0, 0, 2, 1] = [10, 20, 30]
    env = make(Box(0, 255, (4, 2, 3), np.uint8), picture, grayscale=True)
    assert env.single_observation_space == Box(0, 255, (4, 2), np.uint8)
    assert play(env, 0)[0][0].tolist() == [[76, 0], [150, 0], [0, 18], [0, 0]]
    env = make(Box(0, 255, (4, 2, 3), np.uint8), picture, resize=2)
    assert env.single_observation_space == Box(0, 255, (2, 2, 3), np.uint8)
    assert play(env, 0)[0][0].tolist() == [[[128, 128, 0], [0, 0, 0]], [[0, 0, 0], [5, 10, 15]]]
    # Three pixels into two: a whole one and half of the middle one each, over 1.5.
    row = np.array([[[[30, 60, 90]] * 3]], np.uint8)
    env = make(Box(0, 255, (3, 3), np.uint8), row, resize=2)
    assert play(env, 0)[0][0].tolist() == [[40, 80], [40, 80]]


def test_a_state_goes_on_from_every_row() -> None:
    """LAST rows included, after which the frames begin anew; what was handed out is not changed later.

    Episodes have four rows and each state is three rows after the one before, so that all are met.
    """
    options = {"time_limit": 3, "frame_stack": 3, "hide": (1,)}
    env, other = (envs.make_vector("gridverse-memory-7x7", 2, seed, **options) for seed in (1, 2))
    env.reset(), other.reset()
    for _ in range(12):
        state = env.get_state()  # type: ignore[attr-defined]
        kept = copy.deepcopy(state)
        rows = [env.step(np.array([4, 4])) for _ in range(3)]
        for _ in range(2):
            other.set_state(state)  # type: ignore[attr-defined]
            np.testing.assert_equal([other.step(np.array([4, 4])) for _ in range(3)], rows)
        np.testing.assert_equal(state, kept)


def test_a_reset_forgets_that_the_row_before_was_the_last() -> None:
    rows = np.arange(6, dtype=np.int64).reshape(3, 2)
    env = make(Discrete(6), rows, [[0, 0], [1, 1], [0, 0]], frame_stack=2)
    env.reset(), env.step(None), env.reset()
    assert env.step(None)[0].tolist() == [[0, 2], [1, 3]]


def test_a_given_state_and_pictures_pass_through() -> None:
    options = {"state": {"position": [0.4, -0.9], "heaven": 1}}
    env, plain = (
        envs.make_vector("car-flag", 2, 1, render_mode="rgb_array", **o) for o in ({"frame_stack": 2}, {})
    )
    plain.reset(options=options)
    observation, _ = env.reset(options=options)
    np.testing.assert_array_equal(observation, np.float32([[0.4, 0, 1] * 2, [-0.9, 0, 0] * 2]))
    np.testing.assert_array_equal(env.render(), plain.render())
    single: gymnasium.Env[Any, Any] = gymnasium.make("car-flag", render_mode="rgb_array", frame_stack=2)
    single.reset(options={"state": {"position": 0.4, "heaven": 1}})
    np.testing.assert_array_equal(single.render(), plain.render()[0])  # type: ignore[index]


def test_the_best_return_is_known_where_nothing_is_hidden() -> None:
    assert envs.spec("car-flag", frame_stack=2).best_return == 1.0
    assert envs.spec("car-flag", hide=(0,)).best_return is None


def test_a_state_of_another_task_is_refused() -> None:
    env = envs.make_vector("gridverse-memory-7x7", 2, 1, hide=(0,))
    plain = envs.make_vector("gridverse-memory-7x7", 2, 1)
    env.reset(), plain.reset()
    with pytest.raises(ValueError, match="environment state"):
        env.set_state(plain.get_state())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"hide": (6,)},
            r"task.hide is 6, but gridverse-memory-7x7 observes 6 components; use some of 0 to 5",
        ),
        ({"hide": tuple(range(6))}, r"task.hide is 0,1,2,3,4,5, but .* not all"),
        ({"hide": (-1,)}, "task.hide is -1"),
        ({"frame_stack": 0}, "task.frame_stack is 0; it must be an integer of at least 1"),
        ({"resize": 8}, "task.resize is 8, but gridverse-memory-7x7 observes no picture"),
        (
            {"grayscale": True},
            "task.grayscale is true, but gridverse-memory-7x7 observes no coloured picture",
        ),
    ],
)
def test_what_cannot_be_is_one_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as error:
        envs.spec("gridverse-memory-7x7", **options)
    assert "\n" not in str(error.value)
