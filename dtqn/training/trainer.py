"""The run itself, tick by tick: the only place where actor, replay, learner and evaluation meet.

It knows nothing of files, logs or the terminal: `Trainer.advance` hands back a row of metrics when one is
due, and `get_state` / `set_state` carry everything that decides what comes next.
"""

from __future__ import annotations

import copy
from collections import deque
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

import envs
from dtqn import networks
from dtqn.acting.actor import Actor, Episodes
from dtqn.acting.evaluation import EvaluationResult, evaluate, film
from dtqn.acting.exploration import linear
from dtqn.learning import losses
from dtqn.learning.learner import Learner, delta_q
from dtqn.learning.parts import take
from dtqn.learning.windows import learned_whole
from dtqn.networks.recurrent import RecurrentQNetwork
from dtqn.networks.windowed import QNetwork
from dtqn.settings.config import Config, ConfigError, MisfitError
from dtqn.types import FreshTrace, NonFiniteError, Sequences, StepInputs, named_parts, observation_of
from replay import Field, SequenceBatch, SequenceLayout, SequenceReplay, replay_bytes

SUCCESS_WINDOW = 100
"""Training episodes over which `train/success`, `train/return` and `train/length` are means."""
STALENESS_SEQUENCES = 8
"""Sequences for which the staleness of their stored memory is measured, each time metrics are due."""
_TRACE_VERSION = "trace_version"
"""The field of the learner step whose parameters made a row's trace, where that is not `version`."""
_ENV, _ACTOR, _REPLAY, _NETWORK, _EVALUATION, _DROPOUT, _FILM = range(7)


def _seed(config: Config, *key: int) -> np.random.SeedSequence:
    """The seed of one of the run's generators."""
    return np.random.SeedSequence(config.seed, spawn_key=key)


def device_of(config: Config) -> torch.device:
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda, but torch finds none; try cpu")
    use_cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if use_cuda else "cpu")


def task_spec(config: Config) -> envs.TaskSpec:
    return envs.spec(config.env, **config.task.model_dump())


def make_env(
    config: Config, num_envs: int, seed: np.random.SeedSequence, render_mode: str | None = None
) -> gymnasium.vector.VectorEnv:
    return envs.make_vector(config.env, num_envs, seed, render_mode=render_mode, **config.task.model_dump())


def make_network(config: Config) -> QNetwork:
    """The run's network with its initial parameters; a MisfitError where it cannot read the task."""
    task = task_spec(config)
    actions = num_actions(task)
    torch.manual_seed(int(_seed(config, _NETWORK).generate_state(1)[0]))
    try:
        return networks.build(config.network, task.observation_space, actions)
    except ValueError as error:
        raise MisfitError(f"env is {config.env}: {error}") from None


def num_actions(task: envs.TaskSpec) -> int:
    """How many actions the task has; a ConfigError where they cannot be counted."""
    if not isinstance(task.action_space, gymnasium.spaces.Discrete):
        raise ConfigError(
            f"env is {task.id}: its actions are {task.action_space}; Q-learning needs Discrete ones, "
            "or a MultiDiscrete of at most 1024 combinations"
        )
    return int(task.action_space.n)


def observation_parts(space: gymnasium.Space) -> dict[str, gymnasium.Space]:
    """The spaces of an observation's arrays, by the names that they are stored under."""
    return named_parts(dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else space)


def smallest_dtype(space: gymnasium.Space) -> np.dtype:
    """The smallest dtype that holds all values of an array's space and that torch can index."""
    match space:
        case gymnasium.spaces.Discrete():
            bounds = int(space.start), int(space.start + space.n - 1)
        case gymnasium.spaces.MultiDiscrete():
            bounds = int(space.start.min()), int((space.start + space.nvec - 1).max())
        case _:
            return np.dtype(space.dtype or np.float32)
    names = ("uint8", "int8", "int16", "int32", "int64")
    ranges = {name: np.iinfo(np.dtype(name)) for name in names}
    return np.dtype(next(n for n, r in ranges.items() if r.min <= bounds[0] and bounds[1] <= r.max))


def replay_fields(config: Config, network: QNetwork) -> dict[str, Field]:
    """What replay stores at every step."""
    task = task_spec(config)
    trace = {
        f"trace/{name}": Field(
            field.shape,
            field.dtype or np.dtype(config.replay.trace_dtype),
            "trace" if field.window else "rows",
            field.window,
        )
        for name, field in network.trace_spec().items()
    }
    return {
        **{
            name: Field(space.shape or (), smallest_dtype(space), "rows")
            for name, space in observation_parts(task.observation_space).items()
        },
        "prev_action": Field((), smallest_dtype(task.action_space), "rows"),
        "reward": Field((), np.dtype(np.float32), "rows"),
        "discount": Field((), np.dtype(np.bool_), "rows"),
        "first": Field((), np.dtype(np.bool_), "rows"),
        "last": Field((), np.dtype(np.bool_), "rows"),
        "q_max": Field((), np.dtype(np.float32), "stored"),
        "q_taken": Field((), np.dtype(np.float32), "stored"),
        "version": Field((), np.dtype(np.int32), "stored"),
        **({_TRACE_VERSION: Field((), np.dtype(np.int32), "stored")} if _refreshed(config) else {}),
        **trace,
    }


def _refreshed(config: Config) -> bool:
    return config.replay.memory == "refreshed"


def plan_bytes(config: Config) -> dict[str, int]:
    """What the run will take in memory, part by part, before any of it is taken."""
    with torch.device("meta"):  # shapes without memory
        network = make_network(config)
    parameters = sum(p.numel() * p.element_size() for p in network.parameters())
    return {
        "replay": replay_bytes(replay_fields(config, network), config.replay.capacity, config.actor.num_envs),
        # online, target, actor's copy, gradients and Adam's two moments
        "networks": 6 * parameters,
    }


class Trainer:
    """One run of one agent on one task."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.device = device_of(config)
        self.has_success = task_spec(config).has_success
        network = make_network(config)
        fields = replay_fields(config, network)
        network.to(self.device)
        self.learner = Learner(
            network,
            config.learner,
            config.replay.max_priority_weight,
            config.threads,
            int(_seed(config, _DROPOUT).generate_state(1)[0]),
            _refreshed(config),
        )
        more_than_a_tick = (
            config.actor.publish_period * config.learner.env_steps_per_update > config.actor.num_envs
        )
        self.actor = Actor(
            make_env(config, config.actor.num_envs, _seed(config, _ENV)),
            copy.deepcopy(network),
            config.actor,
            np.random.default_rng(_seed(config, _ACTOR)),
            config.warmup,
            keep_cache=more_than_a_tick,
        )
        self.replay = SequenceReplay(
            fields,
            SequenceLayout(
                config.replay.learn_length,
                config.replay.period,
                config.replay.burn_in_length,
                config.learner.n_step,
            ),
            config.replay.capacity,
            config.actor.num_envs,
            config.replay.priority_exponent,
            config.replay.importance_sampling_exponent,
        )
        self.generator = np.random.default_rng(_seed(config, _REPLAY))
        parts = observation_parts(task_spec(config).observation_space)
        self._input_names = [*parts, "prev_action", "reward", "first"]
        self.resume_is_exact = True
        """False once it has gone on from a state without the environments'. The actor then begins new
        episodes, and replay ends the open ones, as truncated, where the first rows of these come in."""
        traces = {name: field for name, field in fields.items() if name.startswith("trace/")}
        self._trace_names = [name for name, field in traces.items() if field.window]
        self._beside_names = [name for name, field in traces.items() if not field.window]
        self._update_credit = 0.0
        self._evaluations = 0
        self._evaluated_at = -1
        self._recent: deque[tuple[float, int, bool]] = deque(maxlen=SUCCESS_WINDOW)
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
        """One tick: act, store, learn what is due; a row of metrics when one is due."""
        before = self.env_steps
        self._act()
        if self.env_steps > self.config.warmup:
            self._update_credit += (self.env_steps - max(before, self.config.warmup)) / (
                self.config.learner.env_steps_per_update
            )
        while self._update_credit >= 1:
            self._update_credit -= 1
            if self.replay.num_sequences:
                self._learn()
        row: dict[str, float | int | None] = {}
        if self._due(before, self.config.metrics_every):
            row |= self._training_metrics()
        if self._due(before, self.config.evaluation.period):
            row |= self._evaluation_metrics()
        return self._clocks() | row if row else None

    def finish(self) -> list[dict[str, float | int | None]]:
        """What a run owes at its end, however short: one update, one evaluation, one row of metrics."""
        while self.learner_steps == 0 and self.learner.skipped_updates == 0:
            if not self.replay.num_sequences:
                self._act()
                self.replay.end_episodes()
                self.actor.begin_episodes()  # what has been ended does not go on where the run is made longer
            if self.replay.num_sequences:
                self._learn()
        row = self._training_metrics() if self._updates_summed else {}
        if self._evaluated_at != self.learner_steps:
            row |= self._evaluation_metrics()
        return [self._clocks() | row] if row else []

    def _act(self) -> None:
        rows, episodes = self.actor.tick()
        if _refreshed(self.config):
            rows[_TRACE_VERSION] = rows["version"]
        ids = self.replay.append(rows)
        if len(ids) and self.config.replay.initial_priority == "actor":
            self.replay.update_priorities(ids, self._first_priorities(ids))
        self._remember(episodes)

    def _first_priorities(self, ids: np.ndarray) -> np.ndarray:
        """Priorities from the Q-values that the actor saw, by the learner's own formulas."""
        names = ["reward", "discount", "q_max", "q_taken"]
        rows, counts, learned = self.replay.learn_rows(ids, names)
        reward, discount, q_max, q_taken = (torch.from_numpy(rows[name]) for name in names)
        td_error = self.learner.objective.first_td_errors(
            reward, discount, q_max, q_taken, torch.from_numpy(counts)
        )
        mask = torch.arange(td_error.shape[1]) < torch.from_numpy(learned)[:, None]
        return losses.sequence_priority(td_error, mask, self.config.replay.max_priority_weight).numpy()

    def _remember(self, episodes: Episodes) -> None:
        self._recent.extend(
            zip(
                episodes.episode_return.tolist(),
                episodes.length.tolist(),
                episodes.success.tolist(),
                strict=True,
            )
        )

    def _learn(self) -> None:
        sampled, info = self.replay.sample(self.config.learner.batch_size, self.generator)
        batch = self._to_sequences(sampled, info.importance_weights)
        start = self.config.learner.learning_rate_decay_start
        decayed = (self.env_steps / self.config.total_env_steps - start) / (1 - start)
        share = linear(1.0, self.config.learner.final_learning_rate_share, decayed)
        try:
            update = self.learner.update(batch, share)
        except NonFiniteError as error:
            raise NonFiniteError(f"{error}; the last batch held the sequences {info.ids.tolist()}") from None
        if update.priorities is not None:
            self.replay.update_priorities(info.ids, update.priorities.cpu().numpy())
            self._updates_summed += 1
        if update.trace is not None:
            self._write_back(info.ids, update.trace)
        for name, value in update.metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        if self.learner_steps % self.config.actor.publish_period == 0:
            self.actor.publish(self.learner.online, self.learner_steps)

    def _write_back(self, ids: np.ndarray, trace: FreshTrace) -> None:
        """Replay's memory becomes what the update's forward pass made of it."""
        fresh = {f"trace/{name}": rows.cpu().numpy() for name, rows in trace.rows.items()}
        offset = trace.offset.cpu().numpy()
        fresh[_TRACE_VERSION] = np.full(len(offset), self.learner_steps - 1)
        self.replay.write_back(ids[trace.sequence.cpu().numpy()], offset, fresh)

    def _step_inputs(self, rows: dict[str, np.ndarray]) -> StepInputs:
        read = {name: torch.from_numpy(rows[name]).to(self.device) for name in self._input_names}
        return StepInputs(observation_of(read), read["prev_action"], read["reward"], read["first"])

    def _to_sequences(self, batch: SequenceBatch, weights: np.ndarray) -> Sequences:
        def tensor(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(self.device)

        kept = batch.memory_valid.shape[1] if self.config.replay.memory != "zero" else 0
        sequences = Sequences(
            trace={
                name.removeprefix("trace/"): tensor(
                    batch.memory[name][:, batch.memory[name].shape[1] - kept :]
                )
                for name in self._trace_names
            },
            trace_valid=tensor(batch.memory_valid[:, batch.memory_valid.shape[1] - kept :]),
            episode_step=tensor(batch.episode_step),
            burn_in=self._step_inputs(batch.burn_in),
            burn_in_rows=tensor(batch.burn_in_rows),
            learn=self._step_inputs(batch.learn),
            discount=tensor(batch.learn["discount"]).float(),
            learn_rows=tensor(batch.learn_rows),
            learned_steps=tensor(batch.learned_steps),
            importance_weights=tensor(weights),
            beside={name.removeprefix("trace/"): tensor(batch.learn[name]) for name in self._beside_names},
        )
        return learned_whole(sequences) if self.config.replay.learn_burn_in else sequences

    def _due(self, before: int, period: int) -> bool:
        return self.env_steps // period > before // period

    def _clocks(self) -> dict[str, float | int | None]:
        return {"env_steps": self.env_steps, "learner_steps": self.learner_steps}

    def _training_metrics(self) -> dict[str, float | int | None]:
        """Means since the last row, and the state of exploration and replay."""
        row: dict[str, float | int | None] = {}
        if self._recent:
            returns, lengths, successes = zip(*self._recent, strict=True)
            row["train/return"] = float(np.mean(returns))
            row["train/length"] = float(np.mean(lengths))
            row["train/success"] = float(np.mean(successes)) if self.has_success else None
        row |= {name: total / self._updates_summed for name, total in self._sums.items()}
        row["learner/skipped_updates"] = self.learner.skipped_updates
        row["learner/learning_rate"] = self.learner.optimizer.param_groups[0]["lr"]
        row["actor/epsilon"] = float(self.actor.epsilon().mean())
        row["replay/steps"] = self.replay.num_steps
        row["replay/sequences"] = self.replay.num_sequences
        row |= {f"replay/priority_{name}": value for name, value in self.replay.priority_statistics().items()}
        if self.replay.num_sequences:
            row |= self._staleness()
        self._sums, self._updates_summed = {}, 0
        return row

    def _staleness(self) -> dict[str, float | int | None]:
        """Ages in learner steps of what a few replay sequences were made with, and R2D2's delta-Q of them."""
        sampled, info = self.replay.sample(STALENESS_SEQUENCES, self.generator)
        trace_version = _TRACE_VERSION if _refreshed(self.config) else "version"
        prefix = self.replay.prefix(info.ids, list({"version", trace_version}) + self._input_names)
        if not len(prefix.anchors):
            return {}
        available = torch.from_numpy(prefix.available.nonzero()[0])
        batch = take(self._to_sequences(sampled, info.importance_weights), available)
        anchor = batch.episode_step + batch.burn_in_rows
        row = np.arange(prefix.rows["version"].shape[1])
        learned = (row >= anchor.cpu().numpy()[:, None]) & (row < prefix.row_counts[:, None])
        start = batch.episode_step.cpu().numpy()
        oldest = start - batch.trace_valid.sum(dim=1).cpu().numpy()
        remembered = (row < start[:, None]) & (row >= oldest[:, None])
        age = self.learner_steps - prefix.rows["version"]
        memory_age = self.learner_steps - prefix.rows[trace_version]
        measured: dict[str, float | int | None] = {
            "replay/parameter_age": float(age[learned].mean()),
            "replay/memory_age": float(memory_age[remembered].mean()) if remembered.any() else None,
        }
        if isinstance(self.network, RecurrentQNetwork):  # a window is never stale
            first, last = delta_q(self.network, batch, self._step_inputs(prefix.rows), anchor)
            measured |= {
                "replay/delta_q_first": float(first.mean()),
                "replay/delta_q_last": float(last.mean()),
            }
        return measured

    def _evaluation_metrics(self) -> dict[str, float | int | None]:
        result = self.evaluate()
        self._evaluations += 1
        self._evaluated_at = self.learner_steps
        return {
            "eval/success": result.success,
            "eval/success_low": result.success_low,
            "eval/success_high": result.success_high,
            "eval/return": result.episode_return,
            "eval/length": result.length,
            "eval/episodes": result.episodes,
        }

    def evaluate(self) -> EvaluationResult:
        """Greedy episodes of the online network, on seeds that no other evaluation or training shares."""
        config = self.config.evaluation
        env = make_env(
            self.config,
            min(config.num_envs, config.episodes),
            _seed(self.config, _EVALUATION, self._evaluations),
        )
        return evaluate(self.network, env, config.episodes, self.has_success)

    def film(self, file: Path) -> None:
        """A greedy episode as a GIF; ValueError where the task cannot be drawn."""
        film(self.network, make_env(self.config, 1, _seed(self.config, _FILM), "rgb_array"), file)

    def get_state(self) -> dict[str, Any]:
        return {
            "actor": self.actor.get_state(),
            "learner": self.learner.get_state(),
            "replay": self.replay.get_state(),
            "generator": self.generator.bit_generator.state,
            "update_credit": self._update_credit,
            "evaluations": self._evaluations,
            "evaluated_at": self._evaluated_at,
            "recent": [list(episode) for episode in self._recent],
            "sums": dict(self._sums),
            "updates_summed": self._updates_summed,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.actor.set_state(state["actor"])
        self.learner.set_state(state["learner"])
        self.replay.set_state(state["replay"])
        self.resume_is_exact = state["actor"]["rows"]["env"] is not None
        self.generator.bit_generator.state = state["generator"]
        self._update_credit = state["update_credit"]
        self._evaluations, self._evaluated_at = state["evaluations"], state["evaluated_at"]
        self._recent = deque((tuple(episode) for episode in state["recent"]), maxlen=SUCCESS_WINDOW)
        self._sums, self._updates_summed = dict(state["sums"]), state["updates_summed"]
