"""Environments stepped by workers: their timesteps are the inline run's, after a resume too; refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch

from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import checkpoint, pool, preflight, setup
from dtqn.training.acting_worker import ActingWorker
from dtqn.training.exchange import Exchange
from dtqn.training.pool import shares
from dtqn.training.replay_fields import named
from dtqn.training.setup import Share
from envs import TaskError
from tests.tiny import refused
from tests.training import pools
from tests.training.pools import Here, assert_same, note_steps, plain, resume, start, train, trainer_of

here = pools.here
_no_pictures = pools.no_pictures


def test_one_worker_in_lock_step_is_the_inline_run(here: type[Here]) -> None:
    inline, other = trainer_of(0), trainer_of(1, 0)
    rows, others = train(inline), train(other)
    assert plain(others) == rows
    assert {row["actor/parameter_age"] for row in others if "actor/restarts" in row} == {0}
    assert_same(other, inline)


def test_workers_normalise_from_the_first_step_on(here: type[Here]) -> None:
    """And not from the first update on, which brings them other weights."""
    inline, other = (trainer_of(*workers, env="t-maze-passive-5") for workers in ((0,), (1, 0)))
    assert inline.actor.network.encoder.observation.normalise
    assert plain(train(other)) == train(inline)
    assert_same(other, inline)


def test_a_process_in_lock_step_is_the_inline_run_too() -> None:
    """With learning from rollouts."""
    flags = {
        "agent": "pqn", "network.core": "gtrxl", "learner.batches": "rollout", "learner.batches.length": 8,
        "learner.batches.minibatches": 1,
        "replay.burn_in_length": 0, "total_env_steps": 300,
    }  # fmt: skip
    inline, other = trainer_of(0, **flags), trainer_of(1, 0, **flags)
    try:
        assert plain(train(other)) == train(inline)
        assert_same(other, inline)
    finally:
        other.close()


def test_every_stream_is_a_slow_twins(here: type[Here]) -> None:
    """Actors alone, which are handed the parameters of the learner step that the schedule names."""
    lead = 3
    trainer = trainer_of(2, lead, **{"actor.epsilon_anneal_env_steps": 200})
    synced = {0: [one.detach().clone() for one in trainer.network.parameters()]}
    learner_steps, seen = [], note_steps(trainer)
    sync_weights = trainer.actor.sync_weights

    def noted(parameters: Any, version: int) -> None:
        synced[version] = [one.detach().clone() for one in parameters]
        sync_weights(parameters, version)

    trainer.actor.sync_weights = noted  # type: ignore[method-assign]
    while trainer.env_steps < 400:
        learner_steps.append(trainer.learner_steps)
        trainer.advance()
    ages = []
    for share in (Share(0, 3), Share(3, 5, (1, 0))):
        network = setup.make_network(trainer.config)
        actor, taken = setup.make_actor(trainer.config, network, share), 0
        for number, step in enumerate(seen):
            version = learner_steps[max(0, number - lead)]
            ages.append(learner_steps[number] - version)
            if version != actor.version:  # or keys and values would be projected again, in another order
                actor.sync_weights(synced[version], version)
            actor.env_steps = taken * 5 // share.num_envs
            timesteps, _ = actor.vector_step()
            taken += int((~timesteps.last).sum())
            for name, part in named(timesteps).items():
                ours = step[name][share.env_ids]
                np.testing.assert_array_equal(ours, part.astype(ours.dtype), err_msg=f"{name} {number}")
    assert max(ages) == -(-lead * 5 // 20) and trainer.learner_steps > 10
    assert trainer.actor.metrics()["actor/parameter_age"] <= max(ages)


def test_how_fast_workers_are_changes_nothing(here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    fast = trainer_of()
    rows = train(fast, 280)
    leads = fast.actor.metrics()["actor/lead"]
    monkeypatch.setattr(here, "at_once", False)
    slow = trainer_of()
    assert train(slow, 280) == rows
    assert_same(slow, fast)
    assert leads == 10 and slow.actor.metrics()["actor/lead"] == 0, "in env steps, 2 steps of 5 environments"


def test_the_environments_are_shared_out() -> None:
    assert [(part.start, part.stop) for part in shares(8, 3)] == [(0, 3), (3, 6), (6, 8)]
    assert shares(5, 1) == [Share(0, 5)]
    trainer = trainer_of(0, **{"actor.num_envs": 8, "actor.epsilon_anneal_env_steps": 0})
    config, network = trainer.config, trainer.network
    actors = [setup.make_actor(config, network, part) for part in shares(8, 3)]
    for actor in (*actors, trainer.actor):
        actor.env_steps = 10_000
    epsilon = np.concatenate([actor.epsilon() for actor in actors])
    np.testing.assert_array_equal(epsilon, trainer.actor.epsilon())  # type: ignore[attr-defined]
    assert len(set(epsilon)) == 8


# -- Checkpoints ---------------------------------------------------------------------------------------------


def test_a_resumed_run_goes_on_bit_for_bit(here: type[Here], tmp_path: Path) -> None:
    """With the timesteps that workers had acted ahead."""
    whole, resumed = trainer_of(), trainer_of()
    train(whole, 240)
    checkpoint.save(tmp_path, 1, {}, whole.get_state(), {})
    state = checkpoint.load_state(tmp_path)
    assert len(state["actor"]["ahead"]) == 2
    resumed.set_state(state)
    assert resumed.resume_is_exact
    rows = train(whole, 345)
    assert train(resumed, 345) == rows
    ours, theirs = (
        checkpoint.save(tmp_path / name, 2, {}, trainer.get_state(), {})
        for name, trainer in (("resumed", resumed), ("whole", whole))
    )
    for file in ours.iterdir():
        assert file.read_bytes() == (theirs / file.name).read_bytes(), file.name
    rows = train(whole)
    assert train(resumed) == rows
    assert_same(resumed, whole)


def test_a_resumed_actor_remembers_in_memory_of_its_own() -> None:
    """Where numbers lie in a checkpoint's file would decide how a CPU rounds their products."""
    ours, theirs = trainer_of(0).actor, trainer_of(0).actor
    theirs.vector_step()
    saved = theirs.get_state()
    ours.set_state(saved)
    for name, remembered in ours.get_state()["memory"].items():
        assert torch.equal(remembered, saved["memory"][name])
        assert remembered.data_ptr() != saved["memory"][name].data_ptr()


@pytest.mark.parametrize("lose", [False, True])
def test_what_cannot_be_saved_begins_anew(here: type[Here], tmp_path: Path, lose: bool) -> None:
    """The environments of another package, and workers that are no more."""
    env = {} if lose else {"env": "CartPole-v1", "network.recall_weight": 0, "task.time_limit": 15}
    before, after = trainer_of(**env), trainer_of(**env)
    train(before, 240)
    if lose:
        here.made[1].is_lost = True
    stored = before.get_state()
    checkpoint.save(tmp_path, 1, {}, stored, {})
    after.set_state(checkpoint.load_state(tmp_path))
    assert not after.resume_is_exact and after.env_steps == before.env_steps
    ahead = 0 if lose else 2
    assert len(stored["actor"]["ahead"]) == ahead
    seen = note_steps(after)
    train(after, 300)
    waiting = 0 if lose else 1  # the timesteps that nobody has had yet
    begun = [bool(step["first"].all()) for step in seen[: ahead + waiting + 1]]
    assert begun == [*[False] * (ahead + waiting), True]
    if lose:  # on seeds that the run has not had
        fresh = note_steps(start := trainer_of())
        train(start, 5)
        assert not np.array_equal(seen[0]["observation"][:3], fresh[0]["observation"][:3])
    train(before, 300)  # which goes on too


def test_a_short_run_with_workers_ends_with_an_update(here: type[Here], tmp_path: Path) -> None:
    """Vector steps that workers have acted ahead are dropped where episodes end by order."""
    flags = {"actor.pool": "process", "evaluator": "inline", "total_env_steps": 3, "warmup_env_steps": 3}
    flags |= {"evaluation.first_episodes": 1, "evaluation.episodes": 1}
    code, printed = start(tmp_path / "run", **flags)
    assert code == 0 and "environments stepped by 2 workers" in printed
    code, printed = resume(tmp_path / "run", total_env_steps=60)
    assert code == 0 and "resumed" in printed and "not exact" not in printed
    state = checkpoint.load_state(tmp_path / "run/checkpoint")
    assert state["learner"]["learner_steps"] >= 1


# -- Refused -------------------------------------------------------------------------------------------------


def test_settings_that_do_not_fit_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for flags, line in [
        (
            ["--actor.pool", "process", "--actor.pool.num_workers", "40"],
            "actor.pool.num_workers is 40, above actor.num_envs 32: some would have no environment; try 32 "
            "(actor.pool.num_workers from --actor.pool.num_workers)",
        ),
        (
            ["--task.step_timeout", "9"],
            "--task.step_timeout is not an option; did you mean --actor.pool.step_timeout?",
        ),
        (
            ["--actor.pool", "proces"],
            "actor.pool is proces (from --actor.pool): must be one of inline, process, ray; did you mean "
            "process?",
        ),
    ]:
        assert refused(capsys, *flags, "--print-config").startswith(line)


def test_settings_of_workers_are_not_read_without_them() -> None:
    names = ("actor.pool.num_workers", "actor.pool.max_lead", "actor.pool.step_timeout")
    changed = {"actor.pool.num_workers": 3, "actor.pool.max_lead": 1, "actor.pool.step_timeout": 5.0}
    with pytest.raises(
        ConfigError, match=r"num_workers is 3 .*, but actor.pool is inline, which has no such"
    ):
        resolve(None, changed, {})
    assert not set(names) & set(resolve(None, changed | {"actor.pool": "process"}, {}).unread())


def test_a_task_that_no_worker_can_make_is_one_line(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any) -> None:
        raise ValueError("unknown task 'Mine-v0'")

    monkeypatch.setattr(pool, "ActingWorker", unknown)
    with pytest.raises(TaskError) as error:
        trainer_of()
    assert str(error.value) == (
        "task gridverse-memory-5x5: it cannot be made in another process, as actor.pool process asks for: "
        "unknown task 'Mine-v0'"
    )
    assert len(here.made) == 2 and all(worker.is_lost for worker in here.made), "they are ended"


def test_workers_count_in_what_a_run_takes() -> None:
    inline = resolve(None, {}, {})
    workers = resolve(None, {"actor.pool": "process", "actor.pool.num_workers": 3}, {})
    before, after = (preflight.memory(config, 1000) for config in (inline, workers))
    assert after["the other processes"] == before.get("the other processes", 0) + 3000
    assert after["networks"] == before["networks"] // 8 * (8 + 3 + 2 + 2)
    assert workers.settled(4, False).threads == 1 and inline.settled(4, False).threads == 2


class Failing(gymnasium.Env[Any, Any]):
    """A third environment that observes infinity at its third step."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    made: ClassVar[list[Failing]] = []

    def __init__(self) -> None:
        self.made.append(self)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        value = np.inf if self is self.made[-1] and self.steps == 3 else 0.0
        return np.full(1, value, np.float32), 0.0, False, self.steps == 9, {}


def test_a_fault_names_the_environment_of_the_run() -> None:
    """By its number among all; a worker whose task has failed does not step it again."""
    settled = {"learner.gamma": 0.9, "learner.reward_scale": 1, "network.encoder.normalise": False}
    flags = {"env": f"{__name__}:Failing", **settled}
    config, network = trainer_of(0, **flags).config, trainer_of(0, **flags).network
    exchange = Exchange(config, network, setup.make_schema(config, network))
    worker = ActingWorker(config, Share(3, 5, (1, 0)), 0, exchange.descriptor)
    for _ in range(2):
        worker.vector_step(0, 0, 0)
    for _ in range(2):
        with pytest.raises(TaskError, match="environment 4: its observation holds inf"):
            worker.vector_step(0, 0, 0)
    exchange.close()
