"""The worlds are the original ones: everything that was recorded of gym-gridverse, without a difference."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import envs
from envs.gridverse import codes, endings, representations, rewards, transitions, views
from envs.gridverse.representations import Representation
from envs.gridverse.state import State, Step, from_arrays, take, to_arrays
from envs.gridverse.world import Engine, FunctionSpec, WorldSpec
from envs.gridverse.worlds import DTQN, PACKAGE, world
from tests.envs import recordings

WORLDS = (*DTQN, *PACKAGE)


class Scripted:
    """Stands in for a Generator: gives out what was recorded and insists on being asked for just that."""

    def __init__(self, *answers: tuple[NDArray[Any], NDArray[Any]]) -> None:
        self._answers = list(answers)

    def integers(self, high: NDArray[Any]) -> NDArray[Any]:
        if not self._answers:  # between two telepods there is no choice, and none was recorded
            np.testing.assert_array_equal(high, 1)
            return np.zeros_like(high)
        expected, answer = self._answers.pop(0)
        np.testing.assert_array_equal(high, expected)
        return answer

    def random(self, shape: tuple[int, ...]) -> NDArray[Any]:
        _, answer = self._answers.pop(0)
        assert answer.shape == shape
        return answer

    def used_up(self) -> bool:
        return not self._answers


def obstacle_script(draws: NDArray[Any]) -> Scripted:
    """Draws [N, M, 2] of (options, chosen): all first obstacles that can move, all second ones, ..."""
    columns = [draws[:, k] for k in range(draws.shape[1])]
    able = [column[column[:, 1] >= 0] for column in columns]
    return Scripted(*((c[:, 0], c[:, 1]) for c in able))


def as_window(view: NDArray[np.uint8], area: Any) -> NDArray[np.uint8]:
    """Bytes [h * w, N] as cells [N, h, w, 3]."""
    return codes.unpack(view.T).reshape(-1, *views.size(area), 3)


@pytest.mark.parametrize("id", recordings.RECORDED)
def test_every_recorded_step(id: str) -> None:
    """From each recorded state on: next state, reward to the last bit, ending, and what is seen of it."""
    data, spec = recordings.episodes(id), world(id)
    engine = Engine(spec)
    lengths = data["ep_len"]
    first = np.cumsum(lengths) - lengths
    episode = np.repeat(np.arange(len(lengths)), lengths)
    next_grid = data.get("next_grid", data["init_grid"][episode])

    def before(name: str, after: NDArray[np.uint8]) -> NDArray[np.uint8]:
        shifted = np.roll(after, 1, axis=0)
        shifted[first] = data[f"init_{name}"]
        return shifted

    state = from_arrays(
        before("grid", next_grid), before("agent", data["next_agent"]), before("item", data["next_item"])
    )
    draws = data.get("obstacle_draws", np.zeros((len(episode), 0, 2)))
    rng: Any = obstacle_script(draws)
    after, reward, terminated = engine.step(state, data["action"], rng)
    assert rng.used_up()
    grid, agent, item = to_arrays(after)
    np.testing.assert_array_equal(grid, next_grid)
    np.testing.assert_array_equal(agent, data["next_agent"])
    np.testing.assert_array_equal(item, data["next_item"])
    np.testing.assert_array_equal(reward, data["reward"])
    np.testing.assert_array_equal(terminated, data["terminated"])
    seen = engine.observe(after)
    np.testing.assert_array_equal(as_window(seen, spec.area), data["obs_book"][data["obs_code"]])
    start = take(state, first)
    seen_first = engine.observe(start)
    np.testing.assert_array_equal(as_window(seen_first, spec.area), data["obs_book"][data["init_obs_code"]])
    if "vec" in data:
        vector = Representation(spec, "vector")
        np.testing.assert_array_equal(vector(seen, after.item), data["vec"])
        np.testing.assert_array_equal(vector(seen_first, start.item), data["init_vec"])


def test_steps_were_recorded_of_most_worlds() -> None:
    assert len(recordings.RECORDED) == 20
    assert sum(len(recordings.episodes(id)["action"]) for id in recordings.RECORDED) == 128_917


def test_every_transition_of_four_rooms() -> None:
    """150 layouts x every pose x action."""
    data, id = recordings.exhaustive("memory_four_rooms_7x7"), "gridverse-memory-four-rooms-7x7"
    engine, rng = Engine(world(id)), np.random.default_rng(0)
    grid = data["grids"].repeat(data["n_poses"], axis=0)
    state = from_arrays(grid, data["poses"], np.zeros((len(grid), 3), np.uint8))
    vector = Representation(engine.spec, "vector")
    np.testing.assert_array_equal(vector(engine.observe(state), state.item), data["vec"])
    for action in range(6):
        after, reward, terminated = engine.step(state, np.full(len(grid), action), rng)
        np.testing.assert_array_equal(to_arrays(after)[0], grid)
        np.testing.assert_array_equal(to_arrays(after)[1], data["next_pose"][:, action])
        np.testing.assert_array_equal(reward, data["reward"][:, action])
        np.testing.assert_array_equal(terminated, data["terminated"][:, action])


# -- Single functions on random grids ------------------------------------------------------------------------

NUM_GRIDS = 500
EXIT = {"object_type": "Exit"}
CLOSER = {**EXIT, "reward_closer": 0.2, "reward_further": -0.2}
METRICS = ("manhattan", "euclidean")
REWARDS: dict[str, dict[str, Any]] = {
    "reach_exit": {"name": "reach_exit", "reward_on": 5.0},
    "bump_moving_obstacle": {"name": "bump_moving_obstacle"},
    "bump_into_wall": {"name": "bump_into_wall"},
    **{f"getting_closer_{d}": {"name": "getting_closer", **CLOSER, "distance_function": d} for d in METRICS},
    "actuate_door": {"name": "actuate_door"},
    "pickndrop_key": {"name": "pickndrop", "object_type": "Key"},
    "reach_exit_memory": {"name": "reach_exit_memory", "reward_good": 5.0, "reward_bad": -5.0},
    "overlap_telepod": {"name": "overlap", "object_type": "Telepod", "reward_on": 2.0, "reward_off": -0.5},
    "living": {"name": "living_reward", "reward": -0.05},
}


def function(data: dict[str, Any], kind: str) -> Any:
    return FunctionSpec.from_data(data, kind).bind()


@pytest.fixture(scope="module")
def random_grids() -> State:
    data = recordings.functions()
    return from_arrays(data["grid"], data["agent"], data["item"])


@pytest.mark.parametrize("action", range(8))
def test_functions_on_random_grids(random_grids: State, action: int) -> None:
    """All transitions in a row, then each reward and each ending."""
    data, rng = recordings.functions(), np.random.default_rng(0)
    meta = json.loads(bytes(data["meta"]))
    actions = np.full(NUM_GRIDS, action)
    after = random_grids
    for name in meta["transition_chain"]:
        after = transitions.TRANSITIONS[name](after, actions, rng)
    in_a_chain = transitions.chain(
        random_grids,
        actions,
        rng,
        transition_functions=tuple(transitions.TRANSITIONS[name] for name in meta["transition_chain"]),
    )
    for state in (after, in_a_chain):
        for got, name in zip(to_arrays(state), ("grid", "agent", "item"), strict=True):
            np.testing.assert_array_equal(got, data[f"next_{name}"][:, action])
    step = Step(random_grids, actions, after)
    for name, reward in REWARDS.items():
        number = meta["reward_names"].index(name)
        got = function(reward, "reward")(step)
        np.testing.assert_array_equal(got, data["rewards"][:, action, number], name)
    for number, name in enumerate(meta["terminating_names"]):
        got = function({"name": name}, "terminating")(step)
        np.testing.assert_array_equal(got, data["terminating"][:, action, number], name)


@pytest.mark.parametrize(
    "key", [key for key in recordings.functions() if re.match("obs_(fully|partially)", key)]
)
def test_views_of_random_grids(random_grids: State, key: str) -> None:
    data = recordings.functions()
    name, _, area_name = key.removeprefix("obs_").rpartition("_")
    area = json.loads(bytes(data["meta"]))["areas"][area_name]
    spec = WorldSpec.from_data(
        {
            **world("GV-Empty-8x8-v0").to_data(),
            "observation_function": {"name": name, "area": area},
        }
    )
    seen = Engine(spec).observe(random_grids)
    np.testing.assert_array_equal(as_window(seen, spec.area), data[key])


def test_every_function_was_recorded() -> None:
    """Only a few functions are checked elsewhere alone."""
    names = json.loads(bytes(recordings.functions()["meta"]))
    elsewhere = {"move_obstacles", "teleport"}  # in the episodes of the worlds that have them
    assert set(transitions.TRANSITIONS) - {"chain"} == {*names["transition_chain"], *elsewhere}
    assert set(rewards.REWARDS) - {"reduce_sum"} == {data["name"] for data in REWARDS.values()}
    assert set(endings.ENDINGS) - {"reduce_any", "reduce_all", "overlap"} == set(names["terminating_names"])
    recorded = {
        key.removeprefix("obs_").rpartition("_")[0] for key in recordings.functions() if "obs_" in key
    }
    assert set(views.VISIBILITIES) <= recorded


# -- A world's definition, and its representations -----------------------------------------------------------


@pytest.mark.parametrize("id", WORLDS)
def test_worlds_are_the_originals(id: str) -> None:
    """Read from the recorded parameters, with what the original drops in silence among them."""
    original = recordings.world_params()[recordings.original_name(id) + (".yaml" if id in DTQN else "")]
    data = {
        "state_space": {"objects": original["objects"], "colors": original["colors"]},
        "observation_space": {"objects": original["obs_objects"], "colors": original["obs_colors"]},
        "reset_function": original["reset"],
        "transition_functions": [{"name": name} for name in original["transitions"]],
        "reward_functions": original["rewards"],
        "observation_function": original["observation"],
        "terminating_function": original["terminating"],
    }
    if not original["actions_defaulted"]:
        data["action_space"] = original["actions"]
    assert WorldSpec.from_data(data) == world(id)
    assert list(world(id).actions) == original["actions"]
    assert WorldSpec.from_data(world(id).to_data()) == world(id)


def test_all_of_the_originals_worlds_are_there() -> None:
    assert len(WORLDS) == len(recordings.world_params()) == 29


@pytest.mark.parametrize("id", WORLDS)
def test_the_representation_is_the_originals(id: str) -> None:
    original = recordings.representations()[recordings.original_name(id) + (".yaml" if id in DTQN else "")]
    facts = original["observation/default"]
    table, highest = representations.default_table(*representations.observed_codes(world(id)))
    assert highest.tolist() == facts["grid_upper_bound"] == facts["item_upper_bound"]
    assert table[codes.cell(codes.NOTHING)].tolist() == facts["example_item"]
    assert facts["example_grid_corner"] in table.tolist()


@pytest.mark.parametrize("id", PACKAGE)
def test_bounds_of_the_observation_are_the_originals(id: str) -> None:
    facts = recordings.representations()[id]["observation/default"]
    space: Any = envs.spec(id).observation_space
    height, width, _ = facts["shapes"]["grid"]
    assert space.shape == (height + bool(world(id).holdable), width, 3)
    assert (space.nvec - 1 == facts["grid_upper_bound"]).all()
