"""Counts begin anew with each episode: success, return and length beside a second bookkeeping.

The second one is `tests.reference.ledger`; both go through hundreds of autoresets, through resets in
mid-episode and over to a restored environment.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.vector import VectorEnv, VectorWrapper

import envs
from dtqn.acting.timesteps import VectorTimesteps
from envs.registry import gymnasium_env
from tests.reference.ledger import Entry, Ledger, total

HERE = __name__


class Coins(gymnasium.Env[Any, Any]):
    """A coin gained, lost or neither at each step; a success is an episode with at least three gained."""

    observation_space = Discrete(4)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.gained = 0
        return 0, {"is_success": False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        coin = int(self.np_random.integers(-1, 2))
        self.gained += coin == 1
        ended = bool(self.np_random.random() < 0.15)
        return min(self.gained, 3), float(coin), ended, False, {"is_success": self.gained >= 3}


class Purse(Coins):
    """Says nothing of success; under a name of MiniGrid's, as below, a return above 0 is one."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**kwargs)[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return *super().step(action)[:4], {}


gymnasium.register("MiniGrid-Purse-v0", entry_point=f"{HERE}:Purse", max_episode_steps=12)


def uniform(env: VectorEnv[Any, Any, Any], t: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(env.single_action_space.n, size=env.num_envs)  # type: ignore[attr-defined]


def drive(env: VectorEnv[Any, Any, Any], t: int, rng: np.random.Generator) -> np.ndarray:
    """Full force to one side for 50 steps, then to the other."""
    return 2 * ((t // 50 + np.arange(env.num_envs)) % 2)


TOWARDS = np.array([[8, 1, 2], [7, 0, 3], [6, 5, 4]])  # action by sign of the way, [y, x]


def press(env: VectorEnv[Any, Any, Any], t: int, rng: np.random.Generator) -> np.ndarray:
    """Towards the next pad of the hidden sequence, with one action in three at random."""
    num, state = env.num_envs, env.get_state()["state"]  # type: ignore[attr-defined]
    pad = state["sequence"][np.arange(num), state["lit"]].astype(int)
    way = np.stack([pad % 2, pad // 2], axis=1) - 0.5 - state["position"]
    x, y = np.where(abs(way) > 0.2, np.sign(way), 0).astype(int).T + 1
    return np.where(rng.random(num) < 1 / 3, rng.integers(9, size=num), TOWARDS[y, x])


def positive(entry: Entry) -> bool:
    return total(entry.rewards) > 0


def last_positive(entry: Entry) -> bool:
    return entry.rewards[-1] > 0


class Case(NamedTuple):
    id: str
    success: Callable[[Entry], bool]
    options: dict[str, Any] = {}  # noqa: RUF012
    act: Callable[[VectorEnv[Any, Any, Any], int, np.random.Generator], np.ndarray] = uniform
    can_fail: bool = True
    copies: int = 8


NATIVE = [
    Case("gridverse-memory-5x5", positive, {"time_limit": 40}),
    Case("gridverse-memory-5x5", positive, {"time_limit": 40, "frame_stack": 2}),
    # It pays 1 at the exit and takes more where an obstacle or a wall ends the episode.
    Case("GV-DynamicObstacles-5x5-v0", last_positive),
    Case("GV-Teleport-5x5-v0", lambda entry: entry.terminated, {"time_limit": 30}, can_fail=False),
    Case("hallway", positive, {"time_limit": 40}),
    Case("heavenhell-1", positive),
    # Every step costs 1, but for the one that finds a pair.
    Case("memory-cards-2", lambda entry: entry.rewards.count(0.0) == 2, {"time_limit": 6}),
    Case("t-maze-passive-1", lambda entry: entry.rewards[-1] == 1),
    Case("t-maze-active-1", lambda entry: entry.rewards[-1] == 1),
    # Each pad of a sequence is paid once until the sequence is complete.
    Case("numpad-2x2", lambda entry: entry.rewards.count(1.0) >= 4, {"time_limit": 20}, press),
    Case("car-flag", last_positive, {}, drive),
]
ADAPTED = [
    Case(f"{HERE}:Coins", lambda entry: entry.rewards.count(1.0) >= 3, {"time_limit": 12}),
    Case(f"{HERE}:MiniGrid-Purse-v0", positive),
    Case(f"{HERE}:MiniGrid-Purse-v0", positive, {"frame_stack": 3}),
    Case(f"{HERE}:MiniGrid-Purse-v0", positive, {"time_limit": 7}, copies=2),
]
every_case = pytest.mark.parametrize("case", [*NATIVE, *ADAPTED], ids=lambda case: case.id.rpartition(":")[2])


class Recorder(VectorWrapper):
    """Keeps the last timestep, as the environment gave it."""

    def step(self, actions: Any) -> Any:
        self.timestep = self.env.step(actions)
        return self.timestep

    def get_state(self) -> Any:
        return self.env.get_state()  # type: ignore[attr-defined]

    def set_state(self, state: Any) -> None:
        self.env.set_state(state)  # type: ignore[attr-defined]


def make(case: Case, seed: int) -> VectorTimesteps:
    return VectorTimesteps(Recorder(envs.make_vector(case.id, case.copies, seed, **case.options)))


def assert_counts(timesteps: VectorTimesteps, ledger: Ledger) -> None:
    """The reader of the timesteps and the task below any wrappers keep the same count of the open
    episodes."""
    assert timesteps.episode_return.tolist() == ledger.returns()
    assert timesteps.length.tolist() == ledger.lengths()
    assert timesteps.last.tolist() == ledger.over
    state = timesteps.env.get_state()
    if state is None:  # a task of another package
        return
    while "env" in state:
        state = state["env"]
    assert state["episode"]["return"].tolist() == ledger.returns()
    assert state["episode"]["elapsed"].tolist() == ledger.lengths()
    assert state["episode"]["last"].tolist() == ledger.over


@every_case
def test_success_return_and_length_are_those_of_the_rows(case: Case) -> None:
    timesteps, rng = make(case, 1), np.random.default_rng(2)
    ledger = Ledger(case.copies)
    time_limit = envs.spec(case.id, **case.options).time_limit
    for t in range(420):
        if t == 140:  # in the middle of episodes, all begin anew
            timesteps.begin(np.random.default_rng(3))
            ledger.begin()
            assert_counts(timesteps, ledger)
        if t == 280 and (state := timesteps.get_state())["env"] is not None:  # goes on elsewhere
            timesteps = make(case, 4)
            timesteps.set_state(copy.deepcopy(state), rng)
        reported = timesteps.step(case.act(timesteps.env, t, rng))
        _, reward, terminated, truncated, infos = timesteps.env.timestep
        ended = ledger.write(reward, terminated, truncated)
        success = [case.success(entry) for entry in ended]
        everyone = [False] * case.copies
        for entry, good in zip(ended, success, strict=True):
            everyone[entry.copy] = good
            assert entry.terminated or len(entry.rewards) == time_limit
            assert time_limit is None or len(entry.rewards) <= time_limit
        assert infos["is_success"].tolist() == everyone
        assert reported.episode_return.tolist() == [total(entry.rewards) for entry in ended]
        assert reported.length.tolist() == [len(entry.rewards) for entry in ended]
        assert reported.success.tolist() == success
        assert_counts(timesteps, ledger)
    timesteps.env.close()
    if case.can_fail:
        assert_each_outcome_follows_the_other(ledger.entries, case.success)


def assert_each_outcome_follows_the_other(entries: list[Entry], success: Callable[[Entry], bool]) -> None:
    """A count left over from a success would change the failure that follows, and the reverse."""
    outcomes: dict[int, list[bool]] = {}
    for entry in entries:
        outcomes.setdefault(entry.copy, []).append(success(entry))
    pairs = [pair for each in outcomes.values() for pair in itertools.pairwise(each)]
    assert min(pairs.count((True, False)), pairs.count((False, True))) >= 4


SINGLE = [case for case in [*NATIVE, *ADAPTED] if case.success is positive or HERE in case.id]


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.id.rpartition(":")[2])
def test_a_single_environment_counts_each_episode_anew(case: Case) -> None:
    """Some episodes are left before their end."""
    env, rng, entries = gymnasium_env(case.id, **case.options), np.random.default_rng(1), []
    for episode in range(120):
        env.reset(seed=episode if episode % 3 == 0 else None)
        patience, rewards, over = rng.integers(1, 80), [], False
        while not over and len(rewards) < patience:
            _, reward, terminated, truncated, info = env.step(rng.integers(env.action_space.n))
            rewards.append(reward)
            over = terminated or truncated
            assert info["is_success"] == (over and case.success(Entry(0, rewards, terminated)))
        if over:
            entries.append(Entry(0, rewards, terminated))
    env.close()
    assert len(entries) < 120
    assert_each_outcome_follows_the_other(entries, case.success)


@pytest.mark.parametrize("id", sorted({case.id for case in NATIVE}))
@pytest.mark.parametrize("time_limit", [1, 9])
def test_episodes_begin_alike_and_independently(id: str, time_limit: int) -> None:
    """After an autoreset as after a reset: the same initial states, drawn anew for every environment and
    episode."""
    num = 64
    env, rng = envs.make_vector(id, num, 1, time_limit=time_limit), np.random.default_rng(2)

    def now() -> dict[str, np.ndarray]:
        """Every field, [N, ...] -> [N, values]."""
        state = env.get_state()["state"]  # type: ignore[attr-defined]
        return {name: field.reshape(num, -1).astype(float) for name, field in state.items()}

    starts = []
    for _ in range(12):
        env.reset()
        starts.append(now())
    restarts, last = [], np.zeros(num, np.bool_)
    for _ in range(12 * (time_limit + 1)):
        _, _, terminated, truncated, _ = env.step(rng.integers(env.single_action_space.n, size=num))  # type: ignore[attr-defined]
        if last.any():
            restarts.append({name: field[last] for name, field in now().items()})
        last = terminated | truncated
    for name in starts[0]:
        first, later = (np.concatenate([state[name] for state in states]) for states in (starts, restarts))
        error = np.sqrt(first.var(axis=0) * (1 / len(first) + 1 / len(later)))
        assert (abs(first.mean(axis=0) - later.mean(axis=0)) <= 4.5 * error).all(), name
        different = np.unique(first, axis=0)
        if len(different) <= 30:
            np.testing.assert_array_equal(np.unique(later, axis=0), different)
    if time_limit == 1:  # all environments begin together
        for states in (starts, restarts):
            drawn = [np.concatenate(list(state.values()), axis=1) for state in states]
            assert all(len(np.unique(copies, axis=0)) > 1 for copies in drawn)
            assert len({copies.tobytes() for copies in drawn}) == len(states)
