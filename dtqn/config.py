"""Every setting of a run, its default, its unit and its legal range: here and nowhere else.

The options of a task are written in `envs.options`, and `TaskConfig` is made of them.

Settings are frozen pydantic models in the groups `task network learner replay actor evaluation`.
`dtqn.layers` merges presets, files and flags, and turns what is wrong into a `ConfigError` of one line.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from envs.options import TaskOptions


class ConfigError(ValueError):
    """A setting a user can mend; its text is one line for the terminal."""


class MisfitError(ConfigError):
    """Settings that are legal one by one and not together."""


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


def _fields_of_options() -> dict[str, Any]:
    """The fields of `TaskOptions`, whose metadata are the arguments of `Field`: description and limits."""
    kinds = get_type_hints(TaskOptions)
    return {one.name: (kinds[one.name], Field(one.default, **one.metadata)) for one in fields(TaskOptions)}


_TaskOptions: Any = create_model("TaskOptions", __base__=Group, **_fields_of_options())


class TaskConfig(_TaskOptions):
    """The options of a task as settings; `envs.options` says what each is."""


class NetworkConfig(Group):
    core: Literal["gtrxl", "coberl", "lstm", "gru", "mingru", "lru", "dtqn", "none"] = "gtrxl"
    """What remembers between encoder and head: `dtqn` re-reads a window, `none` forgets all (DQN)."""
    width: int = Field(64, ge=2)
    """D, features of a step between the layers; with attention a multiple of `num_heads`, with gtrxl even."""
    num_layers: int = Field(2, ge=1)
    """L, layers of the core."""
    num_heads: int = Field(2, ge=1)
    """H, attention heads of each layer."""
    mlp_width: int = Field(128, ge=1)
    """Hidden features of the feed-forward part of a layer (gtrxl, coberl, dtqn, mingru)."""
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
    norm: Literal["pre", "post", "none"] = "pre"
    """LayerNorm at each sub-module's input (identity map reordering), after the sum (TrXL), or nowhere."""
    bag_size: int = Field(0, ge=0)
    """S, rows that have left the window and are still attended to, chosen by the Q-values; 0: none (dtqn)."""
    share_gates: bool = False
    """One pair of gates for all layers, as in DTQN's public code (dtqn)."""
    final_norm: bool = False
    """LayerNorm after the last layer too (dtqn)."""
    skip_connections: bool = False
    """Add each layer's input to its output (lstm, gru); for deep ones."""
    chrono_init: bool = False
    """Gates that at first forget over 1 to `memory_length` steps, not torch's 2 (recurrences but lru)."""
    mask_share: float = Field(0.15, gt=0, lt=1)
    """Share of a sequence's features that the contrastive loss hides and predicts (coberl)."""
    invariance_weight: float = Field(1.0, ge=0)
    """Weight of the KL terms in the contrastive loss (coberl)."""
    adaptive_span: bool = False
    """Each head learns how far it looks back, at most `memory_length` (gtrxl; Sukhbaatar et al. 2019)."""
    span_ramp: int = Field(8, ge=1)
    """R, steps over which a head's view fades out beyond its span (adaptive_span)."""
    compressed_slots: int = Field(0, ge=0)
    """C, rows of compressed memory that are seen beyond `memory_length` (gtrxl; Rae et al. 2019); 0: none."""
    compression_rate: int = Field(4, ge=2)
    """c, steps that a row of compressed memory stands for (compressed_slots)."""
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
    distribution: Literal["none", "categorical", "quantile"] = "none"
    """What the head says of a return: its mean, probabilities of atoms (C51), or quantiles (QR-DQN)."""
    num_atoms: int = Field(51, ge=2)
    """Atoms from `v_min` to `v_max` (categorical)."""
    v_min: float = -10.0
    """The smallest return an atom stands for, with `reward_scale` and value rescaling (categorical)."""
    v_max: float = 10.0
    """The largest return an atom stands for, with `reward_scale` and value rescaling (categorical)."""
    num_quantiles: int = Field(32, ge=1)
    """Quantiles of the return (quantile); the loss of a step costs their number squared."""

    @model_validator(mode="after")
    def _range_fits(self) -> NetworkConfig:
        if self.v_min >= self.v_max:
            raise ValueError(
                f"network.v_min is {self.v_min}, not below network.v_max {self.v_max}; try {self.v_max - 1}"
            )
        return self

    @model_validator(mode="after")
    def _sizes_fit(self) -> NetworkConfig:
        if self.soft_attention and (self.core != "lstm" or self.encoder != "default"):
            raise ValueError(
                f"network.soft_attention is true with network.core {self.core} and network.encoder "
                f"{self.encoder}; it needs lstm and default"
            )
        if self.encoder == "dtqn" and self.chrono_init:
            raise ValueError(
                "network.chrono_init is true, but network.encoder is dtqn, whose initial biases are zero; "
                "try false"
            )
        if self.encoder == "dtqn" and self.use_prev_reward:
            raise ValueError(
                "network.use_prev_reward is true, but network.encoder is dtqn, which reads no reward; "
                "try default"
            )
        if self.core == "gtrxl" and self.compressed_slots:
            if self.adaptive_span:
                raise ValueError(
                    f"network.compressed_slots is {self.compressed_slots} with network.adaptive_span true: "
                    "spans end within the memory; try 0, or false"
                )
            if self.memory_length < self.compression_rate:
                raise ValueError(
                    f"network.memory_length is {self.memory_length}, below network.compression_rate "
                    f"{self.compression_rate}: blocks would be seen before they are whole; try "
                    f"{self.compression_rate}"
                )
        if self.core not in ("gtrxl", "coberl", "dtqn"):
            return self
        needs_even = self.core != "dtqn" or self.positions == "sinusoidal"
        if self.width % self.num_heads:
            step = math.lcm(self.num_heads, 2) if needs_even else self.num_heads
            good = max(1, round(self.width / step)) * step
            raise ValueError(
                f"network.width is {self.width}, not a multiple of network.num_heads {self.num_heads}; "
                f"try {good}"
            )
        if self.width % 2 and needs_even:
            raise ValueError(
                f"network.width is {self.width}; the sinusoids of positions need an even width; "
                f"try {self.width + self.num_heads}"
            )
        return self

    @property
    def trace_window(self) -> int:
        """W, how many stored trace rows make the core's state."""
        match self.core:
            case "gtrxl":
                return self.memory_length + self.compressed_slots * self.compression_rate
            case "coberl":
                return max(1, self.memory_length)
            case "dtqn" | "none":
                return 0
        return 1

    @property
    def auxiliary_loss(self) -> Literal["contrastive", "span", "reconstruction"] | None:
        """What `learner.auxiliary_weight` weighs."""
        match self.core:
            case "coberl":
                return "contrastive"
            case "gtrxl" if self.adaptive_span:
                return "span"
            case "gtrxl" if self.compressed_slots:
                return "reconstruction"
        return None


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
    """n, rewards summed before the bootstrap, fewer at an episode's end; of Q(lambda), rows it sees on."""
    returns: Literal["n_step", "peng", "watkins"] = "n_step"
    """What a step learns: an n-step return, Peng's Q(lambda), or Watkins', cut at exploring actions."""
    q_lambda: float = Field(0.7, ge=0, le=1)
    """lambda of Q(lambda): 0 is the one-step return, 1 the whole rest of the sequence (peng, watkins)."""
    next_window: bool = False
    """Bootstrap from a window of its own, the sequence without its first row (DTQN's public code)."""
    double_q: bool = True
    """Choose the bootstrap's action with the online network (van Hasselt et al. 2016)."""
    munchausen: bool = False
    """Soft bootstrap values and a reward for likely actions (Vieillard et al. 2020)."""
    munchausen_alpha: float = Field(0.9, ge=0, le=1)
    """Share of the log-policy in the reward (munchausen)."""
    munchausen_temperature: float = Field(0.03, gt=0)
    """tau of the policy softmax(Q / tau) (munchausen)."""
    munchausen_clip: float = Field(1.0, gt=0)
    """-l_0: tau log pi enters the reward down to minus this (munchausen)."""
    loss: Literal["squared", "huber"] = "squared"
    """The loss of one TD error: half its square, or Huber's; of a head without distribution."""
    huber_threshold: float = Field(1.0, gt=0)
    """TD error where Huber's loss and that of quantiles turn from square to straight."""
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
    auxiliary_weight: float = Field(0.0, ge=0)
    """Weight of the network's own loss beside that of the TD errors (coberl, spans, compressed memory)."""
    max_grad_norm: float = Field(10.0, gt=0)
    """Gradients are scaled down to this norm."""
    env_steps_per_update: float = Field(48.0, gt=0)
    """Environment steps (all copies together, after warm-up) for one learner step."""

    @model_validator(mode="after")
    def _targets_have_a_meaning(self) -> LearnerConfig:
        if self.munchausen and self.value_rescaling:
            raise ValueError(
                "learner.munchausen is true with learner.value_rescaling true: an entropy cannot be added to "
                "rescaled values; try false for one of them"
            )
        return self


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
    memory: Literal["stored", "zero", "refreshed"] = "stored"
    """The state a sequence starts from: what the actor left, the initial one, or the last update's."""
    learn_burn_in: bool = False
    """Give the rows of burn-in or context a TD error too: a sequence is learned from its first row on."""
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
    """Environment steps after warm-up over which epsilon falls to its final value."""
    annealing: Literal["linear", "exponential"] = "linear"
    """How epsilon falls: on a straight line, or each step by its share of what is left, for ever (DTQN)."""
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
    def _options_fit(self) -> Config:
        kind, learner = self.network.distribution, self.learner
        if kind != "none" and learner.returns != "n_step":
            raise ValueError(
                f"learner.returns is {learner.returns} with network.distribution {kind}: Q(lambda) is of "
                "expected values here; try n_step, or network.distribution none"
            )
        if kind == "categorical" and learner.munchausen:
            raise ValueError(
                "learner.munchausen is true with network.distribution categorical; try quantile or none"
            )
        if learner.auxiliary_weight and self.network.auxiliary_loss is None:
            raise ValueError(
                f"learner.auxiliary_weight is {learner.auxiliary_weight}, but network.core "
                f"{self.network.core} as it is set has no auxiliary loss; try 0"
            )
        if self.replay.memory == "refreshed" and self.network.trace_window == 0:
            raise ValueError(
                f"replay.memory is refreshed, but network.core {self.network.core} with "
                f"network.memory_length {self.network.memory_length} stores no memory; try stored"
            )
        replay, remembers = self.replay, self.network.trace_window > 0
        if replay.learn_burn_in and replay.memory == "refreshed":
            raise ValueError(
                "replay.learn_burn_in is true with replay.memory refreshed, which is for rows that are not "
                "learned; try stored or zero"
            )
        if replay.learn_burn_in and self.network.core == "dtqn" and self.network.bag_size:
            raise ValueError(
                f"replay.learn_burn_in is true with network.bag_size {self.network.bag_size}, which is read "
                "with the learn block alone; try false"
            )
        if replay.learn_burn_in and replay.priority_exponent and replay.initial_priority == "actor":
            raise ValueError(
                "replay.learn_burn_in is true with replay.initial_priority actor, which is of the learn "
                "block alone; try max"
            )
        if learner.next_window and replay.burn_in_length and not replay.learn_burn_in:
            raise ValueError(
                f"learner.next_window is true, but replay.burn_in_length is {replay.burn_in_length} with "
                "replay.learn_burn_in false; try true, or a burn-in of 0"
            )
        if learner.next_window and remembers and replay.memory != "zero":
            raise ValueError(
                f"learner.next_window is true with replay.memory {replay.memory}, which is of the row before "
                "the sequence and not the next one's; try zero"
            )
        return self

    def unread(self) -> list[str]:
        """Settings that were changed from their default and that nothing reads, given the others.

        Those that presets of tasks set for every agent are left out, such as `network.memory_length`.
        """
        fields = fields_of()
        unread = []
        for name, is_read in _IS_READ.items():
            group, _, setting = name.partition(".")
            if getattr(getattr(self, group), setting) != fields[name].default and not is_read(self):
                unread.append(name)
        return unread

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
        if self.network.core == "dtqn" and self.learner.n_step > context:
            raise ValueError(
                f"learner.n_step is {self.learner.n_step}, above network.context_length {context}: no window "
                f"holds all rows that are bootstrapped from; try {context} or less"
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


_CORES = {
    "num_layers": {"gtrxl", "coberl", "lstm", "gru", "mingru", "lru", "dtqn"},
    "num_heads": {"gtrxl", "coberl", "dtqn"},
    "mlp_width": {"gtrxl", "coberl", "mingru", "dtqn"},
    "positions": {"dtqn"},
    "dropout": {"dtqn"},
    "gate": {"gtrxl", "coberl", "dtqn"},
    "norm": {"gtrxl", "coberl", "dtqn"},
    "bag_size": {"dtqn"},
    "final_norm": {"dtqn"},
    "chrono_init": {"lstm", "gru", "mingru", "coberl"},
    "adaptive_span": {"gtrxl"},
    "compressed_slots": {"gtrxl"},
}
"""Which cores read a setting of the network; with one that is not named here it is not as simple."""


def _read_with(cores: set[str]) -> Callable[[Config], bool]:
    return lambda config: config.network.core in cores


def _several_epsilons(config: Config) -> bool:
    return config.actor.exploration == "ladder" and config.actor.num_envs > 1


_IS_READ: dict[str, Callable[[Config], bool]] = {
    **{f"network.{name}": _read_with(cores) for name, cores in _CORES.items()},
    "network.gate_bias": lambda c: (
        c.network.core in _CORES["gate"] and c.network.gate not in ("input", "residual")
    ),
    "network.skip_connections": lambda c: (  # DARQN's layer, the first, has none
        c.network.core in ("lstm", "gru") and c.network.num_layers > int(c.network.soft_attention)
    ),
    "network.share_gates": lambda c: c.network.core == "dtqn" and c.network.gate != "residual",
    "network.span_ramp": lambda c: c.network.core == "gtrxl" and c.network.adaptive_span,
    "network.compression_rate": lambda c: c.network.core == "gtrxl" and c.network.compressed_slots > 0,
    "network.mask_share": lambda c: c.network.core == "coberl" and c.learner.auxiliary_weight > 0,
    "network.invariance_weight": lambda c: c.network.core == "coberl" and c.learner.auxiliary_weight > 0,
    "network.embedding_width": lambda c: not c.network.soft_attention,
    "network.image_encoder": lambda c: c.network.encoder != "dtqn",
    "network.num_atoms": lambda c: c.network.distribution == "categorical",
    "network.v_min": lambda c: c.network.distribution == "categorical",
    "network.v_max": lambda c: c.network.distribution == "categorical",
    "network.num_quantiles": lambda c: c.network.distribution == "quantile",
    "learner.q_lambda": lambda c: c.learner.returns != "n_step",
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
    "replay.max_priority_weight": lambda c: c.replay.priority_exponent > 0,
    "replay.memory": lambda c: c.network.trace_window > 0,
    "replay.trace_dtype": lambda c: c.network.trace_window > 0,
    "actor.epsilon_final": lambda c: not _several_epsilons(c),
    "actor.epsilon_start": lambda c: c.actor.epsilon_anneal_env_steps > 0,
    "actor.annealing": lambda c: c.actor.epsilon_anneal_env_steps > 0,
}
"""Setting -> whether anything reads it, given the others; those not named here are always read."""


def _read(value: Any, kinds: set[Any]) -> Any:
    if isinstance(value, str) and type(None) in kinds and value.lower() in ("none", "null", "~"):
        return None
    if _holds(Mapping, kinds) and isinstance(value, str):  # `{length: 20}`, as YAML or JSON
        try:
            return yaml.safe_load(value)
        except yaml.YAMLError:
            raise ValueError("no mapping") from None
    if _holds(tuple, kinds) and value is not None:  # `1,3`, `[1, 3]` or 1
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


def _holds(origin: type, kinds: Iterable[Any]) -> bool:
    return any(get_origin(kind) is origin for kind in kinds)


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
    # A bare field name is meant as the dotted name that ends in it, and `lr` as `learning_rate`.
    ends = [candidate for candidate in names if candidate.rpartition(".")[2] == name]
    ends = ends or [candidate for candidate in names if _initials(candidate) == name.rpartition(".")[2]]
    close = ends or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if len(names) <= 30 else ""


def _initials(name: str) -> str:
    return "".join(word[:1] for word in name.rpartition(".")[2].split("_"))


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
    if _holds(Mapping, kinds):
        return f"a mapping such as {{length: 20}}{optional}"
    if _holds(tuple, kinds):
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
