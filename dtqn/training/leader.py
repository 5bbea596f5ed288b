"""A run of several ranks: rank 0 leads it, and the others do with it what it does.

Rank 0 has the run's session: files, terminal, trackers, signals, evaluations. Before each step of its
trainer it tells the other ranks which one it is. These have a trainer each and nothing else, and end when
rank 0 does.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch

import envs
from dtqn.program import launch
from dtqn.ranks import Group, RankError
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.text import one_line
from dtqn.training import checkpoint, machine
from dtqn.training.setup import device_of
from dtqn.training.trainer import Trainer
from dtqn.types import NonFiniteError


class Order(IntEnum):
    """An order of rank 0 to the others."""

    ADVANCE = 1
    FINISH = 2
    SAVE = 3
    RESTORE = 4
    END = 5


_SHARD = ("actor", "replay", "staleness", "recent", "tally")
"""The parts of a trainer's state that are each rank's own."""


def check(config: Config) -> None:
    """Refuse a run that is not started as its settings say.

    Raises:
        ConfigError: there are more or fewer processes than ranks, or fewer GPUs.
    """
    here, ranks = launch(), config.learner.ranks
    if ranks != here.ranks:
        found = "1 process was" if here.ranks == 1 else f"{here.ranks} processes were"
        how = f"torchrun --nproc-per-node {ranks} run.py ..." if ranks > 1 else "no torchrun"
        raise wrong("learner.ranks", ranks, f"{found} started; it takes {how}")
    if ranks > 1 and device_of(config).type == "cuda" and torch.cuda.device_count() < here.local_ranks:
        gpus = torch.cuda.device_count()
        raise wrong(
            "device", config.device, f"{here.local_ranks} ranks here need a GPU each, and there are {gpus}"
        )


class Leader(Trainer):
    """The trainer of rank 0."""

    def __init__(self, config: Config, checkpoints: Path) -> None:
        """`checkpoints` is the run's folder of them, which all ranks reach."""
        self._group = Group()
        self._group.from_first(config)
        self._checkpoints = checkpoints
        super().__init__(config, self._group)
        self.check_same()

    def _order(self, order: Order) -> None:
        self._group.gather([order])

    def advance(self) -> dict[str, float | int | None] | None:
        self._order(Order.ADVANCE)
        return super().advance()

    def finish(self) -> list[dict[str, float | int | None]]:
        self._order(Order.FINISH)
        return super().finish()

    def save_shards(self, folder: Path) -> None:
        """Has the other ranks write their shards there.

        Raises:
            ConfigError: where one cannot.
        """
        self._order(Order.SAVE)
        self._group.from_first(folder)
        self._hear_problems()

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._order(Order.RESTORE)
        self._group.from_first((checkpoint.current(self._checkpoints), _joint(state)))
        self._hear_problems()
        self.check_same()

    def _hear_problems(self) -> None:
        for problem in self._group.gather_objects(None):
            if problem is not None:
                raise ConfigError(problem)

    def end(self) -> None:
        """Lets the other ranks go, all being between two steps."""
        self._order(Order.END)

    def close(self) -> None:
        """Where the other ranks are in the midst of a step, it ends them too."""
        super().close()
        self._group.leave()


def dismiss() -> None:
    """Lets the other ranks of a run go that has nothing to do."""
    group = Group()
    group.from_first(None)
    group.leave()


def _joint(state: dict[str, Any]) -> dict[str, Any]:
    """The parts of a trainer's state that all ranks share."""
    return {name: part for name, part in state.items() if name not in _SHARD}


def follow() -> int:
    """The life of a rank other than 0, from its first step to its last; the program's exit code."""
    machine.prepare()
    group = Group()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # they are for rank 0, which decides what becomes of the run
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        serve(group)
        return 0
    except RankError:  # rank 0 meets it too
        return 1
    except (ConfigError, NonFiniteError, envs.TaskError) as error:
        print(f"error: rank {group.rank}: {one_line(str(error))}", file=sys.stderr, flush=True)
        return 1
    finally:
        group.leave()


def serve(group: Group) -> None:
    """Make the trainer of this rank and do what rank 0 says, until it says that this was all."""
    config: Config | None = group.from_first()
    if config is not None:
        trainer = Trainer(config.model_copy(update={"evaluator": "inline"}), group)
        try:
            trainer.check_same()
            _obey(trainer, group)
        finally:
            trainer.close()


def _obey(trainer: Trainer, group: Group) -> None:
    while True:
        match Order(int(group.gather([0])[0, 0])):
            case Order.ADVANCE:
                trainer.advance()
            case Order.FINISH:
                trainer.finish()
            case Order.SAVE:
                _answer(group, lambda: _save(trainer, group))
            case Order.RESTORE:
                _answer(group, lambda: _restore(trainer, group))
                trainer.check_same()
            case Order.END:
                return


def _save(trainer: Trainer, group: Group) -> None:
    state = trainer.get_state(lazily=True)
    checkpoint.save_shard(group.from_first(), group.rank, {name: state[name] for name in _SHARD})


def _restore(trainer: Trainer, group: Group) -> None:
    folder, joint = group.from_first()
    trainer.set_state(joint | checkpoint.load_shard(folder, group.rank))


def _answer(group: Group, work: Callable[[], None]) -> None:
    """Do it, and tell all ranks what went wrong, if something did."""
    problem = None
    try:
        work()
    except (ConfigError, *checkpoint.FOREIGN) as error:
        problem = f"rank {group.rank}: {one_line(str(error))}"
    group.gather_objects(problem)
