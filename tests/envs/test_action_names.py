"""Every task of the suite says what its actions are, and they do what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

import envs
from envs.vector import Dynamics


@pytest.mark.parametrize("id", envs.ids())
def test_each_action_has_a_name(id: str) -> None:
    spec = envs.spec(id)
    if not isinstance(spec.action_space, Discrete):
        assert spec.action_names == ()
        return
    assert len(set(spec.action_names)) == len(spec.action_names) == spec.action_space.n
    assert spec.name_actions() == spec.action_names


def _after(id: str, name: str, state: dict[str, Any], field: str) -> np.ndarray:
    env = envs.make_vector(id, 1, 0)
    env.reset(options={"state": state})
    env.step(np.array([envs.spec(id).action_names.index(name)]))
    found: np.ndarray = env._dynamics.get()[field][0]
    return found


@pytest.mark.parametrize(
    "name, x, change", [("right", 1, (1, 0)), ("left", 1, (-1, 0)), ("up", 4, (0, 1)), ("down", 4, (0, -1))]
)
def test_the_t_mazes_do_what_they_say(name: str, x: int, change: tuple[int, int]) -> None:
    found = _after("t-maze-passive-4", name, {"position": [x, 0], "goal": 1, "time": x}, "position")
    assert tuple(found - [x, 0]) == change


@pytest.mark.parametrize("name, sign", [("push left", -1), ("push right", 1)])
def test_the_car_does_what_it_says(name: str, sign: int) -> None:
    env = envs.make_vector("car-flag", 1, 0)
    before, _ = env.reset()
    after = env.step(np.array([envs.spec("car-flag").action_names.index(name)]))[0]
    assert np.sign(after[0, 1] - before[0, 1]) == sign


@pytest.mark.parametrize(
    "name, x, y",
    [("no push", 0, 0), ("up", 0, -1), ("right", 1, 0), ("down right", 1, 1), ("left", -1, 0)],
)
def test_the_pads_are_pushed_as_they_say(name: str, x: int, y: int) -> None:
    from envs.numpad import ACTION_NAMES, FORCE

    assert np.sign(FORCE[ACTION_NAMES.index(name)]).tolist() == [x, y]


@pytest.mark.parametrize("bit", [0, 1])
def test_the_bit_that_is_asked_for_is_the_right_answer(bit: int) -> None:
    env = envs.make_vector("bsuite-memory-len-1", 16, 0)
    env.reset()
    right = env._dynamics.get()["context"][:, 0] == bit
    action = np.full(16, envs.spec("bsuite-memory-len-1").action_names.index(f"bit {bit}"))
    over = np.zeros(1, bool)
    while not over.any():
        _, reward, over, _, _ = env.step(action)
    assert ((reward == 1) == right).all() and right.any() and not right.all()


class Named(Dynamics):
    """A task of two actions."""

    observation_space = Discrete(2)
    action_space = Discrete(2)

    def __init__(self, names: int = 2) -> None:
        self.action_names = tuple("ABC"[:names])

    start = restart = step = observe = get = put = read = lambda *_: None


def test_a_task_of_ones_own_names_its_actions_one_by_one() -> None:
    id = f"{__name__}:Named"
    assert envs.spec(id).action_names == ("A", "B")
    assert envs.spec(id, kwargs={"names": 0}).name_actions() == ("0", "1")
    with pytest.raises(ValueError, match="it has 3 action_names; it must have one for each of 2"):
        envs.spec(id, kwargs={"names": 3})


def test_tasks_of_other_packages_have_numbers() -> None:
    assert envs.spec("FrozenLake-v1").name_actions() == ("0", "1", "2", "3")
