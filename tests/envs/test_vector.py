"""The promises of the vector environment: timesteps, limits, success, determinism, restoring, refusals."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.dynamics import EngineDynamics, TableDynamics
from envs.gridverse.resets import layouts_memory
from envs.gridverse.state import to_arrays
from envs.gridverse.worlds import world
from envs.vector import Dynamics, NativeVectorEnv

FORWARD, BACKWARD, LEFT, RIGHT, TURN_LEFT, TURN_RIGHT = range(6)
WORLD = world("gridverse-memory-7x7")
GRIDS, _, _ = to_arrays(layouts_memory(shape=(7, 7), colors=codes.COLOURS[1:]))
GRID = GRIDS[0]  # the good exit is on the left

Rows = tuple[NDArray[Any], ...]


def make(
    num: int = 4, seed: int | None = 3, dynamics: Dynamics | None = None, **kwargs: Any
) -> NativeVectorEnv:
    return NativeVectorEnv(
        dynamics or TableDynamics(WORLD, "vector"), num, seed, **{"time_limit": 250, **kwargs}
    )


def start_at(env: NativeVectorEnv, *pose: int, grid: NDArray[np.uint8] = GRID) -> NDArray[np.uint8]:
    observation, _ = env.reset(options={"state": {"grid": grid, "agent": pose, "item": (0, 0, 0)}})
    return observation


def step_all(env: NativeVectorEnv, action: int) -> tuple[NDArray[Any], ...]:
    observation, reward, terminated, truncated, infos = env.step(np.full(env.num_envs, action))
    return observation, reward, terminated, truncated, infos["is_success"]


def random_rows(env: NativeVectorEnv, steps: int, seed: int = 0) -> list[Rows]:
    """The timesteps of `steps` random steps."""
    rng = np.random.default_rng(seed)
    timesteps: list[Rows] = []
    for _ in range(steps):
        observation, reward, terminated, truncated, infos = env.step(rng.integers(6, size=env.num_envs))
        timesteps.append((observation, reward, terminated, truncated, infos["is_success"]))
    return timesteps


def assert_same(left: list[Rows], right: list[Rows]) -> None:
    for a, b in zip(left, right, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_last_row_then_first_row() -> None:
    env = make(2)
    start_at(env, 1, 2, 0)
    observation, reward, terminated, truncated, success = step_all(env, LEFT)
    assert observation[0].tolist() == [3, 3, 3, 3, 5, 2]  # the true last observation: on the red exit
    assert reward.tolist() == [4.95, 4.95]
    assert terminated.all()
    assert not truncated.any()
    assert success.all()
    # The environments restart; a legal action is ignored as much as an illegal one.
    observation, reward, terminated, truncated, infos = env.step(np.array([FORWARD, -7]))
    assert observation.tolist() == [[3, 2, 3, 3, 2, 3]] * 2
    assert reward.tolist() == [0.0, 0.0]
    assert not (terminated | truncated | infos["is_success"]).any()
    assert (env.get_state()["state"]["agent"] == (3, 3, 0)).all()
    _, reward, *_ = step_all(env, FORWARD)
    assert reward.tolist() == [-0.05, -0.05]
    assert (env.get_state()["state"]["agent"] == (2, 3, 0)).all()


def test_time_limit_truncates_at_the_step() -> None:
    env = make(2, time_limit=5)
    env.reset()
    for _ in range(2):  # the second episode as the first
        flags = [step_all(env, TURN_LEFT)[2:4] for _ in range(5)]
        assert [bool(truncated.all()) for _, truncated in flags] == [False] * 4 + [True]
        assert not any(terminated.any() for terminated, _ in flags)
        step_all(env, TURN_LEFT)  # the FIRST timestep is no step


def test_termination_on_the_limits_step_is_no_truncation() -> None:
    env = make(1, time_limit=3)
    start_at(env, 1, 3, 0)
    flags = [tuple(bool(f[0]) for f in step_all(env, action)[2:]) for action in (TURN_LEFT, FORWARD, FORWARD)]
    assert flags == [(False, False, False), (False, False, False), (True, False, True)]


def leave_after(env: NativeVectorEnv, steps: int) -> tuple[NDArray[Any], ...]:
    """The timestep of the good exit, reached at step number `steps` after turning on the spot."""
    start_at(env, 1, 2, 0)
    for _ in range(steps - 1):
        assert not step_all(env, TURN_LEFT)[4].any()
    heading = env.get_state()["state"]["agent"][0, 2]
    return step_all(env, int(np.flatnonzero((codes.MOVE[heading] == (0, -1)).all(axis=1))[0]))


@pytest.mark.parametrize(("steps", "success"), [(99, True), (100, True), (101, False)])
def test_success_has_a_deadline_of_100_steps(steps: int, success: bool) -> None:
    """At step 100 the return, summed in doubles step by step, is +9.8e-15 and counts; not so at 101."""
    env = make(2)
    _, reward, terminated, _, is_success = leave_after(env, steps)
    assert terminated.all()
    assert (reward == 4.95).all()
    assert (is_success == success).all()
    if steps == 100:
        np.testing.assert_allclose(env.get_state()["episode"]["return"], 9.8e-15, rtol=0.01)


def test_success_is_on_last_rows_only() -> None:
    """Also where the return is above zero before the end, which no memory world offers: it is put there."""
    env = make(1)
    env.reset()
    state = env.get_state()
    state["episode"]["return"][:] = 3.0
    env.set_state(state)
    assert not step_all(env, TURN_LEFT)[4].any()


@given(seed=st.integers(0, 2**32), num=st.integers(1, 9), time_limit=st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_engine_and_tables_agree(seed: int, num: int, time_limit: int) -> None:
    """Two implementations, one generator: every timestep of random play is the same."""
    tables = make(num, seed, time_limit=time_limit)
    engine = make(num, seed, time_limit=time_limit, dynamics=EngineDynamics(WORLD, "vector"))
    np.testing.assert_array_equal(tables.reset()[0], engine.reset()[0])
    assert_same(random_rows(tables, 60, seed), random_rows(engine, 60, seed))
    for left, right in zip(
        tables.get_state()["state"].values(), engine.get_state()["state"].values(), strict=True
    ):
        np.testing.assert_array_equal(left, right)


@given(before=st.integers(0, 80), custom=st.booleans(), time_limit=st.integers(1, 50))
@settings(max_examples=20, deadline=None)
def test_restored_state_goes_on_bit_for_bit(before: int, custom: bool, time_limit: int) -> None:
    env = make(6, 1, time_limit=time_limit)
    if custom:
        grid = GRID.copy()
        grid[2, 2] = (codes.FLOOR, 0, 0)  # not one of the 24 layouts
        start_at(env, 2, 2, 3, grid=grid)
    else:
        env.reset()
    random_rows(env, before)
    state = env.get_state()
    kept = copy.deepcopy(state)
    expected = random_rows(env, 120, seed=1)
    other = make(6, 99, time_limit=time_limit)
    other.set_state(state)
    assert_same(random_rows(other, 120, seed=1), expected)
    env.set_state(state)
    assert_same(random_rows(env, 120, seed=1), expected)
    np.testing.assert_equal(state, kept)  # what was given in is not changed


@pytest.mark.parametrize("dynamics", [TableDynamics, EngineDynamics])
def test_nothing_given_or_returned_reaches_inside(
    dynamics: type[TableDynamics] | type[EngineDynamics],
) -> None:
    """A caller that writes into its own arrays does not disturb the environment."""
    env, untouched = make(4, 8, dynamics=dynamics(WORLD, "vector")), make(4, 8)
    grid = GRID.copy()
    pose = np.array([2, 3, 0], np.uint8)
    for e in (env, untouched):
        e.reset(options={"state": {"grid": grid, "agent": pose}})
    given = env.get_state()
    env.set_state(given)
    for array in (grid, pose, *given["state"].values(), *given["episode"].values()):
        array[:] = 1
    actions = np.zeros(4, np.int64)
    for _ in range(30):
        timestep = env.step(actions.copy())
        expected = untouched.step(actions)
        np.testing.assert_array_equal(timestep[0], expected[0])
        for array in (*timestep[:4], timestep[4]["is_success"], *env.get_state()["state"].values()):
            array[:] = 1


def test_custom_layout_is_left_at_the_next_episode() -> None:
    env = make(3, time_limit=2)
    grid = GRID.copy()
    grid[2, 2:5] = (codes.FLOOR, 0, 0)
    observation = start_at(env, 2, 2, 3, grid=grid)
    assert observation[0].tolist() == [2, 2, 2, 2, 2, 3]
    for _ in range(3):
        step_all(env, FORWARD)
    known = {grid.tobytes() for grid in GRIDS}
    assert {g.tobytes() for g in env.get_state()["state"]["grid"]} <= known


def changed(y: int, x: int, *cell: int) -> NDArray[np.int64]:
    grid: NDArray[np.int64] = GRID.astype(np.int64)
    grid[y, x] = cell
    return grid


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (5, r"options\['state'\] is 5; it must be a dict"),
        ({"grid": GRID}, "has no 'agent'"),
        ({"grid": GRID, "agent": (3, 3, 0), "agnt": 1}, "unknown key 'agnt'; did you mean agent"),
        ({"grid": GRID[:5], "agent": (3, 3, 0)}, r"'grid' has shape \(5, 7, 3\); it must be \(7, 7, 3\)"),
        ({"grid": GRID * 1.0, "agent": (3, 3, 0)}, "'grid' is .* must be integers"),
        ({"grid": [[1], [1, 2]], "agent": (3, 3, 0)}, "'grid' is .* must be integers"),
        (
            {"grid": changed(0, 0, 300, 0, 0), "agent": (3, 3, 0)},
            "'grid' holds 300; .* integers from 0 to 255",
        ),
        ({"grid": changed(0, 0, -1, 0, 0), "agent": (3, 3, 0)}, "'grid' holds -1; .* integers from 0 to 255"),
        (
            {"grid": changed(0, 0, 6, 0, 1), "agent": (3, 3, 0)},
            r"'grid' holds \(6, 0, 1\): .*3 Wall, 2 Floor",
        ),
        ({"grid": changed(1, 1, 4, 1, 1), "agent": (3, 3, 0)}, r"holds \(4, 1, 1\): the status of a Exit"),
        ({"grid": changed(1, 1, 4, 0, 9), "agent": (3, 3, 0)}, r"holds \(4, 0, 9\): the colour of a Exit"),
        ({"grid": changed(1, 3, 2, 0, 1), "agent": (3, 3, 0)}, "the colour of a Floor must be one of 0 NONE"),
        (
            {"grid": np.where(GRID[..., :1] == codes.BEACON, [2, 0, 0], GRID), "agent": (3, 3, 0)},
            "'grid' holds no Beacon",
        ),
        ({"grid": GRID, "agent": (3, 3)}, r"'agent' has shape \(2,\); it must be \(3,\) or \(4, 3\)"),
        (
            {"grid": GRID, "agent": (7, 3, 0)},
            r"'agent' is at \(7, 3\); it must be within \(0, 0\) to \(6, 6\)",
        ),
        ({"grid": GRID, "agent": (0, 3, 0)}, r"'agent' is at \(0, 3\), on a Wall"),
        ({"grid": GRID, "agent": (3, 3, 4)}, "'agent' has heading 4; it must be 0 to 3"),
        (
            {"grid": GRID, "agent": (3, 3, 0), "item": (6, 0, 4)},
            r"'item' holds \(6, 0, 4\): .*0 NoneGridObject",
        ),
    ],
)
def test_invalid_states_are_refused(state: Any, message: str) -> None:
    env = make(4)
    env.reset(seed=1)
    before = env.get_state()
    with pytest.raises(ValueError, match=message) as error:
        env.reset(seed=7, options={"state": state})
    assert "\n" not in str(error.value)
    np.testing.assert_equal(env.get_state(), before)  # nothing has changed, the generator included


def test_bad_arguments_are_refused() -> None:
    for bad in (0, -1, 2.0, True, "4"):
        with pytest.raises(ValueError, match=r"num_envs is .* at least 1"):
            make(bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"time_limit is .* at least 1"):
            make(4, time_limit=bad)
    with pytest.raises(ValueError, match="seed is -1"):
        make(4, -1)
    with pytest.raises(ValueError, match="seed is 'x'"):
        make(4).reset(seed="x")
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        make(4, render_mode="human")
    with pytest.raises(ValueError, match="unknown key 'stat'"):
        make(4).reset(options={"stat": {}})


def test_bad_actions_are_refused() -> None:
    env = make(2)
    with pytest.raises(ValueError, match="before the first reset"):
        env.step(np.zeros(2, np.int64))
    env.reset()
    before = env.get_state()
    for bad, message in [
        (np.zeros(3, np.int64), r"shape \(3,\)"),
        (np.zeros(2), "float64"),
        (np.array([0, 6]), "action 6 must be from 0 to 5"),
        (np.array([-1, 0]), "action -1 must be from 0 to 5"),
    ]:
        with pytest.raises(ValueError, match=message):
            env.step(bad)
    np.testing.assert_equal(env.get_state(), before)


def test_foreign_environment_states_are_refused() -> None:
    env = make(4)
    env.reset()
    good = env.get_state()
    fewer = make(3)
    fewer.reset()
    other = NativeVectorEnv(TableDynamics(world("gridverse-memory-9x9"), "vector"), 4, 0, time_limit=250)
    other.reset()
    for state, message in [
        (fewer.get_state(), "shape"),
        (other.get_state(), "'grid' has shape"),
        ({**good, "rng": {**good["rng"], "bit_generator": "MT19937"}}, "'MT19937'; it must be of 'PCG64'"),
        ({**good, "episode": {}}, "'episode'"),
        ({}, "no 'rng'"),
    ]:
        with pytest.raises(ValueError, match=message):
            env.set_state(state)
    np.testing.assert_equal(env.get_state(), good)
