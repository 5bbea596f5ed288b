"""A run step by step in plain loops: one environment, one sequence and one priority after the other.

The task, the network, one update of the learner and an evaluation are the package's own and are trusted here,
since other tests hold them. All between them is written anew: which timestep is stored, who is drawn with
which weight, what an update is given, and where its results go.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

import envs
from dtqn import networks
from dtqn.acting.evaluation import EvaluationResult, play
from dtqn.learning.learner import Learner
from dtqn.settings.config import Config
from dtqn.types import Sequences, StepInputs
from replay import Field, SequenceLayout
from tests.reference import losses_twin as losses
from tests.reference.naive_replay import NaiveReplay

INPUT_KINDS = StepInputs(torch.int64, torch.int64, torch.float64, torch.bool)


class SometimesRandom:
    """Draws this share of all actions anew, each among all of them."""

    def __init__(self, share: float, num_actions: int, seed: np.random.SeedSequence) -> None:
        self.share, self.num_actions, self.generator = share, num_actions, np.random.default_rng(seed)

    def act(self, greedy: np.ndarray) -> np.ndarray:
        anything = self.generator.integers(self.num_actions, size=len(greedy))
        chances = self.generator.random(len(greedy))
        return np.array([anything[i] if chances[i] < self.share else greedy[i] for i in range(len(greedy))])


class NaiveTrainer:
    """The same run as `Trainer(config)`, for tasks with one array of integers as observation."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.task = envs.spec(config.env, **config.task.model_dump())
        torch.manual_seed(int(self.seed(3).generate_state(1)[0]))
        num_actions = int(self.task.action_space.n)
        network = networks.build(config.network, self.task.observation_space, num_actions)
        self.refreshed = config.replay.memory == "refreshed"
        self.learner = Learner(
            network,
            config=config.learner,
            learn_burn_in=False,
            want_memory=self.refreshed,
            parts=1,
            seed=int(self.seed(5).generate_state(1)[0]),
        )
        self.acting = copy.deepcopy(network)
        self.version = 0
        """The learner step that `acting` is from."""
        self.num_actions = num_actions
        self.num_envs = config.actor.num_envs
        self.env = self.make_env(self.num_envs, 0)
        self.actor_generator = np.random.default_rng(self.seed(1))
        self.replay_generator = np.random.default_rng(self.seed(2))
        replay = config.replay
        fields = {
            name: Field(spec.shape, replay.memory_dtype, "memory", spec.window)
            for name, spec in network.memory_spec().items()
        }
        fields |= {
            "observation": Field(self.task.observation_space.shape, np.int64, "timesteps"),
            "prev_action": Field((), np.int64, "timesteps"),
            "reward": Field((), np.float32, "timesteps"),
            "discount": Field((), np.bool_, "timesteps"),
            "first": Field((), np.bool_, "timesteps"),
            "last": Field((), np.bool_, "timesteps"),
            "novel": Field((), np.bool_, "timesteps"),
            "q_max": Field((), np.float32, "timesteps"),
            "q_min": Field((), np.float32, "timesteps"),
            "q_taken": Field((), np.float32, "timesteps"),
            "version": Field((), np.int64, "stored"),
        }
        window = max((spec.window for spec in network.memory_spec().values()), default=0)
        fields["trace_version"] = Field((), np.int64, "memory" if window else "stored", window)
        self.memory_names = list(network.memory_spec())
        self.replay = NaiveReplay(
            fields,
            SequenceLayout(
                learn_length=replay.learn_length,
                sequence_period=replay.sequence_period or replay.learn_length,
                burn_in_length=replay.burn_in_length,
                n_step=config.learner.n_step,
            ),
            capacity=replay.capacity,
            num_streams=self.num_envs,
            alpha=replay.priority_exponent,
            beta=replay.importance_sampling_exponent,
        )
        self.observation = self.env.reset()[0]
        self.prev_action = [0] * self.num_envs
        self.reward = [0.0] * self.num_envs
        self.first, self.last = [True] * self.num_envs, [False] * self.num_envs
        self.terminated = [False] * self.num_envs
        self.states: list[Any] = [None] * self.num_envs
        self.shown: list[list[list[int]]] = [[] for _ in range(self.num_envs)]
        self.tried: list[set[tuple[int, ...]]] = [set() for _ in range(self.num_envs)]
        """The observations of each environment's episode so far."""
        self.env_steps = self.updates_due = self.evaluations = 0

    def seed(self, *key: int) -> np.random.SeedSequence:
        """0 the task, 1 the actor, 2 replay, 3 the network, 5 the learner; of evaluation k (4, k), (8, k)."""
        return np.random.SeedSequence(self.config.seed, spawn_key=key)

    def make_env(self, num_envs: int, *key: int) -> Any:
        return envs.make_vector(self.config.env, num_envs, self.seed(*key), **self.config.task.model_dump())

    @property
    def warmup(self) -> int:
        assert self.config.warmup_env_steps is not None
        return self.config.warmup_env_steps

    def advance(self) -> EvaluationResult | None:
        """One vector step; the evaluation where one is due."""
        before = self.env_steps
        self.act()
        due = int(max(0, self.env_steps - self.warmup) / self.config.learner.batches.env_steps_per_update)
        while self.updates_due < due:
            self.updates_due += 1
            if self.replay.sampleable():
                self.learn()
        period = self.config.evaluation_period
        if not any(step % period == 0 for step in range(before + 1, self.env_steps + 1)):
            return None
        settings = self.config.evaluation
        env = self.make_env(min(settings.num_envs, settings.episodes), 4, self.evaluations)
        chance: Any = SometimesRandom(settings.epsilon, self.num_actions, self.seed(8, self.evaluations))
        self.evaluations += 1
        played = play(self.learner.online, env, settings.episodes, random_actions=chance)
        return played.result(self.task.has_success)

    # Acting.

    def epsilon(self, i: int) -> float:
        """The share of random actions of environment i, now."""
        actor = self.config.actor
        since = self.env_steps - self.warmup
        if since < 0:
            return 1.0
        final = actor.epsilon_final
        if actor.exploration.name == "ladder":
            final = actor.exploration.base ** (1 + actor.exploration.exponent * i / (self.num_envs - 1))
        if since >= actor.epsilon_anneal_env_steps:
            return final
        return 1 + (final - 1) * since / actor.epsilon_anneal_env_steps

    @torch.no_grad()
    def act(self) -> None:
        draws = self.actor_generator.random(self.num_envs)
        anything = self.actor_generator.integers(self.num_actions, size=self.num_envs)
        timesteps, actions = [], []
        for i in range(self.num_envs):
            if self.first[i]:
                self.states[i], self.shown[i] = self.acting.initial_state(1), []
            seen = np.array(self.observation[i]).ravel().tolist()
            asked = self.config.learner.novelty_weight > 0 or self.config.learner.repeat_cost > 0
            timestep: dict[str, Any] = {
                "observation": np.array(self.observation[i]),
                "prev_action": self.prev_action[i],
                "reward": self.reward[i],
                "discount": not self.terminated[i],
                "first": self.first[i],
                "last": self.last[i],
                "novel": asked and seen not in self.shown[i],
                "version": self.version,
                "trace_version": self.version,
            }
            self.shown[i].append(seen)
            output, self.states[i], memory = self.acting(self.inputs([[timestep]]), self.states[i])
            q = output.q[0, 0].tolist()
            # Half of the environments try: 1, 3, 5 and so on.
            tries = self.config.actor.untried_share == 0.5 and i % 2 == 1
            new = [a for a in range(self.num_actions) if tries and (*seen, a) not in self.tried[i]]
            best = max(new, key=q.__getitem__) if new else losses.argmax(q)
            action = int(anything[i]) if draws[i] < self.epsilon(i) else best
            if not self.last[i]:
                self.tried[i].add((*seen, action))
            timestep |= {"q_max": max(q), "q_min": min(q), "q_taken": q[action]}
            timestep |= {name: getattr(memory, name)[0, 0].numpy() for name in self.memory_names}
            timesteps.append(timestep)
            actions.append(action)
        self.env_steps += self.last.count(False)
        stored = {name: np.array([timestep[name] for timestep in timesteps]) for name in timesteps[0]}
        for id_ in self.replay.append(stored, list(range(self.num_envs))):
            if self.config.replay.priority_exponent > 0:
                self.replay.update_priorities([id_], [self.first_priority(id_)])
        observation, reward, terminated, truncated, _ = self.env.step(np.array(actions))
        self.observation, self.prev_action, self.reward = observation, actions, list(map(float, reward))
        self.first, self.terminated = self.last, list(map(bool, terminated))
        self.last = [bool(a or b) for a, b in zip(terminated, truncated, strict=True)]

    def first_priority(self, id_: int) -> float:
        """From what the actor saw: n-step targets of its largest Q-values."""
        config, sequence = self.config.learner, self.replay.sequence(id_)
        learn = sequence["learn"]
        y = losses.targets(
            [
                config.reward_scale * float(step["reward"])
                + (config.novelty_weight if step["novel"] else -config.repeat_cost)
                for step in learn
            ],
            [float(step["discount"]) for step in learn],
            [float(step["q_max"]) for step in learn],
            len(learn),
            config.n_step,
            config.gamma,
        )
        deltas = [y[t] - float(learn[t]["q_taken"]) for t in range(sequence["learned_steps"])]
        return losses.priority(deltas, 0.9)

    # Learning.

    def learn(self) -> None:
        ids = self.replay.sample_ids(self.config.learner.batches.size, self.replay_generator)
        batch = self.batch(ids)
        before = self.learner.learner_steps
        update = self.learner.update(batch, self.learning_rate_share())
        assert update.priorities is not None
        self.replay.update_priorities(ids, update.priorities.tolist())
        if self.refreshed:
            fresh = update.memory
            assert fresh is not None
            values: dict[str, Any] = {name: x.numpy() for name, x in fresh.memory.items()}
            versions = [min([before, *self.memory_versions(id_)]) for id_ in ids]
            values["trace_version"] = [versions[b] for b in fresh.sequence]
            self.replay.write_back([ids[b] for b in fresh.sequence], fresh.offset.tolist(), values)
        self.acting.load_state_dict(self.learner.online.state_dict())
        self.version = self.learner.learner_steps

    def memory_versions(self, id_: int) -> list[int]:
        """Those of the memory that a sequence starts from."""
        found = self.replay.sequence(id_)["memory"]["trace_version"]
        return [int(version) for version in found]

    def learning_rate_share(self) -> float:
        config, end = self.config.learner, self.config.total_env_steps
        start = 0.6 * end
        if self.env_steps <= start:
            return 1.0
        gone = min(1.0, (self.env_steps - start) / (end - start))
        return 1.0 - (1.0 - config.final_learning_rate_share) * gone

    def batch(self, ids: list[int]) -> Sequences:
        found = [self.replay.sequence(id_) for id_ in ids]
        if self.config.replay.memory == "zero":
            for sequence in found:
                sequence["memory"] = {name: [] for name in self.memory_names}
        remembered = [len(next(iter(sequence["memory"].values()))) for sequence in found]
        burn_in, learn = ([sequence[name] for sequence in found] for name in ("burn_in", "learn"))
        longest = max(map(len, learn))
        return Sequences(
            memory={
                name: self.padded([sequence["memory"][name] for sequence in found], spec.shape, left=True)
                for name, spec in self.learner.online.memory_spec().items()
            },
            memory_valid=torch.tensor(
                [[False] * (max(remembered) - count) + [True] * count for count in remembered],
                dtype=torch.bool,
            ),
            episode_step=torch.tensor([sequence["episode_step"] for sequence in found]),
            burn_in=self.inputs(burn_in),
            burn_in_timesteps=torch.tensor(list(map(len, burn_in))),
            learn=self.inputs(learn),
            discount=torch.tensor(
                [[float(step["discount"]) for step in s] + [1.0] * (longest - len(s)) for s in learn]
            ),
            learn_timesteps=torch.tensor(list(map(len, learn))),
            learned_steps=torch.tensor([sequence["learned_steps"] for sequence in found]),
            importance_weights=torch.tensor(self.replay.weights(ids)),
            **{
                f"{name}_facts": {
                    "novel": self.padded([[step["novel"] for step in s] for s in block], ()).bool()
                }
                for name, block in (("burn_in", burn_in), ("learn", learn))
            },
        )

    def inputs(self, blocks: list[list[dict[str, Any]]]) -> StepInputs:
        """[B, T] timesteps, as many as the longest block has."""
        observed = self.task.observation_space.shape

        def column(name: str, shape: tuple[int, ...] = ()) -> Tensor:
            return self.padded([[step[name] for step in steps] for steps in blocks], shape)

        columns = column("observation", observed), column("prev_action"), column("reward"), column("first")
        return StepInputs(*(x.to(kind) for x, kind in zip(columns, INPUT_KINDS, strict=True)))

    def padded(self, blocks: list[list[Any]], shape: tuple[int, ...], left: bool = False) -> Tensor:
        """[B, longest, *shape] with zeros behind the shorter blocks, or before them; nobody reads these."""
        longest = max(map(len, blocks))
        filled = np.zeros((len(blocks), longest, *shape))
        for b, steps in enumerate(blocks):
            for i, step in enumerate(steps):
                filled[b, longest - len(steps) + i if left else i] = step
        return torch.from_numpy(filled)
