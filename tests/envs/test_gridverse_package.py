"""Tasks run by the gym_gridverse package: the adapter on a stand-in, and on the package where it is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
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
def test_every_timestep_is_ours(installed: None, id: str, observation: str) -> None:
    """From each state of the package's own play: the same timestep, and the same state after it."""
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
        timestep, expected = theirs.step(action), ours.step(action)
        state = theirs.get_state()["state"]
        live = ~before["episode"]["last"]
        np.testing.assert_array_equal(timestep[1][~live], 0.0)
        ended += (~live).sum()
        if not any(name in id for name in DRAWS):
            np.testing.assert_array_equal(timestep[0][live], expected[0][live])
            np.testing.assert_allclose(timestep[1][live], expected[1][live], rtol=0, atol=1e-12)
            for flag, expected_flag in zip(timestep[2:4], expected[2:4], strict=True):
                np.testing.assert_array_equal(flag[live], expected_flag[live])
            np.testing.assert_array_equal(timestep[4]["is_success"], expected[4]["is_success"])
            for name, after in ours.get_state()["state"].items():  # type: ignore[attr-defined]
                np.testing.assert_array_equal(state[name][live], after[live])
        seen, _ = ours.reset(options={"state": state})
        np.testing.assert_array_equal(timestep[0], seen)
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
        timestep = env.step(action)
        np.testing.assert_equal(twin.step(action), timestep)
        if t >= 20:
            np.testing.assert_equal(other.step(action), timestep)


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


def test_a_file_that_the_engine_can_run_is_the_same_task_by_both(installed: None, tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(str(PACKAGE["GV-Empty-4x4-v0"]))
    spec = envs.spec(f"gridverse:{file}", backend="gym-gridverse")
    assert spec == envs.spec(f"gridverse:{file}")
    assert spec.description == "Find the exit of an empty room, with 7 x 7 cells in view."
