"""Every setting of a run, its default, its unit and its legal range: here and nowhere else.

Settings are frozen pydantic models in the groups `task network learner replay actor evaluation`.
`dtqn.layers` merges presets, files and flags, and turns what is wrong into a `ConfigError` of one line.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo


class ConfigError(ValueError):
    """A setting a user can mend; its text is one line for the terminal."""


class Group(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: ValidationInfo) -> Any:
        """Read values as people and YAML write them: `1e6` is an integer, `none` is null, 1 no boolean."""
        kind = cls.model_fields[info.field_name or ""].annotation
        return _read(value, set(get_args(kind)) or {kind})


class TaskConfig(Group):
    time_limit: int | None = Field(None, ge=1)
    """Environment steps after which an episode is truncated; none: the task's own limit."""
    observation: Literal["grid", "vector"] | None = None
    """Gridverse only: (type, status, colour) of cells in view, or DTQN's vector; none: as the original."""
    backend: Literal["native", "gym-gridverse"] = "native"
    """Gridverse only: this project's own engine, or the installed package gym_gridverse."""
    vectorization: Literal["sync", "async"] = "sync"
    """Copies of a task that is not native are stepped one by one, or in a process each (evaluation's too)."""
    grayscale: bool = False
    """Pictures without colour."""
    resize: int | None = Field(None, ge=1)
    """Pictures of so many pixels a side, by area average; none: as they are."""
    hide: tuple[int, ...] | None = None
    """Components of a vector observation to leave out, from 0; none: nothing."""
    noise: float = Field(0.0, ge=0)
    """Standard deviation of Gaussian noise on observed numbers (Box)."""
    flicker: float = Field(0.0, ge=0, le=1)
    """Probability that an observation is replaced by zeros (Hausknecht and Stone 2015)."""
    frame_stack: int = Field(1, ge=1)
    """k, observations seen at once: the present one and the k - 1 before it."""


class NetworkConfig(Group):
    core: Literal["gtrxl", "lstm", "gru", "mingru", "lru", "dtqn", "none"] = "gtrxl"
    """What remembers between encoder and head: `dtqn` re-reads a window, `none` forgets all (DQN)."""
    width: int = Field(64, ge=2)
    """D, features of a step between the layers; with attention a multiple of `num_heads`, with gtrxl even."""
    num_layers: int = Field(2, ge=1)
    """L, layers of the core."""
    num_heads: int = Field(2, ge=1)
    """H, attention heads of each layer."""
    mlp_width: int = Field(128, ge=1)
    """Hidden features of the feed-forward part of a layer (gtrxl, dtqn, mingru)."""
    memory_length: int = Field(40, ge=0)
    """M, how many environment steps back an attention layer sees; `chrono_init`'s longest time scale."""
    context_length: int = Field(50, ge=1)
    """K, steps of the window that is re-read at each step, the present one among them (dtqn)."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """What is added to features for their place in the window (dtqn)."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Share of features and attention weights zeroed in the online network's learning (dtqn)."""
    gate: Literal["gru", "output", "input", "highway", "sigtanh", "residual"] = "gru"
    """What joins a sub-module's output to its input (GTrXL, section 3.2); `residual` is a plain sum."""
    gate_bias: float | None = None
    """b_g at initialisation; none: the gate's own (gru 2, others 1). Larger is closer to the identity."""
    norm: Literal["pre", "post"] = "pre"
    """LayerNorm at the input of each sub-module (identity map reordering) or after the sum (TrXL)."""
    skip_connections: bool = False
    """Add each layer's input to its output (lstm, gru); for deep ones."""
    chrono_init: bool = False
    """Gates that at first forget over 1 to `memory_length` steps, not torch's 2 (lstm, gru, mingru)."""
    soft_attention: bool = False
    """Attend to the observation's components by the state before the step (lstm; DARQN)."""
    encoder: Literal["default", "dtqn"] = "default"
    """From inputs to features; `dtqn`: the map and the initial weights of DTQN's public code."""
    use_prev_action: bool = True
    """Feed the previous action to the encoder."""
    use_prev_reward: bool = False
    """Feed the previous reward to the encoder."""
    embedding_width: int = Field(8, ge=1)
    """Features for each component of a discrete observation and for the previous action."""
    image_encoder: Literal["nature", "impala"] = "nature"
    """Reads pictures: Nature's convolutions (Mnih et al. 2015) or IMPALA's ResNet (Espeholt et al. 2018)."""
    dueling: bool = True
    """Split the head into a value and advantages (Wang et al. 2016)."""
    head_width: int = Field(64, ge=0)
    """Hidden features of the head; 0: a linear head."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> NetworkConfig:
        if self.soft_attention and (self.core != "lstm" or self.encoder != "default"):
            raise ValueError(
                f"network.soft_attention is true with network.core {self.core} and network.encoder "
                f"{self.encoder}; it needs lstm and default"
            )
        if self.encoder == "dtqn" and self.use_prev_reward:
            raise ValueError(
                "network.use_prev_reward is true, but network.encoder is dtqn, which reads no reward; "
                "try default"
            )
        if self.core not in ("gtrxl", "dtqn"):
            return self
        if self.width % self.num_heads:
            good = max(1, round(self.width / self.num_heads)) * self.num_heads
            raise ValueError(
                f"network.width is {self.width}, not a multiple of network.num_heads {self.num_heads}; "
                f"try {good}"
            )
        if self.width % 2 and (self.core == "gtrxl" or self.positions == "sinusoidal"):
            raise ValueError(
                f"network.width is {self.width}; the sinusoids of positions need an even width; "
                f"try {self.width + 1}"
            )
        return self

    @property
    def trace_window(self) -> int:
        """W, how many stored trace rows make the core's state."""
        return {"gtrxl": self.memory_length, "dtqn": 0, "none": 0}.get(self.core, 1)

    def unread(self) -> list[str]:
        """Settings that were changed from their default and that this network does not read.

        `memory_length` is left out: a task's preset sets it for every agent.
        """
        unread = [name for name, cores in _READ_BY.items() if self.core not in cores]
        unread += ["embedding_width"] if self.soft_attention else []
        unread += ["image_encoder"] if self.encoder == "dtqn" else []
        defaults = type(self).model_fields
        return [f"network.{name}" for name in unread if getattr(self, name) != defaults[name].default]


_READ_BY = {
    "num_layers": {"gtrxl", "lstm", "gru", "mingru", "lru", "dtqn"},
    "num_heads": {"gtrxl", "dtqn"},
    "mlp_width": {"gtrxl", "mingru", "dtqn"},
    "context_length": {"dtqn"},
    "positions": {"dtqn"},
    "dropout": {"dtqn"},
    "gate": {"gtrxl", "dtqn"},
    "gate_bias": {"gtrxl", "dtqn"},
    "norm": {"gtrxl", "dtqn"},
    "skip_connections": {"lstm", "gru"},
    "chrono_init": {"lstm", "gru", "mingru"},
}
"""Which cores read a setting of the network; those not named here are read with every core."""


class LearnerConfig(Group):
    learning_rate: float = Field(1e-3, gt=0)
    """Adam's step size at the start."""
    final_learning_rate_share: float = Field(0.05, ge=0, le=1)
    """Share of the step size that is left at the run's last env step; 1: it stays constant."""
    learning_rate_decay_start: float = Field(0.6, ge=0, lt=1)
    """Share of the run's env steps after which the step size falls, on a straight line."""
    adam_epsilon: float = Field(1e-8, gt=0)
    """Adam's denominator constant."""
    batch_size: int = Field(32, ge=1)
    """B, sequences in an update."""
    gamma: float = Field(0.99, ge=0, le=1)
    """Discount factor of one environment step."""
    n_step: int = Field(3, ge=1)
    """n, rewards summed before the bootstrap; shorter at an episode's end only."""
    double_q: bool = True
    """Choose the bootstrap's action with the online network (van Hasselt et al. 2016)."""
    loss: Literal["squared", "huber"] = "squared"
    """The loss of one TD error: half its square, or Huber's with threshold 1."""
    value_rescaling: bool = False
    """Learn h(Q) with R2D2's h instead of Q; for tasks with large returns."""
    reward_scale: float = Field(0.2, gt=0)
    """Factor on rewards in the loss only; networks and logs see raw rewards."""
    target_update: Literal["soft", "hard"] = "soft"
    """Move the target network a little at every update, or copy it every `target_update_period`."""
    target_ema_rate: float = Field(0.02, gt=0, le=1)
    """Share of the online parameters in a soft target update."""
    target_update_period: int = Field(2500, ge=1)
    """Learner steps between hard target updates."""
    max_grad_norm: float = Field(10.0, gt=0)
    """Gradients are scaled down to this norm."""
    env_steps_per_update: float = Field(48.0, gt=0)
    """Environment steps (all copies together, after warm-up) for one learner step."""


class ReplayConfig(Group):
    capacity: int = Field(500_000, ge=1)
    """Steps kept, over all streams; the oldest go first."""
    learn_length: int = Field(40, ge=1)
    """Steps of a sequence that get a TD error."""
    sequence_period: int | None = Field(None, ge=1)
    """Steps between the anchors of an episode; none: `learn_length`, so each step is in one sequence."""
    burn_in_length: int = Field(4, ge=0)
    """Rows before the anchor that are run without gradient to freshen the stored memory."""
    priority_exponent: float = Field(0.9, ge=0, le=1)
    """alpha in P(i) ~ p_i^alpha; 0: uniform."""
    importance_sampling_exponent: float = Field(0.6, ge=0, le=1)
    """beta in the weights (N P(i))^-beta; 0: none."""
    max_priority_weight: float = Field(0.9, ge=0, le=1)
    """eta: a sequence's priority is eta max|delta| + (1 - eta) mean|delta|."""
    initial_priority: Literal["actor", "max"] = "actor"
    """A new sequence's priority: from the actor's Q-values, or the largest seen."""
    memory: Literal["stored", "zero"] = "stored"
    """The state a sequence starts from: what the actor left behind, or the initial state."""
    trace_dtype: Literal["float16", "float32"] = "float16"
    """How stored memory is kept."""

    @model_validator(mode="after")
    def _period_fits(self) -> ReplayConfig:
        if self.sequence_period is not None and self.sequence_period > self.learn_length:
            raise ValueError(
                f"replay.sequence_period is {self.sequence_period}, above replay.learn_length "
                f"{self.learn_length}: steps between would never be learned; try {self.learn_length}"
            )
        return self

    @property
    def period(self) -> int:
        return self.learn_length if self.sequence_period is None else self.sequence_period


class ActorConfig(Group):
    num_envs: int = Field(32, ge=1)
    """N, copies of the task that are stepped together."""
    exploration: Literal["ladder", "annealed"] = "ladder"
    """Each copy's final epsilon: its rung 0.4^(1 + 7i/(N-1)) of Ape-X's ladder, or `epsilon_final`."""
    ladder_base: float = Field(0.4, gt=0, lt=1)
    """The ladder's base."""
    ladder_exponent: float = Field(7.0, ge=0)
    """The ladder's alpha: the last rung is base^(1 + alpha)."""
    epsilon_start: float = Field(1.0, ge=0, le=1)
    """Share of random actions when warm-up ends."""
    epsilon_final: float = Field(0.05, ge=0, le=1)
    """Share of random actions after annealing, where exploration is `annealed` or there is one copy."""
    epsilon_anneal_env_steps: int = Field(80_000, ge=0)
    """Environment steps after warm-up over which epsilon falls linearly to its final value."""
    publish_period: int = Field(1, ge=1)
    """Learner steps between two publishings of parameters to the actor."""


class EvaluationConfig(Group):
    period: int = Field(25_000, ge=1)
    """Environment steps between evaluations."""
    episodes: int = Field(500, ge=1)
    """Greedy episodes in an evaluation."""
    num_envs: int = Field(500, ge=1)
    """Copies of the task in an evaluation; every copy plays the same number of episodes, all counted."""


class Config(Group):
    """One run, resolved."""

    env: str = "gridverse-memory-7x7"
    """The task's id; `python run.py envs` lists them."""
    agent: str = "gtrxl"
    """The preset of settings that makes up an agent."""
    seed: int = Field(1, ge=0)
    """Root of every random generator of the run."""
    total_env_steps: int = Field(450_000, ge=1)
    """Environment steps of the run, warm-up included."""
    warmup_env_steps: int | None = Field(None, ge=0)
    """Random steps before learning; none: min(20 000, total/5)."""
    checkpoint_every: int = Field(50_000, ge=1)
    """Environment steps between checkpoints; one is always written at the end."""
    metrics_every: int = Field(2_000, ge=1)
    """Environment steps between rows of training metrics."""
    threads: int = Field(1, ge=1)
    """CPU threads of one run; two runs side by side need one each."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run; auto: cuda where there is one."""
    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    """W&B; auto: online where the user is logged in, offline otherwise."""
    stop_at_success: float | None = Field(None, gt=0, le=1)
    """End when the lower end of an evaluation's 95 % interval of success is at or above this; none: off."""
    task: TaskConfig = TaskConfig()
    network: NetworkConfig = NetworkConfig()
    learner: LearnerConfig = LearnerConfig()
    replay: ReplayConfig = ReplayConfig()
    actor: ActorConfig = ActorConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _sizes_fit(self) -> Config:
        if self.warmup_env_steps is not None and self.warmup_env_steps > self.total_env_steps:
            raise ValueError(
                f"warmup_env_steps is {self.warmup_env_steps}, above total_env_steps {self.total_env_steps}: "
                f"nothing would be learned; try {self.total_env_steps // 5}"
            )
        replay, streams, context = self.replay, self.actor.num_envs, self.network.context_length
        if self.network.core == "dtqn" and replay.burn_in_length + replay.learn_length != context:
            raise ValueError(
                f"replay.learn_length is {replay.learn_length} and replay.burn_in_length "
                f"{replay.burn_in_length}, but a window of network.context_length {context} is both; try "
                f"{min(replay.learn_length, context)} and {max(0, context - replay.learn_length)}"
            )
        need = self.network.trace_window + replay.burn_in_length + replay.learn_length + self.learner.n_step
        if replay.capacity // streams <= need:
            raise ValueError(
                f"replay.capacity is {replay.capacity}, {replay.capacity // streams} steps for each of "
                f"{streams} actor.num_envs, but a sequence with its memory spans {need}; "
                f"try {(need + 1) * streams} or more"
            )
        return self

    @property
    def warmup(self) -> int:
        """Random environment steps before learning."""
        if self.warmup_env_steps is not None:
            return self.warmup_env_steps
        return min(20_000, self.total_env_steps // 5)


def _read(value: Any, kinds: set[Any]) -> Any:
    if isinstance(value, str) and type(None) in kinds and value.lower() in ("none", "null", "~"):
        return None
    if _holds_tuple(kinds) and value is not None:  # `1,3`, `[1, 3]` or 1
        items = value.split(",") if isinstance(value, str) else value
        return tuple(int(str(item)) for item in (items if isinstance(items, list | tuple) else [items]))
    if bool in kinds:
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise ValueError("no boolean")
    if kinds & {int, float} and isinstance(value, bool):
        raise ValueError("no number")
    if int in kinds and isinstance(value, str):
        return _integer(value)
    return value


def _holds_tuple(kinds: Iterable[Any]) -> bool:
    return any(get_origin(kind) is tuple for kind in kinds)


def _integer(text: str) -> int | str:
    """The integer that `text` is, be it written `1000000`, `1_000_000` or `1e6`; otherwise `text` itself."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if math.isfinite(number) and number.is_integer() else text


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` for the closest known name, or all known names where they are few."""
    names = sorted(known)
    # A bare field name is meant as the dotted name that ends in it.
    ends = [candidate for candidate in names if candidate.rpartition(".")[2] == name]
    close = ends or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if len(names) <= 12 else ""


def fields_of(model: type[BaseModel] = Config, prefix: str = "") -> dict[str, FieldInfo]:
    """Dotted name -> field of every leaf setting, in order of declaration."""
    leaves: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            leaves.update(fields_of(kind, f"{prefix}{name}."))
        else:
            leaves[prefix + name] = field
    return leaves


def legal(field: FieldInfo) -> str:
    """What a field takes, in words: `a number above 0`, `an integer of at least 1, or none`."""
    kinds = choices(field.annotation) or get_args(field.annotation) or (field.annotation,)
    optional = ", or none" if type(None) in (*kinds, *get_args(field.annotation)) else ""
    if bool in kinds:
        return "true or false"
    if _holds_tuple(kinds):
        return f"integers with commas between{optional}"
    if int in kinds or float in kinds:
        noun = "an integer" if int in kinds else "a number"
        return f"{noun}{_bounds(field)}{optional}"
    if str in kinds:
        return "text"
    return f"one of {', '.join(map(str, kinds))}{optional}"


def choices(annotation: Any) -> tuple[Any, ...]:
    """What a Literal, or one beside None, lets be chosen; empty for any other type."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((get_args(kind) for kind in get_args(annotation) if get_origin(kind) is Literal), ())


def _bounds(field: FieldInfo) -> str:
    low, high = [], []
    for limit in field.metadata:
        low += [f"of at least {limit.ge}"] if hasattr(limit, "ge") else []
        low += [f"above {limit.gt}"] if hasattr(limit, "gt") else []
        high += [f"at most {limit.le}"] if hasattr(limit, "le") else []
        high += [f"below {limit.lt}"] if hasattr(limit, "lt") else []
    return "".join(f" {part}" for part in [" and ".join(low + high)] if part)
