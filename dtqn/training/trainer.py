"""The run itself, step by step: the only place where actor, replay, learner and evaluation meet.

It knows nothing of files, logs or the terminal: `Trainer.advance` hands back a row of metrics when one is
due, and `get_state` / `set_state` carry everything that decides what comes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import envs
from dtqn.acting.evaluation import film
from dtqn.acting.timesteps import FACTS, Episodes
from dtqn.learning import losses
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.training import random_play, setup
from dtqn.training.evaluator import Evaluator
from dtqn.training.half import Half, learns_beside
from dtqn.training.pool import Pool, make_pool
from dtqn.training.replay_fields import NAMES
from dtqn.training.setup import Stream, seed_of
from dtqn.types import NonFiniteError, length_mask, observation_of
from envs.checks import ObservationCheck
from replay import SampleInfo, SequenceBatch

SUCCESS_WINDOW = 100
"""Training episodes over which `train/success`, `train/return` and `train/length` are means, or as many as
there are environments where these are more."""
_PARTS = ("learner", "updates", "evaluator")
"""The parts of a trainer that keep a state of their own."""


class Trainer:
    """One run of one agent on one task."""

    def __init__(self, config: Config, is_new: bool = True) -> None:
        """`is_new`: the task is measured; what is restored has its numbers from a checkpoint."""
        network = setup.make_network(config)
        if is_new:
            config = random_play.measure(config, network)
        self.config = config
        self.has_success = setup.task_spec(config).has_success
        self.schema = setup.make_schema(config, network)
        network.to(self.schema.device)
        self.evaluator = Evaluator(config, network)
        self.learner = setup.make_learner(config, network)
        self.half = Half(config, self.learner) if learns_beside(config) else None
        self.learner.beside = self.half
        try:
            self.actor: Pool = make_pool(config, network, self.schema)
        except BaseException:
            self._close_beside()
            raise
        self.replay = setup.make_replay(config, self.schema)
        self.generator = np.random.default_rng(seed_of(config, Stream.REPLAY))
        self.updates = setup.make_updates(config, self.replay, self.generator)
        self.staleness = setup.make_staleness(config, self.replay, self.schema, self.learner)
        self._learning_rate_share = setup.learning_rate_share(config)
        self.resume_is_exact = True
        """False once it has gone on from a state without the environments'. The actor then begins new
        episodes, and replay ends the open ones, as truncated, where the first timesteps of these come in."""
        self._recent = self._window([])
        self._has_ended = np.zeros(config.actor.num_envs, bool)
        """[N]: the environments that have ended an episode."""
        self._tally: list[Any] = [0, 0.0, 0]
        """Number, sum of returns and successes of all training episodes so far, exploration included."""
        self._told = 0
        """Episodes that the last row of training metrics has counted."""
        self._sums: dict[str, float] = {}
        self._updates_summed = 0

    @property
    def network(self) -> QNetwork:
        return self.learner.online

    @property
    def env_steps(self) -> int:
        return self.actor.env_steps

    @property
    def learner_steps(self) -> int:
        return self.learner.learner_steps

    @property
    def finished(self) -> bool:
        return self.env_steps >= self.config.total_env_steps

    def advance(self) -> dict[str, float | int | None] | None:
        """One vector step: act, store, learn what is due; a row of metrics when one is due.

        An evaluation that is due belongs to the row, and `evaluator` has it later.
        """
        before = self.env_steps
        self._act()
        for drawn in self.updates.due(before, self.env_steps):
            self._learn(*drawn)
        row: dict[str, float | int | None] = {}
        if self._due(before, self.config.metrics_every):
            row |= self._training_metrics()
        if evaluates := self._due(before, self.config.evaluation_period):
            self._ask_evaluation(at_end=False)
        return self._clocks() | row if row or evaluates else None

    def finish(self) -> list[dict[str, float | int | None]]:
        """Do all that a run owes at its end, however short: one update, one evaluation, one row of metrics.

        All evaluations that `advance` asked for must be over. The one at the end is asked for here.
        """
        before = self.learner_steps
        while self.learner_steps == 0 and self.learner.skipped_updates == 0:
            if not self.updates.can_draw:
                self._act()
                self.replay.end_episodes()
                self.actor.begin_episodes()  # what has been ended does not go on where the run is made longer
            if self.updates.can_draw:
                self._learn(*self.updates.draw())
        untold = self._updates_summed or self._told < self._tally[0]
        row = self._training_metrics() if untold else {}
        if evaluates := self.learner_steps > before or not self.evaluator.has_full(self.env_steps):
            self._ask_evaluation(at_end=True)
        return [self._clocks() | row] if row or evaluates else []

    def _act(self) -> None:
        timesteps, episodes = self.actor.vector_step()
        ids = self.replay.append(self.schema.stored(timesteps))
        if len(ids) and self.updates.reads_priorities and self.config.replay.priority_exponent > 0:
            self.replay.update_priorities(ids, self._first_priorities(ids))
        self._remember(episodes)

    def _first_priorities(self, ids: np.ndarray) -> np.ndarray:
        """Priorities from the Q-values that the actor saw, by the learner's own formulas."""
        names = (NAMES.reward, NAMES.discount, *FACTS)
        parts, counts, learned = self.replay.learn_timesteps(ids, names)
        told = {name: torch.from_numpy(parts[name]) for name in names}
        if not told["q_max"].isfinite().all():
            raise NonFiniteError(
                f"the network's Q-values are not finite at {self.env_steps} env steps; "
                "observations may be too large for it: scale them, to -1 to 1 or so"
            )
        td_error = self.learner.objective.first_td_errors(told, torch.from_numpy(counts))
        mask = length_mask(torch.from_numpy(learned), td_error.shape[1])
        priorities = losses.sequence_priority(td_error, mask)
        if not priorities.isfinite().all():
            raise NonFiniteError(
                f"the TD errors of new sequences are not finite at {self.env_steps} env steps; rewards may "
                "be too large: give a smaller learner.reward_scale"
            )
        return priorities.numpy()

    def _window(self, episodes: Iterable[Sequence[Any]]) -> deque[Sequence[Any]]:
        """Return, length and success of the last episodes of these."""
        return deque(map(tuple, episodes), maxlen=max(SUCCESS_WINDOW, self.config.actor.num_envs))

    def _remember(self, episodes: Episodes) -> None:
        """Short episodes end first: until each environment has ended one, only its first is in the window."""
        counted = len(episodes.length), float(episodes.episode_return.sum()), int(episodes.success.sum())
        self._tally = [sum(pair) for pair in zip(self._tally, counted, strict=True)]
        ended = self.actor.ended  # [N], of the vector step
        counts = ~self._has_ended[ended] | self._has_ended.all()
        self._recent.extend(zip(*(x[counts].tolist() for x in episodes), strict=True))
        self._has_ended |= ended

    def _learn(self, sampled: SequenceBatch, info: SampleInfo) -> None:
        batch = self.schema.sequences(sampled, info.importance_weights)
        try:
            update = self.learner.update(batch, self._learning_rate_share(self.env_steps))
        except NonFiniteError as error:
            raise NonFiniteError(f"{error}; the last batch held the sequences {info.ids.tolist()}") from None
        if update.priorities is not None:
            self._updates_summed += 1
            if self.updates.reads_priorities:
                self.replay.update_priorities(info.ids, update.priorities.cpu().numpy())
        if (fresh := update.memory) is not None:
            sequences, offsets = (x.cpu().numpy() for x in (fresh.sequence, fresh.offset))
            # The pass that made this memory was by the parameters before this update.
            fields = self.schema.refreshed(fresh, sampled, self.learner_steps - 1)
            self.replay.write_back(info.ids[sequences], offsets, fields)
        for name, value in update.metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self.actor.sync_weights(list(self.network.parameters()), self.learner_steps)

    def _due(self, before: int, period: int) -> bool:
        return self.env_steps // period > before // period

    def _clocks(self) -> dict[str, float | int | None]:
        return {"env_steps": self.env_steps, "learner_steps": self.learner_steps}

    def _training_metrics(self) -> dict[str, float | int | None]:
        """Means since the last row, and the state of exploration and replay."""
        row: dict[str, float | int | None] = {}
        if self._has_ended.all():
            returns, lengths, successes = zip(*self._recent, strict=True)
            row["train/return"] = float(np.mean(returns))
            row["train/length"] = float(np.mean(lengths))
            row["train/success"] = float(np.mean(successes)) if self.has_success else None
        episodes, total_return, total_success = self._tally
        row["train/episodes"] = self._told = episodes
        row["train/total_return"] = total_return
        row["train/total_success"] = total_success if self.has_success else None
        row |= {name: total / self._updates_summed for name, total in self._sums.items()}
        row["learner/skipped_updates"] = self.learner.skipped_updates
        row["learner/learning_rate"] = self.learner.learning_rate
        row |= self.actor.metrics()
        row["replay/steps"] = self.replay.num_steps
        row["replay/sequences"] = self.replay.num_sequences
        if self.replay.saturated:
            row["replay/saturated"] = self.replay.saturated
        row |= self.updates.metrics()
        if self.replay.num_sequences:
            row |= self.staleness.measure()
        self._sums, self._updates_summed = {}, 0
        return row

    def _ask_evaluation(self, at_end: bool) -> None:
        length = float(np.mean([one[1] for one in self._recent])) if self._has_ended.all() else None
        self.evaluator.ask(self.network, self.env_steps, length, at_end)

    def film(self, file: Path) -> None:
        """A greedy episode as a GIF; NoPictureError where the task draws none."""
        film(
            self.network, setup.make_env(self.config, 1, seed_of(self.config, Stream.FILM), "rgb_array"), file
        )

    def get_state(self, lazily: bool = False) -> dict[str, Any]:
        """All that `set_state` needs; `lazily`: replay's timesteps are read only when they are written."""
        return {
            "actor": self.actor.get_state(),
            **{name: getattr(self, name).get_state() for name in _PARTS},
            "replay": self.replay.get_state(lazily),
            "generator": self.generator.bit_generator.state,
            "staleness": self.staleness.generator.bit_generator.state,
            "recent": [list(episode) for episode in self._recent],
            "has_ended": self._has_ended.tolist(),
            "tally": [*self._tally, self._told],
            "sums": dict(self._sums),
            "updates_summed": self._updates_summed,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Inverse of `get_state`; a ValueError where replay holds what the task as it is now never shows."""
        task, rows = setup.task_spec(self.config), state["replay"]["rows"]
        # Earlier checkpoints lack it, and their settings do not read it.
        rows.setdefault("q_min", rows["q_max"])
        try:
            ObservationCheck(task.id, task.observation_space)(observation_of(rows))
        except envs.TaskError as error:
            raise ValueError(f"replay state: {error.problem}") from None
        self.resume_is_exact = self.actor.set_state(state["actor"])
        for name in ("replay", *_PARTS):
            getattr(self, name).set_state(state[name])
        self.generator.bit_generator.state = state["generator"]
        self.staleness.generator.bit_generator.state = state["staleness"]
        self._recent = self._window(state["recent"])
        self._has_ended |= np.asarray(state.get("has_ended", True))  # earlier checkpoints lack it
        self._tally[0], self._tally[1], self._tally[2], self._told = state["tally"]
        self._sums, self._updates_summed = dict(state["sums"]), state["updates_summed"]

    def news(self) -> list[str]:
        """News of the run's other processes since the last call, for the user, one line each."""
        return self.actor.news() + ([] if self.half is None else self.half.news())

    def close(self) -> None:
        """End the run's other processes."""
        self._close_beside()
        self.actor.close()

    def _close_beside(self) -> None:
        self.evaluator.close()
        if self.half is not None:
            self.half.close()
