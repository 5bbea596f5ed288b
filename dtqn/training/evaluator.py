"""A run's evaluations: asked for when they are due, played by the run or another process, counted in order.

An evaluation depends on the settings, the parameters and what came before it. All of these are fixed when it
begins, so it comes out the same wherever and whenever it is played: by the run itself, by another process
while the run learns on, or again after a resume, as an unfinished one is part of the run's state. The next
one begins when it has been counted.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from dtqn.acting.evaluation import EpisodePlan, Goal, Played, Stopped, play
from dtqn.learning.returns import value_transform
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.training import machine, setup
from dtqn.training.exchange import Form, shared_arrays
from dtqn.training.metrics import Row
from dtqn.training.setup import Stream, seed_of
from dtqn.training.worker import Worker, WorkerError

_SILENT_SECONDS = 300.0
"""A player in another process counts as hung after so long without a step of its episodes."""
_STEPS: dict[str, Form] = {"steps": ((1,), np.dtype(np.int64))}
"""What it counts, in memory that the run reads."""


class Asked(NamedTuple):
    """An evaluation that is due."""

    number: int
    """Its place among the run's, from 0."""
    env_steps: int
    length: float | None
    """Mean length of recent training episodes; None where there are none."""
    at_end: bool
    """The run ends with it."""
    weights: dict[str, torch.Tensor]
    """The policy's at that moment, on the CPU."""


class Evaluated(NamedTuple):
    """An evaluation that is over."""

    env_steps: int
    metrics: Row
    weights: dict[str, torch.Tensor]
    """Those that were evaluated."""


class Player:
    """Plays evaluations of a run with a network of its own."""

    def __init__(self, config: Config, network: QNetwork) -> None:
        """`network` is the player's own, on the run's device; `play` overwrites its parameters."""
        self._config, self._network = config, network.requires_grad_(False)
        self._steps = np.zeros(1, np.int64)

    @classmethod
    def beside(cls, config: Config, descriptor: int) -> Player:
        """One in a process of its own, which counts its steps in the memory of this descriptor."""
        machine.prepare()
        player = cls(config, setup.make_network(config).to(setup.device_of(config)))
        player._steps = shared_arrays(_STEPS, descriptor)[0]["steps"]
        return player

    def _counted(self) -> bool:
        self._steps += 1
        return False

    def play(self, asked: Asked, episodes: int, stopped: Callable[[], bool] | None = None) -> Played:
        """So many episodes on seeds that nothing else has; where `stopped` says so, it raises `Stopped`."""
        self._network.load_state_dict(asked.weights)
        config = self._config
        env = setup.make_env(
            config,
            min(config.evaluation.num_envs, episodes),
            seed_of(config, Stream.EVALUATION, asked.number),
        )
        chance = setup.random_actions(
            config, config.evaluation.epsilon, seed_of(config, Stream.EVALUATION_ACTIONS, asked.number)
        )
        gamma = config.learner.discount_factor
        return play(self._network, env, episodes, stopped or self._counted, gamma, chance)


class Evaluator:
    """Asks a `Player` for one evaluation after the other and counts them."""

    def __init__(self, config: Config, network: QNetwork) -> None:
        """`network` is the run's; only a copy of it plays."""
        self._learner = config.learner
        self._has_success = setup.task_spec(config).has_success
        self._beside: Worker | None = None
        if config.evaluates_beside:
            arrays, shared = shared_arrays(_STEPS)
            self._steps, self._heard = arrays["steps"], (0, 0.0)
            self._beside = Worker("plays evaluations", Player.beside, config, shared, descriptors=[shared])
        else:
            self._player = Player(config, copy.deepcopy(network))
        goal = Goal(config.stop_at_success, config.stop_at_return)
        self._plan = EpisodePlan(config.evaluation, goal)
        self._waiting: deque[Asked] = deque()
        self._begun = False
        """Whether the other process is playing the first of them."""
        self._number = 0
        self._full_at = -1
        """The env steps of the last evaluation where it was a full one; else -1."""

    @property
    def waiting(self) -> list[int]:
        """The env steps at which evaluations were asked for that are not over."""
        return [asked.env_steps for asked in self._waiting]

    def has_full(self, env_steps: int) -> bool:
        """Whether the last evaluation is of these env steps, and counts as full. None may be waiting."""
        assert not self._waiting
        return self._full_at == env_steps

    def ask(self, network: QNetwork, env_steps: int, length: float | None, at_end: bool) -> None:
        """Ask for an evaluation of `network` as it is now; `Asked` says what the others are."""
        weights = {name: x.detach().to("cpu", copy=True) for name, x in network.state_dict().items()}
        self._waiting.append(Asked(self._number, env_steps, length, at_end, weights))
        self._number += 1

    def evaluated(
        self, timeout: float = 0.0, stopped: Callable[[], bool] = lambda: False
    ) -> Evaluated | None:
        """The next evaluation in the order in which they were asked for.

        Args:
            timeout: seconds after which it is None where it is not over. The run itself plays it at once.
            stopped: where the run itself plays and this says so, the evaluation is given up; it still waits.

        Raises:
            TaskError: the task has failed, or another error of the evaluation; it is still waiting.
            WorkerError: the process that plays has ended, or was ended as it hangs.
        """
        if not self._waiting:
            return None
        asked = self._waiting[0]
        played = self._played(asked, timeout, stopped)
        if played is None:
            return None
        self._waiting.popleft()
        result = played.result(self._has_success)
        full = self._plan.count(result, asked.at_end)
        self._full_at = asked.env_steps if full else -1
        metrics: Row = {
            "eval/success": result.success,
            "eval/success_low": result.success_low,
            "eval/success_high": result.success_high,
            "eval/return": result.episode_return,
            "eval/return_error": result.return_error,
            "eval/discounted_return": float(played.discounted_returns.mean()),
            "eval/value_estimate": self._value_estimate(played.first_q),
            "eval/length": result.length,
            "eval/episodes": result.episodes,
            "eval/stage": 2 if full else 1,
        }
        return Evaluated(asked.env_steps, metrics, asked.weights)

    def _played(self, asked: Asked, timeout: float, stopped: Callable[[], bool]) -> Played | None:
        """The episodes; None where they are not over, or the run itself has stopped in their midst."""
        episodes = self._plan.episodes(asked.env_steps, asked.length, asked.at_end)
        if self._beside is None:
            with contextlib.suppress(Stopped):
                return self._player.play(asked, episodes, stopped)
            return None
        if not self._begun:
            self._beside.ask("play", asked, episodes)
            self._begun, self._heard = True, (int(self._steps[0]), time.monotonic())
        if not self._beside.answered(timeout):
            self._check_steps(self._beside)
            return None
        self._begun = False
        return self._beside.answer()

    def _check_steps(self, beside: Worker) -> None:
        """A WorkerError, and the end of the process, where it has been silent for too long."""
        (steps, since), now = self._heard, time.monotonic()
        if steps != self._steps[0]:
            self._heard = int(self._steps[0]), now
        elif now - since > _SILENT_SECONDS:
            beside.kill()
            problem = f"the process that plays evaluations has made no step for {_SILENT_SECONDS:g} seconds"
            raise WorkerError(problem)

    def _value_estimate(self, first_q: np.ndarray) -> float | None:
        """The mean of Q-values [n] of the learner, on the scale of the task's rewards; None if not finite."""
        inverse = value_transform(self._learner.value_rescaling).inverse
        mean = float(inverse(torch.from_numpy(first_q)).mean()) / self._learner.scale
        return mean if math.isfinite(mean) else None

    def forget_scores(self) -> None:
        """The evaluations so far are of another task."""
        self._full_at = -1
        self._plan.forget_scores()

    def close(self) -> None:
        """End the player, in the midst of an evaluation too."""
        if self._beside is not None:
            self._beside.close()

    def get_state(self) -> dict[str, Any]:
        return {
            "number": self._number,
            "full_at": self._full_at,
            "stages": self._plan.get_state(),
            "waiting": [asked._asdict() for asked in self._waiting],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """For an evaluator that has not been asked yet."""
        self._number, self._full_at = state["number"], state["full_at"]
        self._plan.set_state(state["stages"])
        of_asked = ({name: asked[name] for name in Asked._fields} for asked in state["waiting"])
        self._waiting = deque(Asked(**each) for each in of_asked)  # earlier checkpoints hold more of each
