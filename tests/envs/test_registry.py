"""The contract that every registered task keeps. A new task is tested by being registered."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import envs
from envs import drawing, registry, testing
from envs.gridverse import codes
from envs.gridverse.resets import layouts_memory
from envs.gridverse.state import to_arrays
from envs.registry import gymnasium_env
from envs.task import NativeEnv

every_task = pytest.mark.parametrize("id", envs.ids())
ROOT = Path(__file__).parent.parent.parent


@every_task
@pytest.mark.parametrize("check", testing.CHECKS)
def test_a_task_keeps_the_contract(id: str, check: Callable[[testing.MakeTask], None]) -> None:
    """The checks that a user's own task is put to; `test_own.py` shows that they notice."""
    check(lambda **options: registry.task(id, **options))


@every_task
def test_gymnasium_makes_the_same_task(id: str) -> None:
    env: gymnasium.Env[Any, Any] = gymnasium.make(id, time_limit=30)
    assert type(env.unwrapped) is NativeEnv
    np.testing.assert_array_equal(
        env.reset(seed=9)[0], registry.task(id, time_limit=30).make_single().reset(seed=9)[0]
    )
    rng = np.random.default_rng(1)
    over, steps = False, 0
    while not over:
        _, _, terminated, truncated, _ = env.step(testing.random_actions(env.action_space, 1, rng)[0])
        over, steps = terminated or truncated, steps + 1
    assert steps == 30 or (terminated and steps < 30)


@every_task
def test_gymnasium_makes_the_native_vector(id: str) -> None:
    env = gymnasium.make_vec(id, num_envs=8, vectorization_mode="vector_entry_point", time_limit=40)
    assert type(env) is type(envs.make_vector(id, 8))
    assert (env.num_envs, env.time_limit) == (8, 40)  # type: ignore[attr-defined]
    ours = envs.make_vector(id, 8, seed=4)
    np.testing.assert_array_equal(env.reset(seed=4)[0], ours.reset()[0])


def test_gymnasium_can_also_vectorise_the_single_environment() -> None:
    env = gymnasium.make_vec("gridverse-memory-7x7", num_envs=2, vectorization_mode="sync", time_limit=5)
    env.reset(seed=1)
    ended = [env.step(np.array([4, 4]))[3].all() for _ in range(6)]
    assert ended == [False] * 4 + [True, False]


@pytest.mark.parametrize("options", [{}, {"frame_stack": 2}], ids=["plain", "stacked"])
@pytest.mark.parametrize("id", ["car-flag", "CartPole-v1"])
def test_seeds_and_what_goes_without(id: str, options: dict[str, Any]) -> None:
    """0 is a seed; every environment without one is another, and so is every episode."""

    def begins(seed: int | None, *resets: int | None) -> bytes:
        env = envs.make_vector(id, 2, seed, **options)
        return [env.reset(seed=reset)[0].tobytes() for reset in resets][-1]

    def begins_single(*resets: int | None) -> bytes:
        env = gymnasium_env(id, **options)
        return [env.reset(seed=reset)[0].tobytes() for reset in resets][-1]

    assert begins(0, None) == begins(5, 0) == begins(5, None, 0) != begins(5, None)
    assert begins_single(0) == begins_single(5, 0) != begins_single(5)
    unseeded = [begins(None, None), begins(None, None), begins(5, None), begins(5, None, None)]
    assert len(set(unseeded)) == 4
    assert len({begins_single(None), begins_single(None), begins_single(5), begins_single(5, None)}) == 4


def test_single_needs_a_reset_after_the_end() -> None:
    env: gymnasium.Env[Any, Any] = gymnasium.make("gridverse-memory-5x5", time_limit=1).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env = gymnasium_env("memory-cards-1")
    env.reset(options={"state": {"cards": [1, 1], "shown": 0}})
    assert env.step(1)[2:4] == (True, False)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    ("id", "near"), [("gridverse-memory-7x8", "gridverse-memory-7x7"), ("memory-9x9", "gridverse-memory-9x9")]
)
def test_unknown_ids_name_the_nearest(id: str, near: str) -> None:
    for function in (envs.spec, lambda id: envs.make_vector(id, 1)):
        with pytest.raises(ValueError, match=f"{id}.*{near}.*the command `envs`") as error:
            function(id)
        assert "\n" not in str(error.value)


def test_unknown_ids_with_nothing_near() -> None:
    with pytest.raises(ValueError, match=r"unknown task 'qq' \(the command `envs` lists all\)"):
        envs.spec("qq")


def test_rows_list_every_task() -> None:
    assert [timestep.id for timestep in envs.rows()] == list(envs.ids())
    timestep = next(timestep for timestep in envs.rows() if timestep.id == "gridverse-memory-7x7")
    assert (timestep.observation, timestep.actions, timestep.time_limit) == (
        "MultiDiscrete([21] * 6)",
        "Discrete(6)",
        "250",
    )
    assert "2206.01078" in timestep.source


def test_pictures_show_state_heading_and_view() -> None:
    tile = drawing.TILE
    grids, _, _ = to_arrays(layouts_memory(shape=(7, 7), colors=codes.COLOURS[1:]))
    env = envs.make_vector("gridverse-memory-7x7", 2, seed=1, render_mode="rgb_array")

    def cells(heading: int) -> Any:
        """The picture of the agent amid the corridor, [timestep, column, tile, tile, RGB]."""
        env.reset(options={"state": {"grid": grids[0], "agent": (3, 3, heading)}})
        frames = env.render()
        assert frames is not None
        np.testing.assert_array_equal(frames[0], frames[1])
        return np.asarray(frames[0]).astype(int).reshape(7, tile, 7, tile, 3).swapaxes(1, 2)

    middle = slice(4, -4)  # within the frame of a cell in view
    up = cells(0)
    dark = up[3, 3, middle, middle].sum(axis=-1) < 150
    width = dark.sum(axis=1)
    assert width[2] < width[12] < width[16]  # the arrowhead's tip is at the top
    for heading, quarter_turns in ((2, 1), (1, 2), (3, 3)):
        turned = cells(heading)[3, 3, middle, middle]
        np.testing.assert_array_equal(turned, np.rot90(up[3, 3, middle, middle], k=quarter_turns))

    # The six cells in view are framed in orange, and no others; on the walls too.
    frame = up[:, :, 2, tile // 2]
    framed = np.argwhere((frame[..., 0] > frame[..., 2] + 60) & (frame[..., 0] > frame[..., 1] + 20)).tolist()
    assert framed == [[2, 2], [2, 3], [2, 4], [3, 2], [3, 3], [3, 4]]

    # The good exit (a ring) and both beacons (discs) are red in this layout, the other exit is green.
    ring, centre = (tile // 2, 6), (tile // 2, tile // 2)
    colours = [up[1, 1][ring], up[5, 1][centre], up[5, 5][centre], up[1, 5][ring]]
    assert [int(np.argmax(colour)) for colour in colours] == [0, 0, 0, 1]
    assert len({tuple(colour.tolist()) for colour in colours}) == 2
    assert up[1, 1][centre].min() > 200


def test_no_picture_without_a_render_mode() -> None:
    env = envs.make_vector("gridverse-memory-7x7", 1, seed=1)
    env.reset()
    assert env.render() is None


def test_importing_envs_brings_in_nothing_heavy() -> None:
    """Only what the architecture allows, seen from a fresh interpreter."""
    code = (
        "import sys, envs;"
        "print(sorted(m for m in ('torch', 'replay', 'dtqn', 'scipy', 'pandas', 'matplotlib', 'gym')"
        " if m in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "space, repeat",
    [
        (gymnasium.spaces.MultiDiscrete([3, 3]), True),
        (gymnasium.spaces.Box(0, 255, (2, 2), np.uint8), True),
        (gymnasium.spaces.Box(0, 1, (2,)), False),
        (gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2), b=gymnasium.spaces.MultiBinary(2)), True),
        (gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2), b=gymnasium.spaces.Box(0, 1, (2,))), False),
    ],
)
def test_real_numbers_do_not_come_twice(space: gymnasium.Space, repeat: bool) -> None:
    spec = dataclasses.replace(envs.spec("hallway"), observation_space=space)
    assert spec.observations_repeat is repeat
