"""Tasks of other packages: their timesteps, spaces, seeds, endings and what is said of them."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Sequence, Text, Tuple

import envs
from envs import own_dynamics
from envs.adapters import foreign
from envs.adapters.spaces import actions, channels_first, observations

HERE = __name__
INSTALLED = {"CartPole-v1": None, "MiniGrid-MemoryS7-v0": "minigrid", "MiniGrid-MemoryS13-v0": "minigrid",
    "popgym-RepeatPreviousEasy-v0": "popgym", "popgym-AutoencodeEasy-v0": "popgym",
    "popgym-ConcentrationEasy-v0": "popgym", "ALE/Pong-v5": "ale_py"}  # fmt: skip


class Counting(gymnasium.Env[Any, Any]):
    """Counts to `length`; then both flags are set. Its observation says how often it was reset, and when."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = MultiDiscrete([100, 100, 1 << 31])
    action_space = MultiDiscrete([2, 3], start=[0, 4])
    length = 3

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.episode = 0
        self.drawn = 0
        self.acted: list[Any] = []

    def observation(self) -> Any:
        return np.array([self.episode, self.t, self.drawn])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        self.drawn = int(self.np_random.integers(1 << 31))
        return self.observation(), {"is_success": False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.acted.append(action)
        self.t += 1
        ended = self.t == self.length
        return self.observation(), 0.1 * self.t, ended, ended, {"is_success": self.episode == 2, "more": "x"}

    def render(self) -> Any:
        return np.full((2, 2, 3), self.t, np.uint8)


class Shared(Counting):
    """All fill and return one array."""

    seen = np.zeros(3, np.int64)

    def observation(self) -> Any:
        self.seen[:] = super().observation()
        return self.seen


class Nested(gymnasium.Env[Any, Any]):
    """Every kind of observation at once."""

    observation_space = Dict(
        {
            "camera": Dict({"left": Box(0, 255, (3, 8, 8), np.uint8), "words": Text(5)}),
            "pair": Tuple([Discrete(4, start=-1), Tuple([Box(-1e30, 1.0, (2,), np.float64)])]),
            "set": MultiBinary(3),
        }
    )
    action_space = Discrete(3, start=5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), float(action), False, False, {}


class NoPlace(Nested):
    observation_space = Dict({"x": Sequence(Discrete(2))})


class Endless(Nested):
    action_space = Box(-1, 1, (2,))


def test_timesteps_are_those_of_a_native_task() -> None:
    """LAST, then FIRST with reward 0; of two endings termination; success on last timesteps; doubles."""
    env = envs.make_vector(f"{HERE}:Counting", 2, seed=1)
    observation, infos = env.reset()
    assert infos == {}
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    seen = [env.step(np.array([0, 5])) for _ in range(9)]
    assert observation[:, :2].tolist() == [[1, 0]] * 2
    assert [timestep[0][0, :2].tolist() for timestep in seen] == [
        [1, 1], [1, 2], [1, 3], [2, 0], [2, 1], [2, 2], [2, 3], [3, 0], [3, 1]
    ]  # fmt: skip
    reward = np.array([timestep[1] for timestep in seen])
    assert reward.dtype == np.float64
    assert reward[:, 0].tolist() == [0.1, 0.2, 0.1 * 3, 0.0, 0.1, 0.2, 0.1 * 3, 0.0, 0.1]
    assert [t for t, timestep in enumerate(seen) if timestep[2][0]] == [2, 6]
    assert not any(timestep[3].any() for timestep in seen)
    assert all(list(timestep[4]) == ["is_success"] for timestep in seen)
    assert [timestep[4]["is_success"].tolist() for timestep in seen].index([True, True]) == 6
    assert sum(timestep[4]["is_success"].any() for timestep in seen) == 1
    assert seen[0][4]["is_success"].dtype == np.bool_
    assert envs.spec(f"{HERE}:Counting").has_success
    # The action of a LAST timestep is not taken; the others are, as the environment's own.
    acted = env.unwrapped.envs[1].unwrapped.acted  # type: ignore[attr-defined]
    assert len(acted) == 7
    assert [np.array(a).tolist() for a in acted] == [[1, 6]] * 7


def test_environments_may_share_the_array_that_they_fill() -> None:
    shared, own = (envs.make_vector(f"{__name__}:{name}", 3, seed=1) for name in ("Shared", "Counting"))
    np.testing.assert_array_equal(shared.reset()[0], own.reset()[0])
    np.testing.assert_array_equal(shared.step(np.zeros(3, int))[0], own.step(np.zeros(3, int))[0])


def test_time_limit_truncates() -> None:
    env = envs.make_vector(f"{HERE}:Counting", 1, seed=1, time_limit=2)
    assert envs.spec(f"{HERE}:Counting", time_limit=2).time_limit == env.time_limit == 2  # type: ignore[attr-defined]
    env.reset()
    timesteps = [env.step(np.array([0])) for _ in range(3)]
    assert [bool(timestep[3][0]) for timestep in timesteps] == [False, True, False]
    assert not any(timestep[2].any() for timestep in timesteps)
    assert envs.spec("CartPole-v1").time_limit == 500
    assert envs.spec("CartPole-v1", time_limit=9).time_limit == 9
    with pytest.raises(ValueError, match=r"task.time_limit is 0; it must be an integer of at least 1"):
        envs.spec("CartPole-v1", time_limit=0)


@pytest.mark.parametrize(
    ("task", "module"), [("CliffWalking-v1", foreign), ("tests.envs.test_own:Endless", own_dynamics)]
)
def test_an_episode_that_nothing_else_ends_is_truncated(
    task: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert envs.spec(task).time_limit == 27_000
    monkeypatch.setattr(module, "LONGEST_EPISODE", 5)
    foreign.forget()
    env = envs.make_vector(task, 2, seed=1)
    assert envs.spec(task).time_limit == 5
    env.reset()
    ends = [env.step(np.zeros(2, np.int64))[2:4] for _ in range(6)]
    foreign.forget()
    assert [step for step, (_, truncated) in enumerate(ends) if truncated.any()] == [4]
    assert not any(terminated.any() for terminated, _ in ends)


def test_seeds_decide_and_differ_between_environments() -> None:
    sequence = np.random.SeedSequence(4, spawn_key=(1,))
    drawn = [envs.make_vector(f"{HERE}:Counting", 3, seed).reset()[0][:, 2] for seed in (1, 1, 2, sequence)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert len(np.unique(drawn[1:])) == 9
    env = envs.make_vector(f"{HERE}:Counting", 3, 2)
    np.testing.assert_array_equal(env.reset(seed=1)[0][:, 2], drawn[0])
    again = env.reset()[0][:, 2]
    assert not (again == drawn[0]).any()
    for wrong in (-1, "x", True):
        with pytest.raises(ValueError, match="seed is"):
            envs.make_vector(f"{HERE}:Counting", 3, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_envs is 0"):
        envs.make_vector("CartPole-v1", 0)


def test_nested_observations_become_flat(capsys: pytest.CaptureFixture[str]) -> None:
    foreign._facts.cache_clear()
    spec = envs.spec(f"{HERE}:Nested")
    assert spec.observation_space == Dict(
        {
            "camera/left": Box(0, 255, (8, 8, 3), np.uint8),
            "pair/0": Discrete(4, start=-1),
            "pair/1/0": Box(-1e30, 1.0, (2,), np.float32),
            "set": MultiBinary(3),
        }
    )
    env = envs.make_vector(f"{HERE}:Nested", 2, seed=1)
    observation, _ = env.reset()
    assert observation in env.observation_space
    assert {key: value.dtype for key, value in observation.items()} == {
        "camera/left": np.uint8, "pair/0": np.int64, "pair/1/0": np.float32, "set": np.int8
    }  # fmt: skip
    assert env.step(np.array([0, 2]))[1].tolist() == [5.0, 7.0]
    said = capsys.readouterr().err
    assert said == f"{HERE}:Nested: camera/words is text and left out\n"
    assert envs.spec("Blackjack-v1").observation_space == Dict(
        {"0": Discrete(32), "1": Discrete(11), "2": Discrete(2)}
    )


def test_values_are_those_of_the_parts() -> None:
    space = Nested.observation_space
    space.seed(3)
    value = space.sample()
    read = observations(space).read(value)
    np.testing.assert_array_equal(read["camera/left"], value["camera"]["left"].transpose(1, 2, 0))
    assert read["pair/0"] == value["pair"][0]
    np.testing.assert_array_equal(read["pair/1/0"], value["pair"][1][0].astype(np.float32))
    one = observations(Dict({"only": Tuple([Discrete(3)]), "say": Text(3)}))
    assert one.space == Discrete(3)
    assert one.read({"only": (2,), "say": "no"}) == 2


@pytest.mark.parametrize(
    ("shape", "first"),
    [((3, 64, 64), True), ((64, 64, 3), False), ((3, 210, 160), True), ((210, 160, 3), False),
     ((12, 7, 7), True), ((7, 7, 12), False), ((8, 8, 8), False), ((5, 5), False), ((4, 5, 6), True),
     ((6, 5, 4), False)],
)  # fmt: skip
def test_where_the_channels_are(shape: tuple[int, ...], first: bool) -> None:
    assert channels_first(Box(0, 255, shape, np.uint8)) is first


def test_small_multi_discrete_actions_become_one() -> None:
    """Every combination once, the last component changing fastest."""
    made = actions(MultiDiscrete([2, 3], start=[0, 4]))
    assert made.space == Discrete(6)
    assert [made.act(i).tolist() for i in range(6)] == [[0, 4], [0, 5], [0, 6], [1, 4], [1, 5], [1, 6]]
    bits = actions(MultiBinary(10))
    assert bits.space == Discrete(1024)
    assert bits.act(513).tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert bits.act(513) in MultiBinary(10)
    grid = actions(MultiDiscrete([[2, 2], [2, 2]]))
    assert grid.act(6).tolist() == [[0, 1], [1, 0]]
    assert actions(MultiDiscrete([1025])).space == MultiDiscrete([1025])
    assert actions(MultiDiscrete([2**40, 2**40])).space == MultiDiscrete([2**40, 2**40])
    assert (actions(Discrete(3, start=5)).space, actions(Discrete(3, start=5)).act(np.int64(2))) == (
        Discrete(3),
        7,
    )


def test_what_has_no_place_is_named() -> None:
    for space in (Sequence(Discrete(2)), Dict({"x": Graph(Discrete(2), None)})):
        with pytest.raises(ValueError, match=r"(Sequence|Graph).* can be read"):
            observations(space)
    with pytest.raises(ValueError, match="holds no numbers"):
        observations(Text(4))
    with pytest.raises(ValueError, match=r"task .*NoPlace cannot be made: .*Sequence"):
        envs.spec(f"{HERE}:NoPlace")
    one = Discrete(3)
    for space in (Dict({"a/b": one, "a": Dict({"b": one})}), Dict({1: one, "1": one})):  # type: ignore[dict-item]
        with pytest.raises(
            ValueError, match=r"two parts whose path is '(a/b|1)'; their keys, .*, must differ"
        ):
            observations(space)
    assert envs.spec(f"{HERE}:Endless").action_space == Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("CartPole-v9", "unknown task 'CartPole-v9'; did you mean CartPole-v1"),
        ("minigrid-memoryS7-v0", "unknown task 'minigrid-memoryS7-v0'; did you mean MiniGrid-MemoryS7-v0"),
        ("no_such_package:Class", "needs no_such_package, which cannot be imported"),
        ("numpy:Nothing", "numpy has neither a class nor a registered task 'Nothing'"),
        (f"{HERE}:Scripted", "neither a class"),
        ("qq", "the command `envs` lists all"),
    ],
)
def test_unknown_names_are_one_line(id: str, text: str) -> None:
    with pytest.raises(ValueError, match=text) as error:
        envs.spec(id)
    assert "\n" not in str(error.value)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "popgym", None)
    with pytest.raises(ValueError, match=r"needs popgym.*pip install popgym"):
        envs.spec("popgym-RepeatFirstEasy-v0")


def test_state_cannot_be_saved() -> None:
    for options in ({}, {"frame_stack": 2}):
        env = envs.make_vector("CartPole-v1", 2, 1, **options)
        env.reset()
        assert env.get_state() is None  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="environment state"):
        envs.make_vector("CartPole-v1", 2, 1).set_state({})  # type: ignore[attr-defined]


def test_pictures() -> None:
    env = envs.make_vector(f"{HERE}:Counting", 2, 1, render_mode="rgb_array")
    env.reset()
    env.step(np.array([0, 0]))
    frames = env.render()
    assert frames is not None
    assert [frame.max() for frame in frames] == [1, 1]
    with pytest.raises(ValueError, match="render_mode is 'ansi'"):
        envs.make_vector(f"{HERE}:Counting", 2, 1, render_mode="ansi")


def test_a_registered_id_of_another_package() -> None:
    assert envs.spec("gymnasium.envs.classic_control:CartPole-v1").time_limit == 500
    assert envs.spec("gymnasium.envs.classic_control:CartPoleEnv").time_limit == 27_000


@pytest.mark.parametrize("id", INSTALLED)
def test_a_task_as_its_package_plays_it(id: str) -> None:
    """Two environments beside Gymnasium's own single ones: the same timesteps."""
    package = INSTALLED[id]
    if package is not None:
        pytest.importorskip(package)
    env, spec = envs.make_vector(id, 2, seed=1), envs.spec(id)
    assert spec.observation_space == env.single_observation_space
    singles = [gymnasium.make(id) for _ in range(2)]
    seeds = np.random.Generator(np.random.PCG64(1)).integers(2**31, size=2).tolist()

    def part(observation: Any) -> Any:
        if isinstance(spec.observation_space, Dict):
            leaves = observation if isinstance(observation, dict) else dict(enumerate(observation))
            return {key: leaves[key if key in leaves else int(key)] for key in spec.observation_space}
        return observation

    seen, _ = env.reset()
    expected = [part(single.reset(seed=seed)[0]) for single, seed in zip(singles, seeds, strict=True)]
    rng = np.random.default_rng(1)
    over, episodes = [False, False], 0
    for _ in range(12 if id.startswith("ALE") else 150):
        for i in range(2):
            mine = {key: value[i] for key, value in seen.items()} if isinstance(seen, dict) else seen[i]
            np.testing.assert_equal(mine, expected[i])
            assert mine in spec.observation_space
        action = rng.integers(env.single_action_space.n, size=2)  # type: ignore[attr-defined]
        seen, reward, terminated, truncated, _infos = env.step(action)
        for i, single in enumerate(singles):
            if over[i]:
                expected[i], over[i], episodes = part(single.reset()[0]), False, episodes + 1
                assert (reward[i], terminated[i], truncated[i]) == (0, False, False)
            else:
                observation, r, ended, cut, _ = single.step(action[i])
                expected[i], over[i] = part(observation), ended or cut
                assert (reward[i], terminated[i], truncated[i]) == (r, ended, cut and not ended)
    assert episodes > 1 or id.startswith(("ALE", "MiniGrid"))


def test_minigrids_picture_is_codes_and_its_mission_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("minigrid")
    foreign._facts.cache_clear()
    spec = envs.spec("MiniGrid-MemoryS7-v0")
    assert capsys.readouterr().err == "MiniGrid-MemoryS7-v0: mission is text and left out\n"
    codes = np.broadcast_to([11, 6, 4], (7, 7, 3))
    assert spec.observation_space == Dict({"direction": Discrete(4), "image": MultiDiscrete(codes, np.uint8)})
    assert (spec.action_space, spec.time_limit, spec.has_success) == (Discrete(7), 245, True)
    assert not envs.spec("popgym-RepeatPreviousEasy-v0").has_success
    assert envs.spec("MiniGrid-MemoryS7-v0", time_limit=20).time_limit == 20


@pytest.mark.parametrize("good", [True, False])
def test_minigrid_memory_succeeds_at_the_object_seen_before(good: bool) -> None:
    """The single environment is put beside an object; stepping onto its place ends the episode."""
    pytest.importorskip("minigrid")
    env = envs.make_vector("MiniGrid-MemoryS7-v0", 1, seed=1)
    env.reset()
    inner = env.unwrapped.envs[0].unwrapped  # type: ignore[attr-defined]
    target = inner.success_pos if good else inner.failure_pos
    inner.agent_pos, inner.agent_dir = (target[0], target[1] + (1 if target[1] < 3 else -1)), 0
    inner.agent_dir = 3 if target[1] < inner.agent_pos[1] else 1
    _, reward, terminated, _, infos = env.step(np.array([2]))
    assert terminated[0]
    assert (reward[0] > 0, bool(infos["is_success"][0])) == (good, good)


def test_atari_pictures_can_be_grey_and_small() -> None:
    pytest.importorskip("ale_py")
    env = envs.make_vector("ALE/Pong-v5", 1, 1, grayscale=True, resize=84, frame_stack=4)
    assert env.single_observation_space == Box(0, 255, (84, 84, 4), np.uint8)
    observation, _ = env.reset()
    assert observation in env.observation_space
    assert 20 < observation.mean() < 200
