"""Names and settings of earlier versions: where those that have moved are now, and which have gone.

Files, flags, sweeps, runs and records may say the old names; they are read as the new ones.

A run's `config.yaml` and its record hold every setting. Those that have gone are passed over where they have
the value that meant "off": the run did without what has gone, so it is still the same run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from dtqn.settings.values import is_own


class Gone(NamedTuple):
    """A setting that has gone."""

    off: Any
    """The value of a run that did without it."""
    what: str
    """What has gone with it."""
    last_commit: str
    """The last one that has it."""
    unread: tuple[str, Any] | None = None
    """A setting, and its value with which nothing read this one: each of its values meant "off" then."""


GONE = {
    "task.noise": Gone(0.0, "noise on observations", "5aeacee"),
    "task.flicker": Gone(0.0, "flicker", "5aeacee"),
    "learner.ranks": Gone(1, "learning in several processes", "c9b8378"),
    "network.bag_size": Gone(0, "DTQN's bag", "c9b8378"),
    "network.dropout": Gone(0.0, "dropout", "c9b8378"),
    "learner.policy": Gone("online", "a target network that acts", "5aeacee"),
    "learner.loss": Gone("squared", "Huber's loss", "5aeacee"),
    "learner.huber_threshold": Gone(1.0, "Huber's loss", "5aeacee"),
    "network.num_quantiles": Gone(32, "the distribution `quantile`", "5aeacee"),
    "learner.learning_rate_decay_start": Gone(0.6, "the choice of where the step size falls", "5aeacee"),
    "replay.max_priority_weight": Gone(0.9, "the choice of eta", "5aeacee"),
    "network.mask_share": Gone(0.15, "the choice of CoBERL's share of hidden features", "5aeacee"),
    "network.invariance_weight": Gone(1.0, "the choice of the weight of CoBERL's KL terms", "5aeacee"),
    "network.span_ramp": Gone(8, "the choice of the ramp of adaptive spans", "5aeacee"),
    "network.encoder_norm": Gone(True, "the encoder without LayerNorm", "5aeacee"),
    "actor.epsilon_start": Gone(1.0, "the choice of the first epsilon", "5aeacee"),
    "actor.publish_period": Gone(1, "syncing weights every few updates", "5aeacee"),
    "actor.burst_start": Gone(0.0, "the choice of a burst's start", "5aeacee"),
    "actor.burst_length": Gone(1.0, "the choice of a burst's length", "5aeacee"),
    "tracker": Gone("wandb", "TensorBoard", "ee5628d"),
    "learner.munchausen_clip": Gone(1.0, "the choice of Munchausen's l_0", "ee5628d"),
    "learner.munchausen": Gone(False, "Munchausen's bootstrap", "0bdead2"),
    "learner.munchausen_alpha": Gone(
        0.9, "Munchausen's bootstrap", "0bdead2", unread=("learner.munchausen", False)
    ),
    "learner.munchausen_temperature": Gone(
        0.03, "Munchausen's bootstrap", "0bdead2", unread=("learner.munchausen", False)
    ),
    "actor.optimism": Gone(0.0, "OPIQ's bonus", "fccff49"),
    "learner.novelty_centred": Gone(False, "novelty less its mean", "adb962f"),
    "network.compression_rate": Gone(4, "the choice of the steps of a compressed slot", "ee5628d"),
    "replay.initial_priority": Gone(
        "actor", "the choice of first priorities", "ee5628d", unread=("replay.priority_exponent", 0)
    ),
}


def hint(name: str) -> str:
    """The end of a line about a name that is not a setting; empty if it never was one."""
    gone = GONE.get(name.replace("-", "_"))
    return f"; {gone.what} was removed; commit {gone.last_commit} is the last to have it" if gone else ""


Change: TypeAlias = Callable[[Any, Mapping[str, Any]], dict[str, Any]]
"""The old value, and all that the same source sets by dotted name -> what is said in its place."""

KWARGS = "network.kwargs"


def _of_own(value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """A core's and an encoder's own settings were one."""
    own = [part for part in ("core", "encoder") if is_own(str(given.get(f"network.{part}", "")))]
    return {f"network.{part}.kwargs": value for part in own or ["core"]}


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def _initial_weights(value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Where both were true, the gates were chrono's."""
    asked = [name for name in ("chrono", "orthogonal") if _is_true(given.get(f"network.{name}_init"))]
    return {"network.core.initial_weights": asked[0] if asked else "torch"}


def _batches(value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    if str(value) == "0":
        return {"learner.batches": "replay"}
    return {"learner.batches": "rollout", "learner.batches.length": value}


def _within(choice: str, *names: str, **renamed: str) -> dict[str, str | Change]:
    """Settings of a choice that once stood in its group; `renamed`: old -> new."""
    group, renamed = choice.partition(".")[0], {name: name for name in names} | renamed
    return {f"{group}.{old}": f"{choice}.{new}" for old, new in renamed.items()}


MOVED: dict[str, str | Change] = {
    **_within("network.core", "num_layers", "num_heads", "mlp_width", "memory_length", "context_length"),
    **_within("network.core", "positions", "gate", "gate_bias", "norm", "share_gates", "final_norm"),
    **_within("network.core", "skip_connections"),
    **_within("network.core", "adaptive_span", "compressed_slots"),
    **_within("network.encoder", encoder_layers="num_layers"),
    **_within("network.encoder", "use_prev_action", "use_prev_reward", "embedding_width", "image_encoder"),
    "replay.trace_dtype": "replay.memory_dtype",
    **_within("network.distribution", "num_atoms", "v_min", "v_max"),
    **_within("learner.batches", "env_steps_per_update", "epochs", "minibatches", batch_size="size"),
    **_within("learner.returns", "q_lambda", trace_tolerance="tolerance"),
    **_within("learner.target_update", target_ema_rate="rate", target_update_period="period"),
    **_within("actor.exploration", ladder_base="base", ladder_exponent="exponent"),
    **_within("actor.pool", "num_workers", "max_lead", "step_timeout"),
    "network.chrono_init": _initial_weights,
    "network.orthogonal_init": _initial_weights,
    "network.soft_attention": lambda value, given: {"network.encoder": "parts"} if _is_true(value) else {},
    "learner.rollout_length": _batches,
    KWARGS: _of_own,
}
"""Old name -> the new one, or what says the same now."""


def of_today(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """What a source sets, by today's names; and the old names in it, each with what took its place.

    Raises:
        ValueError: an old name and the new one are both there.
    """
    values = {name: value for name, value in given.items() if _old(name) is None}
    moved: dict[str, list[str]] = {}
    for name, value in given.items():
        if (old := _old(name)) is None:
            continue
        change = MOVED[old]
        now = {change: value} if isinstance(change, str) else change(value, given)
        now = {new + name[len(old) :]: inner for new, inner in now.items()}  # one name within a mapping
        if isinstance(change, str) and change in values:
            raise ValueError(f"{name} is now {change}, which is given too; leave one of them out")
        values |= now
        moved[name] = list(now)
    return values, moved


def tell(source: str | None, moved: Mapping[str, list[str]]) -> None:
    """One line to the user about old names in a source; None: the command line. Each is told once."""
    told = [
        f"{old} is now {', '.join(new)}" if new else f"{old} no longer has any effect"
        for old, new in moved.items()
    ]
    _print(f"note: {source or 'the command line'}: {'; '.join(told)}")


@functools.cache
def _print(line: str) -> None:
    print(line, file=sys.stderr)


def _old(name: str) -> str | None:
    """The entry of `MOVED` that a name is of."""
    if name.startswith(f"{KWARGS}."):
        return KWARGS
    return name if name in MOVED else None
