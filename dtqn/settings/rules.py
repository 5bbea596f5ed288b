"""Which settings of different groups do not go together, and which nothing reads.

A rule looks at the whole run. It says in one line what is wrong and what to try, or None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from pydantic.fields import FieldInfo

from dtqn.settings.group import Rule, misfit
from dtqn.settings.learner_and_replay import LearnerConfig, ReplayConfig
from dtqn.settings.network import NetworkConfig
from dtqn.settings.run import RunConfig
from dtqn.settings.values import Cores, is_own, mark_of, shown

ROUNDED_CORES = ("gtrxl", "dtqn", "lstm")
"""Cores that may be computed in bfloat16. Others have scans or numbers that this type does not hold."""


def _the_memory_fits(config: RunConfig) -> str | None:
    window = config.network.trace_window
    return None if window is None else memory_misfit(config, window)


def _reads_first_row(learner: LearnerConfig) -> str:
    """What reads the target network's values of a sequence's first row; empty where nothing does."""
    if learner.double_q or learner.target_update == "none":
        return ""
    if learner.munchausen:
        return "learner.munchausen true"
    watkins = learner.returns == "watkins" and learner.trace_tolerance > 0
    return f"learner.trace_tolerance {learner.trace_tolerance:g}" if watkins else ""


def _divisor_of_copies(config: RunConfig) -> int:
    """The number of minibatches that comes nearest from below."""
    count, copies = config.learner.minibatches, config.actor.num_envs
    return max(n for n in range(1, min(count, copies) + 1) if copies % n == 0)


def _parts_of_a_window(config: RunConfig) -> str:
    """Its rows that are learned, and those before."""
    learned, context = config.replay.learn_length, config.network.context_length
    return f"{min(learned, context)} and {max(0, context - learned)}"


def _outgrows_its_window(config: RunConfig) -> bool:
    n, context = config.learner.n_step, config.network.context_length
    return n > context and _most_rows(config) > context


def _most_rows(config: RunConfig) -> float:
    """The rows of the longest episode."""
    import envs  # only here, as hardly any run needs the task for its settings

    try:
        rows = envs.spec(config.env, **config.task.model_dump()).horizon
    except ValueError:
        rows = None  # a check that comes later says what is wrong with the task
    return math.inf if rows is None else rows


def _a_graph_draws_nothing(config: RunConfig) -> str | None:
    reason = _unrecordable(config)
    return f"cuda_graphs is true, but {reason}; try false" if reason and config.cuda_graphs is True else None


def is_recordable(config: RunConfig) -> bool:
    """Whether a CUDA graph holds acting and updates, for certain: who knows what a user's own modules do."""
    network = config.network
    return _unrecordable(config) is None and not (is_own(network.core) or is_own(network.encoder))


def _unrecordable(config: RunConfig) -> str | None:
    """The part of a run that no CUDA graph can hold."""
    learner = config.learner
    if config.device == "cpu":
        return "device is cpu"
    if learner.auxiliary_weight:
        return f"learner.auxiliary_weight is {learner.auxiliary_weight}, and such losses draw numbers"
    if learner.rollout_length:
        return f"learner.rollout_length is {learner.rollout_length}, and such batches have many sizes"
    if learner.optimizer == "radam":
        return "learner.optimizer is radam, whose steps the host counts"
    return None


def _largest_atom(network: NetworkConfig) -> float:
    return max(abs(network.v_min), abs(network.v_max))


def _has_auxiliary_loss(network: NetworkConfig) -> bool:
    return network.auxiliary_loss is not None or is_own(network.core)


def _may_round(core: str) -> bool:
    return core in ROUNDED_CORES or is_own(core)


def _prioritised_by_actor(replay: ReplayConfig) -> bool:
    return replay.priority_exponent > 0 and replay.initial_priority == "actor"


RUN: Sequence[Rule] = (
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
            c.network.distribution == "categorical"
            and not c.learner.value_rescaling
            and c.learner.reward_scale > _largest_atom(c.network)
        ),
        "learner.reward_scale is {c.learner.reward_scale:g} with network.v_min {c.network.v_min:g} and "
        "network.v_max {c.network.v_max:g}: no atom is the return of a single reward of 1; "
        "try network.v_max {more} and network.v_min -{more}",
        lambda c: math.ceil(c.learner.reward_scale),
    ),
    misfit(
        lambda c: c.network.distribution == "categorical" and c.learner.munchausen,
        "learner.munchausen is true with network.distribution categorical; try none",
    ),
    misfit(
        lambda c: c.learner.auxiliary_weight and not _has_auxiliary_loss(c.network),
        "learner.auxiliary_weight is {c.learner.auxiliary_weight}, but network.core {c.network.core} as it "
        "is set has no auxiliary loss; try 0",
    ),
    misfit(
        lambda c: c.learner.precision != "float32" and not _may_round(c.network.core),
        "learner.precision is {c.learner.precision} with network.core {c.network.core}, which is not "
        "computed in it; "
        f"try float32, or network.core {', '.join(ROUNDED_CORES[:-1])} or {ROUNDED_CORES[-1]}",
    ),
    misfit(
        lambda c: c.replay.learn_burn_in and c.replay.memory == "refreshed" and c.network.trace_window != 0,
        "replay.learn_burn_in is true with replay.memory refreshed, which is for rows that are not "
        "learned; try stored or zero",
    ),
    misfit(
        lambda c: _from_replay(c) and c.replay.learn_burn_in and _prioritised_by_actor(c.replay),
        "replay.learn_burn_in is true with replay.initial_priority actor, which is of the learn "
        "block alone; try max",
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
    misfit(
        lambda c: c.network.core == "dtqn" and c.learner.rollout_length,
        "learner.rollout_length is {c.learner.rollout_length}, but network.core is dtqn, which reads a "
        "window for each step and not a rollout once; try 0, or another core",
    ),
    misfit(
        lambda c: c.learner.rollout_length and c.actor.num_envs % c.learner.minibatches,
        "learner.minibatches is {c.learner.minibatches}, no divisor of actor.num_envs {c.actor.num_envs}; "
        "try {more}",
        _divisor_of_copies,
    ),
    misfit(
        lambda c: (
            c.network.core == "dtqn"
            and c.replay.burn_in_length + c.replay.learn_length != c.network.context_length
        ),
        "replay.learn_length is {c.replay.learn_length} and replay.burn_in_length {c.replay.burn_in_length}, "
        "but a window of network.context_length {c.network.context_length} is both; try {more}",
        _parts_of_a_window,
    ),
    misfit(
        lambda c: c.network.core == "dtqn" and _outgrows_its_window(c),
        "learner.n_step is {c.learner.n_step}, above network.context_length {c.network.context_length}: no "
        "window holds all rows that are bootstrapped from; try {c.network.context_length} or less",
    ),
    _the_memory_fits,
    misfit(
        lambda c: _has_workers(c) and c.actor.num_workers > c.actor.num_envs,
        "actor.num_workers is {c.actor.num_workers}, above actor.num_envs {c.actor.num_envs}: "
        "some would have no copy to step; try {c.actor.num_envs}",
    ),
    _a_graph_draws_nothing,
)

# -- The stored memory: rules about W, which a user's core tells when it is built ---------------------------


def memory_misfit(config: RunConfig, window: int) -> str | None:
    """The first fault of settings with a network's memory; None if all fit.

    Settings know the window of the suite's own cores (`NetworkConfig.trace_window`). A user's core says it by
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
    if config.learner.rollout_length or replay.capacity // streams > need:
        return None
    return (
        f"replay.capacity is {replay.capacity}, {replay.capacity // streams} steps for each of "
        f"{streams} actor.num_envs, but a sequence with its memory spans {need}; "
        f"try {(need + 1) * streams} or more"
    )


_MEMORY = (_a_next_window_starts_from_nothing, _a_sequence_fits_in_replay)

# -- Settings that nothing reads -----------------------------------------------------------------------------


def is_read(config: RunConfig, name: str, field: FieldInfo) -> bool:
    """Whether anything reads a setting, given the others. A user's core is taken to read all."""
    cores = mark_of(field, Cores)
    if cores and config.network.core not in cores.names and not is_own(config.network.core):
        return False
    return name not in _IS_READ or _IS_READ[name](config)


def _from_replay(config: RunConfig) -> bool:
    return config.learner.rollout_length == 0


def _has_encoder_layers(config: RunConfig) -> bool:
    """Whether the encoder is one that may have them."""
    return config.network.encoder != "dtqn" and not config.network.soft_attention


def _has_workers(config: RunConfig) -> bool:
    return config.actor.pool != "inline"


def _several_epsilons(config: RunConfig) -> bool:
    return config.actor.exploration == "ladder" and config.actor.num_envs > 1


_READ_IF: dict[str, Callable[[RunConfig], bool]] = {
    "network.gate_bias": lambda c: c.network.gate not in ("input", "residual"),
    # DARQN's layer, the first, has none.
    "network.skip_connections": lambda c: c.network.num_layers > int(c.network.soft_attention),
    "network.share_gates": lambda c: c.network.gate != "residual",
    "network.compression_rate": lambda c: c.network.compressed_slots > 0,
    "network.embedding_width": lambda c: not c.network.soft_attention,
    "network.encoder_layers": _has_encoder_layers,
    "network.image_encoder": lambda c: c.network.encoder != "dtqn",
    "network.num_atoms network.v_min network.v_max": lambda c: c.network.distribution == "categorical",
    "actor.num_workers actor.max_lead actor.step_timeout": _has_workers,
    "actor.epsilon_final": lambda c: not _several_epsilons(c),
    "actor.annealing": lambda c: c.actor.epsilon_anneal_env_steps > 0,
    "learner.batch_size learner.env_steps_per_update replay.capacity replay.learn_length": _from_replay,
    "replay.sequence_period replay.priority_exponent replay.importance_sampling_exponent": _from_replay,
    "replay.initial_priority": _from_replay,
    "learner.epochs learner.minibatches": lambda c: not _from_replay(c),
    # A rollout's sequence has all rows that there are; of Q(lambda) it says how many more to wait for.
    "learner.n_step": lambda c: _from_replay(c) or c.learner.returns == "n_step",
    "learner.double_q": lambda c: c.learner.target_update != "none",
    "learner.q_lambda": lambda c: c.learner.returns != "n_step",
    "learner.trace_tolerance": lambda c: c.learner.returns == "watkins",
    "learner.munchausen_alpha learner.munchausen_temperature": lambda c: c.learner.munchausen,
    "learner.munchausen_clip": lambda c: c.learner.munchausen,
    "learner.target_ema_rate": lambda c: c.learner.target_update == "soft",
    "learner.target_update_period": lambda c: c.learner.target_update == "hard",
    "replay.memory replay.trace_dtype": lambda c: c.network.trace_window != 0,
    "evaluator": lambda c: c.evaluator == "inline" or not c.may_end_early,
}
"""Settings -> whether they have an effect beside the others, the core aside; all others always have."""
_IS_READ = {name: found for names, found in _READ_IF.items() for name in names.split()}
