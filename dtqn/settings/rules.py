"""Which settings of different groups do not go together, and which nothing reads.

A rule looks at the whole run. It says in one line what is wrong and what to try, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pydantic.fields import FieldInfo

from dtqn.settings.group import Rule
from dtqn.settings.run import RunConfig
from dtqn.settings.values import Cores, is_own, mark_of

ROUNDED_CORES = ("gtrxl", "dtqn", "lstm")
"""Cores that may be computed in bfloat16. Others have scans or numbers that this type does not hold."""


def _a_mixture_of_returns_has_no_quantiles(config: RunConfig) -> str | None:
    returns = config.learner.returns
    if config.network.distribution != "quantile" or returns == "n_step":
        return None
    return (
        f"learner.returns is {returns} with network.distribution quantile: a mixture of returns has no such "
        "quantiles; try n_step, or network.distribution categorical"
    )


def _munchausen_has_no_atoms(config: RunConfig) -> str | None:
    if config.network.distribution != "categorical" or not config.learner.munchausen:
        return None
    return "learner.munchausen is true with network.distribution categorical; try quantile or none"


def _the_auxiliary_loss_exists(config: RunConfig) -> str | None:
    network, weight = config.network, config.learner.auxiliary_weight
    if not weight or network.auxiliary_loss is not None or is_own(network.core):
        return None
    return (
        f"learner.auxiliary_weight is {weight}, but network.core {network.core} as it is set has no "
        "auxiliary loss; try 0"
    )


def _rounding_suits_the_core(config: RunConfig) -> str | None:
    core, precision = config.network.core, config.learner.precision
    if precision == "float32" or core in ROUNDED_CORES or is_own(core):
        return None
    return (
        f"learner.precision is {precision} with network.core {core}, which is not computed in it; "
        f"try float32, or network.core {', '.join(ROUNDED_CORES[:-1])} or {ROUNDED_CORES[-1]}"
    )


def _the_memory_fits(config: RunConfig) -> str | None:
    window = config.network.trace_window
    return None if window is None else memory_misfit(config, window)


def _learned_rows_are_not_refreshed(config: RunConfig) -> str | None:
    if not config.replay.learn_burn_in or config.replay.memory != "refreshed":
        return None
    if config.network.trace_window == 0:
        return None
    return (
        "replay.learn_burn_in is true with replay.memory refreshed, which is for rows that are not "
        "learned; try stored or zero"
    )


def _first_priorities_are_of_the_learn_block(config: RunConfig) -> str | None:
    replay = config.replay
    if config.learner.rollout_length:
        return None
    if not (replay.learn_burn_in and replay.priority_exponent and replay.initial_priority == "actor"):
        return None
    return (
        "replay.learn_burn_in is true with replay.initial_priority actor, which is of the learn "
        "block alone; try max"
    )


def _a_next_window_is_learned_whole(config: RunConfig) -> str | None:
    replay = config.replay
    if not config.learner.next_window or not replay.burn_in_length or replay.learn_burn_in:
        return None
    return (
        f"learner.next_window is true, but replay.burn_in_length is {replay.burn_in_length} with "
        "replay.learn_burn_in false; try true, or a burn-in of 0"
    )


def _a_next_window_lacks_the_targets_first_row(config: RunConfig) -> str | None:
    learner = config.learner
    if not learner.next_window or learner.double_q or learner.target_update == "none":
        return None
    if learner.munchausen:
        reads = "learner.munchausen true"
    elif learner.returns == "watkins" and learner.trace_tolerance > 0:
        reads = f"learner.trace_tolerance {learner.trace_tolerance:g}"
    else:
        return None
    return (
        f"learner.next_window is true with learner.double_q false and {reads}, which reads the target "
        "network's values of a sequence's first row, but no window of that network has it; "
        "try learner.double_q true"
    )


def _something_is_learned(config: RunConfig) -> str | None:
    warmup, total = config.warmup_env_steps, config.total_env_steps
    if warmup is None or warmup <= total:
        return None
    return (
        f"warmup_env_steps is {warmup}, above total_env_steps {total}: "
        f"nothing would be learned; try {total // 5}"
    )


def _a_window_is_no_rollout(config: RunConfig) -> str | None:
    length = config.learner.rollout_length
    if config.network.core != "dtqn" or not length:
        return None
    return (
        f"learner.rollout_length is {length}, but network.core is dtqn, which reads a window for each step "
        "and not a rollout once; try 0, or another core"
    )


def _minibatches_share_out_the_copies(config: RunConfig) -> str | None:
    count, copies = config.learner.minibatches, config.actor.num_envs
    if not config.learner.rollout_length or copies % count == 0:
        return None
    good = max(n for n in range(1, min(count, copies) + 1) if copies % n == 0)
    return f"learner.minibatches is {count}, no divisor of actor.num_envs {copies}; try {good}"


def _a_window_is_a_sequence(config: RunConfig) -> str | None:
    replay, context = config.replay, config.network.context_length
    if config.network.core != "dtqn" or replay.burn_in_length + replay.learn_length == context:
        return None
    return (
        f"replay.learn_length is {replay.learn_length} and replay.burn_in_length "
        f"{replay.burn_in_length}, but a window of network.context_length {context} is both; try "
        f"{min(replay.learn_length, context)} and {max(0, context - replay.learn_length)}"
    )


def _a_window_holds_the_bootstrap(config: RunConfig) -> str | None:
    n, context = config.learner.n_step, config.network.context_length
    if config.network.core != "dtqn" or n <= context or _most_rows(config) <= context:
        return None
    return (
        f"learner.n_step is {n}, above network.context_length {context}: no window "
        f"holds all rows that are bootstrapped from; try {context} or less"
    )


def _most_rows(config: RunConfig) -> float:
    """The rows of the longest episode."""
    import envs  # only here, as hardly any run needs the task for its settings

    try:
        rows = envs.spec(config.env, **config.task.model_dump()).horizon
    except ValueError:
        rows = None  # a check that comes later says what is wrong with the task
    return math.inf if rows is None else rows


def _every_worker_has_a_copy(config: RunConfig) -> str | None:
    actor = config.actor
    if actor.pool == "inline" or actor.num_workers <= actor.num_envs:
        return None
    return (
        f"actor.num_workers is {actor.num_workers}, above actor.num_envs {actor.num_envs}: "
        f"some would have no copy to step; try {actor.num_envs}"
    )


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


def _an_atom_is_a_rewards_return(config: RunConfig) -> str | None:
    network, scale = config.network, config.learner.reward_scale
    largest = max(abs(network.v_min), abs(network.v_max))
    if network.distribution != "categorical" or config.learner.value_rescaling or scale <= largest:
        return None
    return (
        f"learner.reward_scale is {scale:g} with network.v_min {network.v_min:g} and network.v_max "
        f"{network.v_max:g}: no atom is the return of a single reward of 1; "
        f"try network.v_max {math.ceil(scale)} and network.v_min {-math.ceil(scale)}"
    )


RUN: Sequence[Rule] = (
    _an_atom_is_a_rewards_return,
    _a_mixture_of_returns_has_no_quantiles,
    _munchausen_has_no_atoms,
    _the_auxiliary_loss_exists,
    _rounding_suits_the_core,
    _learned_rows_are_not_refreshed,
    _first_priorities_are_of_the_learn_block,
    _a_next_window_is_learned_whole,
    _a_next_window_lacks_the_targets_first_row,
    _something_is_learned,
    _a_window_is_no_rollout,
    _minibatches_share_out_the_copies,
    _a_window_is_a_sequence,
    _a_window_holds_the_bootstrap,
    _the_memory_fits,
    _every_worker_has_a_copy,
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
    return name not in _READ_IF or _READ_IF[name](config)


def _from_replay(config: RunConfig) -> bool:
    return config.learner.rollout_length == 0


def _from_rollouts(config: RunConfig) -> bool:
    return config.learner.rollout_length > 0


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
    "network.span_ramp": lambda c: c.network.adaptive_span,
    "network.compression_rate": lambda c: c.network.compressed_slots > 0,
    "network.mask_share": lambda c: c.learner.auxiliary_weight > 0,
    "network.invariance_weight": lambda c: c.learner.auxiliary_weight > 0,
    "network.embedding_width": lambda c: not c.network.soft_attention,
    "network.encoder_layers": _has_encoder_layers,
    "network.encoder_norm": lambda c: _has_encoder_layers(c) and c.network.encoder_layers > 0,
    "network.image_encoder": lambda c: c.network.encoder != "dtqn",
    "network.num_atoms": lambda c: c.network.distribution == "categorical",
    "network.v_min": lambda c: c.network.distribution == "categorical",
    "network.v_max": lambda c: c.network.distribution == "categorical",
    "network.num_quantiles": lambda c: c.network.distribution == "quantile",
    "actor.burst_start": lambda c: c.actor.burst_share > 0,
    "actor.burst_length": lambda c: c.actor.burst_share > 0,
    "learner.batch_size": _from_replay,
    "learner.env_steps_per_update": _from_replay,
    "learner.epochs": _from_rollouts,
    "learner.minibatches": _from_rollouts,
    # A rollout's sequence has all rows that there are; of Q(lambda) it says how many more to wait for.
    "learner.n_step": lambda c: _from_replay(c) or c.learner.returns == "n_step",
    "learner.double_q": lambda c: c.learner.target_update != "none",
    "learner.q_lambda": lambda c: c.learner.returns != "n_step",
    "learner.trace_tolerance": lambda c: c.learner.returns == "watkins",
    "learner.munchausen_alpha": lambda c: c.learner.munchausen,
    "learner.munchausen_temperature": lambda c: c.learner.munchausen,
    "learner.munchausen_clip": lambda c: c.learner.munchausen,
    "learner.loss": lambda c: c.network.distribution == "none",
    "learner.huber_threshold": lambda c: (
        c.network.distribution == "quantile"
        or (c.network.distribution == "none" and c.learner.loss == "huber")
    ),
    "learner.target_ema_rate": lambda c: c.learner.target_update == "soft",
    "learner.target_update_period": lambda c: c.learner.target_update == "hard",
    "learner.learning_rate_decay_start": lambda c: c.learner.final_learning_rate_share < 1,
    "replay.capacity": _from_replay,
    "replay.learn_length": _from_replay,
    "replay.sequence_period": _from_replay,
    "replay.priority_exponent": _from_replay,
    "replay.importance_sampling_exponent": _from_replay,
    "replay.initial_priority": _from_replay,
    "replay.max_priority_weight": lambda c: _from_replay(c) and c.replay.priority_exponent > 0,
    "replay.memory": lambda c: c.network.trace_window != 0,
    "replay.trace_dtype": lambda c: c.network.trace_window != 0,
    "evaluator": lambda c: c.evaluator == "inline" or not c.may_end_early,
    "actor.num_workers": _has_workers,
    "actor.max_lead": _has_workers,
    "actor.step_timeout": _has_workers,
    "actor.epsilon_final": lambda c: not _several_epsilons(c),
    "actor.epsilon_start": lambda c: c.actor.epsilon_anneal_env_steps > 0,
    "actor.annealing": lambda c: c.actor.epsilon_anneal_env_steps > 0,
}
"""Setting -> whether it has an effect beside the others, the core aside; those not named here always have."""
