"""Short runs with workers in this process, where these can be as fast, as slow or as dead as a test wants."""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from dtqn.acting.timesteps import Timesteps
from dtqn.settings.config import Config
from dtqn.settings.presets import resolve
from dtqn.training import pool, session
from dtqn.training.directory import RunDir
from dtqn.training.metrics import CLOCK_KEYS
from dtqn.training.replay_fields import named
from dtqn.training.trainer import Trainer
from dtqn.training.worker import WorkerError

FLAGS: dict[str, Any] = {
    "env": "gridverse-memory-5x5",
    "total_env_steps": 900,
    "warmup_env_steps": 100,
    "checkpoint_every": 400,
    "metrics_every": 50,
    "device": "cpu",
    "wandb": "disabled",
    "task.time_limit": 20,
    "network.width": 8,
    "network.core.num_layers": 1,
    "network.core.mlp_width": 8,
    "network.core.memory_length": 4,
    "network.head_width": 8,
    "learner.batches.size": 4,
    "learner.batches.env_steps_per_update": 20,
    "replay.capacity": 2000,
    "replay.learn_length": 6,
    "replay.burn_in_length": 2,
    "actor.num_envs": 4,
    "evaluation.period": 200,
    "evaluation.episodes": 12,
    "evaluation.first_episodes": 4,
    "evaluation.max_step_share": 0.4,
    "evaluation.epsilon": 0.2,
}
"""A run of a second, with several evaluations."""

OWN = ("actor/lead", "actor/parameter_age", "actor/restarts")
"""Metrics of workers."""
LOST = "the process that {} has ended: killed by SIGKILL (out of memory?)"


class Here:
    """A worker in this process."""

    at_once = True
    """It acts when it is asked to; else when it is waited for."""
    made: ClassVar[list[Here]] = []
    at_step: ClassVar[Callable[[Here], None]] = staticmethod(lambda worker: None)

    def __init__(self, task: str, make: Callable[..., Any], *arguments: Any, descriptors: Any = ()) -> None:
        assert not descriptors or descriptors == [arguments[-1]]
        self._task, self._asked, self._answers = task, deque[Any](), deque[Any]()
        self.steps, self.is_lost, self.hangs = 0, False, False
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
        if method == "vector_step":
            self.steps += 1
            type(self).at_step(self)
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
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Trainer, "film", lambda *_: None)
    yield


def config_of(**flags: Any) -> Config:
    return resolve(None, FLAGS | flags, {})


def start(path: Path, **flags: Any) -> tuple[int, str]:
    out = io.StringIO()
    return session.start(config_of(**flags), RunDir(path), out), out.getvalue()


def resume(path: Path, **flags: Any) -> tuple[int, str]:
    out, directory = io.StringIO(), RunDir(path)
    return session.resume(directory.resumed_config(flags, {}), directory, out), out.getvalue()


def trainer_of(workers: int = 2, lead: int = 2, **flags: Any) -> Trainer:
    """A short run with workers, or without any where there are 0."""
    of_pool = {"actor.pool": "process", "actor.pool.num_workers": workers, "actor.pool.max_lead": lead}
    settings = (
        FLAGS
        | {"evaluator": "inline", "actor.num_envs": 5, "total_env_steps": 420}
        | (of_pool if workers else {})
        | flags
    )
    return Trainer(resolve(None, settings, {}, for_all=True))


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
    names = "replay updates staleness generator recent has_ended tally evaluator learner"
    for name in names.split():
        mine, others = (
            json.dumps(of.get_state()[name], default=lambda x: x.tolist()) for of in (ours, theirs)
        )
        assert mine == others, name
    assert ours.env_steps == theirs.env_steps


def note_steps(trainer: Trainer) -> list[dict[str, np.ndarray]]:
    """The timesteps of every vector step from now on, by name."""
    seen: list[dict[str, np.ndarray]] = []
    vector_step = trainer.actor.vector_step

    def noted() -> tuple[Timesteps[np.ndarray], Any]:
        timesteps, episodes = vector_step()
        seen.append({name: part.copy() for name, part in named(timesteps).items()})
        return timesteps, episodes

    trainer.actor.vector_step = noted  # type: ignore[method-assign]
    return seen
