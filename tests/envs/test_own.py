"""Native vectorised tasks of a user's own, and what the contract's checks notice of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

import envs
from envs import entry_points, pictures
from envs.vector import Arrays, Dynamics, NativeVectorEnv, check_fields, read_field
from tests.envs.variants import define

HERE = __name__


class Recall(Dynamics):
    """Say at the end of a corridor which of two cues stood at its start.

    More of it.
    """

    observation_space: Any = gymnasium.spaces.MultiDiscrete([3, 2])
    action_space: Any = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 4, *, time_limit: int | None = None) -> None:
        self.length, self.time_limit = length, time_limit

    def start(self, num: int, rng: np.random.Generator) -> None:
        self.cue, self.t = rng.integers(2, size=num), np.zeros(num, np.int64)

    def restart(self, env_ids: NDArray[np.intp], rng: np.random.Generator) -> None:
        self.cue[env_ids], self.t[env_ids] = rng.integers(2, size=len(env_ids)), 0

    def step(
        self, action: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        self.t += 1
        over = self.t == self.length
        return np.where(over & (action == self.cue), 1.0, 0.0), over

    def observe(self, rng: np.random.Generator) -> NDArray[Any]:
        return np.stack([np.where(self.t == 0, self.cue + 1, 0), self.t % 2], axis=1)

    def get(self) -> Arrays:
        return {"cue": self.cue.copy(), "t": self.t.copy()}

    def put(self, state: Arrays) -> None:
        self.cue, self.t = state["cue"].copy(), state["t"].copy()

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        check_fields(state, ("cue", "t"))
        return {
            "cue": read_field("cue", state["cue"], (), num, np.int64, 0, 1),
            "t": read_field("t", state["t"], (), num, np.int64, 0, self.length),
        }

    def success(
        self, reward: NDArray[np.float64], episode_return: NDArray[np.float64], terminated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """the cue was named"""
        return reward > 0


def test_a_class_is_a_task() -> None:
    spec = envs.spec(f"{HERE}:Recall", kwargs={"length": 3, "time_limit": 9})
    assert spec.description == "Say at the end of a corridor which of two cues stood at its start."
    assert spec.source == f"{HERE} ({__file__})"
    assert (spec.success, spec.time_limit, spec.best_return) == ("the cue was named", 9, None)
    assert (spec.observation_space, spec.action_space) == (Recall.observation_space, Recall.action_space)
    assert envs.spec(f"{HERE}:Recall", time_limit=2).time_limit == 2
    env: Any = envs.make_vector(f"{HERE}:Recall", 4, seed=1, kwargs={"length": 2})
    assert isinstance(env, NativeVectorEnv)
    env.reset(options={"state": {"cue": [0, 0, 1, 1], "t": 0}})
    env.step(np.zeros(4, np.int64))
    _, reward, terminated, _, infos = env.step(np.array([0, 1, 0, 1]))
    assert reward.tolist() == [1, 0, 0, 1]
    assert infos["is_success"].tolist() == [True, False, False, True]
    assert terminated.all()
    assert "corridor" in envs.facts(f"{HERE}:Recall")["description"]


def test_it_passes_what_every_native_task_passes() -> None:
    envs.check_task(f"{HERE}:Recall")
    envs.check_task(f"{HERE}:Recall", kwargs={"length": 300}, time_limit=40)
    envs.check_task(f"{HERE}:Noisy")
    envs.try_task(f"{HERE}:Recall")


def test_changes_of_what_is_observed_apply_to_it() -> None:
    env = envs.make_vector(f"{HERE}:Recall", 4, seed=1, hide=(0,), frame_stack=3)
    assert env.reset()[0].shape == (4, 3)


def test_without_a_picture_it_says_so() -> None:
    with pytest.raises(ValueError, match="render_mode is 'rgb_array', but Recall draws no picture"):
        envs.make_vector(f"{HERE}:Recall", 1, render_mode="rgb_array")


def observing(change: Callable[..., Any], **members: Any) -> dict[str, Any]:
    """The members of a class that observes what `change` makes of itself and the right observation."""
    return {"observe": lambda self, rng: change(self, Recall.observe(self, rng)), **members}


def stepping(change: Callable[..., Any], **members: Any) -> dict[str, Any]:
    """The members of a class whose step gives what `change` makes of itself and the right values."""
    return {"step": lambda self, action, rng: change(self, *Recall.step(self, action, rng)), **members}


def recall(**members: Any) -> dict[str, Any]:
    return members


class Unfinished(Dynamics):
    pass


define(
    HERE,
    Recall,
    {
        "NoSpace": recall(observation_space=None),
        "ManyActions": recall(action_space=gymnasium.spaces.MultiDiscrete([2, 2])),
        "ActionsFromOne": recall(action_space=gymnasium.spaces.Discrete(2, start=1)),
        "UnboundedActions": recall(action_space=gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)),
        "SeesDict": recall(observation_space=gymnasium.spaces.Dict({"cue": gymnasium.spaces.Discrete(3)})),
        "HalfLimit": {"__init__": lambda self: Recall.__init__(self, time_limit=2.5)},  # type: ignore[arg-type]
        "OneName": recall(action_names="left"),
        "SeesBits": observing(
            lambda self, seen: seen.clip(0, 1).astype(np.int8),
            observation_space=gymnasium.spaces.MultiBinary(2),
        ),
    },
)


def test_a_space_of_bits_is_one() -> None:
    envs.check_task(f"{HERE}:SeesBits")


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("NoSpace", {}, "its observation_space is None; it must be a space of Gymnasium's"),
        (
            "ManyActions",
            {},
            r"its action_space is Multi.* Discrete from 0, or .*Env may have others",
        ),
        (
            "ActionsFromOne",
            {},
            r"is Discrete\(2, start=1\); a Dynamics needs Discrete from 0",
        ),
        ("UnboundedActions", {}, r"its action_space is Box\(-inf, inf, .*, or a bounded Box of floats"),
        (
            "SeesDict",
            {},
            r"its observation_space is Dict\(.*; a Dynamics needs Disc.* Dict and Tuple\)",
        ),
        ("HalfLimit", {}, "its time_limit is 2.5; it must be an integer of at least 1"),
        ("OneName", {}, "its action_names are 'left'; they must be a tuple"),
        ("Unfinished", {}, "cannot be made: TypeError: Can't instantiate abstract class Unfinished with"),
        ("Recall", {"kwargs": {"size": 3}}, r"takes no size \(it takes: length, time_limit\)"),
        ("Recall", {"success": "return>0"}, "task.success is 'return>0', but .*:Recall has no such option"),
    ],
)
def test_classes_and_options_that_do_not_fit_are_one_line(
    name: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem) as error:
        envs.spec(f"{HERE}:{name}", **options)
    assert "\n" not in str(error.value)


# -- The checks notice: each class breaks one promise --------------------------------------------------------


def fails(*_: Any) -> Any:
    raise KeyError("door")


define(
    HERE,
    Recall,
    {
        "AnotherType": observing(lambda self, seen: seen.astype(np.int32)),
        "AnotherShape": observing(lambda self, seen: seen[:, :1]),
        "Outside": observing(lambda self, seen: seen + np.array([0, self.length // 9])),
        "WholeRewards": stepping(lambda self, reward, over: (reward.astype(np.int64), over)),
        "NoNumber": stepping(lambda self, reward, over: (reward / 0 if over.any() else reward, over)),
        # Each environment gets the mean reward of all.
        "MeanReward": stepping(lambda self, reward, over: (np.full(len(reward), reward.mean()), over)),
        "Lists": stepping(lambda self, reward, over: (reward.tolist(), over.tolist())),
        "Three": stepping(lambda self, reward, over: (reward, over, {})),
        "Divides": stepping(
            lambda self, reward, over: (np.where(self.t > self.length, np.nan, reward), over)
        ),
        "Fails": recall(step=fails),
        "Exits": recall(step=lambda self, action, rng: sys.exit(0)),
        # It draws from a generator of its own, which no seed reaches.
        "OwnGenerator": recall(
            restart=lambda self, env_ids, rng: Recall.restart(self, env_ids, np.random.default_rng())
        ),
        "NoArrays": recall(get=lambda self: {"cue": self.cue.tolist(), "t": self.t.tolist()}),
        "NoGet": recall(get=lambda self: {"cue": self.cues, "t": self.t}),
        "Objects": recall(get=lambda self: Recall.get(self) | {"name": np.full(len(self.t), "recall")}),
        "TrueAtTimes": recall(success=lambda self, reward, total, over: (reward > 0).astype(np.float64)),
        "SmallPicture": recall(picture=lambda self, env_id: np.zeros((4, 4), np.uint8)),
        # A new environment lacks what `put` does not put there.
        "PutsHalf": recall(put=lambda self, state: setattr(self, "t", state["t"].copy())),
        "PutsUnknown": recall(
            put=lambda self, state: Recall.put(self, {"cue": state["cue"], "t": state["time"]})
        ),
        "ReadsUnknown": recall(read=lambda self, state, num: {"time": state["time"]}),
        # Its own states at an episode's end are not in the range that it reads.
        "ReadsLess": recall(
            read=lambda self, state, num: (
                Recall.read(self, state, num) | {"t": read_field("t", state["t"], (), num, np.int64, 0, 3)}
            )
        ),
        "OtherFails": recall(other=fails),
        "PictureRaises": recall(picture=fails),
        "OtherIsOneArray": recall(other=lambda self, state: 1 - state["cue"]),
    },
)


class OneArray(Recall):
    """Gives out the same array again and again."""

    def start(self, num: int, rng: np.random.Generator) -> None:
        super().start(num, rng)
        self.shown = np.zeros((num, 2), np.int64)

    def observe(self, rng: np.random.Generator) -> NDArray[Any]:
        self.shown[:] = super().observe(rng)
        return self.shown


class WritesAction(Recall):
    def step(self, action: NDArray[Any], rng: np.random.Generator) -> Any:
        answer = super().step(action, rng)
        action[:] = 0
        return answer


class WritesReturn(Recall):
    def success(self, reward: Any, episode_return: Any, terminated: Any) -> Any:
        episode_return -= 1
        return reward > 0


class RestartsTime(Recall):
    """All environments begin when one does; they start at different times."""

    def start(self, num: int, rng: np.random.Generator) -> None:
        super().start(num, rng)
        self.t = rng.integers(3, size=num)

    def restart(self, env_ids: NDArray[np.intp], rng: np.random.Generator) -> None:
        super().restart(env_ids, rng)
        self.t[:] = 0


class RestartsCues(Recall):
    """All environments get new cues when one begins."""

    def restart(self, env_ids: NDArray[np.intp], rng: np.random.Generator) -> None:
        super().restart(env_ids, rng)
        self.cue[:] = rng.integers(2, size=len(self.cue))


class Noisy(Recall):
    """Independent environments that draw as many numbers as there are of some kind."""

    def step(self, action: NDArray[Any], rng: np.random.Generator) -> Any:
        reward, over = super().step(action, rng)
        reward[over] += rng.random(over.sum())
        walks = self.t == 2
        self.cue[walks] ^= rng.random(walks.sum()) < 0.1
        return reward, over


class Forgetful(Recall):
    """Its state lacks what decides the reward."""

    def get(self) -> Arrays:
        return {"t": self.t.copy()}

    def put(self, state: Arrays) -> None:
        self.t = state["t"].copy()
        self.cue = np.zeros_like(self.t)

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        return {"t": read_field("t", state["t"], (), num, np.int64, 0, self.length)}


class Endless(Recall):
    def step(self, action: NDArray[Any], rng: np.random.Generator) -> Any:
        reward, over = super().step(action, rng)
        self.t %= self.length
        return reward, np.zeros_like(over)


OTHERS = {
    "OtherFails": r"its other failed: KeyError: 'door' \(test_own.py, line \d+\)",
    "OtherIsOneArray": "its other returned one ndarray; it must return a dict: name -> array",
}

UNRESTORED = {
    "NoGet": "its get failed: AttributeError: .* has no attribute 'cues'",
    "Objects": "its state 'name' is <U6, which a checkpoint cannot hold; it must be numbers",
    "PutsHalf": (
        "(after its put of a state that its get returned, )?its step failed: AttributeError: .* 'cue'"
    ),
    "PutsUnknown": "its put failed: KeyError: 'time'",
    "ReadsUnknown": "its read failed: KeyError: 'time'",
}

BROKEN = {
    "Lists": r"its rewards: one list; it must be float64 of the shape \(20,\)",
    "Three": "its step returns 3 values; it must return two: rewards, terminated",
    **UNRESTORED,
    "AnotherType": r"its observations: int32 of the shape \(20, 2\); it must be int64 of the shape \(20, 2\)",
    "AnotherShape": r"its observations: int64 of the shape \(20, 1\); it must be int64 of the shape",
    "OneArray": "a step changed an observation that had been given out",
    "WholeRewards": "its rewards: int64 of the shape .*; it must be float64",
    "NoNumber": r"its step gave the reward (nan|inf); it must be a finite number",
    "Fails": r"its step failed: KeyError: 'door' \(test_own.py, line \d+\)",
    "Exits": r"its step failed: SystemExit: 0 \(test_own.py, line \d+\)",
    "WritesAction": "its step writes to its argument `action`; it must leave that as it is",
    "WritesReturn": "its success writes to its argument `episode_return`; it must leave that as it is",
    "MeanReward": "after the same step its reward depends on the other environments$",
    "RestartsTime": "the same step its .* depends on the other environments; its restart may change only",
    "RestartsCues": (
        "after the same step its state 'cue' depends on the other environments; its restart may change"
    ),
    "OwnGenerator": "two environments of one seed differ at step",
    "Forgetful": "one that was restored and its original differ .* steps later",
    "NoArrays": r"its state 'cue' is \[.*; it must be an array \[N, ...\]",
    "Endless": "no episode ended in 10000 random steps; it may need a time_limit",
    "TrueAtTimes": "its success: float64 of the shape .*; it must be bool",
    "SmallPicture": r"its picture is uint8 of the shape \(4, 4\); it must be uint8 \[height, width, 3\]",
}


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_the_checks_notice(broken: str) -> None:
    with pytest.raises(envs.TaskError, match=f"{HERE}:{broken}(, environment \\d+)?: .*{BROKEN[broken]}"):
        envs.check_task(f"{HERE}:{broken}", **({} if broken == "Endless" else {"time_limit": 100}))


def test_the_checks_notice_what_is_outside_the_space() -> None:
    with pytest.raises(
        envs.TaskError, match=r"Outside, environment 0: its observation holds 2; its space has 0 to 1"
    ):
        envs.check_task(f"{HERE}:Outside", kwargs={"length": 18})


def test_a_trial_notices_before_a_run() -> None:
    reads_less = (
        "its read refuses what its get returned: ValueError: state 't' holds 4; it must hold integers"
    )
    early = ("AnotherShape", "Fails", "Exits", "WritesAction", "Lists", "Three", *UNRESTORED, "ReadsLess")
    for broken in early:
        problem = reads_less if broken == "ReadsLess" else BROKEN[broken].replace("20", "3")
        with pytest.raises(envs.TaskError, match=f"task {HERE}:{broken}: {problem}"):
            envs.try_task(f"{HERE}:{broken}")


@pytest.mark.parametrize("broken", OTHERS)
def test_a_trial_asks_for_the_other_secret(broken: str) -> None:
    """Only debugging, filming and reports ask for it, long after the training."""
    with pytest.raises(envs.TaskError, match=OTHERS[broken]):
        envs.try_task(f"{HERE}:{broken}")


class TakesFromItsArguments(Recall):
    def __init__(self, lengths: list[int]) -> None:
        super().__init__(lengths.pop())


def test_each_environment_has_arguments_of_its_own() -> None:
    kwargs = {"lengths": [3, 4, 5]}
    for _ in range(2):
        env = envs.make_vector(f"{HERE}:TakesFromItsArguments", 1, seed=1, kwargs=kwargs)
        env.reset()
        ended = [bool(env.step(np.zeros(1, np.int64))[1:3][1][0]) for _ in range(5)]
        assert ended == [False] * 4 + [True]
    assert kwargs == {"lengths": [3, 4, 5]}


def test_other_tasks_cannot_be_checked() -> None:
    for id, options in (("CartPole-v1", {}), ("hallway", {"frame_stack": 2})):
        with pytest.raises(envs.TaskError, match=r"it is no native task, or has opt.*; envs\.try_task tries"):
            envs.check_task(id, **options)


# -- During a run: each class does something wrong at its step LATE, past those of a trial -------------------

LATE = 50


class Late(Recall):
    """Fills itself with what it is to do wrong."""

    steps = 0

    def step(self, action: NDArray[Any], rng: np.random.Generator) -> Any:
        self.steps += 1
        return super().step(action, rng)

    @property
    def is_late(self) -> bool:
        return self.steps >= LATE


def late(change: Callable[..., Any]) -> Callable[..., Any]:
    """`change` of itself and a right observation once it is late; the right one before."""

    def observe(self: Late, rng: np.random.Generator) -> Any:
        seen = Recall.observe(self, rng)
        return change(self, seen) if self.is_late else seen

    return observe


define(
    HERE,
    Late,
    {
        "LateNan": recall(
            step=lambda self, action, rng: spoilt(self, *Late.step(self, action, rng)),
        ),
        # 2 is a category of the first component alone.
        "LateCategory": recall(observe=late(lambda self, seen: np.add(seen, [[0, 0], [0, 2]]))),
        "LateInfinity": recall(
            observation_space=gymnasium.spaces.Box(-1, 1, (2,), np.float32),
            observe=lambda self, rng: np.full((len(self.t), 2), np.inf if self.is_late else 0, np.float32),
        ),
        "LateRestart": recall(
            restart=lambda self, env_ids, rng: Recall.restart(self, env_ids + 2 * self.is_late, rng)
        ),
    },
)


def spoilt(self: Late, reward: NDArray[np.float64], over: NDArray[np.bool_]) -> Any:
    return np.where(self.is_late & (self.t > 1), np.nan, reward), over


BY_STEP = {
    "LateNan": ", environment 0: its step gave the reward nan; it must be a finite number",
    "LateCategory": ", environment 1: its observation holds [23]; its space has 0 to 1 there",
    "LateInfinity": ", environment 0: its observation holds inf",
    "LateRestart": ": its restart failed: IndexError: .*out of bounds",
}


@pytest.mark.parametrize("late", BY_STEP)
def test_what_goes_wrong_later_is_named_and_leaves_no_state(late: str) -> None:
    id = f"{HERE}:{late}"
    envs.try_task(id)
    env: Any = envs.make_vector(id, 2, seed=1, frame_stack=2 if late == "LateInfinity" else 1)
    env.reset()
    assert env.get_state() is not None
    with pytest.raises(envs.TaskError, match=f"task {id}{BY_STEP[late]}") as error:
        for _ in range(2 * LATE):
            env.step(np.zeros(2, np.int64))
    assert "\n" not in str(error.value)
    assert env.get_state() is None


def test_rewards_of_steps_that_begin_an_episode_may_be_anything() -> None:
    """Nobody sees them."""
    env = envs.make_vector(f"{HERE}:Divides", 2, seed=1)
    env.reset()
    for _ in range(20):
        assert np.isfinite(env.step(np.zeros(2, np.int64))[1]).all()


def test_a_state_that_a_user_gives_is_the_users() -> None:
    env: Any = envs.make_vector(f"{HERE}:Recall", 2, seed=1)
    with pytest.raises(ValueError, match=r"options\['state'\] has no 't'") as error:
        env.reset(options={"state": {"cue": 1}})
    assert not isinstance(error.value, envs.TaskError)
    env.reset()
    assert env.get_state() is not None


@pytest.mark.parametrize("suffix", [".png", ".gif"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("PictureRaises", r"its picture failed: KeyError: 'door' \(test_own.py, line \d+\)"),
        ("SmallPicture", BROKEN["SmallPicture"]),
    ],
)
def test_a_picture_that_is_none_is_one_line(name: str, problem: str, suffix: str, tmp_path: Path) -> None:
    env = envs.make_vector(f"{HERE}:{name}", 1, seed=1, render_mode="rgb_array")
    for draw in (
        lambda: pictures.save(env, tmp_path / f"picture{suffix}", 1),
        lambda: pictures.of_envs(env, [0]),
    ):
        with pytest.raises(envs.TaskError, match=f"task {HERE}:{name}: {problem}"):
            draw()


@pytest.mark.parametrize(
    ("id", "form"),
    [
        ("deep", "deep:Class"),
        ("deep.Corridor", "deep:Corridor"),
        ("deep.py", "deep:Class"),
        ("deep.py:Corridor", "deep:Corridor"),
        ("sub/deep.py:Corridor", "sub.deep:Corridor"),
        ("./sub/deep:Corridor", "sub.deep:Corridor"),
        ("/home/me/deep.py:Corridor", "deep:Corridor"),
        ("a.b.Corridor", "a.b:Corridor"),
    ],
)
def test_another_form_of_a_name_is_told_the_right_one(id: str, form: str, own_folder: Path) -> None:
    (own_folder / "deep.py").write_text("")
    with pytest.raises(ValueError, match=f"(write|written) {form}(\\)|$)"):
        envs.spec(id)


@pytest.mark.parametrize("id", ["deep", "beacon.yaml", "worlds/tiger.POMDP", "t-maze.passive", "deep:Class"])
def test_other_names_are_told_nothing_of_a_form(id: str, own_folder: Path) -> None:
    assert entry_points.own_form(id) == ""
