"""Mistakes of somebody else's task: one line names task and field, early or late."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

import envs
from envs.adapters.plain import SuccessRule
from tests.envs.variants import define

HERE = __name__
LATE = 30
"""The step at which `late` faults come, past those of a trial."""


class Good(gymnasium.Env[Any, Any]):
    """Two numbers and a picture; episodes of 25 steps, of which each second one is a success."""

    observation_space: Any = Dict(
        {"numbers": Box(-1, 1, (2,), np.float32), "picture": Box(0, 9, (3, 3), np.uint8)}
    )
    action_space = Discrete(3)

    def __init__(self) -> None:
        self.t = self.steps = self.episode = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t, self.episode = 0, self.episode + 1
        return self.observation(), {}

    def observation(self) -> Any:
        return {
            "numbers": np.full(2, self.t / 100, np.float32),
            "picture": np.full((3, 3), self.t % 9, np.uint8),
        }

    def step(self, action: Any) -> Any:
        self.t, self.steps = self.t + 1, self.steps + 1
        ended = self.t == 25
        info = {"won": self.episode % 2 == 0, "score": 3} if ended else {}
        return self.observation(), float(self.episode % 2), ended, False, info


def play(env: Any, steps: int) -> None:
    env.reset()
    for _ in range(steps):
        env.step(np.zeros(env.num_envs, np.int64))


class Rewards(Good):
    """Gives a reward that is none, from the step `since` on."""

    def __init__(self, reward: str, since: int = 0) -> None:
        super().__init__()
        self.wrong, self.since = NO_REWARDS[reward][0], since

    def step(self, action: Any) -> Any:
        observation, reward, *others = super().step(action)
        return observation, self.wrong if self.steps >= self.since else reward, *others


NO_REWARDS = {
    "none": (None, "None; it must be a finite number"),
    "nan": (np.nan, "nan; it must be a finite number"),
    "array": (np.array([1.0]), r"array\(\[1\.\]\); it must be a finite number"),
    "text": ("1", "'1'; it must be a finite number"),
    "large": (1e39, r"1e\+39; it must be a finite number, of at most 3\.4e\+38 in size"),
    "low": (-1e39, r"-1e\+39; it must be a finite number, of at most 3\.4e\+38 in size"),
}
"""The last two are finite, but not in the learner's float32."""


@pytest.mark.parametrize("name", NO_REWARDS)
@pytest.mark.parametrize("since", [0, LATE])
def test_a_reward_is_a_finite_number(name: str, since: int) -> None:
    """A trial says so, and later the timestep in which it comes."""
    id, options = f"{HERE}:Rewards", {"kwargs": {"reward": name, "since": since}}
    problem = f"task {id}: its step gave the reward {NO_REWARDS[name][1]}"
    if since == 0:
        with pytest.raises(envs.TaskError, match=problem) as error:
            envs.try_task(id, **options)
    else:
        envs.try_task(id, **options)
        made = envs.make_vector(id, 2, seed=1, **options)
        with pytest.raises(envs.TaskError, match=problem) as error:
            play(made, 2 * LATE)
        made.close()
    assert "\n" not in str(error.value)


def stepping(change: Callable[..., Any]) -> dict[str, Any]:
    """The members of a class whose step returns what `change` makes of the right values."""
    return {"step": lambda self, action: change(*Good.step(self, action))}


def showing(part: Callable[[Any], Any], name: str = "numbers") -> dict[str, Any]:
    """The members of a class one part of whose observation is what `part` makes of the environment."""
    return {"observation": lambda self: Good.observation(self) | {name: part(self)}}


def seeing(space: gymnasium.Space[Any], observation: Callable[[Any], Any]) -> dict[str, Any]:
    """The members of a class of another observation."""
    return {"observation_space": space, "observation": observation}


def raising(error: Exception) -> Callable[..., Any]:
    def method(*_: Any, **__: Any) -> Any:
        raise error

    return method


class ChangesFolder(Good):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        os.chdir(tempfile.gettempdir())
        return super().reset(seed=seed)


CANNOT_CLOSE = r"its close failed: RuntimeError: cannot close \(test_faults\.py, line \d+\)"
EARLY: dict[str, tuple[dict[str, Any], str]] = {
    # Gymnasium takes a list for one of its space, and no batch of them.
    "ListOfBytes": (
        seeing(Box(0, 9, (2,), np.uint8), lambda self: [1, 2]),
        "its observation is int64; its space is uint8",
    ),
    "RealBits": (
        seeing(MultiBinary(2), lambda self: np.ones(2, np.float32)),
        "its observation is float32; its space is int8",
    ),
    "Exits": (
        {"step": lambda self, action: sys.exit(0)},
        r"its step failed: SystemExit: 0 \(test_faults\.py, line \d+\)",
    ),
    "CloseFails": ({"close": raising(RuntimeError("cannot close"))}, CANNOT_CLOSE),
    "CloseFailsLater": (
        {"close": lambda self: self.steps and raising(RuntimeError("cannot close"))()},
        CANNOT_CLOSE,
    ),
    "FourTuple": (
        stepping(lambda observation, reward, over, _, info: (observation, reward, over, info)),
        "its step returns 4 values; it must return five: observation, reward, terminated, truncated",
    ),
    "OldReset": (
        {"reset": lambda self, *, seed=None, options=None: Good.reset(self, seed=seed)[0]},
        "its reset returns one dict; it must return two: observation, info",
    ),
    "NoneTruncated": (
        stepping(lambda observation, reward, over, _, info: (observation, reward, over, None, info)),
        "its step gave truncated None; it must be True or False",
    ),
    "NoneInfo": (stepping(lambda *all: (*all[:4], None)), "its step gave the info None; it must be a dict"),
    "WrongShape": (
        showing(lambda self: np.zeros(3, np.float32)),
        r"its observation 'numbers' has the shape \(3,\); its space has \(2,\)",
    ),
    "WrongType": (
        showing(lambda self: np.zeros(2)),
        "its observation 'numbers' is float64; its space is float32",
    ),
    "Nan": (
        showing(lambda self: np.array([0, np.nan if self.t == 5 else 0], np.float32)),
        "its observation 'numbers' holds nan",
    ),
    "Outside": (
        showing(lambda self: np.full((3, 3), 10 * self.t, np.uint8), "picture"),
        r"its observation 'picture' holds 10, which is outside its space Box\(0, 9, \(3, 3\), uint8\)",
    ),
    "NoPicture": (
        {"observation": lambda self: {"numbers": Good.observation(self)["numbers"]}},
        "it gave no observation 'picture'; it gave {'numbers'",
    ),
    "OutsideDiscrete": (
        seeing(Discrete(4), lambda self: self.t),
        r"its observation is 4, which is outside its space Discrete\(4\)",
    ),
    "OutsideMultiDiscrete": (
        seeing(MultiDiscrete([4, 4]), lambda self: np.array([self.t, 0])),
        r"its observation is array\(\[4, 0\]\), which is outside its space MultiDiscrete",
    ),
    "Raises": (
        stepping(lambda *all: (all, 1 // 0)),
        r"its step failed: ZeroDivisionError: .* \(test_faults\.py, line \d+\)",
    ),
    "ResetRaises": (
        {"reset": raising(RuntimeError("no level\nof that name"))},
        r"its reset failed: RuntimeError: no level of that name \(test_faults\.py, line \d+\)",
    ),
}
"""By the name of a class: its members, and what a trial says of it."""
define(HERE, Good, {name: members for name, (members, _) in EARLY.items()})
PROBLEMS = {
    "ChangesFolder": "its reset or step changed the working directory; it must leave that as it is",
    **{name: problem for name, (_, problem) in EARLY.items()},
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_trial_names_task_and_field(name: str) -> None:
    with pytest.raises(envs.TaskError, match=f"task {HERE}:{name}: {PROBLEMS[name]}") as error:
        envs.try_task(f"{HERE}:{name}")
    assert "\n" not in str(error.value)


def test_a_four_tuple_under_gymnasiums_own_wrapper_is_named() -> None:
    """The time limit is a wrapper that takes the timestep apart before anybody else sees it."""
    gymnasium.register("four-tuple-v0", f"{HERE}:FourTuple", max_episode_steps=40)
    with pytest.raises(envs.TaskError, match="its step does not return five values: observation"):
        envs.try_task("four-tuple-v0")


def test_a_success_key_that_never_comes_is_named_with_those_that_do() -> None:
    with pytest.raises(envs.TaskError, match="has no 'wom', which decides on success; it has 'won', 'score'"):
        envs.try_task(f"{HERE}:Good", success="info:wom")
    envs.try_task(f"{HERE}:Good", success="info:won")


PACKAGES = {"CartPole-v1": None, "Blackjack-v1": None, "MiniGrid-MemoryS7-v0": "minigrid",
    "popgym-RepeatPreviousEasy-v0": "popgym", "ALE/Pong-v5": "ale_py"}  # fmt: skip


@pytest.mark.parametrize("id", PACKAGES)
def test_tasks_of_known_packages_pass(id: str) -> None:
    if (package := PACKAGES[id]) is not None:
        pytest.importorskip(package)
    envs.try_task(id)


class Continuous(Good):
    action_space: Any = Box(-1, 1, (1,))


def test_a_trial_changes_nothing() -> None:
    """Not even the generators of spaces that all environments share."""
    spaces = (Continuous.action_space, Continuous.observation_space)
    before = [space.np_random.bit_generator.state for space in spaces]
    envs.try_task(f"{HERE}:Continuous")
    assert [space.np_random.bit_generator.state for space in spaces] == before


def test_tasks_of_this_project_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("envs.vector.NativeVectorEnv.reset", fail)
    envs.try_task("hallway")
    envs.try_task("hallway", frame_stack=2)
    with pytest.raises(ValueError, match="unknown task"):
        envs.try_task("hallwa")


def from_late(wrong: Callable[[], Any]) -> dict[str, Any]:
    """The members of a class whose step has another action from `LATE` on, or fails to make one."""
    return {"step": lambda self, action: Good.step(self, action if self.steps < LATE else wrong())}


CARDS = Dict({"cards": MultiDiscrete([4, 6]), "flags": MultiBinary(2)})
TOO_LATE: dict[str, tuple[dict[str, Any], str]] = {
    # 257 is 1 in eight bits.
    "LateBits": (
        seeing(MultiBinary(2), lambda self: np.array([257 if self.steps == LATE else 1, 0])),
        ": its observation holds 257; its space is int8",
    ),
    "LateNan": (
        showing(lambda self: np.array([0, np.inf if self.steps == LATE else 0], np.float32)),
        ", environment 0: its observation 'numbers' holds inf",
    ),
    "LateShape": (
        showing(lambda self: np.zeros((3, 2 if self.steps == LATE else 3), np.uint8), "picture"),
        r": its observation 'picture' has the shape \(3, 2\); its space has \(3, 3\)",
    ),
    "LateDiscrete": (
        seeing(Discrete(4, start=2), lambda self: np.int64(1 if self.steps == LATE else 2 + self.t % 4)),
        ", environment 0: its observation holds 1; its space has 2 to 5 there",
    ),
    # 5 is a category of the second component alone.
    "LateMultiDiscrete": (
        seeing(CARDS, lambda self: cards(5 if self.steps == LATE else 3, 1)),
        ", environment 0: its observation 'cards' holds 5; its space has 0 to 3 there",
    ),
    "LateFlag": (
        seeing(CARDS, lambda self: cards(3, 2 if self.steps == LATE else 1)),
        ", environment 0: its observation 'flags' holds 2; its space has 0 to 1 there",
    ),
    "LateExit": (
        from_late(lambda: sys.exit("bye")),
        r": its step failed: SystemExit: bye \(test_faults\.py, line \d+\)",
    ),
    "LateError": (
        from_late(lambda: [][1]),
        r": its step failed: IndexError: .* \(test_faults\.py, line \d+\)",
    ),
}
define(HERE, Good, {name: members for name, (members, _) in TOO_LATE.items()})


def cards(card: int, flag: int) -> dict[str, Any]:
    return {"cards": np.array([card, 5]), "flags": np.array([1, flag], np.int8)}


@pytest.mark.parametrize("name", TOO_LATE)
def test_what_goes_wrong_later_is_named_too(name: str) -> None:
    id, problem = f"{HERE}:{name}", TOO_LATE[name][1]
    envs.try_task(id)
    made = envs.make_vector(id, 2, seed=1)
    with pytest.raises(envs.TaskError, match=f"task {id}{problem}") as error:
        play(made, 2 * LATE)
    assert "\n" not in str(error.value)
    made.close()


def test_environments_of_which_only_some_can_be_made_are_one_line() -> None:
    with pytest.raises(
        envs.TaskError, match=r"5 environments of it cannot be made: ValueError: .*OSError: the port is"
    ):
        envs.make_vector(f"{HERE}:OnePort", 5, seed=1)


class OnePort(Good):
    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1
        if type(self).made > 4:
            raise OSError("the port is taken")


def test_an_error_goes_from_process_to_process() -> None:
    error = envs.TaskError("X-v0", "its step failed", 3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.env_id) == ("task X-v0, environment 3: its step failed", 3)
    assert isinstance(again, ValueError)


# -- Success -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("info:won", SuccessRule(key="won"), 'info["won"] of the environment on its last timestep'),
        ("return>0", SuccessRule(), "undiscounted return > 0"),
        ("return >= -2.5e1", SuccessRule(bound=-25.0, may_equal=True), "undiscounted return >= -25"),
    ],
)
def test_rules_of_success_are_read(text: str, rule: SuccessRule, words: str) -> None:
    assert SuccessRule.read(text) == rule
    assert rule.text == words
    assert envs.spec(f"{HERE}:Good", success=text).success == words


@pytest.mark.parametrize("text", ["won", "info:", "return>", "return=1", "return>1.2.3", "return<1", ""])
def test_other_texts_are_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"task\.success is .*; it must be info:KEY, return>X or return>=X"):
        envs.spec(f"{HERE}:Good", success=text)


class SaysSuccess(Good):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], {"is_success": False}


def test_a_rule_of_the_users_comes_before_the_environments_own() -> None:
    said = 'info["is_success"] of the environment on its last timestep'
    assert envs.spec(f"{HERE}:SaysSuccess").success == said
    assert envs.spec(f"{HERE}:SaysSuccess", success="return>3").success == "undiscounted return > 3"
    with pytest.raises(envs.TaskError, match="has no 'is_success', which decides"):
        envs.try_task(f"{HERE}:SaysSuccess")


@pytest.mark.parametrize(
    ("rule", "successes"),
    [("info:won", [False, True, False]), ("return>=25", [True, False, True]), ("return>25", [False] * 3)],
)
def test_success_is_judged_on_last_timesteps(rule: str, successes: list[bool]) -> None:
    """Episodes 1, 2, 3 return 25, 0, 25, and the second is won."""
    assert not envs.spec(f"{HERE}:Good").has_success
    env = envs.make_vector(f"{HERE}:Good", 1, seed=1, success=rule)
    env.reset()
    timesteps = [env.step(np.zeros(1, np.int64)) for _ in range(3 * 26 - 1)]
    last = np.array([timestep[2][0] for timestep in timesteps])
    success = np.array([timestep[4]["is_success"][0] for timestep in timesteps])
    assert success[last].tolist() == successes
    assert not success[~last].any()


class Tenths(Good):
    """Ten rewards of 0.1, whose plain sum is below 1, then three that cancel out, whose sum is above 0."""

    def step(self, action: Any) -> Any:
        observation, _, _, truncated, info = super().step(action)
        rewards = [0.1] * 10 if self.episode % 2 else [0.1, 0.2, -0.3]
        return observation, rewards[self.t - 1], self.t == len(rewards), truncated, info


@pytest.mark.parametrize(
    ("rule", "successes"),
    [("return>=1", [True, False]), ("return>0", [True, False]), ("return>1", [False, False])],
)
def test_success_does_not_hang_on_rounding(rule: str, successes: list[bool]) -> None:
    assert sum([0.1] * 10) < 1 and sum([0.1, 0.2, -0.3]) > 0
    env = envs.make_vector(f"{HERE}:Tenths", 1, seed=1, success=rule)
    env.reset()
    timesteps = [env.step(np.zeros(1, np.int64)) for _ in range(10 + 1 + 3)]
    assert [bool(timestep[4]["is_success"][0]) for timestep in timesteps if timestep[2][0]] == successes


class Moves(Good):
    def __init__(self) -> None:
        super().__init__()
        os.chdir(tempfile.gettempdir())


def test_a_constructor_does_not_move_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    envs.try_task(f"{HERE}:Moves")
    envs.make_vector(f"{HERE}:Moves", 1, seed=1).close()
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_arguments_are_finite(number: float) -> None:
    """No other can be written to a run's settings."""
    for kwargs in ({"x": number}, {"x": [1, {"y": number}]}):
        with pytest.raises(ValueError, match="it must be a mapping from names to finite numbers"):
            envs.spec(f"{HERE}:Good", kwargs=kwargs)


class Interrupted(Good):
    def step(self, action: Any) -> Any:
        raise KeyboardInterrupt


def test_an_interruption_is_no_fault() -> None:
    with pytest.raises(KeyboardInterrupt):
        envs.try_task(f"{HERE}:Interrupted")


class Verdict(Good):
    """Its verdict is an argument, as the name of what is judged."""

    def __init__(self, verdict: str) -> None:
        super().__init__()
        self.verdict = VERDICTS[verdict]

    def step(self, action: Any) -> Any:
        *values, _ = super().step(action)
        return *values, {"won": self.verdict}


NEITHER = {"False": "False", "nan": np.nan, "None": None, "two": 2, "array": np.ones(2, bool)}
TRUE = {"true": True, "bool": np.True_, "one": 1, "real": np.float32(1), "0-d": np.array(True)}
VERDICTS: dict[str, Any] = {**NEITHER, **TRUE, "no": np.False_, "zero": 0.0}


@pytest.mark.parametrize("name", VERDICTS)
def test_success_is_either_true_or_false(name: str) -> None:
    def ended() -> Any:
        env = envs.make_vector(f"{HERE}:Verdict", 1, success="info:won", kwargs={"verdict": name})
        env.reset()
        return [env.step(np.zeros(1, np.int64)) for _ in range(25)][-1][4]["is_success"].tolist()

    if name in NEITHER:
        must = (
            r"the last info of an episode has 'won': .*, which decides on success; it must be True or False"
        )
        with pytest.raises(envs.TaskError, match=must):
            ended()
        with pytest.raises(envs.TaskError, match=must):
            envs.try_task(f"{HERE}:Verdict", success="info:won", kwargs={"verdict": name})
    else:
        assert ended() == [name in TRUE]


def test_a_time_limit_may_come_before_the_key() -> None:
    env = envs.make_vector(f"{HERE}:Good", 1, seed=1, success="info:won", time_limit=5)
    env.reset()
    timesteps = [env.step(np.zeros(1, np.int64)) for _ in range(5)]
    assert timesteps[-1][3][0]
    assert not timesteps[-1][4]["is_success"][0]
