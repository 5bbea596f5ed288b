"""Copies stepped by workers: their rows are the inline run's, and a worker that is lost costs no run.

Most tests have their workers in this process (`Here`), where they can be as fast, as slow or as dead as a
test wants.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch

from benchmarks.kills import HITS, Endured, endure
from dtqn import cli
from dtqn.acting.rows import Rows
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import checkpoint, pool, preflight, session, setup
from dtqn.training.acting_worker import ActingWorker
from dtqn.training.directory import RunDir
from dtqn.training.exchange import Exchange, bytes_per_env_step
from dtqn.training.metrics import CLOCK_KEYS
from dtqn.training.pool import MOST_LOSSES, WorkerPool, shares
from dtqn.training.schema import named
from dtqn.training.setup import Share
from dtqn.training.shared_arrays import SharedArrays
from dtqn.training.trainer import Trainer
from dtqn.training.worker import WorkerError
from envs import TaskError
from tests.training.test_evaluator import FLAGS

OWN = ("actor/lead", "actor/parameter_age", "actor/restarts")
"""Metrics of workers."""
LOST = "the process that {} has ended: killed by SIGKILL (out of memory?)"


class Here:
    """A worker in this process."""

    at_once = True
    """It acts when it is asked to; else when it is waited for."""
    made: ClassVar[list[Here]] = []
    at_tick: ClassVar[Callable[[Here], None]] = staticmethod(lambda worker: None)

    def __init__(self, task: str, make: Callable[..., Any], *arguments: Any, descriptors: Any) -> None:
        assert descriptors == [arguments[-1]]
        self._task, self._asked, self._answers = task, deque[Any](), deque[Any]()
        self.ticks, self.is_lost, self.hangs = 0, False, False
        self._served = self._outcome(lambda: make(*arguments))
        self.made.append(self)

    def ask(self, method: str, *arguments: Any) -> None:
        if self.is_lost:
            raise WorkerError(LOST.format(self._task))
        self._asked.append((method, arguments))
        if self.at_once:
            self._act()

    def answered(self, timeout: float) -> bool:
        if self.hangs:
            return False
        if timeout and not self._answers and self._asked:
            self._act()
        return bool(self._answers) or self.is_lost

    def answer(self) -> Any:
        if not self._answers:
            raise WorkerError(LOST.format(self._task))
        value, error = self._answers.popleft()
        if error is not None:
            raise error
        return value

    def end(self) -> None:
        self.is_lost = True

    close = kill = end

    def _act(self) -> None:
        if self.is_lost:
            return
        method, arguments = self._asked.popleft()
        if method == "tick":
            self.ticks += 1
            type(self).at_tick(self)
            if self.is_lost or self.hangs:
                return
        served, error = self._served
        self._answers.append(
            (None, error) if error else self._outcome(lambda: getattr(served, method)(*arguments))
        )

    def _outcome(self, call: Callable[[], Any]) -> tuple[Any, Exception | None]:
        try:
            return call(), None
        except Exception as error:
            return None, error


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> type[Here]:
    class Fresh(Here):
        made: ClassVar[list[Here]] = []

    monkeypatch.setattr(pool, "Worker", Fresh)
    return Fresh


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(session, "learning_curve", lambda *_: None)
    monkeypatch.setattr(Trainer, "film", lambda *_: None)
    yield


def trainer_of(workers: int = 2, lead: int = 2, **flags: Any) -> Trainer:
    """A short run with workers, or without any where there are 0."""
    of_pool = {"actor.pool": "process", "actor.num_workers": workers, "actor.max_lead": lead}
    settings = (
        FLAGS
        | {"evaluator": "inline", "actor.num_envs": 5, "total_env_steps": 420}
        | (of_pool if workers else {})
        | flags
    )
    return Trainer(resolve(None, settings, {}))


def train(trainer: Trainer, until: int | None = None) -> list[dict[str, Any]]:
    """The rows of metrics up to the run's end, or an env step."""
    rows = []
    while not trainer.finished and (until is None or trainer.env_steps < until):
        if (row := trainer.advance()) is not None:
            rows.append({key: value for key, value in row.items() if key not in CLOCK_KEYS})
    return rows


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in OWN} for row in rows]


def assert_same(ours: Trainer, theirs: Trainer) -> None:
    """In everything that was learned and stored."""
    for name in ("replay", "updates", "staleness", "generator", "recent", "tally", "evaluator", "learner"):
        mine, others = (
            json.dumps(of.get_state()[name], default=lambda x: x.tolist()) for of in (ours, theirs)
        )
        assert mine == others, name
    assert ours.env_steps == theirs.env_steps


def note_ticks(trainer: Trainer) -> list[dict[str, np.ndarray]]:
    """The rows of every tick from now on, by name."""
    seen: list[dict[str, np.ndarray]] = []
    tick = trainer.actor.tick

    def noted() -> tuple[Rows[np.ndarray], Any]:
        rows, episodes = tick()
        seen.append({name: part.copy() for name, part in named(rows).items()})
        return rows, episodes

    trainer.actor.tick = noted  # type: ignore[method-assign]
    return seen


def test_one_worker_in_lock_step_is_the_inline_run(here: type[Here]) -> None:
    flags = {"actor.publish_period": 3}
    inline, other = trainer_of(0, **flags), trainer_of(1, 0, **flags)
    rows, others = train(inline), train(other)
    assert plain(others) == rows
    assert {row["actor/parameter_age"] for row in others if "actor/restarts" in row} == {0}
    assert_same(other, inline)


def test_a_process_in_lock_step_is_the_inline_run_too() -> None:
    """With learning from rollouts."""
    flags = {
        "agent": "pqn", "network.core": "gtrxl", "learner.rollout_length": 8, "learner.minibatches": 1,
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
    published = {0: [one.detach().clone() for one in trainer.network.parameters()]}
    steps_at_tick, seen = [], note_ticks(trainer)
    publish = trainer.actor.publish

    def noted(parameters: Any, version: int) -> None:
        published[version] = [one.detach().clone() for one in parameters]
        publish(parameters, version)

    trainer.actor.publish = noted  # type: ignore[method-assign]
    while trainer.env_steps < 400:
        steps_at_tick.append(trainer.learner_steps)
        trainer.advance()
    ages = []
    for share in (Share(0, 3), Share(3, 5, (1, 0))):
        network = setup.make_network(trainer.config)
        actor, taken = setup.make_actor(trainer.config, network, share), 0
        for number, tick in enumerate(seen):
            version = steps_at_tick[max(0, number - lead)]
            ages.append(steps_at_tick[number] - version)
            if version != actor.version:  # or keys and values would be projected again, in another order
                actor.publish(published[version], version)
            actor.env_steps = taken * 5 // share.num_envs
            rows, _ = actor.tick()
            taken += int((~rows.last).sum())
            for name, part in named(rows).items():
                ours = tick[name][share.copies]
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
    assert leads == 10 and slow.actor.metrics()["actor/lead"] == 0, "in env steps, 2 ticks of 5 copies"


def test_the_copies_are_shared_out() -> None:
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
    """With the rows that workers had acted ahead."""
    whole, resumed = trainer_of(), trainer_of()
    train(whole, 240)
    checkpoint.save(tmp_path, 1, {}, whole.get_state(), {})
    state = checkpoint.load_state(tmp_path)
    assert len(state["actor"]["ahead"]) == 2
    resumed.set_state(state)
    assert resumed.resume_is_exact
    rows = train(whole)
    assert train(resumed) == rows
    assert_same(resumed, whole)


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
    seen = note_ticks(after)
    train(after, 300)
    assert [bool(tick["first"].all()) for tick in seen[: ahead + 1]] == [*[False] * ahead, True]
    if lose:  # on seeds that the run has not had
        fresh = note_ticks(start := trainer_of())
        train(start, 5)
        assert not np.array_equal(seen[0]["observation"][:3], fresh[0]["observation"][:3])
    train(before, 300)  # which goes on too


def test_a_short_run_with_workers_ends_with_an_update(here: type[Here], tmp_path: Path) -> None:
    """Ticks that workers have acted ahead are dropped where episodes end by order."""
    flags = {"actor.pool": "process", "evaluator": "inline", "total_env_steps": 3, "warmup_env_steps": 3}
    out = io.StringIO()
    config = resolve(None, FLAGS | {"evaluation.first_episodes": 1, "evaluation.episodes": 1} | flags, {})
    assert session.start(config, RunDir(tmp_path / "run"), out) == 0
    assert "copies stepped by 2 workers" in out.getvalue()
    out, directory = io.StringIO(), RunDir(tmp_path / "run")
    longer = directory.resumed_config({"total_env_steps": 60}, {})
    assert session.resume(longer, directory, out) == 0
    assert "resumed" in out.getvalue() and "not exact" not in out.getvalue()
    state = checkpoint.load_state(directory.checkpoints)
    assert state["learner"]["learner_steps"] >= 1


# -- Workers that are lost -----------------------------------------------------------------------------------


def lose_at(here: type[Here], monkeypatch: pytest.MonkeyPatch, fates: dict[tuple[int, int], str]) -> None:
    """{(number of the worker as it was made, its tick): what becomes of it}."""

    def at_tick(worker: Here) -> None:
        fate = fates.get((here.made.index(worker), worker.ticks))
        match fate:
            case "die":
                worker.is_lost = True
            case "hang":
                worker.hangs = True
            case "fail":
                worker._served = None, TaskError("a task", "its step failed", 4)

    monkeypatch.setattr(here, "at_tick", staticmethod(at_tick))


@pytest.mark.parametrize(("fate", "at_once"), [("die", True), ("hang", False), ("fail", True)])
def test_a_lost_worker_is_replaced_and_its_episodes_are_cut(
    here: type[Here], monkeypatch: pytest.MonkeyPatch, fate: str, at_once: bool
) -> None:
    monkeypatch.setattr(here, "at_once", at_once)
    random_only = {"warmup_env_steps": 420}
    undisturbed, trainer = trainer_of(**random_only), trainer_of(**random_only)
    lose_at(here, monkeypatch, {(3, 25): fate})  # the first trainer has made 0 and 1
    theirs, ours = note_ticks(undisturbed), note_ticks(trainer)
    train(undisturbed, 200)
    news = []
    while trainer.env_steps < 200:
        trainer.advance()
        news += trainer.news()
    why = {
        "die": LOST.format("steps copies 3 to 4"),
        "hang": "the process that steps copies 3 to 4 does not answer: it hangs, or takes more than 300 "
        "seconds for a step of all of them (actor.step_timeout)",
        "fail": "task a task, copy 4: its step failed",
    }[fate]
    assert news == [f"{why}; started anew, the open episodes of copies 3 to 4 are cut"]
    assert trainer.actor.metrics()["actor/restarts"] == 1
    assert len(here.made) == 5
    for number, (tick, twin) in enumerate(zip(ours, theirs, strict=False)):
        for name in tick:
            same = slice(0, 5 if number < 24 else 3)
            np.testing.assert_array_equal(tick[name][same], twin[name][same])
    assert ours[24]["first"][3:].all() and not ours[23]["last"][3:].all()
    rows = trainer.replay.get_state()["rows"]
    counts = np.minimum(
        trainer.replay.get_state()["accumulator"]["num_rows"], trainer.replay.steps_per_stream
    )
    start = int(counts[:3].sum())
    assert rows["last"][start + 23] and rows["first"][start + 24] and rows["discount"][start + 23]


def test_a_worker_that_is_lost_again_and_again_ends_the_run(
    here: type[Here], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With its own error in one line, and all that was learned is saved."""
    fates = {(n, 40 if n == 1 else 1): "fail" if n == 3 else "die" for n in range(1, 4)}
    lose_at(here, monkeypatch, fates)
    out = io.StringIO()
    flags = {"actor.pool": "process", "evaluator": "inline", "actor.num_envs": 5, "total_env_steps": 420}
    assert session.start(resolve(None, FLAGS | flags, {}), RunDir(tmp_path / "run"), out) == 1
    lines = [line for line in out.getvalue().splitlines() if "copies 3 to 4" in line or "error" in line]
    assert [line.partition(";")[0].strip() for line in lines[:2]] == [LOST.format("steps copies 3 to 4")] * 2
    assert lines[2].startswith("error: task a task, copy 4: its step failed; saved; to go on: ")
    assert len(lines) == 3 == MOST_LOSSES
    monkeypatch.setattr(here, "at_tick", staticmethod(lambda worker: None))
    out, directory = io.StringIO(), RunDir(tmp_path / "run")
    assert session.resume(directory.resumed_config({}, {}), directory, out) == 0
    assert "not exact: with new episodes" in out.getvalue()


def test_an_episode_between_two_losses_makes_them_single_ones(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes have 20 steps at most."""
    trainer = trainer_of(1, 2)
    lose_at(here, monkeypatch, dict.fromkeys([(number, 30) for number in range(6)], "die"))
    train(trainer)
    assert trainer.actor.metrics()["actor/restarts"] >= MOST_LOSSES


def test_a_fault_of_the_rewards_ends_the_run_at_once(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the inline run: it is no loss of a worker."""
    from dtqn.types import NonFiniteError

    trainer = trainer_of()

    def at_tick(worker: Here) -> None:
        worker._served = None, NonFiniteError("the task gave the reward nan")

    monkeypatch.setattr(here, "at_tick", staticmethod(at_tick))
    with pytest.raises(NonFiniteError, match="the reward nan"):
        trainer.advance()


def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    """Real ones: a worker is killed and replaced, then the run is killed."""
    run, choice = Endured(tmp_path / "run", workers=1), random.Random(1)
    try:
        assert run.begin().poll() is None, run.text
        run.hit("kill worker", choice)
        assert run.restarts == 1
        assert "the process that steps copies 0 to 3 has ended: killed by SIGKILL" in run.text
        assert run.hit("kill run", choice) == [], "processes are left"
    finally:
        run.end()


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_fifty_kills_cost_no_run(tmp_path: Path) -> None:
    choice = random.Random(1)
    endured = endure([choice.choice(HITS) for _ in range(50)], choice, tmp_path)
    assert endured["hits"] == 50 and endured["restarts"] > 10


# -- The exchange --------------------------------------------------------------------------------------------


def test_shared_arrays_are_the_same_memory() -> None:
    forms = {
        "a": ((3, 2), np.dtype(np.float32)),
        "flag": ((5,), np.dtype(np.bool_)),
        "none": ((0,), np.dtype("i8")),
    }
    ours = SharedArrays(forms)
    theirs = SharedArrays(forms, ours.descriptor)
    ours.arrays["a"][1] = [1.5, 2.5]
    theirs.arrays["flag"][4] = True
    assert theirs.arrays["a"].tolist() == [[0, 0], [1.5, 2.5], [0, 0]]
    assert ours.arrays["flag"].tolist() == [False] * 4 + [True]
    ours.close()
    theirs.arrays["a"][0, 0] = 7
    assert ours.arrays["a"][0, 0] == 7


def test_parameters_in_use_are_not_overwritten(here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are published while requests are open, those that they name stay as they were."""
    monkeypatch.setattr(here, "at_once", False)
    trainer = trainer_of(2, 3)
    actor = trainer.actor
    assert isinstance(actor, WorkerPool)
    size = sum(one.numel() for one in trainer.network.parameters())
    generator = torch.Generator().manual_seed(1)
    sent = {0: torch.cat([one.flatten() for one in trainer.network.parameters()]).detach().clone()}
    for version in range(1, 40):
        values = torch.randn(size, generator=generator)
        sent[version] = values
        parts = values.split([one.numel() for one in trainer.network.parameters()])
        shaped = [part.view_as(one) for part, one in zip(parts, trainer.network.parameters(), strict=True)]
        actor.publish(shaped, version)
        for member in actor._members:
            for request in member.asked:
                held = torch.cat([one.flatten() for one in actor._exchange.parameters[request.parameters]])
                assert torch.equal(held, sent[request.version])
        if version % 3:
            actor.tick()


def test_bytes_of_an_env_step(here: type[Here]) -> None:
    """By hand: 6 numbers of a byte, the action, reward, four flags, two Q-values, a version and the trace."""
    trainer = trainer_of()
    fields = named(trainer.schema.rows)
    trace = 8 * 2  # one layer of width 8 in float16
    row = fields["observation"]
    observation = int(np.prod(row.shape)) * np.dtype(row.dtype).itemsize
    assert bytes_per_env_step(fields) == observation + 1 + 4 + 4 + 8 + 4 + trace + (1 + 8 + 8 + 1)
    exchange = Exchange(trainer.config, trainer.network, trainer.schema)
    assert exchange.versions == exchange.ticks + 1 == 4
    exchange.shared.close()


# -- Refused -------------------------------------------------------------------------------------------------


def test_settings_that_do_not_fit_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for flags, line in [
        (
            ["--actor.pool", "process", "--actor.num_workers", "40"],
            "actor.num_workers is 40, above actor.num_envs 32: some would have no copy to step; try 32 "
            "(actor.num_workers from --actor.num_workers)",
        ),
        (["--task.vectorization", "async"], "--task.vectorization is no option; did you mean --actor.pool?"),
        (
            ["--task.step_timeout", "9"],
            "--task.step_timeout is no option; did you mean --actor.step_timeout?",
        ),
        (
            ["--actor.pool", "proces"],
            "actor.pool is proces (from --actor.pool): must be one of inline, process, ray; did you mean "
            "process?",
        ),
    ]:
        assert cli.main([*flags, "--print-config"]) == 2
        (printed,) = capsys.readouterr().err.splitlines()
        assert printed.startswith(f"error: {line}")


def test_settings_of_workers_are_not_read_without_them() -> None:
    names = ("actor.num_workers", "actor.max_lead", "actor.step_timeout")
    changed = {"actor.num_workers": 3, "actor.max_lead": 1, "actor.step_timeout": 5.0}
    assert set(names) <= set(resolve(None, changed, {}).unread())
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


def test_workers_that_die_before_they_begin_are_tried_again(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stillborn(worker: Here, method: str, *arguments: Any) -> None:
        worker.is_lost = here.made.index(worker) in lost
        Here.ask(worker, method, *arguments)

    monkeypatch.setattr(here, "ask", stillborn)
    lost = {1, 2}
    trainer = trainer_of()
    assert trainer.actor.metrics()["actor/restarts"] == 2
    train(trainer, 50)
    lost = set(range(100))
    with pytest.raises(ConfigError, match="pool is process, but the process that steps copies 0 to 2 has"):
        trainer_of()


def test_workers_count_in_what_a_run_takes() -> None:
    inline = resolve(None, {}, {})
    workers = resolve(None, {"actor.pool": "process", "actor.num_workers": 3}, {})
    before, after = (preflight.memory(config, 1000) for config in (inline, workers))
    assert after["the workers' processes"] == 3000 and "the workers' processes" not in before
    assert after["networks"] == before["networks"] // 8 * (8 + 3 + 2 + 2)
    assert workers.settled(4).threads == 1 and inline.settled(4).threads == 2


class Failing(gymnasium.Env[Any, Any]):
    """A third copy that observes infinity at its third step."""

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


def test_a_fault_names_the_copy_of_the_run() -> None:
    """By its number among all copies; a worker whose task has failed does not step it again."""
    flags = {"env": f"{__name__}:Failing", "network.recall_weight": 0}
    config, network = trainer_of(0, **flags).config, trainer_of(0, **flags).network
    exchange = Exchange(config, network, setup.make_schema(config, network))
    worker = ActingWorker(config, Share(3, 5, (1, 0)), 0, exchange.shared.descriptor)
    for tick in range(2):
        worker.tick(tick, 0, 0)
    for _ in range(2):
        with pytest.raises(TaskError, match="copy 4: its observation holds inf"):
            worker.tick(0, 0, 0)
    exchange.shared.close()


# -- Ray -----------------------------------------------------------------------------------------------------


def test_without_ray_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "dtqn.clusters", "dtqn.training.ray_workers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r'not installed; pip install "dtqn\[ray\]"'):
        trainer_of(**{"actor.pool": "ray"})


@pytest.mark.slow
def test_rays_actors_are_the_workers_of_the_other_pool(here: type[Here], tmp_path: Path) -> None:
    """In every row; also after a resume, and where an actor is killed."""
    pytest.importorskip("ray")
    from dtqn.clusters import ray

    flags = {"actor.pool": "ray"}
    theirs, ours = trainer_of(), trainer_of(**flags)
    try:
        rows = train(theirs, 240)
        assert train(ours, 240) == rows
        assert_same(ours, theirs)
        checkpoint.save(tmp_path, 1, {}, ours.get_state(), {})
        assert isinstance(ours.actor, WorkerPool)
        work: Any = ours.actor._members[1].work
        ray.kill(work._actor)
        train(ours, 300)
        (news,) = ours.news()
        assert "the actor that steps copies 3 to 4 has ended" in news and "started anew" in news
    finally:
        ours.close()
    assert not ray.is_initialized()
    resumed = trainer_of(**flags)
    try:
        resumed.set_state(checkpoint.load_state(tmp_path))
        rows = train(theirs)
        assert train(resumed) == rows
        assert_same(resumed, theirs)
    finally:
        resumed.close()


@pytest.mark.slow
def test_a_task_that_no_ray_actor_can_make_is_one_line() -> None:
    pytest.importorskip("ray")
    gymnasium.register("OnlyHere-v0", entry_point="gymnasium.envs.classic_control.cartpole:CartPoleEnv")
    try:
        with pytest.raises(TaskError, match=r"another process, as actor\.pool ray asks for: .*OnlyHere-v0"):
            trainer_of(**{"actor.pool": "ray", "env": "OnlyHere-v0", "network.recall_weight": 0})
    finally:
        del gymnasium.registry["OnlyHere-v0"]
