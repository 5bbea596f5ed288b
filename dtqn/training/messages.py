"""What a run says of itself: its price before it starts, and how it went."""

from __future__ import annotations

import math

from dtqn.choices.learner import Rollouts
from dtqn.networks.q_network import QNetwork
from dtqn.settings import presets
from dtqn.settings.config import Config, LearnerConfig
from dtqn.settings.names import name_of
from dtqn.text import clock, counted, number, size
from dtqn.training import machine, preflight
from dtqn.training.directory import RunDir
from dtqn.training.evaluations import Evaluations
from dtqn.training.metrics import Row, outcome, score
from dtqn.training.setup import device_of, task_spec
from dtqn.training.trainer import Trainer
from envs.task import LONGEST_EPISODE

_INEXACT = ", not exact: with new episodes, as the state of its environments could not be saved"


def introduction(config: Config, directory: RunDir, trainer: Trainer, resumed: bool) -> str:
    """The task, the agent and the directory of a run, which may go on, and what it takes."""
    memory, available = preflight.plan_bytes(config), machine.available_bytes()
    machine_has = f" of the machine's {size(available)}" if available else ""
    device = device_of(config).type
    graphs = ", CUDA graphs" if device == "cuda" and config.records_graphs else ""
    cores = counted(min(config.num_threads, 2), "core")
    cores += " in bfloat16" if config.learner.precision == "bfloat16" else ""
    beside = ", evaluations in another process" if config.evaluates_beside else ""
    if config.num_workers:
        beside += f", environments stepped by {counted(config.num_workers, 'worker')}"
    name = name_of(config)
    lines = {
        "task": f"{name.task}, {counted(config.actor.num_envs, 'environment')}",
        "agent": f"{name.agent}, {number(parameters_of(trainer.network))} parameters",
        "memory": ", ".join(f"{name} {size(taken)}" for name, taken in memory.items()) + machine_has,
        "replay": _replay(config),
        "device": f"{device}{graphs}, learning on {cores}{beside}",
        "steps": f"{number(config.total_env_steps)} env steps, {number(config.warmup)} of them at random; "
        f"{number(preflight.planned_updates(config))} learner updates",
        "run": str(directory.path),
    }
    if config.learner.gamma == "auto" and trainer.config.learner.gamma == 0:
        lines["actions"] = "change nothing but their own reward, as far as seen: learner.gamma 0"
    if config.learner.reward_scale == "auto":
        scale = trainer.config.learner.scale
        lines["rewards"] = f"multiplied by {scale:.3g} in the loss, from the spread of returns in random play"
    if resumed:
        exact = "" if trainer.resume_is_exact else _INEXACT
        lines["resumed"] = f"at {number(trainer.env_steps)} env steps{exact}"
    if task_spec(config).time_limit == LONGEST_EPISODE:
        limit = number(LONGEST_EPISODE)
        lines["no limit"] = f"is set: endless episodes are cut after {limit} steps (--task.time_limit)"
    if unread := presets.unread(config):
        lines["unread"] = f"{', '.join(unread)}: without effect, given the other settings"
    return "\n".join(f"{name:<8} {text}" for name, text in lines.items())


def parameters_of(network: QNetwork) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _replay(config: Config) -> str:
    batches = config.learner.batches
    if not isinstance(batches, Rollouts):
        return f"{number(config.replay.capacity)} steps"
    return (
        f"none: {number(batches.epochs)} epochs of {number(batches.minibatches)} updates after every "
        f"{number(batches.length)} vector steps"
    )


def result(directory: RunDir, env_steps: int, seconds: float, evaluations: Evaluations, note: str) -> str:
    """How a run ended; `note` is of the success that no agent can exceed."""
    last, best, better = evaluations.last, evaluations.best, ""
    if best and score(best) > score(last):
        at = number(best["env_steps"] or 0)
        better = f"; best: {outcome(best)} at {at} (eval --checkpoint best)"
    return (
        f"done in {clock(seconds)}: {outcome(last)} over {last['eval/episodes']} episodes{note} at "
        f"{number(env_steps)} env steps{better}\nnext     {directory.command('eval')}"
    )


def runs_away(learner: LearnerConfig, row: Row) -> str:
    """One line where Q-values promise far more than the policy earns; else empty.

    The gap is large if it exceeds the mean return, the returns' spread and a scaled reward of 1. It does not
    count what a time limit may cut off. Nothing is said with novelty, which is never earned, and with a gamma
    of 0, where the first reward alone is promised.

    Args:
        learner: with its numbers settled.
        row: an evaluation.
    """
    promised, earned = row.get("eval/value_estimate"), row.get("eval/discounted_return")
    gamma = learner.discount_factor
    if promised is None or earned is None or learner.reads_novelty or gamma == 0:
        return ""
    within_limit = promised * (1 - gamma ** (row["eval/length"] or 0))
    spread = (row.get("eval/return_error") or 0) * math.sqrt(row["eval/episodes"] or 0)
    if within_limit - earned <= max(abs(earned), spread, 1 / learner.scale):
        return ""
    other = "" if learner.bootstrap.name == "advantage" else " or learner.bootstrap advantage"
    return (
        f"Q-values promise {promised:.3g} an episode, but it earns {earned:.3g}; with a "
        f"learner.gamma below {gamma:g}{other} they promise less"
    )


def skipped(updates: int, learner_steps: int) -> str:
    """For a run that has left out updates."""
    return (
        f"{number(updates)} of {number(updates + learner_steps)} updates were left out, as their loss or "
        "gradient was not finite (learner/skipped_updates)"
    )


def finished(directory: RunDir, env_steps: int, last: Row) -> str:
    """The answer of a finished run to `--resume`."""
    longer = f"{directory.command('--resume')} --total-env-steps N extends it to N"
    return (
        f"{directory.path} has finished at {number(env_steps)} env steps: {outcome(last)}; "
        f"{longer}; next: {directory.command('eval')}"
    )
