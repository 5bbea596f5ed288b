"""Rollouts: a run against plain loops, parity with acting, exact resume, and what a rollout holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dtqn.learning.batches import whole_sequence
from dtqn.settings.config import Config
from dtqn.training import checkpoint
from dtqn.training.preflight import planned_updates
from dtqn.training.trainer import Trainer
from tests import toy
from tests.cases import SMALL, config_from
from tests.reference.pqn_twin import NaivePQN, peng_returns
from tests.training.toys import compute_in, play_toy

NUM_ENVS, T = 4, 12
FOREVER = 10**9
NETWORK = {
    "core": "gru", "num_layers": 1, "encoder_layers": 2, "dueling": False, "head_width": 0,
}  # fmt: skip


def configured(groups: dict[str, dict[str, Any]], **settings: Any) -> Config:
    """Fractions of halves, which float32 holds: replay's rewards are float32."""
    learner = {
        "rollout_length": T, "epochs": 2, "minibatches": 2, "returns": "peng", "q_lambda": 0.75,
        "gamma": 0.875, "target_update": "none", "optimizer": "radam", "reward_scale": 2.0,
        "learning_rate": 0.01, "final_learning_rate_share": 1.0, "max_grad_norm": 0.5,
    }  # fmt: skip
    actor = {
        "num_envs": NUM_ENVS, "exploration": "annealed", "epsilon_final": 0.1,
        "epsilon_anneal_env_steps": 120,
    }  # fmt: skip
    replay = {"memory": "stored", "burn_in_length": 0, "memory_dtype": "float32"}
    given = {"learner": learner, "actor": actor, "replay": replay, "network": SMALL | NETWORK}
    return config_from(
        {
            "env": "toy",
            "seed": 3,
            "total_env_steps": FOREVER,
            "warmup_env_steps": 0,
            "metrics_every": FOREVER,
            "device": "cpu",
            "evaluation": {"period": FOREVER},
        }
        | {name: group | groups.get(name, {}) for name, group in given.items()}
        | settings
    )


@pytest.fixture
def trainer_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Config], Trainer]:
    """Trainers of the toy task in float64, the stored memory included."""
    play_toy(monkeypatch)
    compute_in(monkeypatch, torch.float64, "float64", 0.1)
    return Trainer


def test_returns_of_a_rollout_by_hand() -> None:
    """gamma 1/2, lambda 1/2. Row 2 terminates, step 5 truncates, timesteps 3 and 6 are first ones."""
    rewards = [9.0, 1.0, 2.0, 0.0, 4.0, 8.0, 0.0, 16.0]
    goes_on = [True, True, False, True, True, True, True, True]
    ends = [False, False, True, False, False, True, False, False]
    values = [9.0, 6.0, 9.0, 9.0, 12.0, 20.0, 9.0, 10.0]
    expected = [
        1 + (6 / 2 + 2 / 2) / 2,  # half of the next value, half of the return there, which is 2
        2.0,  # terminated: no bootstrap
        None,  # the action on a last timestep is ignored
        4 + (12 / 2 + 18 / 2) / 2,
        8 + 20 / 2,  # truncated: from the true last timestep, not the next episode
        None,
        16 + 10 / 2,  # the end of the rollout
    ]
    assert peng_returns(rewards, goes_on, ends, values, 0.5, 0.5) == expected


@pytest.mark.parametrize(
    "groups",
    [
        {},
        {"replay": {"burn_in_length": 3, "learn_burn_in": True}},
        {"learner": {"minibatches": 4, "epochs": 1, "q_lambda": 0.0, "max_grad_norm": 10.0}},
        {"learner": {"rollout_length": 2, "minibatches": 1, "q_lambda": 1.0}},
        {"learner": {"rollout_length": 1}},
    ],
    ids=str,
)
def test_a_run_is_that_of_plain_loops(
    groups: dict[str, dict[str, Any]], trainer_of: Callable[[Config], Trainer]
) -> None:
    """Actions, losses and parameters, until RAdam's steps have been rectified for a while."""
    config = configured(groups)
    trainer = trainer_of(config)
    env = toy.ToyVectorEnv(NUM_ENVS)
    naive = NaivePQN(
        config, dict(trainer.network.named_parameters()), env, toy.OBSERVATION_SPACE.nvec.tolist()
    )
    losses: list[float] = []
    update = trainer.learner.update

    def noted(*arguments: Any) -> Any:
        made = update(*arguments)
        losses.append(made.metrics["learner/loss"])
        return made

    trainer.learner.update = noted  # type: ignore[method-assign]
    for vector_step in range(1, 2 * T + 6 if config.learner.batches.length == T else 10):
        trainer.advance()
        naive.act()
        if vector_step % config.learner.batches.length == 0:
            naive.learn()
            for name, parameter in trainer.network.named_parameters():
                torch.testing.assert_close(parameter.detach(), naive.p[name], rtol=0, atol=1e-9)
    assert [actions.tolist() for actions in trainer.actor.timesteps.env.actions] == naive.actions
    assert losses == pytest.approx(naive.losses, rel=1e-6) and len(losses) > 6
    assert trainer.env_steps == naive.env_steps


def acted(trainer: Trainer, vector_steps: int) -> np.ndarray:
    """[vector steps, N, A] what the actor saw."""
    q: list[np.ndarray] = []
    handle = trainer.actor.network.register_forward_hook(
        lambda module, inputs, output: q.append(output[0].q[:, 0].numpy().copy())
    )
    for _ in range(vector_steps):
        trainer._act()
    handle.remove()
    return np.stack(q)


@pytest.mark.parametrize(
    "groups",
    [
        {},
        {"replay": {"burn_in_length": 3, "learn_burn_in": True}},
        {"replay": {"burn_in_length": 2}},
        {"network": {"core": "gtrxl", "memory_length": 5, "num_layers": 2}, "replay": {"burn_in_length": 3}},
        {"network": {"core": "lstm"}, "replay": {"memory": "refreshed"}},
    ],
    ids=str,
)
@torch.no_grad()
def test_every_rollout_is_seen_as_it_was_acted(
    groups: dict[str, dict[str, Any]], trainer_of: Callable[[Config], Trainer]
) -> None:
    """Each of its transitions is there once, from the state that acting left."""
    trainer = trainer_of(configured(groups))
    replay, whole = trainer.replay, trainer.config.replay.learn_burn_in
    seen: list[np.ndarray] = []
    learned: set[tuple[int, int]] = set()
    for rollout in range(5):
        seen.extend(acted(trainer, T))
        replay.end_sequences()
        ids = replay.ids()
        batch = trainer.schema.sequences(replay.take(ids), np.ones(len(ids)))
        burned = batch.burn_in_timesteps.numpy() * whole
        if whole:
            batch = whole_sequence(batch)
        q = trainer.network.learn_values(batch)[0].q.numpy()
        for b, id_ in enumerate(ids):
            start, copy = divmod(int(id_), NUM_ENVS)
            begin = start - burned[b]
            for t in range(int(batch.learn_timesteps[b])):
                np.testing.assert_allclose(q[b, t], seen[begin + t][copy], atol=1e-9)
            steps = {(copy, begin + t) for t in range(burned[b], int(batch.learned_steps[b]))}
            assert steps.isdisjoint(learned)
            learned |= steps
            assert rollout == 0 or start >= T * rollout - 1
        replay.forget(ids)
        assert replay.num_sequences == 0
    last = rows_that_end(5 * T)
    assert learned == {
        (copy, t) for copy in range(NUM_ENVS) for t in range(5 * T - 1) if (copy, t) not in last
    }


def rows_that_end(vector_steps: int) -> set[tuple[int, int]]:
    """(copy, vector step) of the last timesteps of episodes, which depend on no action."""
    env, found = toy.ToyVectorEnv(NUM_ENVS), set()
    env.reset()
    for vector_step in range(1, vector_steps):
        _, _, terminated, truncated, _ = env.step(np.zeros(NUM_ENVS, np.int64))
        found |= {(int(copy), vector_step) for copy in np.flatnonzero(terminated | truncated)}
    return found


def test_each_epoch_takes_every_sequence_once_and_deals_anew(
    trainer_of: Callable[[Config], Trainer],
) -> None:
    trainer = trainer_of(configured({"learner": {"epochs": 6}}))
    for _ in range(T):
        trainer._act()
        drawn = list(trainer.updates.due(0, trainer.env_steps))
    assert len(drawn) == 12 and trainer.replay.num_sequences == 0
    dealt = []
    for k in range(0, 12, 2):
        (_, one), (_, other) = drawn[k : k + 2]
        copies = [set(info.ids % NUM_ENVS) for info in (one, other)]
        assert [len(of) for of in copies] == [2, 2] and copies[0].isdisjoint(copies[1])
        dealt.append(frozenset(map(frozenset, copies)))
        every = np.concatenate([one.ids, other.ids])
        assert len(set(every)) == len(every)
        assert set(every) == set(np.concatenate([info.ids for _, info in drawn]))
        assert (one.importance_weights == 1).all()
    assert len(set(dealt)) > 1


def test_priorities_are_neither_made_nor_told(trainer_of: Callable[[Config], Trainer]) -> None:
    trainer = trainer_of(configured({}, metrics_every=10))
    trainer._first_priorities = None  # type: ignore[method-assign,assignment]
    timesteps = [row for _ in range(2 * T) if (row := trainer.advance())]
    assert timesteps and not any(name.startswith("replay/priority") for row in timesteps for name in row)
    assert trainer.replay.sampler.max_priority == 1.0


@pytest.mark.parametrize(("total", "warmup"), [(5, 0), (300, 0), (300, T * NUM_ENVS)])
def test_the_price_of_a_run_is_known(
    total: int, warmup: int, trainer_of: Callable[[Config], Trainer]
) -> None:
    """A rollout of the warm-up is not learned."""
    trainer = trainer_of(configured({}, total_env_steps=total, warmup_env_steps=warmup))
    while not trainer.finished:
        trainer.advance()
        assert trainer.env_steps > warmup or trainer.learner_steps == trainer.replay.num_sequences == 0
    trainer.finish()
    planned = planned_updates(trainer.config)
    assert planned == max(1, (total - warmup) // (T * NUM_ENVS) * 4)
    # Last timesteps take no env step, so there are a few more vector steps, and the shortest run does one
    # update.
    assert planned <= trainer.learner_steps <= planned + 4


@pytest.mark.parametrize("killed_in", ["acting", "the second epoch"])
def test_it_goes_on_in_the_middle_of_a_rollout(
    killed_in: str, tmp_path: Path, trainer_of: Callable[[Config], Trainer]
) -> None:
    """Bit for bit, from a checkpoint at its seventh vector step, whenever after it the run was killed."""
    config = configured({"replay": {"burn_in_length": 3, "learn_burn_in": True}})
    whole, killed = trainer_of(config), trainer_of(config)
    for _ in range(4 * T):
        whole.advance()
    for _ in range(2 * T + 7):
        killed.advance()
    state = killed.get_state()
    checkpoint.save(tmp_path, killed.env_steps, killed.network.state_dict(), state, {"agent": "pqn"})
    if killed_in == "acting":
        killed.advance()
    else:
        update, left = killed.learner.update, [None] * 3

        def dying(*arguments: Any) -> Any:
            if not left:
                raise KeyboardInterrupt
            left.pop()
            return update(*arguments)

        killed.learner.update = dying  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            for _ in range(T):
                killed.advance()
        assert killed.learner_steps % 4 == 3
    again = trainer_of(config)
    again.set_state(checkpoint.load_state(tmp_path))
    for _ in range(2 * T - 7):
        again.advance()
    assert again.learner_steps == whole.learner_steps == 16
    for a, b in zip(whole.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(a, b)
    np.testing.assert_equal(again.replay.get_state(), whole.replay.get_state())
    expected = leaves_of(whole.learner.get_state()["optimizer"])
    for name, one in leaves_of(again.learner.get_state()["optimizer"]).items():
        assert torch.equal(one, expected[name]), name


def leaves_of(state: dict[str, dict[str, torch.Tensor]]) -> dict[tuple[str, str], torch.Tensor]:
    return {(name, key): x for name, of_name in state.items() for key, x in of_name.items()}
