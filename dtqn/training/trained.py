"""A trained run: its network, and episodes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from dtqn.acting.evaluation import EvaluationResult, play
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.settings.task import on_task
from dtqn.text import counted, one_line
from dtqn.training import checkpoint, machine
from dtqn.training.checkpoint import CheckpointError
from dtqn.training.directory import RunDir
from dtqn.training.metrics import interval
from dtqn.training.setup import Stream, device_of, make_env, make_network, random_actions, task_spec
from envs import TaskSpec


def evaluate_run(
    directory: RunDir,
    episodes: int,
    seed: int,
    weights: str,
    epsilon: float | None = None,
    other_task: Mapping[str, Any] | None = None,
) -> EvaluationResult:
    """The result of episodes of a run's `last` or `best` weights, on seeds of their own.

    Args:
        epsilon: the share of random actions; None: as in the run's evaluations.
        other_task: settings of another task to play (`on_task`); None: the run's own.
    """
    config = directory.read_config()
    machine.prepare()
    network = load_network(directory, config, weights).to(device_here(config))
    config = on_task(config, other_task or {})
    env = make_env(config, min(episodes, config.evaluation.num_envs), np.random.SeedSequence(seed))
    epsilon = config.evaluation.epsilon if epsilon is None else epsilon
    chance = random_actions(
        config, epsilon, np.random.SeedSequence(seed, spawn_key=(Stream.EVALUATION_ACTIONS,))
    )
    played = play(network, env, episodes, random_actions=chance)
    return played.result(task_spec(config).has_success)


def evaluation_figures(result: EvaluationResult, task: TaskSpec) -> dict[str, float | None]:
    """What `eval --json` prints, by name."""
    return {
        "success": result.success,
        "success_low": result.success_low,
        "success_high": result.success_high,
        "success_ceiling": task.success_ceiling if task.has_success else None,
        "return": result.episode_return,
        "length": result.length,
        "episodes": result.episodes,
    }


def evaluation_line(result: EvaluationResult, task: TaskSpec) -> str:
    """The same for people."""
    rate = "" if result.success is None else f"{interval(*result[:3])}{task.ceiling_note}, "
    episodes = counted(result.episodes, "episode")
    return f"{episodes}: {rate}return {result.episode_return:.3f}, length {result.length:.1f}"


def device_here(config: Config) -> torch.device:
    """Where a run's episodes are played: one of a machine with a GPU can be evaluated on one without."""
    device = "auto" if config.device == "cuda" else config.device
    return device_of(config.model_copy(update={"device": device}))


def load_network(directory: RunDir, config: Config, weights: str) -> QNetwork:
    """The network of the run in `directory` with its `last` or `best` weights, on the CPU.

    Raises:
        ConfigError: the directory holds no such weights, or settings that they were not trained with.
    """
    if weights not in ("last", "best"):
        raise wrong("weights", weights, "must be last or best")
    with contextlib.suppress(CheckpointError):  # the weights that are asked for may be whole all the same
        directory.check_trained(config, checkpoint.read_about(directory.checkpoints))
    network = _made(config, directory)
    loaded = checkpoint.load_weights(directory.checkpoints, weights)[1]
    try:
        network.load_state_dict(loaded)
    except RuntimeError as error:
        problem = misfit(config, directory) or f"its weights do not fit config.yaml ({one_line(error)})"
        raise CheckpointError(f"{directory.checkpoints}: {problem}") from None
    for name, own in network.state_dict().items():
        problem = ""
        if loaded[name].dtype != own.dtype:  # which torch would convert
            problem = f"is {loaded[name].dtype}, must be {own.dtype}"
        elif not own.isfinite().all():
            problem = "holds numbers that are not finite"
        if problem:
            raise CheckpointError(f"{directory.checkpoints}: {weights} weights are damaged: {name} {problem}")
    return network


def _made(config: Config, directory: RunDir) -> QNetwork:
    try:
        return make_network(config)
    except RuntimeError as error:
        if "allocate" not in str(error):
            raise
        why = f"its network does not fit into this machine's memory ({one_line(error, 100)})"
        raise ConfigError(f"{directory.config_file}: {why}") from None


def misfit(config: Config, directory: RunDir) -> str:
    """Why a checkpoint does not fit, if the task or a network of the user's own has changed; else empty."""
    if directory.read_task_digest() is None or not directory.task_change(config):
        return ""
    return (
        f"no longer fits {config.env} or the network: observations, actions or the network have changed "
        "since the run began; must begin anew, with another --run-dir"
    )
