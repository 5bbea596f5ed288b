"""The price of a run, and the checks that come before anything is made."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

import envs
from dtqn.acting import untried
from dtqn.acting.episode_intervals import episodes_to_show, wilson_interval
from dtqn.acting.evaluation import EpisodePlan
from dtqn.choices.learner import Rollouts
from dtqn.graphs import Held
from dtqn.networks.encoders import divisor
from dtqn.networks.q_network import QNetwork
from dtqn.networks.recall import codes
from dtqn.settings.config import Config, ConfigError, MisfitError, settings_of
from dtqn.text import size
from dtqn.training import machine
from dtqn.training.half import learns_beside
from dtqn.training.setup import (
    DRAWING,
    capture_of,
    check_own,
    make_network,
    make_schema,
    num_actions,
    replay_size,
    task_spec,
)
from dtqn.types import leaves
from envs.adapters.spaces import part_name, parts
from replay import replay_bytes


def check(config: Config, here: bool = True) -> None:
    """Refuse a run for what its settings alone do not tell.

    Args:
        here: it is to run on this machine; if not, neither the devices nor the memory of this one matter.

    Raises:
        ConfigError: the device is not there, the task's actions cannot be counted, or a task, core or
            encoder that is not this project's own fails a trial.
        MisfitError: the network cannot read the task, memory is too small, or no evaluation can show the
            success at which the run is to end.
    """
    if here:
        capture_of(config, Held())
    try:
        largest = envs.try_task(config.env, **config.task.model_dump())
    except envs.TaskError as error:
        raise ConfigError(str(error)) from None
    _check_threshold(config)
    plan = memory(config, machine.resident_bytes())  # makes the network, which has to fit the task
    if here:
        _check_memory(config, plan)
    with DRAWING:
        check_own(config)
    _tell_of_large(config, largest)


_LARGE = float(np.finfo(np.float16).max) / 10
"""If a trial has larger numbers, a run's, or what a network makes of them, may be too large."""


def _tell_of_large(config: Config, largest: Mapping[str, float]) -> None:
    """Say which part of the observations is too large for memory that is stored in float16."""
    if config.replay.memory_dtype != "float16" or config.network.core.memory_window == 0:
        return
    space: Any = task_spec(config).observation_space
    for key, number in largest.items():
        part = space[key] if key else space
        if isinstance(part, spaces.Box) and number / divisor(part) > _LARGE:
            told = f"env is {config.env}: its {part_name(key)} reached {number:.3g} in a trial, and memory is"
            right = "scale it to -1 to 1 or so, or give --replay.memory-dtype float32"
            print(f"{told} stored in float16, which ends at 65504: {right}", file=sys.stderr)


def _check_threshold(config: Config) -> None:
    """Refuse a success to stop at that no evaluation shows, however good the agent is, and few returns.

    The interval of a mean return is as wide as the returns differ, and few of them may be alike by chance.
    """
    threshold, episodes = config.stop_at_success, config.evaluation.episodes
    if config.stop_at_return is not None and episodes < EpisodePlan.FEWEST:
        raise MisfitError(
            f"evaluation.episodes is {episodes} with stop_at_return {config.stop_at_return:g}: "
            f"so few returns may be alike by chance; try {EpisodePlan.FEWEST}"
        )
    if threshold is None:
        return
    needed = episodes_to_show(threshold)
    if needed is None or needed > episodes:
        low = wilson_interval(episodes, episodes)[0]
        right = "" if needed is None else f", or evaluation.episodes {needed}"
        raise MisfitError(
            f"stop_at_success is {threshold}, but the 95 % interval of {episodes} episodes without a failure "
            f"begins at {low:.4f}; try {math.floor(low * 1000) / 1000}{right}"
        )


def _check_memory(config: Config, plan: Mapping[str, int]) -> None:
    """Refuse a run that takes more than the machine has, by the setting whose part is the largest."""
    available, taken = machine.available_bytes(), sum(plan.values())
    if available is None or taken <= available:
        return
    has_rollouts = isinstance(config.learner.batches, Rollouts)
    settings = {
        "replay": "learner.batches.length" if has_rollouts else "replay.capacity",
        "networks": "network.width",
        "environments": "actor.num_envs",
        _EVALUATION: "evaluation.num_envs",
    }
    largest = max(settings, key=lambda part: plan.get(part, 0))
    name, value = settings[largest], settings_of(config)[settings[largest]]
    room = available - (taken - plan[largest])
    fitting = max(1, int(0.8 * value * room / plan[largest]))
    right = "a smaller network" if largest == "networks" else str(fitting)
    parts = ", ".join(f"{part} {size(of_part)}" for part, of_part in plan.items())
    raise MisfitError(
        f"{name} is {value}: the run would take {size(taken)} ({parts}) and the machine has "
        f"{size(available)}; try {right}"
    )


_EVALUATION = "an evaluation"
_STATES = 3
"""Carried states of an environment that are there at once in a step: before it, after it, and on the way."""


def memory(config: Config, process_bytes: int | None) -> dict[str, int]:
    """Bytes of a run on this machine by what takes them; `process_bytes` are there before, if known."""
    plan = plan_bytes(config)
    if process_bytes is not None:
        plan["the process itself"] = process_bytes
        if others := config.evaluates_beside + learns_beside(config) + config.num_workers:
            plan["the other processes"] = others * process_bytes  # which have imported the same
    return plan


def plan_bytes(config: Config) -> dict[str, int]:
    """The bytes that a run will take on any device, worked out before it takes them.

    The parts are replay, networks, and what the environments carry while the actor steps them
    (`environments`) and while an evaluation does.
    """
    network = _counted_network(config)
    parameters = sum(p.numel() * p.element_size() for p in network.parameters())
    fields = make_schema(config.on_cpu(), network).fields
    # online, target, the actor's and the evaluator's copies, gradients, Adam's two moments, and what is being
    # evaluated; with workers, the copy of each, and the copies that are on their way to them
    networks = 8 + (config.num_workers + config.max_lead + 2 if config.num_workers else 0)
    per_env = _STATES * _carried_bytes(network, config.network.core.is_own)
    evaluated = min(config.evaluation.num_envs, config.evaluation.episodes)
    trying = untried.who_tries(config.actor.num_envs, config.actor.untried_share).sum()
    tables = int(trying) * untried.table_bytes(num_actions(task_spec(config)))
    return {
        "replay": replay_bytes(fields, replay_size(config, fields)[1], config.actor.num_envs),
        "networks": networks * parameters,
        "environments": per_env * config.actor.num_envs + tables,
        _EVALUATION: per_env * evaluated,
    }


@torch.no_grad()
def _carried_bytes(network: QNetwork, of_own_core: bool) -> int:
    """The state of one environment with what is kept of it from step to step."""
    try:
        carried = leaves(network.cache(network.initial_state(1))).values()
    except Exception:
        if not of_own_core:
            raise
        return 0  # `check_own`, which comes later, says what is wrong with the core
    return sum(x.numel() * x.element_size() for x in carried if x is not None)


def planned_updates(config: Config) -> int:
    """Learner steps of the whole run, if nothing ends it early; the last vector step may bring a few more.

    The shortest run does one. A warm-up that ends before replay has a sequence costs the updates until then;
    they are known beforehand only where the task fixes the length of an episode.
    """
    batches = config.learner.batches
    if not isinstance(batches, Rollouts):
        timesteps = config.replay.learn_length + config.learner.n_step
        first_sequence = config.actor.num_envs * min(timesteps, task_spec(config).horizon or 0)
        acted = max(config.warmup, first_sequence)
        return max(1, int((config.total_env_steps - acted) / config.env_steps_per_update))
    # Whole rollouts only, of at most so many env steps: a first timestep takes none.
    per_rollout = batches.epochs * batches.minibatches
    rollouts = int(config.total_env_steps / (config.env_steps_per_update * per_rollout))
    within_warmup = int(config.warmup / (config.env_steps_per_update * per_rollout))
    return max(1, (rollouts - within_warmup) * per_rollout)


_SMALL = 1_000_000
"""Numbers in one matrix of each layer of a network that is made in passing, to be counted."""


def _counted_network(config: Config) -> QNetwork:
    """A network of the run's shapes.

    A small network is simply made. A large one is made on the meta device, without memory; torch imports its
    compiler for that, which takes seconds.
    """
    network = config.network
    mlp_width, num_layers = (getattr(network.core, name, 1) for name in ("mlp_width", "num_layers"))
    widest = max(network.width, mlp_width, network.head_width)
    space = task_spec(config).observation_space
    values = sum(held.size for _, part in parts(space) if (held := codes(part)) is not None)
    if network.width * max(num_layers * widest, values) <= _SMALL:
        return make_network(config)
    with torch.device("meta"):
        return make_network(config)
