"""Tasks run by the gym_gridverse package: the adapter on a stand-in, and on the package where it is."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from dtqn import cli
from envs.adapters import foreign
from envs.gridverse import package
from envs.gridverse.worlds import DTQN, PACKAGE
from tests.envs import fake_gym_gridverse

WORLDS = (*DTQN, *PACKAGE)
DRAWS = ("DynamicObstacles",)  # worlds whose steps are random
ROOT = Path(__file__).parents[2]


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, module in fake_gym_gridverse.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    package.load.cache_clear()
    yield
    package.load.cache_clear()


fake = pytest.fixture(stand_in, name="fake")


IS_INSTALLED = importlib.util.find_spec("gym_gridverse") is not None


@pytest.fixture(params=["stand-in", "package"] if IS_INSTALLED else ["stand-in"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in, and the real package where there is one."""
    if request.param == "package":
        yield
    else:
        yield from stand_in(monkeypatch)


def test_the_package_itself_is_compared() -> None:
    """All tests here that ask for `installed` run on it too, where it is installed."""
    if not IS_INSTALLED:
        pytest.skip(
            f"gym_gridverse is not installed, so that only its stand-in is compared: {package.INSTALL}"
        )
    assert package.load().object(np.array([4, 0, 1])).type_index() == 4


def make(id: str, num: int = 3, seed: int = 1, **options: Any) -> Any:
    return envs.make_vector(id, num, seed, backend="gym-gridverse", **options)


@pytest.mark.parametrize("id", WORLDS)
@pytest.mark.parametrize("observation", ["grid", "vector"])
def test_every_row_is_ours(installed: None, id: str, observation: str) -> None:
    """From each state of the package's own play: the same row, and the same state after it."""
    theirs = make(id, 3, observation=observation, time_limit=12)
    ours = envs.make_vector(id, 3, 2, observation=observation, time_limit=12)
    assert theirs.single_observation_space == ours.single_observation_space
    assert theirs.single_action_space == ours.single_action_space
    theirs.reset(), ours.reset()
    state = theirs.get_state()["state"]
    first, _ = theirs.reset(options={"state": state})
    np.testing.assert_array_equal(first, ours.reset(options={"state": state})[0])
    assert first.dtype == np.uint8
    rng = np.random.default_rng(3)
    ended = 0
    for _ in range(18):
        before = theirs.get_state()
        ours.set_state(before)  # type: ignore[attr-defined]
        action = rng.integers(theirs.single_action_space.n, size=3)
        row, expected = theirs.step(action), ours.step(action)
        state = theirs.get_state()["state"]
        live = ~before["episode"]["last"]
        np.testing.assert_array_equal(row[1][~live], 0.0)
        ended += (~live).sum()
        if not any(name in id for name in DRAWS):
            np.testing.assert_array_equal(row[0][live], expected[0][live])
            np.testing.assert_allclose(row[1][live], expected[1][live], rtol=0, atol=1e-12)
            for flag, expected_flag in zip(row[2:4], expected[2:4], strict=True):
                np.testing.assert_array_equal(flag[live], expected_flag[live])
            np.testing.assert_array_equal(row[4]["is_success"], expected[4]["is_success"])
            for name, after in ours.get_state()["state"].items():  # type: ignore[attr-defined]
                np.testing.assert_array_equal(state[name][live], after[live])
        seen, _ = ours.reset(options={"state": state})
        np.testing.assert_array_equal(row[0], seen)
    assert ended > 0


@pytest.mark.parametrize(
    "id", ["GV-DynamicObstacles-7x7-v0", "gridverse-memory-four-rooms-7x7", "GV-Keydoor-5x5-v0"]
)
def test_a_seed_determines_everything_and_states_restore(installed: None, id: str) -> None:
    env, twin, other = make(id, seed=7), make(id, seed=7), make(id, seed=8)
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])
    rng = np.random.default_rng(0)
    for t in range(40):
        if t == 20:
            other.set_state(env.get_state())
        action = rng.integers(env.single_action_space.n, size=3)
        row = env.step(action)
        np.testing.assert_equal(twin.step(action), row)
        if t >= 20:
            np.testing.assert_equal(other.step(action), row)


def test_states_can_be_given_and_pictures_drawn(installed: None) -> None:
    env = make("GV-Keydoor-5x5-v0", 1, render_mode="rgb_array")
    env.reset()
    state = env.get_state()["state"]
    state["item"][:] = (6, 0, 4)
    state["agent"][:] = (1, 1, 0)
    observation, _ = env.reset(options={"state": state})
    assert observation[0, 7, 3].tolist() == [6, 0, 4]
    np.testing.assert_equal(env.get_state()["state"], state)
    assert env.render()[0].shape == (160, 160, 3)
    with pytest.raises(ValueError, match="'agent' is at"):
        env.reset(options={"state": {**state, "agent": (0, 0, 0)}})


def test_custom_actions_reach_the_package(fake: None, tmp_path: Path) -> None:
    """The number of an action is its place in the list."""
    file = tmp_path / "turns.yaml"
    file.write_text(str({**PACKAGE["GV-Empty-4x4-v0"], "action_space": ["TURN_RIGHT", "MOVE_FORWARD"]}))
    env = make(f"gridverse:{file}", 1)
    env.reset()
    state = {**env.get_state()["state"], "agent": np.array([[1, 1, 0]], np.uint8)}
    env.reset(options={"state": state})
    env.step(np.array([0]))
    assert env.get_state()["state"]["agent"].tolist() == [[1, 1, 3]]


def test_the_old_gym_is_not_asked_for(tmp_path: Path) -> None:
    """The package imports its registration first thing, which fails here as it does with today's gym."""
    folder = tmp_path / "gym_gridverse"
    folder.mkdir()
    (folder / "__init__.py").write_text("import gym_gridverse.gym\n")
    (folder / "gym.py").write_text("raise ImportError('no gym')\n")
    code = (
        "import envs\n"
        "try:\n    envs.spec('GV-Empty-4x4-v0', backend='gym-gridverse')\n"
        "except ValueError as error:\n    print(error)\n"
        "import sys; print('gym_gridverse' in sys.modules, 'gym_gridverse.gym' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    said, imported = out.stdout.strip().split("\n")
    assert "No module named 'gym_gridverse.agent'" in said  # past the registration
    assert imported == "True False"


def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("gym_gridverse")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gym_gridverse", None)
    package.load.cache_clear()
    try:
        for function in (envs.spec, lambda id, **kwargs: envs.make_vector(id, 1, **kwargs)):
            with pytest.raises(
                ValueError, match=r"task.backend is 'gym-gridverse', but .*pip install"
            ) as error:
                function("GV-Empty-4x4-v0", backend="gym-gridverse")
            assert "\n" not in str(error.value)
    finally:
        package.load.cache_clear()


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(ValueError, match=r"task\.backend is 'gym'; it must be one of native, gym-gridverse"):
        envs.spec("GV-Empty-4x4-v0", backend="gym")


# -- Worlds with objects and functions of a user's own -------------------------------------------------------

DOCS = (ROOT / "docs" / "tasks" / "gridverse.md").read_text()
COINS = "gridverse:coins.yaml"


@pytest.fixture
def coins(installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example of the documentation, in the working directory."""
    world = DOCS.split("```yaml\n")[2].split("```")[0]
    code = DOCS.split("```python\n")[1].split("```")[0]
    assert "coins:Coin" in world
    assert "class Coin" in code
    (tmp_path / "coins.yaml").write_text(world)
    (tmp_path / "coins.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    package.load()
    is_stand_in = sys.modules["gym_gridverse"].__doc__ == "A stand-in."
    # The package registers a module's functions once, when it is first imported.
    of_package = {name: sys.modules.pop(name, None) for name in ("coins", "luck") if is_stand_in}
    yield tmp_path
    for name, module in of_package.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module
    foreign._facts.cache_clear()
    foreign._try.cache_clear()


def test_the_example_of_the_documentation_goes_to_the_package_as_it_is(coins: Path) -> None:
    spec = envs.spec(COINS, backend="gym-gridverse", success="return>0")
    assert (spec.description, spec.source) == ("Take both coins of a small room", "coins.yaml")
    assert (spec.time_limit, spec.success) == (60, "undiscounted return > 0")
    assert (spec.observation_space.shape, spec.action_space.n) == ((3, 3, 3), 3)  # type: ignore[attr-defined]
    assert envs.spec(COINS, backend="gym-gridverse", time_limit=9).time_limit == 9
    envs.try_task(COINS, backend="gym-gridverse", success="return>0")
    coin = int(spec.observation_space.nvec[0, 0, 0]) - 1  # type: ignore[attr-defined]
    assert coin >= 11, "the package's own types come first"
    env = envs.make_vector(COINS, 8, seed=1, backend="gym-gridverse", success="return>0")
    observation, _ = env.reset()
    forward, turn_right = 0, 2
    # Look ahead, walk to the wall and along it, all the way round: both coins are taken, each for 1.
    rewards, ends = np.zeros(8), np.zeros(8, np.bool_)
    seen = (observation[..., 0] == coin).any(axis=(1, 2))
    for action in (forward, turn_right, *(forward, turn_right, forward) * 4):
        observation, reward, terminated, truncated, infos = env.step(np.full(8, action))
        seen |= (observation[..., 0] == coin).any(axis=(1, 2))
        rewards += np.where(ends, 0, reward)
        assert not truncated.any()
        ending = terminated & ~ends
        np.testing.assert_array_equal(infos["is_success"][ending], rewards[ending] > 0)
        ends |= terminated
    assert seen.all()
    assert ends.all()
    assert (rewards > 1).all()


def test_the_command_of_the_documentation_trains(coins: Path) -> None:
    """The native engine refuses the file, so nothing may ask it on the way."""
    (command,) = re.findall(r"^    python run.py (--env gridverse:coins.yaml .*)$", DOCS, re.MULTILINE)
    short = "--total-env-steps 200 --warmup-env-steps 100 --actor.num_envs 2 --replay.capacity 8000"
    short += " --learner.batches.size 2 --evaluation.episodes 2 --wandb disabled --device cpu --run-dir run"
    assert cli.main(shlex.split(f"{command} {short}")) == 0
    assert (coins / "run" / "result.json").exists()


def test_one_walk_by_hand(coins: Path) -> None:
    """Forward, left, forward: in the corner up and to the left. A coin lies there or not."""
    env = envs.make_vector(COINS, 1, backend="gym-gridverse", observation="grid")
    first = {True: 0, False: 0}
    for seed in range(12):
        observation, _ = env.reset(seed=seed)
        lies = bool(observation[0, 1, 0, 0] >= 11)
        assert observation[0, 2].tolist() == [[2, 0, 0]] * 3  # the agent's own row is floor
        rewards = [float(env.step(np.array([action]))[1][0]) for action in (0, 1, 0)]
        np.testing.assert_allclose(rewards, [-0.05, -0.05, 0.95 if lies else -0.05])
        first[lies] += 1
    assert min(first.values()) > 0


def test_both_forms_of_observation_say_the_same(coins: Path) -> None:
    grid, vector = (
        envs.make_vector(COINS, 3, seed=2, backend="gym-gridverse", observation=form)
        for form in ("grid", "vector")
    )
    assert vector.single_observation_space.shape == (9,)
    rng = np.random.default_rng(0)
    seen, listed = grid.reset()[0], vector.reset()[0]
    for _ in range(40):
        np.testing.assert_array_equal((seen[..., 0] + seen[..., 2]).reshape(3, -1), listed)
        action = rng.integers(3, size=3)
        row, other = grid.step(action), vector.step(action)
        np.testing.assert_array_equal(row[1], other[1])
        seen, listed = row[0], other[0]
        assert listed in vector.observation_space


LUCK = """
from gym_gridverse.envs.reward_functions import reward_function_registry
from gym_gridverse.rng import get_gv_rng_if_none


@reward_function_registry.register
def luck(state, action, next_state, *, rng=None):
    return float(get_gv_rng_if_none(rng).random())
"""


def test_a_seed_reaches_rewards_that_are_drawn(coins: Path) -> None:
    """The package calls them without a generator; they take that of its library."""
    (coins / "luck.py").write_text(LUCK)
    text = (coins / "coins.yaml").read_text()
    (coins / "coins.yaml").write_text(text.replace('name: "coins:coin_taken"', 'name: "luck:luck"'))

    def rewards(seed: int) -> list[float]:
        env = envs.make_vector(COINS, 2, seed, backend="gym-gridverse")
        env.reset()
        return [float(reward) for _ in range(5) for reward in env.step(np.zeros(2, np.int64))[1]]

    assert rewards(1) == rewards(1) != rewards(2)
    assert len(set(rewards(1))) == 10


def test_what_cannot_be_saved_is_not(coins: Path) -> None:
    env: Any = envs.make_vector(COINS, 2, seed=1, backend="gym-gridverse")
    env.reset()
    assert env.get_state() is None


def test_the_native_engine_names_the_flag(coins: Path) -> None:
    with pytest.raises(
        ValueError, match=r"coins:Coin is your own: --task\.backend gym-gridverse gives"
    ) as error:
        envs.spec(COINS)
    assert "\n" not in str(error.value)


def test_what_the_package_makes_nothing_of_is_one_line(coins: Path) -> None:
    text = (coins / "coins.yaml").read_text()
    for changed, problem in (
        (
            text.replace("coins:Coin", "no_coins:Coin"),
            "coins.yaml: gym_gridverse cannot make it: ModuleNot",
        ),
        (
            text.replace("time_limit: 60", "time_limit: 0"),
            "task.time_limit is 0; it must be an integer",
        ),
        (text.replace("time_limit", "time_limt"), "unknown key 'time_limt'; did you mean time_limit"),
    ):
        (coins / "coins.yaml").write_text(changed)
        with pytest.raises(ValueError, match=problem) as error:
            envs.spec(COINS, backend="gym-gridverse")
        assert "\n" not in str(error.value)


def test_a_file_that_the_engine_can_run_is_the_same_task_by_both(installed: None, tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(str(PACKAGE["GV-Empty-4x4-v0"]))
    spec = envs.spec(f"gridverse:{file}", backend="gym-gridverse")
    assert spec == envs.spec(f"gridverse:{file}")
    assert spec.description == "Find the exit of an empty room, with 7 x 7 cells in view."
