"""Hallway and HeavenHell against the published numbers and against episodes of gym-pomdps.

`digests.json` was made from the arrays T[a, s, s'], O[a, s', o], R[a, s, s', o], start[s] and reset[a, s]
that gym-pomdps (commit 81ffa37) has after reading `hallway.pomdp` and `heavenhell_3.pomdp` with rl-parsers
(commit da1b488): of each its shape and the SHA-256 of `digest` below. The rollouts are 200 episodes each of
its environments `POMDP-hallway-episodic-v0` and `POMDP-heavenhell_3-episodic-v0`, cut at 300 and 120 steps.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import envs
from envs.pomdp.dynamics import Model
from envs.pomdp.hallway import hallway
from envs.pomdp.heavenhell import heavenhell

DATA = Path(__file__).parent.parent / "data" / "pomdp"
MODELS = {"hallway": hallway(), "heavenhell": heavenhell(3)}
each_model = pytest.mark.parametrize("id", MODELS)


def arrays(model: Model) -> dict[str, NDArray[Any]]:
    """The model's arrays by their names in the digest."""
    shape = (len(model.actions), len(model.states), len(model.states), len(model.observations))
    return {
        "T": model.transition,
        "O": model.observation,
        "R": np.broadcast_to(model.reward, shape),
        "start": model.start,
        "reset": model.reset,
    }


def digest(array: NDArray[Any]) -> str:
    """The hash of the numbers to nine decimals, so that no rounding of doubles matters."""
    return hashlib.sha256(np.round(array * 1e9).astype("<i8").tobytes()).hexdigest()


@functools.cache
def rollouts(id: str) -> dict[str, NDArray[Any]]:
    return dict(np.load(DATA / f"{id}_rollouts.npz"))


def states_before(recorded: dict[str, NDArray[Any]]) -> NDArray[np.intp]:
    """The state before each recorded step."""
    before = np.roll(recorded["next_state"], 1).astype(np.intp)
    before[np.cumsum(recorded["ep_len"]) - recorded["ep_len"]] = recorded["init_state"]
    return before


@each_model
def test_arrays_are_those_of_the_published_file(id: str) -> None:
    expected = json.loads((DATA / "digests.json").read_text())[id]
    for name, array in arrays(MODELS[id]).items():
        assert list(array.shape) == expected[name]["shape"], name
        assert digest(array) == expected[name]["sha256"], name


@each_model
def test_recorded_steps_are_possible_and_their_rewards_and_endings_exact(id: str) -> None:
    recorded, model = rollouts(id), arrays(MODELS[id])
    before, after, shown = states_before(recorded), recorded["next_state"], recorded["obs"]
    action, ended = recorded["action"], recorded["terminated"]
    assert len(action) == {"hallway": 41_594, "heavenhell": 9_354}[id]
    assert (before >= 0).all()  # no step follows the one that ends an episode
    assert (model["start"][recorded["init_state"]] > 0).all()
    assert (recorded["init_obs"] == len(MODELS[id].observations)).all()
    np.testing.assert_array_equal(model["reset"][action, before], ended)
    assert ended.sum() > 50
    # The state that an ending step draws is not recorded; it is one of the initial states.
    np.testing.assert_array_equal(after == -1, ended)
    on = ~ended
    assert (model["T"][action, before, after][on] > 0).all()
    assert (model["O"][action, after, shown][on] > 0).all()
    np.testing.assert_array_equal(
        model["R"][action, before, after, shown][on], recorded["reward"][on], strict=True
    )
    initial = np.flatnonzero(model["start"])
    of_initial = model["O"][action[ended]][:, initial, :][np.arange(ended.sum()), :, shown[ended]]
    assert (of_initial > 0).any(axis=1).all()
    pays = model["R"][action[ended], before[ended]][:, initial]
    assert (pays == recorded["reward"][ended][:, None, None]).all()


def test_recorded_frequencies_are_those_of_hallway() -> None:
    """By chi-square over the outcomes of 41,594 recorded steps."""
    recorded, model = rollouts("hallway"), arrays(MODELS["hallway"])
    on = ~recorded["terminated"]
    before, after, shown = states_before(recorded)[on], recorded["next_state"][on], recorded["obs"][on]
    action = recorded["action"][on]
    for table, given, outcome in (("T", before, after), ("O", after, shown)):
        counts = np.zeros(model[table].shape)
        np.add.at(counts, (action, given, outcome), 1)
        assert frequencies_p_value(counts, model[table]) > 1e-4, table


def frequencies_p_value(counts: NDArray[Any], probabilities: NDArray[Any]) -> float:
    """The chi-square test of `counts` against rows of `probabilities`, all rows in one.

    Outcomes of a row that are expected fewer than five times are counted together, and left out if still so.
    """
    from scipy.stats import chi2

    counts = counts.reshape(-1, counts.shape[-1])
    expected = counts.sum(axis=1, keepdims=True) * probabilities.reshape(counts.shape)
    assert not counts[expected == 0].any()
    rare = expected < 5
    cells = np.where(rare, 0, (counts - expected) ** 2 / np.where(rare, 1, expected))
    rare_counts, rare_expected = (np.where(rare, x, 0).sum(axis=1) for x in (counts, expected))
    pooled = rare_expected >= 5
    statistic = cells.sum() + ((rare_counts - rare_expected)[pooled] ** 2 / rare_expected[pooled]).sum()
    kinds = (~rare).sum(axis=1) + pooled
    return float(chi2.sf(statistic, (kinds - 1)[kinds > 0].sum()))


def expected_steps(model: Model, *, best: bool) -> float:
    """Steps until an episode ends, of uniformly random actions or of the best that see the state."""
    steps = np.zeros(len(model.states))
    for _ in range(20_000):
        by_action = 1 + (model.transition * ~model.reset[0][:, None]) @ steps
        new = by_action.min(axis=0) if best else by_action.mean(axis=0)
        if np.abs(new - steps).max() < 1e-9:
            break
        steps = new
    return float(model.start @ steps)


def test_lengths_of_random_and_best_episodes() -> None:
    """Hallway: 824.7 and 10.3 to the goal; HeavenHell: 132 and 6 to an end; one more ends the episode."""
    assert expected_steps(hallway(), best=False) == pytest.approx(825.654, abs=1e-3)
    assert expected_steps(hallway(), best=True) == pytest.approx(11.313, abs=1e-3)
    assert expected_steps(heavenhell(3), best=False) == pytest.approx(133, abs=1e-5)
    assert expected_steps(heavenhell(3), best=True) == 7


def test_recorded_heavenhell_replays_exactly() -> None:
    """All 200 episodes side by side, each from its recorded state: nothing but starts is random."""
    recorded = rollouts("heavenhell")
    length = recorded["ep_len"]
    first = np.cumsum(length) - length
    env = envs.make_vector("heavenhell", len(length), seed=0)
    observation, _ = env.reset(options={"state": {"state": recorded["init_state"]}})
    np.testing.assert_array_equal(observation, recorded["init_obs"])
    compared = 0
    for t in range(length.max()):
        open_ = length > t
        step = np.where(open_, first + t, 0)
        observation, reward, terminated, truncated, infos = env.step(
            np.where(open_, recorded["action"][step], 0)
        )
        for name, ours in (("obs", observation), ("reward", reward), ("terminated", terminated)):
            np.testing.assert_array_equal(ours[open_], recorded[name][step][open_], err_msg=name)
        going_on = open_ & ~terminated
        hidden = env.get_state()["state"]["state"]  # type: ignore[attr-defined]
        np.testing.assert_array_equal(hidden[going_on], recorded["next_state"][step][going_on])
        np.testing.assert_array_equal(infos["is_success"][open_], (terminated & (reward > 0))[open_])
        assert not truncated[open_].any()
        compared += int(open_.sum())
    assert compared == 9_354


@pytest.mark.parametrize("world", [0, 1])
@pytest.mark.parametrize("n", [1, 3, 6])
def test_best_policy_of_heavenhell(n: int, world: int) -> None:
    """To the priest, back, up the stem, along heaven's arm, one more: 4n + 3 steps, 15 for n = 3."""
    north, south, east, west = range(4)
    env = envs.make_vector(f"heavenhell-{n}", 1, seed=0)
    assert env.reset(options={"state": {"state": world * (4 * n + 2)}})[0] == 4 * n + 3
    actions = [south] + [east] * n + [west] * n + [north] * (n + 1) + [[west, east][world]] * n + [south]
    assert len(actions) == 4 * n + 3
    timesteps = [env.step(np.array([action])) for action in actions]
    assert timesteps[n][0] == 4 * n + 1 + world  # what the priest says: left or right
    assert [bool(timestep[2][0]) for timestep in timesteps] == [False] * (len(timesteps) - 1) + [True]
    assert [float(timestep[1][0]) for timestep in timesteps] == [0.0] * (len(timesteps) - 1) + [1.0]
    assert timesteps[-1][0] == 0  # cell 0 of a world drawn anew
    assert timesteps[-1][4]["is_success"]
    wrong = [
        [east, west][world] if a == [west, east][world] and i > 3 * n else a for i, a in enumerate(actions)
    ]
    env.reset(options={"state": {"state": world * (4 * n + 2)}})
    *_, last = [env.step(np.array([action])) for action in wrong]
    assert (float(last[1][0]), bool(last[2][0]), bool(last[4]["is_success"][0])) == (-1, True, False)


def test_a_belief_over_states_suffices_to_reach_the_goal_of_hallway() -> None:
    """Bayes' rule and the values of the states (QMDP; Littman et al. 1995), without "stay": always a success.

    With "stay" the same policy is known to reach the goal in about every second episode.
    """
    model, num = hallway(), 300
    at_goal, value = model.reset[0], np.zeros(len(model.states))
    for _ in range(300):
        by_action = (model.transition * ~at_goal[:, None]) @ (at_goal + 0.95 * value)
        value = by_action.max(axis=0)
    env = envs.make_vector("hallway", num, seed=1)
    env.reset()
    belief = np.tile(model.start, (num, 1))
    length = np.zeros(num, np.int64)
    for t in range(1, 251):
        action = 1 + (belief @ by_action.T)[:, 1:].argmax(axis=1)
        observation, _, terminated, _, infos = env.step(action)
        now = terminated & (length == 0)
        assert infos["is_success"][now].all()
        length[now] = t
        belief = np.einsum("ns,nst->nt", belief, model.transition[action])
        shown = np.where(length > 0, 0, observation)  # after the end the belief is of no use
        belief *= model.observation[0][:, shown].T
        belief /= belief.sum(axis=1, keepdims=True)
        belief[length > 0] = model.start
    assert (length > 0).all()
    assert 15 < length.mean() < 21


def test_pictures_show_where_the_agent_is() -> None:
    env = envs.make_vector("hallway", 4, seed=0, render_mode="rgb_array")
    env.reset(options={"state": {"state": 4 * 5 + np.arange(4)}})
    frames = env.render()
    assert frames is not None
    cells = [
        np.asarray(f).reshape(4, 32, 13, 32, 3).swapaxes(1, 2)[1, 6].astype(int).sum(-1) < 150 for f in frames
    ]
    for quarter, arrow in enumerate(cells):  # north, east, south, west: quarter turns to the right
        assert arrow.sum() > 100
        np.testing.assert_array_equal(arrow, np.rot90(cells[0], -quarter))

    env = envs.make_vector("heavenhell", 2, seed=0, render_mode="rgb_array")
    env.reset(options={"state": {"state": np.array([11, 14 + 11])}})
    frames = env.render()
    assert frames is not None
    tiles = [np.asarray(frame).reshape(7, 32, 9, 32, 3).swapaxes(1, 2) for frame in frames]
    for tile, (heaven, hell) in zip(tiles, [(1, 7), (7, 1)], strict=True):
        assert tile[1, heaven, 16, 4].argmax() == 1 and tile[1, hell, 16, 4].argmax() == 0  # green, red
        assert tile[5, 7, 16, 16].argmax() == 2  # the priest, blue
        assert tile[5, 5, 16, 16].sum() < 150  # the agent in cell 11
        assert tile[4, 4, 16, 16].sum() > 600
