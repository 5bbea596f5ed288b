"""Acting: what the timesteps say, who explores and how much, sync of weights, the kept cache, and the actor's
state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dtqn import shapes
from dtqn.acting.actor import Actor
from dtqn.acting.exploration import Bursts
from dtqn.acting.timesteps import Episodes
from dtqn.graphs import WARM_UP_CALLS, Captured, Held
from dtqn.training.replay_fields import named
from dtqn.training.setup import make_exploration
from dtqn.types import NonFiniteError
from tests.cases import actor_config, make
from tests.reference.fx_recorder import FxRecorder
from tests.toy import NUM_ACTIONS, OBSERVATION_SPACE, ToyVectorEnv, episode

Rows = dict[str, np.ndarray]


def make_actor(
    num_envs: int = 5,
    warmup: int = 0,
    keep_cache: bool = False,
    env_seed: int = 0,
    seed: int = 0,
    capture: Any = None,
    **settings: Any,
) -> Actor:
    network = make(OBSERVATION_SPACE, memory_length=4)
    env, generator = ToyVectorEnv(num_envs, env_seed), np.random.default_rng(seed)
    config = actor_config(num_envs=num_envs, **settings)
    return Actor(
        env,
        network,
        exploration=make_exploration(config, warmup),
        bursts=Bursts(num_envs, config.burst_share),
        generator=generator,
        keep_cache=keep_cache,
        capture=capture,
    )


def watch(actor: Actor) -> list[np.ndarray]:
    """The Q-values [N, A] of every vector step from now on."""
    seen: list[np.ndarray] = []

    def note(module: nn.Module, inputs: Any, output: tuple[Any, Any, Any]) -> None:
        seen.append(output[0].q[:, 0].numpy().copy())

    actor.network.register_forward_hook(note)
    return seen


def run(actor: Actor, vector_steps: int) -> tuple[Rows, list[Episodes]]:
    """Stored timesteps [vector steps, N, ...] and the episodes that ended."""
    ticks_of_rows, ended = zip(*(actor.vector_step() for _ in range(vector_steps)), strict=True)
    timesteps = [named(of_vector_step) for of_vector_step in ticks_of_rows]
    return {name: np.stack([timestep[name] for timestep in timesteps]) for name in timesteps[0]}, list(ended)


def greedy(**settings: Any) -> dict[str, Any]:
    return {"exploration": "annealed", "epsilon_anneal_env_steps": 0, "epsilon_final": 0.0} | settings


ALWAYS = {"exploration": "annealed", "epsilon_anneal_env_steps": 0}


def test_rows_are_the_episodes_as_they_arrive() -> None:
    """Step t holds a_{t-1} and what it brought; a LAST timestep, then the FIRST of the next episode."""
    actor = make_actor()
    timesteps, _ = run(actor, 150)
    given = np.stack(actor.timesteps.env.actions)
    for stream in range(5):
        number = step = 0
        for t in range(150):
            now = episode(0, stream, number)
            timestep = {name: values[t, stream] for name, values in timesteps.items()}
            assert timestep["observation"].tolist() == now.observations[step].tolist()
            assert timestep["first"] == (step == 0) and timestep["last"] == (step == now.length)
            assert timestep["discount"] == (not (timestep["last"] and now.terminates))
            if step:
                assert timestep["prev_action"] == given[t - 1, stream]
                assert timestep["reward"] == (now.observations[step - 1][0] + given[t - 1, stream] - 2) / 8
            else:
                assert timestep["reward"] == 0
            number, step = (number + 1, 0) if timestep["last"] else (number, step + 1)
    ended, terminated = timesteps["last"], ~timesteps["discount"]
    assert terminated.sum() > 10 and (ended & ~terminated).sum() > 10
    assert (ended.any(axis=1) & ~ended.all(axis=1)).sum() > 20  # and not all at once


def test_the_action_on_a_last_row_reaches_nobody() -> None:
    """It arrives with the FIRST timestep, where the network does not look at it."""
    actor, other = make_actor(**greedy()), make_actor(**greedy())
    seen, other_seen = watch(actor), watch(other)
    for _ in range(80):
        other.timesteps.prev_action = np.where(
            other.timesteps.first, 2 - other.timesteps.prev_action, other.timesteps.prev_action
        )
        run(actor, 1), run(other, 1)
    np.testing.assert_array_equal(np.stack(seen), np.stack(other_seen))


def test_episodes_are_counted_whole() -> None:
    actor = make_actor()
    timesteps, ended = run(actor, 150)
    numbers = [0] * 5
    for t, now in enumerate(ended[:-1]):
        for i, stream in enumerate(np.flatnonzero(timesteps["last"][t + 1])):
            expected = episode(0, int(stream), numbers[stream])
            assert (now.length[i], now.success[i]) == (expected.length, expected.success)
            start = t + 1 - expected.length
            assert now.episode_return[i] == timesteps["reward"][start : t + 2, stream].sum()
            numbers[stream] += 1


@pytest.mark.parametrize(
    "num_envs, exploration", [(1, "ladder"), (1, "annealed"), (4, "annealed"), (4, "ladder")]
)
def test_annealing_is_linear_in_environment_steps(num_envs: int, exploration: str) -> None:
    """One environment has no ladder: it anneals to the final value."""
    actor = make_actor(
        num_envs,
        warmup=500,
        exploration=exploration,
        epsilon_final=0.1,
        epsilon_anneal_env_steps=400,
    )
    rungs = (
        0.4 ** (1 + 7 * np.arange(4) / 3)
        if (num_envs, exploration) == (4, "ladder")
        else np.full(num_envs, 0.1)
    )
    for steps, fraction in [(500, 0.0), (600, 0.25), (700, 0.5), (800, 0.75), (900, 1.0), (9999, 1.0)]:
        actor.env_steps = steps
        np.testing.assert_allclose(actor.epsilon(), 1 + fraction * (rungs - 1), rtol=1e-12)


def test_exponential_annealing_counts_steps_after_warm_up() -> None:
    actor = make_actor(
        1, warmup=500, annealing="exponential", epsilon_final=0.1, epsilon_anneal_env_steps=400
    )
    end = 0.1 + 0.9 * (399 / 400) ** 400
    for steps, expected in [(499, 1.0), (500, 1.0), (501, 1 - 0.9 / 400), (900, end)]:
        actor.env_steps = steps
        assert actor.epsilon().tolist() == pytest.approx([expected], rel=1e-12)


@pytest.mark.parametrize("keep_cache", [False, True])
def test_publish_copies(keep_cache: bool) -> None:
    actor, learned = make_actor(keep_cache=keep_cache), make(OBSERVATION_SPACE, seed=1, memory_length=4)
    actor.sync_weights([*learned.parameters()], 7)
    published = {name: x.clone() for name, x in learned.state_dict().items()}
    with torch.no_grad():
        for parameter in learned.parameters():
            parameter.zero_()
    assert all(torch.equal(x, published[name]) for name, x in actor.network.state_dict().items())
    assert run(actor, 3)[0]["version"].tolist() == [[7] * 5] * 3
    assert not any(p.requires_grad for p in actor.network.parameters())


def test_kept_keys_and_values_give_the_same_values() -> None:
    """Across syncs of weights and episodes that end at different times."""
    actors = [make_actor(**greedy(), keep_cache=keep) for keep in (False, True)]
    seen = [watch(actor) for actor in actors]
    for version in range(1, 7):
        for actor in actors:
            run(actor, 25)
            actor.sync_weights(
                [*make(OBSERVATION_SPACE, seed=version, memory_length=4).parameters()], version
            )
    assert actors[1].state.keys is not None and actors[0].state.keys is None
    np.testing.assert_allclose(np.stack(seen[1]), np.stack(seen[0]), rtol=0, atol=1e-9)
    assert (
        np.stack(actors[0].timesteps.env.actions).tolist()
        == np.stack(actors[1].timesteps.env.actions).tolist()
    )


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_reward_that_is_no_finite_number_is_refused(wrong: float) -> None:
    timesteps = make_actor(num_envs=2).timesteps
    step = timesteps.env.step

    def with_wrong_reward(action: np.ndarray) -> Any:
        observation, reward, *rest = step(action)
        return observation, np.where([False, True], wrong, reward), *rest

    timesteps.env.step = with_wrong_reward  # type: ignore[method-assign]
    with pytest.raises(NonFiniteError, match=f"the reward {wrong}; every reward must be a finite number"):
        timesteps.step(np.zeros(2, np.int64))


def test_a_burst_is_random_and_the_rest_is_greedy() -> None:
    """In episodes whose timesteps are seen, actions within bursts are uniform and all others are the best."""
    actor = make_actor(6, **greedy(burst_share=0.5))
    seen, in_burst, step = watch(actor), [], []
    active = actor.bursts.active

    def noting(steps: np.ndarray) -> np.ndarray:
        in_burst.append(active(steps))
        step.append(steps)
        return in_burst[-1]

    actor.bursts.active = noting  # type: ignore[method-assign]
    run(actor, 400)
    chosen, best = np.stack(actor.timesteps.env.actions), np.stack(seen).argmax(axis=-1)
    burst, steps = np.stack(in_burst), np.stack(step)
    assert 0.1 < burst.mean() < 0.6
    assert (chosen[~burst] == best[~burst]).all()
    shares = np.bincount(chosen[burst], minlength=NUM_ACTIONS) / burst.sum()
    assert abs(shares - 1 / NUM_ACTIONS).max() < 0.08
    assert steps[burst].max() > 3 and not (burst[1:] & ~burst[:-1] & (steps[1:] > 0)).any()


@pytest.mark.parametrize("keep_cache", [False, True])
def test_a_recorded_forward_pass_is_the_forward_pass(keep_cache: bool) -> None:
    """With syncs of weights in between, and through resets of environments."""

    def timesteps_of(capture: Any) -> Rows:
        actor = make_actor(keep_cache=keep_cache, capture=capture, **ALWAYS)
        vector_steps = []
        for number in range(54):
            # On a CPU a timestep's arrays are the recording's own memory.
            vector_steps.append({name: x.copy() for name, x in named(actor.vector_step()[0]).items()})
            if number % 9 == 8:
                actor.sync_weights(
                    [*make(OBSERVATION_SPACE, seed=number, memory_length=4).parameters()], number
                )
        return {
            name: np.stack([vector_step[name] for vector_step in vector_steps]) for name in vector_steps[0]
        }

    recorder = FxRecorder(list)
    plain = timesteps_of(None)
    with shapes.fixed():
        recorded = timesteps_of(lambda step: Captured(step, Held(), recorder))
    assert recorder.replays == 54 - WARM_UP_CALLS
    for name, timesteps in plain.items():
        np.testing.assert_allclose(recorded[name], timesteps, rtol=1e-9, atol=1e-9, err_msg=name)
