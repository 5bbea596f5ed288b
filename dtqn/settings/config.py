"""Every setting of a run, its default, its unit, its legal range and the cores that read it.

The options of a task are written in `envs.options`, and `TaskConfig` is made of them.

Settings are frozen pydantic models in the groups `task network learner replay actor evaluation`. `rules` says
which of them do not go together and which nothing reads. `presets` merges presets, files and flags, and
turns what is wrong into a `ConfigError` of one line.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

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

from dtqn.settings import rules, values
from dtqn.settings.values import AnySize, AutoOr, Cores, OwnOr, SomeOf
from envs.options import TaskOptions


class ConfigError(ValueError):
    """A mistake that a user can mend; its text is one line for the terminal."""


class MisfitError(ConfigError):
    """Settings that are legal one by one and not together."""


def wrong(name: str, value: object, why: str) -> ConfigError:
    """The error of one setting or option: `--runs-dir is x: leave it out with --run-dir`."""
    return ConfigError(f"{name} is {values.shown(value) if isinstance(value, str) else value}: {why}")


class Group(BaseModel):
    """Settings that belong together; they cannot be changed after."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )
    rules_of_group: ClassVar[Sequence[rules.Rule]] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: ValidationInfo) -> Any:
        return values.read(value, cls.model_fields[info.field_name or ""])

    @model_validator(mode="after")
    def _fits_together(self) -> Group:
        for rule in self.rules_of_group:
            if text := rule(self):
                raise ValueError(text)
        return self


def _fields_of_options() -> dict[str, Any]:
    """The fields of `TaskOptions`, whose metadata are the arguments of `Field`: description and limits."""
    kinds = get_type_hints(TaskOptions)
    return {one.name: (kinds[one.name], Field(one.default, **one.metadata)) for one in fields(TaskOptions)}


_TaskOptions: Any = create_model("TaskOptions", __base__=Group, **_fields_of_options())


class TaskConfig(_TaskOptions):
    """The options of a task as settings; `envs.options` says what each is."""


_LAYERS = Cores("gtrxl", "coberl", "lstm", "gru", "mingru", "lru", "deltanet", "dtqn")
_ATTENTION = Cores("gtrxl", "coberl", "dtqn")


class NetworkConfig(Group):
    """The network: encoder, core and head."""

    rules_of_group = rules.NETWORK

    core: Annotated[
        str, OwnOr("gtrxl", "coberl", "lstm", "gru", "mingru", "lru", "deltanet", "dtqn", "none")
    ] = "gtrxl"
    """The memory between encoder and head: `dtqn` re-reads a window, `none` forgets all (DQN)."""
    width: int = Field(64, ge=2, le=1_000_000)
    """D, features of a step between the layers; a multiple of `num_heads` if it is read, even with gtrxl."""
    num_layers: Annotated[int, _LAYERS] = Field(2, ge=1, le=1000)
    """L, layers of the core."""
    num_heads: Annotated[int, Cores("gtrxl", "coberl", "deltanet", "dtqn")] = Field(2, ge=1, le=1_000_000)
    """H, heads of each layer: of attention, or matrices of memory, D^2 / H numbers a layer (deltanet)."""
    mlp_width: Annotated[int, Cores("gtrxl", "coberl", "mingru", "deltanet", "dtqn")] = Field(
        128, ge=1, le=1_000_000
    )
    """Hidden features of the feed-forward part of a layer."""
    memory_length: int = Field(40, ge=0, le=1_000_000)
    """M, how many environment steps back an attention layer sees; `chrono_init`'s longest time scale."""
    context_length: int = Field(50, ge=1, le=1_000_000)
    """K, steps of the window that is re-read at each step, the present one among them (dtqn)."""
    positions: Annotated[Literal["learned", "sinusoidal", "none"], Cores("dtqn")] = "learned"
    """Encoding of a step's place in the window, added to its features."""
    gate: Annotated[Literal["gru", "output", "input", "highway", "sigtanh", "residual"], _ATTENTION] = "gru"
    """Gate that joins a sub-module's output to its input (GTrXL, section 3.2); `residual` is a plain sum."""
    gate_bias: Annotated[float | None, _ATTENTION] = None
    """b_g at initialisation; larger is closer to the identity. None is the gate's own: gru 2, others 1."""
    norm: Annotated[Literal["pre", "post", "none"], _ATTENTION] = "pre"
    """LayerNorm at each sub-module's input (identity map reordering), after the sum (TrXL), or nowhere."""
    share_gates: Annotated[bool, Cores("dtqn")] = False
    """One pair of gates for all layers, as in DTQN's public code."""
    final_norm: Annotated[bool, Cores("dtqn")] = False
    """LayerNorm after the last layer too."""
    skip_connections: Annotated[bool, Cores("lstm", "gru")] = False
    """Add each layer's input to its output, for deep cores."""
    chrono_init: Annotated[bool, Cores("lstm", "gru", "mingru", "deltanet", "coberl")] = False
    """Gates that at first forget over 1 to `memory_length` steps, not torch's 2."""
    orthogonal_init: Annotated[bool, Cores("lstm", "gru")] = False
    """Orthogonal weights from state to state and zero biases, as in Flax; false: torch's uniform ones."""
    mask_share: Annotated[float, Cores("coberl")] = Field(0.15, gt=0, lt=1)
    """Share of a sequence's features that the contrastive loss hides and predicts."""
    invariance_weight: Annotated[float, Cores("coberl")] = Field(1.0, ge=0)
    """Weight of the KL terms in the contrastive loss."""
    adaptive_span: Annotated[bool, Cores("gtrxl")] = False
    """Each head learns how far it looks back, at most `memory_length` (Sukhbaatar et al. 2019)."""
    span_ramp: Annotated[int, Cores("gtrxl")] = Field(8, ge=1)
    """R, steps over which a head's view fades out beyond its span (adaptive_span)."""
    compressed_slots: Annotated[int, Cores("gtrxl")] = Field(0, ge=0, le=1_000_000)
    """C, compressed rows that are seen beyond `memory_length` (Rae et al. 2019); 0: no such rows."""
    compression_rate: Annotated[int, Cores("gtrxl")] = Field(4, ge=2)
    """c, steps that a row of compressed memory stands for (compressed_slots)."""
    soft_attention: bool = False
    """Attend to the observation's components by the state before the step (lstm; DARQN)."""
    encoder: Annotated[str, OwnOr("default", "dtqn")] = "default"
    """From inputs to features; `dtqn`: the map and the initial weights of DTQN's public code."""
    encoder_layers: int = Field(0, ge=0, le=1000)
    """Layers of a linear map, LayerNorm and ReLU before the previous action is added; 0: one map of both."""
    encoder_norm: bool = True
    """LayerNorm in these layers (encoder_layers)."""
    use_prev_action: bool = True
    """Feed the previous action to the encoder."""
    use_prev_reward: bool = False
    """Feed the previous reward to the encoder."""
    embedding_width: int = Field(8, ge=1, le=1_000_000)
    """Features for each component of a discrete observation, and the previous action if no layers follow."""
    image_encoder: Literal["nature", "impala", "minigrid"] = "nature"
    """Reads pictures: Nature's convolutions (Mnih et al. 2015), IMPALA's ResNet (Espeholt et al. 2018),
    or for small grids the network that MiniGrid's authors give their agents (torch-ac)."""
    dueling: bool = True
    """Split the head into a value and advantages (Wang et al. 2016)."""
    head_width: int = Field(64, ge=0, le=1_000_000)
    """Hidden features of the head; 0: a linear head."""
    distribution: Literal["none", "categorical", "quantile"] = "none"
    """The head's estimate of a return: its mean, probabilities of atoms (C51), or quantiles (QR-DQN)."""
    num_atoms: int = Field(51, ge=2, le=1_000_000)
    """Atoms from `v_min` to `v_max` (categorical)."""
    v_min: float = -10.0
    """The smallest return an atom stands for, with `reward_scale` and value rescaling (categorical)."""
    v_max: float = 10.0
    """The largest return an atom stands for, with `reward_scale` and value rescaling (categorical)."""
    num_quantiles: int = Field(32, ge=1, le=1_000_000)
    """Quantiles of the return (quantile); the loss of a step costs their number squared."""
    recall_weight: float = Field(0.0, ge=0)
    """Weight of a loss that asks a core with memory which values the episode has shown; 0: none."""
    kwargs: Mapping[str, Any] = {}
    """Settings of a core's or an encoder's own, for the function that a user has written to make it."""

    @property
    def trace_window(self) -> int | None:
        """W, how many stored trace rows make the core's state; None for a core of the user's own."""
        match self.core:
            case "gtrxl":
                return self.memory_length + self.compressed_slots * self.compression_rate
            case "coberl":
                return max(1, self.memory_length)
            case "dtqn" | "none":
                return 0
        return None if values.is_own(self.core) else 1

    @property
    def auxiliary_loss(self) -> Literal["contrastive", "span", "reconstruction"] | None:
        """The loss that `learner.auxiliary_weight` weighs."""
        match self.core:
            case "coberl":
                return "contrastive"
            case "gtrxl" if self.adaptive_span:
                return "span"
            case "gtrxl" if self.compressed_slots:
                return "reconstruction"
        return None


class LearnerConfig(Group):
    """Updates: optimiser, targets, losses."""

    rules_of_group = rules.LEARNER

    optimizer: Literal["adam", "radam"] = "adam"
    """Adam, or RAdam, whose first steps are smaller (Liu et al. 2020)."""
    learning_rate: float = Field(1e-3, gt=0)
    """Adam's step size at the start."""
    final_learning_rate_share: float = Field(0.05, ge=0, le=1)
    """Share of the step size that is left at the run's last env step; 1: it stays constant."""
    learning_rate_decay_start: float = Field(0.6, ge=0, lt=1)
    """Share of the run's env steps after which the step size falls, on a straight line."""
    adam_epsilon: float = Field(1e-8, gt=0)
    """Adam's denominator constant."""
    weight_decay: float = Field(0.0, ge=0)
    """lambda: an update takes the step size times this share off each matrix (AdamW)."""
    batch_size: int = Field(32, ge=1)
    """B, sequences in an update from replay."""
    rollout_length: int = Field(0, ge=0, le=1_000_000)
    """T, ticks after which their rows, and no others, are learned and forgotten; 0: learn from replay."""
    epochs: int = Field(4, ge=1)
    """Times that a rollout is learned (rollout_length)."""
    minibatches: int = Field(16, ge=1)
    """Updates in an epoch, each of other copies; a divisor of `actor.num_envs` (rollout_length)."""
    gamma: float = Field(0.99, ge=0, le=1)
    """Discount factor of one environment step."""
    n_step: int = Field(3, ge=1)
    """n, rewards summed before the bootstrap, fewer at an episode's end; of Q(lambda), rows it sees on."""
    returns: Literal["n_step", "peng", "watkins"] = "n_step"
    """Target of a step: an n-step return, Peng's Q(lambda), or Watkins', cut at exploring actions."""
    q_lambda: float = Field(0.9, ge=0, le=1)
    """lambda of Q(lambda): 0 is the one-step return, 1 the whole rest of the sequence (peng, watkins)."""
    trace_tolerance: float = Field(0.0, ge=0)
    """kappa: a trace goes on where Q is as good as the greedy one to this share of the largest (watkins)."""
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
    novelty_weight: float = Field(0.0, ge=0)
    """Reward, in the loss only, for each observation that its episode had not shown before."""
    repeat_cost: float = Field(0.0, ge=0)
    """Cost, in the loss only, of each observation that its episode had shown before."""
    novelty_centred: bool = False
    """Less their mean over recent steps: on average they pay nothing (novelty_weight, repeat_cost)."""
    target_update: Literal["soft", "hard", "none"] = "soft"
    """Move the target network a little at every update, or copy it every `target_update_period`; none: the
    online network bootstraps itself."""
    target_ema_rate: float = Field(0.02, gt=0, le=1)
    """Share of the online parameters in a soft target update."""
    target_update_period: int = Field(2500, ge=1)
    """Learner steps between hard target updates."""
    policy: Literal["online", "target"] = "online"
    """The network that acts, is evaluated and saved: the trained one, or its target, a running mean of it."""
    auxiliary_weight: float = Field(0.0, ge=0)
    """Weight of the network's own loss beside that of the TD errors (coberl, spans, compressed memory)."""
    max_grad_norm: float = Field(10.0, gt=0)
    """Gradients are scaled down to this norm."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of encoder and core in an update; parameters, head and losses stay float32."""
    env_steps_per_update: float = Field(48.0, gt=0)
    """Environment steps (all copies together, after warm-up) for one learner step from replay."""

    @property
    def reads_novelty(self) -> bool:
        """Whether the loss asks which observations are new to their episode."""
        return self.novelty_weight > 0 or self.repeat_cost > 0


class ReplayConfig(Group):
    """Replay: its size, its sequences, their priorities and their memory."""

    rules_of_group = rules.REPLAY

    capacity: int = Field(500_000, ge=1)
    """Steps kept, over all streams; the oldest go first."""
    learn_length: int = Field(40, ge=1)
    """Steps of a sequence that get a TD error."""
    sequence_period: int | None = Field(None, ge=1)
    """Steps between the anchors of an episode; None is `learn_length`: each step is in one sequence."""
    burn_in_length: int = Field(4, ge=0)
    """Rows before the anchor that are run without gradient to freshen the stored memory."""
    priority_exponent: float = Field(0.9, ge=0, le=1)
    """alpha in P(i) ~ p_i^alpha; 0: uniform."""
    importance_sampling_exponent: float = Field(0.6, ge=0, le=1)
    """beta in the weights (N P(i))^-beta; 0 weighs all alike."""
    max_priority_weight: float = Field(0.9, ge=0, le=1)
    """eta: a sequence's priority is eta max|delta| + (1 - eta) mean|delta|."""
    initial_priority: Literal["actor", "max"] = "actor"
    """A new sequence's priority: from the actor's Q-values, or the largest seen."""
    memory: Literal["stored", "zero", "refreshed"] = "refreshed"
    """The state a sequence starts from: what the actor left, the initial one, or the last update's."""
    learn_burn_in: bool = False
    """Give the rows of burn-in or context a TD error too: a sequence is learned from its first row on."""
    trace_dtype: Literal["float16", "float32"] = "float16"
    """How stored memory is kept."""

    @property
    def period(self) -> int:
        return self.learn_length if self.sequence_period is None else self.sequence_period


class ActorConfig(Group):
    """Acting: copies of the task, who steps them, exploration."""

    num_envs: int = Field(32, ge=1)
    """N, copies of the task that are stepped together."""
    pool: Literal["inline", "process", "ray"] = "inline"
    """Who steps them: the run itself, or workers, processes or Ray actors that act while the run learns."""
    num_workers: int = Field(2, ge=1, le=100_000)
    """Workers that share the copies and have a copy of the network each, on the CPU (process, ray)."""
    max_lead: int = Field(2, ge=0, le=1000)
    """Ticks that workers may be ahead of the learner; 0: they wait for each other at every tick (workers)."""
    step_timeout: float = Field(300.0, gt=0, le=1_000_000)
    """Seconds without an answer after which a worker counts as hung, and is replaced (workers)."""
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
    epsilon_anneal_env_steps: int = Field(40_000, ge=0)
    """Environment steps after warm-up over which epsilon falls to its final value."""
    annealing: Literal["linear", "exponential"] = "linear"
    """How epsilon falls: on a straight line, or each step by its share of what is left, for ever (DTQN)."""
    optimism: float = Field(0.0, ge=0)
    """C of a bonus C / (n + 1) on Q for an action taken n times at an observation, in acting alone (OPIQ);
    in units of scaled rewards."""
    burst_share: float = Field(0.0, ge=0, le=1)
    """Share of the episodes with a burst of random actions."""
    burst_start: float = Field(0.0, ge=0)
    """A burst's first step is from 0 to so many mean lengths of the recent episodes without one."""
    burst_length: float = Field(1.0, ge=0)
    """A burst's number of steps is from 0 to so many of these mean lengths."""
    publish_period: int = Field(1, ge=1)
    """Learner steps between two publishings of parameters to the actor."""


class EvaluationConfig(Group):
    """Evaluation: when, with how many episodes and by which policy."""

    period: int = Field(25_000, ge=1)
    """Environment steps between evaluations."""
    episodes: int = Field(500, ge=1)
    """Episodes in a full evaluation."""
    first_episodes: int = Field(50, ge=1)
    """Episodes after which an evaluation ends where the others could not matter."""
    max_step_share: float = Field(0.5, gt=0)
    """The most evaluation steps for each env step; a full evaluation that is dearer is put off."""
    num_envs: int = Field(500, ge=1)
    """Copies of the task in an evaluation; every copy plays the same number of episodes, all counted."""
    epsilon: float = Field(0.0, ge=0, le=1)
    """Share of random actions in evaluations; 0 is greedy, DQN was published with 0.05."""

    @property
    def policy(self) -> str:
        """Who plays, in words."""
        return f"epsilon-greedy ({self.epsilon:g})" if self.epsilon else "greedy"


SETTLED = ("threads", "evaluator")
"""Settings that are `auto` until a run starts; what they then become is a part of it."""


class Config(Group):
    """One run, resolved."""

    rules_of_group = rules.RUN

    env: str = "gridverse-memory-7x7"
    """The task's id; the command `envs` lists them."""
    agent: str = "gtrxl"
    """A preset (configs/agents), a YAML file of your own, or NAME=BASE+setting=value."""
    seed: Annotated[int, AnySize()] = Field(1, ge=0)
    """Root of every random generator of the run."""
    total_env_steps: int = Field(300_000, ge=1)
    """Environment steps of the run, warm-up included."""
    warmup_env_steps: int | None = Field(None, ge=0)
    """Random steps before learning; None is min(10 000, total/5)."""
    checkpoint_every: int = Field(50_000, ge=1)
    """Environment steps between checkpoints; one is always written at the end."""
    metrics_every: int = Field(2_000, ge=1)
    """Environment steps between rows of training metrics."""
    threads: Annotated[int | Literal["auto"], AutoOr(1)] = "auto"
    """CPU threads of the learner, which rounds differently with 1 and more; auto: 2 on three free cores."""
    evaluator: Literal["auto", "inline", "process"] = "auto"
    """Who plays evaluations: the run, which waits, or a process beside it; auto: by free cores."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """The device of the networks; auto: cuda if there is one."""
    cuda_graphs: Literal["auto", True, False] = "auto"
    """Acting and updates as CUDA graphs, recorded once; auto: on a GPU, for networks of the suite's own, and
    without auxiliary losses, rollouts and RAdam, which no graph can hold."""
    tracker: Annotated[str, SomeOf("wandb", "tensorboard")] = "wandb"
    """Where the metrics are sent; W&B as `wandb` says, TensorBoard's files to the folder `tensorboard`."""
    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    """Whether W&B gets the run; auto: online if the user is logged in, else offline."""
    stop_at_success: float | None = Field(None, gt=0, le=1)
    """End once an evaluation's 95 % interval of success lies at or above this; None never ends early."""
    stop_at_return: float | None = None
    """The same for the mean return, of 10 episodes or more; whichever comes first."""
    task: TaskConfig = TaskConfig()
    network: NetworkConfig = NetworkConfig()
    learner: LearnerConfig = LearnerConfig()
    replay: ReplayConfig = ReplayConfig()
    actor: ActorConfig = ActorConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @property
    def trackers(self) -> list[str]:
        """The names in `tracker`."""
        return self.tracker.split(",")

    @property
    def num_threads(self) -> int:
        """Threads of the learner: 1 where `threads` has not been settled."""
        return 1 if self.threads == "auto" else self.threads

    @property
    def evaluates_beside(self) -> bool:
        """Whether a process beside the run plays its evaluations. None does where one may end the run."""
        return self.evaluator == "process" and not self.may_end_early

    @property
    def records_graphs(self) -> bool:
        """Whether acting and updates are recorded as CUDA graphs, if they are on a GPU."""
        return rules.is_recordable(self) if self.cuda_graphs == "auto" else self.cuda_graphs

    @property
    def may_end_early(self) -> bool:
        """Whether an evaluation may end the run."""
        return self.stop_at_success is not None or self.stop_at_return is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is `auto` that the cores decide."""
        return all(value_of(self, name) != "auto" for name in SETTLED)

    @property
    def num_workers(self) -> int:
        """Processes beside the run that step copies of its task."""
        return self.actor.num_workers if self.actor.pool != "inline" else 0

    def on_cpu(self) -> Config:
        """The run without a GPU."""
        return self.model_copy(update={"device": "cpu", "cuda_graphs": False})

    def settled(self, free_cores: int) -> Config:
        """The run on a machine with so many cores that nothing else keeps busy.

        A process that plays evaluations pays where one of them comes before the run's end, and it takes the
        second core. A second thread on two cores that seemed free has made updates slower. Workers that step
        copies take a core each.
        """
        free_cores -= self.num_workers
        several = free_cores >= 2
        beside = several and not self.may_end_early and self.total_env_steps > self.evaluation.period
        threads = self.threads if self.threads != "auto" else 2 if free_cores >= 3 else 1
        evaluator = self.evaluator if self.evaluator != "auto" else "process" if beside else "inline"
        return self.model_copy(update={"threads": threads, "evaluator": evaluator})

    def unread(self) -> list[str]:
        """Settings that were changed from their default and that nothing reads, given the others.

        Those that presets of tasks set for every agent are left out, such as `network.memory_length`.
        """
        return [
            name
            for name, field in fields_of().items()
            if value_of(self, name) != field.default and not rules.is_read(self, name, field)
        ]

    @property
    def env_steps_per_update(self) -> float:
        """Environment steps for one learner step; of a rollout, the mean over its updates."""
        learner = self.learner
        if not learner.rollout_length:
            return learner.env_steps_per_update
        return learner.rollout_length * self.actor.num_envs / (learner.epochs * learner.minibatches)

    @property
    def warmup(self) -> int:
        """Environment steps at random before learning, with None resolved."""
        if self.warmup_env_steps is not None:
            return self.warmup_env_steps
        return min(10_000, self.total_env_steps // 5)


@functools.cache
def fields_of(model: type[BaseModel] = Config, prefix: str = "") -> Mapping[str, FieldInfo]:
    """Dotted name -> field of every leaf setting, in order of declaration."""
    leaves: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            leaves.update(fields_of(kind, f"{prefix}{name}."))
        else:
            leaves[prefix + name] = field
    return leaves


def spelled(name: str) -> str:
    """A setting's dotted name with underscores for dashes; names within a mapping stay as they are."""
    plain = name.replace("-", "_")
    setting = setting_of(plain)
    return plain if setting is None else setting + name[len(setting) :]


def setting_of(name: str) -> str | None:
    """The setting that a dotted name is of: `network.kwargs` is that of `network.kwargs.heads` too.

    None where there is no such setting.
    """
    fields = fields_of()
    if name in fields:
        return name
    within = (x for x, field in fields.items() if name.startswith(f"{x}.") and values.is_mapping(field))
    return next(within, None) if all(name.split(".")) else None


def value_of(config: Config, name: str) -> Any:
    """The value of a setting by its dotted name."""
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value
