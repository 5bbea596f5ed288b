"""The settings of a run: its groups, and the settings outside of groups."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import Field, SerializeAsAny, create_model, model_validator

from dtqn.choices.actor import EXPLORATIONS, POOLS, Inline, Ladder, Processes
from dtqn.settings.agent import LearnerConfig, NetworkConfig, ReplayConfig
from dtqn.settings.group import Group, Member, MisfitError
from dtqn.settings.values import AutoOr, shown
from envs.options import TaskOptions

_kinds = get_type_hints(TaskOptions)
# The metadata of its fields are the arguments of `Field`: description and limits.
_fields: Any = {x.name: (_kinds[x.name], Field(x.default, **x.metadata)) for x in fields(TaskOptions)}
_TaskOptions: Any = create_model("TaskOptions", __base__=Group, **_fields)


class TaskConfig(_TaskOptions):
    """The options of a task as settings; `envs.options` says what each is."""


class ActorConfig(Group):
    """Acting: environments, who steps them, exploration."""

    num_envs: int = Field(32, ge=1)
    """N, environments stepped in parallel."""
    pool: Annotated[SerializeAsAny[Member], POOLS] = Inline()
    """What steps the environments: the run itself, or workers (processes, Ray actors) while it learns."""
    exploration: Annotated[SerializeAsAny[Member], EXPLORATIONS] = Ladder()
    """Final epsilon (share of random actions): a ladder over environments (Ape-X), or `epsilon_final`."""
    epsilon_final: float = Field(0.05, ge=0, le=1)
    """Final epsilon, if `exploration` is annealed or `num_envs` is 1."""
    epsilon_anneal_env_steps: int = Field(40_000, ge=0)
    """Environment steps after warm-up over which epsilon falls from 1 to its final value."""
    annealing: Literal["linear", "exponential"] = "linear"
    """How epsilon falls: linearly, or exponentially, never quite reaching its final value (DTQN)."""
    untried_share: float = Field(0.0, ge=0, le=1)
    """Share of environments where greedy steps first try every action once at each observation."""
    burst_share: float = Field(0.0, ge=0, le=1)
    """Share of training episodes that begin with a burst of random actions."""

    def unread_in(self, run: Any) -> Iterator[str]:
        if isinstance(self.exploration, Ladder) and self.num_envs > 1:
            yield "epsilon_final"
        if not self.epsilon_anneal_env_steps:
            yield "annealing"


class EvaluationConfig(Group):
    """Evaluation: when, with how many episodes and by which policy."""

    period: int | None = Field(None, ge=1)
    """Env steps between evaluations; none: 25 000, or a twelfth of the run if less."""
    episodes: int = Field(500, ge=1)
    """Episodes of a full evaluation; short ones have `first_episodes`."""
    first_episodes: int = Field(50, ge=1)
    """Episodes of a short evaluation, played if the last evaluation's 95 % interval lay below
    the best score."""
    max_step_share: float = Field(0.5, gt=0)
    """Maximum evaluation steps per env step of the run; a full evaluation exceeding it is put off."""
    num_envs: int = Field(500, ge=1)
    """Parallel environments of an evaluation; each one's number of episodes is fixed beforehand."""
    epsilon: float = Field(0.0, ge=0, le=1)
    """Share of random actions in evaluations; 0: greedy. DQN was published with 0.05."""

    @property
    def policy(self) -> str:
        """Who plays, in words."""
        return f"epsilon-greedy ({self.epsilon:g})" if self.epsilon else "greedy"


SETTLED = ("threads", "evaluator", "learner.precision")
"""Settings that are `auto` until a run starts; what they then become is a part of it."""


class Config(Group):
    """One run, resolved."""

    env: str = "gridverse-memory-7x7"
    """The task: an id that `envs` lists, any Gymnasium id, or your own module:Class."""
    agent: str = "gtrxl"
    """The agent: a preset (configs/agents), a YAML file, or a variant NAME=BASE+setting=value."""
    seed: int = Field(1, ge=0)
    """Seed of all random generators of the run."""
    total_env_steps: int = Field(300_000, ge=1)
    """Environment steps of the run, over all environments, warm-up included."""
    warmup_env_steps: int | None = Field(None, ge=0)
    """Environment steps with random actions before learning; None: min(10 000, `total_env_steps` / 5)."""
    checkpoint_every: int = Field(50_000, ge=1)
    """Environment steps between checkpoints; one is always written at the end."""
    metrics_every: int = Field(2_000, ge=1)
    """Environment steps between rows of training metrics."""
    threads: Annotated[int | Literal["auto"], AutoOr(int, ge=1)] = "auto"
    """CPU cores for updates: with 2, a second process computes half of each batch, which changes rounding;
    auto: 2 if two are free."""
    evaluator: Literal["auto", "inline", "process"] = "auto"
    """Evaluate in the run itself, which waits, or in a second process; auto: the latter if a core is free."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device for networks and updates; auto: cuda if there is a GPU."""
    cuda_graphs: Literal["auto", True, False] = "auto"
    """Run acting and updates as CUDA graphs; auto: on a GPU, unless there are networks of your own,
    auxiliary losses, rollouts or RAdam."""
    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    """Logging to Weights & Biases; auto: online if you are logged in, else offline."""
    stop_at_success: float | None = Field(None, gt=0, le=1)
    """End once a full evaluation's success and its 95 % interval lie at or above this; None: never."""
    stop_at_return: float | None = None
    """End once a full evaluation's mean return and its 95 % interval lie at or above this; None: never."""
    task: TaskConfig = TaskConfig()
    network: NetworkConfig = NetworkConfig()
    learner: LearnerConfig = LearnerConfig()
    replay: ReplayConfig = ReplayConfig()
    actor: ActorConfig = ActorConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @property
    def num_threads(self) -> int:
        """Cores of the learner: 1 where `threads` has not been settled."""
        return 1 if self.threads == "auto" else self.threads

    @property
    def evaluates_beside(self) -> bool:
        """Whether another process plays the run's evaluations. None does if an evaluation may end the run."""
        return self.evaluator == "process" and not self.may_end_early

    @property
    def may_end_early(self) -> bool:
        """Whether an evaluation may end the run."""
        return self.stop_at_success is not None or self.stop_at_return is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is `auto` that the machine decides."""
        return all(attrgetter(name)(self) != "auto" for name in SETTLED)

    @property
    def num_workers(self) -> int:
        """Worker processes that step environments."""
        return self.actor.pool.num_workers if isinstance(self.actor.pool, Processes) else 0

    @property
    def max_lead(self) -> int:
        """Vector steps that they may be ahead of the learner."""
        return self.actor.pool.max_lead if isinstance(self.actor.pool, Processes) else 0

    def on_cpu(self) -> Self:
        """The run without a GPU."""
        return self.model_copy(update={"device": "cpu", "cuda_graphs": False})

    def settled(self, free_cores: int, has_bfloat16: bool, on_gpu: bool = False) -> Self:
        """The run on a machine with so many cores that nothing else keeps busy.

        `has_bfloat16`: these multiply bfloat16 faster than float32. `on_gpu`: they only step environments.

        A process that plays evaluations pays where one comes before the run's end, but not in a short run,
        which is over before the process has begun. Workers that step environments take a core each.
        """
        free_cores -= self.num_workers
        several = free_cores >= 2
        is_long = self.total_env_steps > (self.evaluation.period or 25_000)
        beside = several and not self.may_end_early and is_long
        threads = self.threads if self.threads != "auto" else 2 if several and not on_gpu else 1
        evaluator = self.evaluator if self.evaluator != "auto" else "process" if beside else "inline"
        precision = self.learner.precision
        if precision == "auto":
            rounds = has_bfloat16 and not on_gpu and self.network.core.rounds
            precision = "bfloat16" if rounds else "float32"
        settled = self.model_copy(update={"threads": threads, "evaluator": evaluator})
        return settled.replaced("learner.precision", precision)

    @property
    def env_steps_per_update(self) -> float:
        """Environment steps for one learner step; of a rollout, the mean over its updates."""
        return self.learner.batches.steps_of_update(self.actor.num_envs, self.replay.learn_length)

    @property
    def most_timesteps(self) -> float:
        """The timesteps of the longest episode."""
        import envs  # only here, as hardly any run needs the task for its settings

        try:
            horizon = envs.spec(self.env, **self.task.model_dump()).horizon
        except ValueError:
            horizon = None  # a check that comes later says what is wrong with the task
        return math.inf if horizon is None else horizon

    @property
    def evaluation_period(self) -> int:
        """Environment steps between evaluations, with None resolved."""
        return self.evaluation.period or max(1, min(25_000, self.total_env_steps // 12))

    @property
    def warmup(self) -> int:
        """Environment steps at random before learning, with None resolved."""
        if self.warmup_env_steps is not None:
            return self.warmup_env_steps
        return min(10_000, self.total_env_steps // 5)

    @property
    def records_graphs(self) -> bool:
        """Whether acting and updates are recorded as CUDA graphs, if they are on a GPU."""
        if self.cuda_graphs != "auto":
            return self.cuda_graphs
        # Who knows what a user's own modules do?
        return not (self._unrecordable() or self.network.core.is_own or self.network.encoder.is_own)

    def _unrecordable(self) -> str:
        """The part of the run that no CUDA graph can hold; empty where there is none."""
        learner = self.learner
        if self.device == "cpu":
            return "device is cpu"
        if learner.auxiliary_weight:
            return f"learner.auxiliary_weight is {learner.auxiliary_weight}, and such losses draw numbers"
        if not learner.batches.from_replay:
            return f"learner.batches is {learner.batches.name}, and such batches have many sizes"
        return (
            "learner.optimizer is radam, whose steps the host counts" if learner.optimizer == "radam" else ""
        )

    def misfits(self, run: Any) -> Iterator[str]:
        if not re.fullmatch(r"[^\W_][\w.-]*", self.agent):  # it is a part of paths
            yield f"agent is {shown(self.agent)}: must be a name of letters, digits, dots and dashes"
        if not self.env.isprintable():
            yield f"env is {shown(self.env)}: must be a name without control characters"
        if self.warmup > self.total_env_steps:
            yield (
                f"warmup_env_steps is {self.warmup_env_steps}, above total_env_steps {self.total_env_steps}: "
                f"nothing would be learned; try {self.total_env_steps // 5}"
            )
        if self.cuda_graphs is True and (reason := self._unrecordable()):
            yield f"cuda_graphs is true, but {reason}; try false"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for _, part in self.parts():
            for misfit in part.misfits(self):
                raise MisfitError(misfit)
        return self

    def unread_in(self, run: Any) -> Iterator[str]:
        if self.evaluator != "inline" and self.may_end_early:
            yield "evaluator"

    def unread(self) -> list[str]:
        """Settings that were changed from their default and that nothing reads, given the others."""
        return [
            prefix + name
            for prefix, part in self.parts()
            for name in part.unread_in(self)
            if getattr(part, name) != type(part).model_fields[name].default
        ]
