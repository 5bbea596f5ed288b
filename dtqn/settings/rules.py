"""Which settings of different groups do not go together.

A rule looks at the whole run. It says in one line what is wrong and what to try, or None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtqn.settings.group import Rule, misfit
from dtqn.settings.learner_and_replay import LearnerConfig
from dtqn.settings.run import RunConfig
from dtqn.settings.values import shown


def _the_memory_fits(config: RunConfig) -> str | None:
    window = config.network.core.trace_window
    return None if window is None else memory_misfit(config, window)


def _reads_first_row(learner: LearnerConfig) -> str:
    """What reads the target network's values of a sequence's first row; empty where nothing does."""
    if learner.double_q or learner.target_update.name == "none":
        return ""
    if learner.bootstrap.name == "munchausen":
        return "learner.bootstrap munchausen"
    tolerance = getattr(learner.returns, "tolerance", 0.0)
    return f"learner.returns.tolerance {tolerance:g}" if tolerance else ""


def _a_graph_draws_nothing(config: RunConfig) -> str | None:
    reason = _unrecordable(config)
    return f"cuda_graphs is true, but {reason}; try false" if reason and config.cuda_graphs is True else None


def is_recordable(config: RunConfig) -> bool:
    """Whether a CUDA graph holds acting and updates, for certain: who knows what a user's own modules do."""
    network = config.network
    return _unrecordable(config) is None and not (network.core.is_own or network.encoder.is_own)


def _unrecordable(config: RunConfig) -> str | None:
    """The part of a run that no CUDA graph can hold."""
    learner = config.learner
    if config.device == "cpu":
        return "device is cpu"
    if learner.auxiliary_weight:
        return f"learner.auxiliary_weight is {learner.auxiliary_weight}, and such losses draw numbers"
    if not learner.batches.from_replay:
        return f"learner.batches is {learner.batches.name}, and such batches have many sizes"
    if learner.optimizer == "radam":
        return "learner.optimizer is radam, whose steps the host counts"
    return None


RUN: Sequence[Rule] = (
    misfit(
        lambda c: c.learner.auxiliary_weight and not (c.network.core.auxiliary_loss or c.network.core.is_own),
        "learner.auxiliary_weight is {c.learner.auxiliary_weight}, but network.core {c.network.core.name} as "
        "it is set has no auxiliary loss; try 0",
    ),
    misfit(
        lambda c: c.learner.precision != "float32" and not c.network.core.rounds,
        "learner.precision is {c.learner.precision} with network.core {c.network.core.name}, which is not "
        "computed in it; try float32, or another core, such as gtrxl or lstm",
    ),
    misfit(
        lambda c: not re.fullmatch(r"[^\W_][\w.-]*", c.agent),  # it is a part of paths
        "agent is {more}: must be a name of letters, digits, dots and dashes",
        lambda c: shown(c.agent),
    ),
    misfit(
        lambda c: not c.env.isprintable(),
        "env is {more}: must be a name without control characters",
        lambda c: shown(c.env),
    ),
    misfit(
        lambda c: (
            c.replay.learn_burn_in and c.replay.memory == "refreshed" and c.network.core.trace_window != 0
        ),
        "replay.learn_burn_in is true with replay.memory refreshed, which is for rows that are not "
        "learned; try stored or zero",
    ),
    misfit(
        lambda c: c.learner.batches.from_replay and c.replay.learn_burn_in and c.replay.priority_exponent,
        "replay.learn_burn_in is true with replay.priority_exponent {c.replay.priority_exponent}, but first "
        "priorities are of the learn block alone; try 0",
    ),
    misfit(
        lambda c: c.learner.next_window and c.replay.burn_in_length and not c.replay.learn_burn_in,
        "learner.next_window is true, but replay.burn_in_length is {c.replay.burn_in_length} with "
        "replay.learn_burn_in false; try true, or a burn-in of 0",
    ),
    misfit(
        lambda c: c.learner.next_window and _reads_first_row(c.learner),
        "learner.next_window is true with learner.double_q false and {more}, which reads the target "
        "network's values of a sequence's first row, but no window of that network has it; "
        "try learner.double_q true",
        lambda c: _reads_first_row(c.learner),
    ),
    misfit(
        lambda c: c.warmup > c.total_env_steps,
        "warmup_env_steps is {c.warmup_env_steps}, above total_env_steps {c.total_env_steps}: "
        "nothing would be learned; try {more}",
        lambda c: c.total_env_steps // 5,
    ),
    _the_memory_fits,
    _a_graph_draws_nothing,
)

# -- The stored memory: rules about W, which a user's core tells when it is built ---------------------------


def memory_misfit(config: RunConfig, window: int) -> str | None:
    """The first fault of settings with a network's memory; None if all fit.

    Settings know the window of the suite's own cores (`Core.trace_window`). A user's core says it by
    its `trace_spec` when it is built, and these rules are asked then.

    Args:
        window: rows before a sequence that the state is made of, raw ones included.
    """
    return next((text for rule in _MEMORY if (text := rule(config, window))), None)


def _a_next_window_starts_from_nothing(config: RunConfig, window: int) -> str | None:
    if not config.learner.next_window or not window or config.replay.memory == "zero":
        return None
    return (
        f"learner.next_window is true with replay.memory {config.replay.memory}, which is of the row before "
        "the sequence and not the next one's; try zero"
    )


def _a_sequence_fits_in_replay(config: RunConfig, window: int) -> str | None:
    replay, streams = config.replay, config.actor.num_envs
    need = window + replay.burn_in_length + replay.learn_length + config.learner.n_step
    if not config.learner.batches.from_replay or replay.capacity // streams > need:
        return None
    return (
        f"replay.capacity is {replay.capacity}, {replay.capacity // streams} steps for each of "
        f"{streams} actor.num_envs, but a sequence with its memory spans {need}; "
        f"try {(need + 1) * streams} or more"
    )


_MEMORY = (_a_next_window_starts_from_nothing, _a_sequence_fits_in_replay)
