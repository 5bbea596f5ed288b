"""DTQN's worlds in play are the original ones: recordings replay exactly, by the engine and the tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from envs.gridverse.dynamics import EngineDynamics, TableDynamics, initial_tables
from envs.gridverse.representations import Representation
from envs.gridverse.state import State
from envs.gridverse.world import Engine, WorldSpec
from envs.gridverse.worlds import world
from envs.vector import Dynamics, NativeVectorEnv
from tests.envs import recordings

DYNAMICS: list[Callable[[WorldSpec, str], Dynamics]] = [EngineDynamics, TableDynamics]
sizes = pytest.mark.parametrize("size", recordings.SIZES)
both_dynamics = pytest.mark.parametrize("dynamics", DYNAMICS)


def memory_world(size: int) -> WorldSpec:
    return world(f"gridverse-memory-{size}x{size}")


@pytest.mark.parametrize(
    ("id", "dynamics"),
    [("gridverse-memory-7x7", TableDynamics), ("gridverse-memory-four-rooms-7x7", EngineDynamics)],
)
def test_recorded_episodes_replay(id: str, dynamics: Callable[[WorldSpec, str], Dynamics]) -> None:
    """All 200 episodes side by side in the vector environment: every array equal, rewards to the last bit."""
    data = recordings.episodes(id)
    lengths = data["ep_len"]
    num, starts = len(lengths), np.cumsum(lengths) - lengths
    env = NativeVectorEnv(dynamics(world(id), "vector"), num, 0, time_limit=250)
    state = {"grid": data["init_grid"], "agent": data["init_agent"], "item": data["init_item"]}
    observation, _ = env.reset(options={"state": state})
    np.testing.assert_array_equal(observation, data["init_vec"])
    checked = 0
    for t in range(lengths.max()):
        alive = np.flatnonzero(t < lengths)
        step = starts[alive] + t
        action = np.zeros(num, np.int64)
        action[alive] = data["action"][step]
        observation, reward, terminated, truncated, _ = env.step(action)
        now = env.get_state()["state"]
        np.testing.assert_array_equal(observation[alive], data["vec"][step])
        np.testing.assert_array_equal(now["agent"][alive], data["next_agent"][step])
        np.testing.assert_array_equal(now["item"][alive], data["next_item"][step])
        np.testing.assert_array_equal(now["grid"][alive], data["init_grid"][alive])
        np.testing.assert_array_equal(reward[alive], data["reward"][step])
        np.testing.assert_array_equal(terminated[alive], data["terminated"][step])
        np.testing.assert_array_equal(truncated[alive], data["truncated"][step])
        checked += len(alive)
    assert checked == lengths.sum() == len(data["action"])


@sizes
@both_dynamics
def test_every_transition(size: int, dynamics: Callable[[WorldSpec, str], Dynamics]) -> None:
    """Each layout x pose x action, poses on the exits included."""
    data = recordings.exhaustive(f"memory_{size}x{size}")
    num_layouts, num_poses, num_actions = data["terminated"].shape
    run, rng = dynamics(memory_world(size), "vector"), np.random.default_rng(0)
    grid = data["grids"].repeat(num_poses, axis=0)
    agent = np.tile(data["poses"], (num_layouts, 1))
    for action in range(num_actions):
        run.put({"grid": grid, "agent": agent, "item": np.zeros_like(agent)})
        np.testing.assert_array_equal(run.observe(rng), data["vec"].reshape(-1, 6))
        reward, terminated = run.step(np.full(len(agent), action), rng)
        np.testing.assert_array_equal(run.get()["agent"], data["next_pose"][:, :, action].reshape(-1, 3))
        np.testing.assert_array_equal(run.get()["grid"], grid)
        np.testing.assert_array_equal(reward, data["reward"][:, :, action].ravel())
        np.testing.assert_array_equal(terminated, data["terminated"][:, :, action].ravel())


@pytest.mark.parametrize("size", [5, 7, 9, 11, 13, 21])
def test_tables_equal_engine_on_every_transition(size: int) -> None:
    """Every number in the tables, layout by layout, also for sizes without exhaustive recordings."""
    spec = memory_world(size)
    engine, rng = Engine(spec), np.random.default_rng(0)
    represent = Representation(spec, "vector")
    tables, initial = initial_tables(spec, "vector")
    assert len(initial) == 24
    assert len(tables.layout) == 24 * 4 * (3 * size - 8)  # 3 * size - 8 cells to stand on
    for layout in range(24):
        timesteps = np.flatnonzero(tables.layout == layout)
        here = np.full(len(timesteps), layout)
        state = State(spec.geometry, tables.cells[here], tables.pose[timesteps], tables.item[here])
        seen = represent(engine.observe(state), state.item)
        np.testing.assert_array_equal(seen, tables.observation[timesteps])
        for action in range(6):
            after, reward, terminated = engine.step(state, np.full(len(timesteps), action), rng)
            transition = timesteps * 6 + action
            following = tables.next_state[transition]
            np.testing.assert_array_equal(tables.pose[following], after.pose)
            np.testing.assert_array_equal(tables.layout[following], layout)
            np.testing.assert_array_equal(tables.reward[transition], reward)
            np.testing.assert_array_equal(tables.terminated[transition], terminated)
