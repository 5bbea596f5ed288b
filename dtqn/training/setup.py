"""Setup: from a run's settings to its task, networks, learner, actor, replay and seeds.

Names become classes here and values of the settings become what the parts are given; the parts themselves
have no defaults and do not ask the settings of another.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
import torch

import envs
from dtqn import networks
from dtqn.acting import exploration
from dtqn.acting.actor import Actor
from dtqn.acting.exploration import Bursts, Exploration, RandomActions, linear
from dtqn.acting.novelty import Novelty
from dtqn.acting.untried import Untried, who_tries
from dtqn.choices.actor import Ladder
from dtqn.choices.learner import Replayed, Rollouts
from dtqn.graphs import Captured, CudaRecorder, Held
from dtqn.learning.learner import Learner
from dtqn.learning.padded import BlockSizes, Padded
from dtqn.networks import builder
from dtqn.networks.q_network import QNetwork, memory_window
from dtqn.settings.config import ActorConfig, Config, ConfigError, MisfitError
from dtqn.training.replay_fields import MEMORIES, Schema, timestep_fields
from dtqn.training.staleness import Staleness
from dtqn.training.updates import FromReplay, FromRollouts, Updates
from replay import Field, ProportionalSampler, Sampler, SequenceLayout, SequenceReplay, UniformSampler

DRAWING = threading.RLock()
"""Who has it draws parameters from torch's one generator; runs in other threads wait."""


Stream = IntEnum(
    "Stream", "ENV ACTOR REPLAY NETWORK EVALUATION LEARNER FILM STALENESS EVALUATION_ACTIONS", start=0
)
Stream.__doc__ = """The random streams of a run; each is a key below the run's seed."""


def seed_of(config: Config, *key: int) -> np.random.SeedSequence:
    """The seed of one of the run's random streams, and of a member of it."""
    return np.random.SeedSequence(config.seed, spawn_key=tuple(int(part) for part in key))


def device_of(config: Config) -> torch.device:
    """The device that `config.device` stands for on this machine."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda, but torch finds none; try cpu")
    use_cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if use_cuda else "cpu")


def task_spec(config: Config) -> envs.TaskSpec:
    """The facts of the run's task."""
    return envs.spec(config.env, **config.task.model_dump())


def make_env(
    config: Config, num_envs: int, seed: np.random.SeedSequence, render_mode: str | None = None
) -> gymnasium.vector.VectorEnv:
    """Environments of the run's task, as one vector."""
    return envs.make_vector(config.env, num_envs, seed, render_mode=render_mode, **config.task.model_dump())


def random_actions(config: Config, epsilon: float, seed: np.random.SeedSequence) -> RandomActions | None:
    """The random actions of evaluations in the run's task; None if all actions are greedy."""
    if epsilon == 0:
        return None
    return RandomActions(epsilon, num_actions(task_spec(config)), np.random.default_rng(seed))


def make_network(config: Config) -> QNetwork:
    """The run's network with its initial parameters; a MisfitError where it cannot read the task."""
    task = task_spec(config)
    actions = num_actions(task)
    try:
        with DRAWING:
            torch.manual_seed(int(seed_of(config, Stream.NETWORK).generate_state(1)[0]))
            return networks.build(config.network, task.observation_space, actions)
    except ConfigError:
        raise
    except ValueError as error:
        raise MisfitError(f"env is {config.env}: {error}") from None


def check_own(config: Config) -> None:
    """Holds a core and an encoder of the user's own to their contracts (`dtqn.testing`), at the run's sizes.

    Raises:
        ConfigError: one line that names the contract that is broken.
        MisfitError: the settings do not go with the memory that the core stores.
    """
    network, task, silent = config.network, task_spec(config), str
    if not (network.encoder.is_own or network.core.is_own):
        return
    from dtqn import testing  # which a run of the suite's own networks does not need

    try:
        if network.encoder.is_own:
            name = f"network.encoder is {network.encoder.name}: it"
            space, actions = task.observation_space, num_actions(task)
            testing.check_encoder(builder.make_encoder, network, space, actions, name, silent)
        if network.core.is_own:
            name = f"network.core is {network.core.name}: it"
            testing.check_core(builder.make_core, network, name, config.replay.memory_dtype, silent)
    except testing.ContractError as error:
        raise ConfigError(str(error)) from None
    if network.core.is_own:
        made = make_network(config)
        if misfit := next(config.replay.memory_misfits(config, memory_window(made)), None):
            raise MisfitError(misfit)


def num_actions(task: envs.TaskSpec) -> int:
    """How many actions the task has; a ConfigError where they cannot be counted."""
    if not isinstance(task.action_space, gymnasium.spaces.Discrete):
        raise ConfigError(
            f"env is {task.id}: its actions are {task.action_space}; Q-learning needs Discrete ones, "
            "or a MultiDiscrete of at most 1024 combinations"
        )
    return int(task.action_space.n)


def make_schema(config: Config, network: QNetwork) -> Schema:
    """What replay keeps of each timestep."""
    task = task_spec(config)
    timesteps = timestep_fields(
        task.observation_space, task.action_space, network.memory_spec(), config.replay.memory_dtype
    )
    return Schema(timesteps, MEMORIES[config.replay.memory], device_of(config))


def sequence_layout(config: Config) -> SequenceLayout:
    """How sequences are cut out of episodes.

    A rollout's sequences have all its timesteps of an episode, from the one before it on.
    """
    replay, batches = config.replay, config.learner.batches
    if isinstance(batches, Rollouts):
        return SequenceLayout(batches.length, batches.length, replay.burn_in_length, n_step=1)
    return SequenceLayout(replay.learn_length, replay.period, replay.burn_in_length, config.learner.n_step)


def replay_size(config: Config, fields: Mapping[str, Field]) -> tuple[SequenceLayout, int]:
    """How sequences are cut out of episodes, and the steps to keep.

    No more of a rollout is kept than it takes to learn it, with the burn-in and the stored memory before.
    """
    layout = sequence_layout(config)
    if config.learner.batches.from_replay:
        return layout, config.replay.capacity
    window = max(field.window for field in fields.values())
    timesteps = window + layout.burn_in_length + layout.max_learn_timesteps
    return layout, (timesteps + 1) * config.actor.num_envs


def make_replay(config: Config, schema: Schema) -> SequenceReplay:
    """The run's replay, empty."""
    layout, capacity = replay_size(config, schema.fields)
    sampler: Callable[[int], Sampler] = UniformSampler
    if config.replay.priority_exponent:
        sampler = functools.partial(
            ProportionalSampler,
            priority_exponent=config.replay.priority_exponent,
            importance_sampling_exponent=config.replay.importance_sampling_exponent,
        )
    return SequenceReplay(schema.fields, layout, capacity, config.actor.num_envs, sampler)


def make_updates(config: Config, replay: SequenceReplay, generator: np.random.Generator) -> Updates:
    """What tells when to learn, and from which sequences."""
    batches = config.learner.batches
    if isinstance(batches, Rollouts):
        return FromRollouts(replay, generator, config.warmup, batches)
    size = cast(Replayed, batches).size
    return FromReplay(replay, generator, config.warmup, size, config.env_steps_per_update)


def make_learner(config: Config, network: QNetwork) -> Learner:
    """The run's learner; it trains the parameters of `network` in place."""
    layout, memory = sequence_layout(config), MEMORIES[config.replay.memory]
    window = memory_window(network)
    most = BlockSizes(window if memory.is_read else 0, layout.burn_in_length, layout.max_learn_timesteps)
    return Learner(
        network,
        config=config.learner,
        learn_burn_in=config.replay.learn_burn_in,
        want_memory=memory.is_refreshed and window > 0,
        parts=min(config.num_threads, 2),
        seed=int(seed_of(config, Stream.LEARNER).generate_state(1)[0]),
        capture=capture_of(config, Padded(most)),
    )


def capture_of(
    config: Config, hold: Callable[..., tuple[Any, ...]]
) -> Callable[[Callable[..., Any]], Captured] | None:
    """Makes of a function on the device a CUDA graph; None where the run has none."""
    is_cuda = device_of(config).type == "cuda"
    if config.cuda_graphs is True and not is_cuda:
        raise ConfigError("cuda_graphs is true, but torch finds no cuda; try false")
    if not (is_cuda and config.records_graphs):
        return None
    return lambda function: Captured(function, hold, CudaRecorder())


def make_staleness(config: Config, replay: SequenceReplay, schema: Schema, learner: Learner) -> Staleness:
    """The measurement of staleness that comes with each row of metrics.

    It runs as many timesteps at most as are learned between two rows of metrics, burn-ins included, forward
    and by one network; an update runs each of them by two, and the learned ones backward too.
    """
    batches = config.learner.batches
    if isinstance(batches, Rollouts):
        timesteps_per_update = batches.length * config.actor.num_envs / batches.minibatches
    else:
        sequence_length = config.replay.burn_in_length + config.replay.learn_length
        timesteps_per_update = cast(Replayed, batches).size * sequence_length
    max_timesteps = int(config.metrics_every / config.env_steps_per_update * timesteps_per_update)
    return Staleness(
        replay, schema, learner, np.random.default_rng(seed_of(config, Stream.STALENESS)), max_timesteps
    )


_DECAY_START = 0.6
"""The share of the run's env steps after which the step size falls."""
_STEPS_OF_A_CACHE = 4
"""Vector steps between syncs of weights from which on a cache costs less than it saves (gtrxl: 4 to 10)."""


class Share(NamedTuple):
    """The environments that one actor steps, among all of a run."""

    start: int
    stop: int
    """The first of them, and the one after the last."""
    key: tuple[int, ...] = ()
    """A key below the run's streams of its tasks and actors; () are these themselves."""

    @property
    def num_envs(self) -> int:
        return self.stop - self.start

    @property
    def env_ids(self) -> slice:
        return slice(self.start, self.stop)


def make_actor(config: Config, network: QNetwork, share: Share | None = None) -> Actor:
    """An actor with a copy of `network` and a share of the environments, by default all of them."""
    num_envs = config.actor.num_envs
    share = share or Share(0, num_envs)
    exploration = make_exploration(config.actor, config.warmup)
    # The updates of a rollout come one right after the other.
    batches = config.learner.batches
    in_a_row = batches.length * num_envs if isinstance(batches, Rollouts) else 0
    env_steps_per_sync = max(config.env_steps_per_update, in_a_row)
    tries = who_tries(num_envs, config.actor.untried_share)[share.env_ids]
    return Actor(
        make_env(config, share.num_envs, seed_of(config, Stream.ENV, *share.key)),
        copy.deepcopy(network),
        exploration=exploration._replace(final=exploration.final[share.env_ids]),
        bursts=Bursts(share.num_envs, config.actor.burst_share),
        generator=np.random.default_rng(seed_of(config, Stream.ACTOR, *share.key)),
        novelty=Novelty(share.num_envs) if config.learner.reads_novelty else None,
        untried=Untried(tries, num_actions(task_spec(config))) if tries.any() else None,
        keep_cache=env_steps_per_sync >= _STEPS_OF_A_CACHE * num_envs,
        capture=capture_of(config, Held()),
    )


def make_exploration(config: ActorConfig, warmup_env_steps: int) -> Exploration:
    """The ladder is for several environments; a single one has `epsilon_final`."""
    count = config.num_envs
    if isinstance(config.exploration, Ladder) and count > 1:
        final = exploration.epsilon_ladder(count, config.exploration.base, config.exploration.exponent)
    else:
        final = np.full(count, config.epsilon_final)
    return Exploration(final, warmup_env_steps, config.epsilon_anneal_env_steps, config.annealing)


def learning_rate_share(config: Config) -> Callable[[int], float]:
    """Environment steps of the run -> the share of the learning rate that is left then."""
    start, final = _DECAY_START, config.learner.final_learning_rate_share
    return lambda env_steps: linear(1.0, final, (env_steps / config.total_env_steps - start) / (1 - start))
