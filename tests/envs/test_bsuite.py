"""bsuite's memory chain: recorded episodes of the package, the package where it is installed, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import envs
from envs.bsuite import MemoryChainDynamics
from envs.vector import NativeVectorEnv
from tests.envs.small_recordings import recorded


def name_of(length: int, bits: int) -> str:
    return f"bsuite-memory-len-{length}" if bits == 1 else f"bsuite-memory-size-{bits}"


@pytest.mark.parametrize(("length", "bits"), [(1, 1), (2, 1), (10, 1), (100, 1), (2, 2), (2, 5), (2, 40)])
def test_recorded_memory_chains_replay_exactly(length: int, bits: int) -> None:
    data = recorded("bsuite_memory_chain")
    of_kind = (data["ep_n"] == length) & (data["ep_bits"] == bits)
    episodes, lengths = np.flatnonzero(of_kind), data["ep_len"].astype(int)
    assert (lengths[episodes] == length + 1).all()
    assert len(episodes) == 12
    env = envs.make_vector(name_of(length, bits), 12, 1)
    context, query = data["context"][episodes, :bits], data["query"][episodes]
    observation, _ = env.reset(options={"state": {"context": context, "query": query}})
    np.testing.assert_array_equal(observation[:, 0], data["init_obs"][episodes, : bits + 2])
    places = (np.cumsum(lengths)[episodes] - lengths[episodes]) + np.arange(length + 1)[:, None]
    for now in places:
        observation, reward, terminated, truncated, infos = env.step(data["action"][now])
        np.testing.assert_array_equal(observation[:, 0], data["obs"][now, : bits + 2])
        np.testing.assert_array_equal(reward, data["reward"][now])
        np.testing.assert_array_equal(terminated, data["terminated"][now])
        np.testing.assert_array_equal(infos["is_success"], data["reward"][now] == 1)
        assert not truncated.any()


def assert_plays_alike(theirs: Any, ours: Any, episodes: int, state: Callable[[], dict[str, Any]]) -> None:
    """By random actions, from the package's hidden `state` after a reset, set into ours."""
    rng = np.random.default_rng(0)
    for _ in range(episodes):
        step = theirs.reset()
        observation = ours.reset(options={"state": state()})[0]
        while True:
            np.testing.assert_array_equal(observation[0], step.observation)
            if step.last():
                break
            action = int(rng.integers(theirs.action_spec().num_values))
            step = theirs.step(action)
            observation, reward, terminated, _, _ = ours.step(np.array([action]))
            assert (reward[0], terminated[0]) == (step.reward, step.last())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "bits", "episodes"), [(1, 1, 50_000), (7, 3, 12_500), (100, 1, 1_000), (2, 40, 33_334)]
)
def test_the_package_plays_the_same_memory_chain(length: int, bits: int, episodes: int) -> None:
    """For 100 000 steps; no experiment of the package has 3 bits after 7 steps."""
    theirs = pytest.importorskip("bsuite.environments.memory_chain").MemoryChain(length, bits, seed=3)
    ours = NativeVectorEnv(MemoryChainDynamics(length, bits), 1, 1, time_limit=None)
    assert_plays_alike(
        theirs, ours, episodes, lambda: {"context": theirs._context, "query": int(theirs._query)}
    )


def test_contexts_and_queries_are_uniform() -> None:
    env = envs.make_vector("bsuite-memory-size-5", 4000, 2)
    env.reset()
    state = env.get_state()["state"]
    assert (abs(state["context"].mean(axis=0) - 0.5) < 0.04).all()
    assert (abs(np.bincount(state["query"], minlength=5) / 4000 - 0.2) < 0.03).all()


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("bsuite-memory-len-0", "bsuite-memory-len-<length> or .* with a number from 1 to 99999"),
        ("bsuite-memory-len", "bsuite-memory-len-<length>"),
        ("bsuite-memory-size-x", "bsuite-memory-size-<number of bits>, with a number from 1"),
    ],
)
def test_a_wrong_name_is_told(id: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        envs.spec(id)
