"""The settings of an agent: its network, its updates and its replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny

from dtqn.choices import cores, encoders, predictions
from dtqn.choices import learner as updates
from dtqn.settings.group import Group, Member
from dtqn.settings.values import AutoOr


class NetworkConfig(Group):
    """The network: encoder, core and head."""

    core: Annotated[SerializeAsAny[cores.Core], cores.CORES] = cores.GTrXL()
    """The memory module between encoder and head; `dtqn` re-reads a window, `none` has no memory (DQN)."""
    width: int = Field(64, ge=2, le=1_000_000)
    """D, features of each layer of the core; a multiple of its `num_heads`, and even for gtrxl and coberl."""
    encoder: Annotated[SerializeAsAny[encoders.Encoder], encoders.ENCODERS] = encoders.StepEncoder()
    """The map from inputs to features; `dtqn`: DTQN's; `parts`: a vector per part of the input (DARQN)."""
    dueling: bool = True
    """Dueling head: a state value plus advantages (Wang et al. 2016)."""
    head_width: int = Field(64, ge=0, le=1_000_000)
    """Units in the head's hidden layer; 0: a linear head."""
    distribution: Annotated[SerializeAsAny[Member], predictions.PREDICTIONS] = predictions.Expectation()
    """What the head predicts about the return: its mean (none), or a distribution (categorical, C51)."""
    recall_weight: float = Field(0.0, ge=0)
    """Weight of the recall loss: a core with memory predicts which values its episode has shown; 0: none."""

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """What a core and an encoder of the user's own are given; empty if they are the suite's."""
        return {**getattr(self.encoder, "kwargs", {}), **getattr(self.core, "kwargs", {})}


class LearnerConfig(Group):
    """Updates: optimiser, targets, losses."""

    optimizer: Literal["adam", "radam"] = "adam"
    """Adam, or RAdam, whose first steps are smaller (Liu et al. 2020)."""
    learning_rate: float = Field(1e-3, gt=0)
    """Adam's step size at the start."""
    final_learning_rate_share: float = Field(0.05, ge=0, le=1)
    """Step size at the run's end, as a share of `learning_rate`; it falls linearly over the last 40 % of the
    env steps; 1: it stays constant."""
    adam_epsilon: float = Field(1e-8, gt=0)
    """Adam's epsilon, added to the denominator."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's lambda: each update multiplies weight matrices by 1 - lambda * step size."""
    batches: Annotated[SerializeAsAny[updates.Batches], updates.BATCHES] = updates.Replayed()
    """Where batches come from: sequences drawn from replay, or the last rollout, dropped afterwards (PQN)."""
    gamma: Annotated[float | Literal["auto"], AutoOr(float, ge=0, le=1)] = 0.99
    """Discount factor per timestep; auto: 0.985, or 0 where actions change nothing but their own reward, by
    random play before the run."""
    n_step: int = Field(3, ge=1)
    """n of the n-step return; for Q(lambda), timesteps after the learned ones that a return may use."""
    returns: Annotated[SerializeAsAny[Member], updates.RETURNS] = updates.NStep()
    """TD target: an n-step return, Peng's Q(lambda), or Watkins' Q(lambda), cut at exploratory actions."""
    next_window: bool = False
    """Compute bootstrap values from the sequence without its first timestep, as DTQN's code does."""
    double_q: bool = True
    """Double Q-learning: the online network chooses the bootstrap's action (van Hasselt et al. 2016)."""
    bootstrap: Annotated[SerializeAsAny[Member], updates.BOOTSTRAPS] = updates.Greedy()
    """Bootstrap from the best action's value (greedy), or also lower worse actions' targets (advantage)."""
    value_rescaling: bool = False
    """Learn h(Q) instead of Q, with R2D2's h, nearly a square root; for tasks with large returns."""
    reward_scale: Annotated[float | Literal["auto"], AutoOr(float, gt=0)] = 0.2
    """Factor on rewards in the loss only; networks and logs see raw rewards. auto: 1 over the spread of
    returns, measured in 10 000 env steps of random actions before the run (Schaul et al. 2021)."""
    novelty_weight: float = Field(0.0, ge=0)
    """Bonus reward for an observation that is new in its episode, in the loss only; 0: none."""
    repeat_cost: float = Field(0.0, ge=0)
    """Penalty for an observation seen before in its episode, in the loss only; 0: none."""
    target_update: Annotated[SerializeAsAny[Member], updates.TARGET_UPDATES] = updates.Soft()
    """Target network: `soft` moves it a little at every update, `hard` copies the online one at intervals;
    none: no target network."""
    auxiliary_weight: float = Field(0.0, ge=0)
    """Weight of the core's auxiliary loss (coberl, adaptive spans, compressed slots); 0: none."""
    max_grad_norm: float = Field(10.0, gt=0)
    """Largest global gradient norm; larger gradients are scaled down to it."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Arithmetic of encoder and core in updates; parameters, head and losses stay float32. auto: bfloat16
    where the core and the CPU (AVX512_BF16, AMX) support it."""

    @property
    def scale(self) -> float:
        """`reward_scale`, which has been settled."""
        assert self.reward_scale != "auto"
        return self.reward_scale

    @property
    def discount_factor(self) -> float:
        """`gamma`, which has been settled."""
        assert self.gamma != "auto"
        return self.gamma

    @property
    def reads_novelty(self) -> bool:
        """Whether the loss asks which observations are new to their episode."""
        return self.novelty_weight > 0 or self.repeat_cost > 0

    def misfits(self, run: Any) -> Iterator[str]:
        has_target = self.target_update.name != "none"
        if self.next_window and has_target and self.bootstrap.name == "advantage":
            yield (
                "learner.next_window is true with learner.bootstrap advantage, which needs the target "
                "network's values at a sequence's first step, but that network's window lacks it; try greedy"
            )
        tolerance = getattr(self.returns, "tolerance", 0.0)
        if self.next_window and has_target and tolerance and not self.double_q:
            yield (
                "learner.next_window is true with learner.double_q false and learner.returns.tolerance "
                f"{tolerance:g}, which needs the target network's values at a sequence's first step, but "
                "that network's window lacks it; try learner.double_q true"
            )
        core = run.network.core
        if self.auxiliary_weight and not (core.auxiliary_loss or core.is_own):
            yield (
                f"learner.auxiliary_weight is {self.auxiliary_weight}, but network.core {core.name} has no "
                "auxiliary loss with these settings; try 0"
            )
        if self.precision == "bfloat16" and not core.rounds:
            yield (
                f"learner.precision is {self.precision} with network.core {core.name}, which does not "
                "support it; try float32, or another core, such as gtrxl or lstm"
            )

    def unread_in(self, run: Any) -> Iterator[str]:
        # A rollout's sequence has all steps that there are; of Q(lambda) it says how many more to wait for.
        if not self.batches.from_replay and self.returns.name != "n_step":
            yield "n_step"
        if self.target_update.name == "none":
            yield "double_q"


class ReplayConfig(Group):
    """Replay: its size, its sequences, their priorities and their memory."""

    capacity: int = Field(500_000, ge=1)
    """Timesteps in replay, over all environments; the oldest are overwritten."""
    learn_length: int = Field(40, ge=1)
    """Learned timesteps (with a TD error) per replayed sequence."""
    sequence_period: int | None = Field(None, ge=1)
    """Timesteps between the starts of successive sequences; below `learn_length` they overlap;
    None and larger values: `learn_length`."""
    burn_in_length: int = Field(4, ge=0)
    """Timesteps before the learned ones, run without gradient, to freshen the stored state (R2D2)."""
    priority_exponent: float = Field(0.9, ge=0, le=1)
    """alpha of prioritised replay, P(i) ~ p_i^alpha; 0: uniform. Actors' Q-values give first priorities."""
    importance_sampling_exponent: float = Field(0.6, ge=0, le=1)
    """beta of the importance weights (N P(i))^-beta; 0: equal weights."""
    memory: Literal["stored", "zero", "refreshed"] = "refreshed"
    """State at a sequence's start: stored by the actor, zero (initial), or refreshed by each update."""
    learn_burn_in: bool = False
    """Learn from the burn-in too (for dtqn, the context): its timesteps also get a TD error."""
    memory_dtype: Literal["float16", "float32"] = "float16"
    """Number format of stored states (memory) in replay."""

    @property
    def period(self) -> int:
        return min(self.sequence_period or self.learn_length, self.learn_length)

    def misfits(self, run: Any) -> Iterator[str]:
        window = run.network.core.memory_window
        if self.learn_burn_in and self.memory == "refreshed" and window != 0:
            yield (
                "replay.learn_burn_in is true with replay.memory refreshed, which is for steps that are not "
                "learned; try stored or zero"
            )
        if run.learner.batches.from_replay and self.learn_burn_in and self.priority_exponent:
            yield (
                f"replay.learn_burn_in is true with replay.priority_exponent {self.priority_exponent}, but "
                "first priorities do not cover the burn-in; try 0"
            )
        if run.learner.next_window and self.burn_in_length and not self.learn_burn_in:
            yield (
                f"learner.next_window is true, but replay.burn_in_length is {self.burn_in_length} with "
                "replay.learn_burn_in false; try true, or a burn-in of 0"
            )
        if window is not None:
            yield from self.memory_misfits(run, window)

    def memory_misfits(self, run: Any, window: int) -> Iterator[str]:
        """What of the run's settings does not go with a network's stored memory.

        Settings know the window of the suite's own cores (`Core.memory_window`). A user's core says it by
        its `memory_spec` when it is built, and is asked then.

        Args:
            window: W, timesteps before a sequence that the state is made of, raw ones included.
        """
        if run.learner.next_window and window and self.memory != "zero":
            yield (
                f"learner.next_window is true with replay.memory {self.memory}, which gives the state "
                "at the sequence's start, but the next window starts one step later; try zero"
            )
        streams = run.actor.num_envs
        need = window + self.burn_in_length + self.learn_length + run.learner.n_step
        if run.learner.batches.from_replay and self.capacity // streams <= need:
            yield (
                f"replay.capacity is {self.capacity}, {self.capacity // streams} steps for each of {streams} "
                f"actor.num_envs, but a sequence with its memory spans {need}; try {(need + 1) * streams} or "
                "more"
            )

    def unread_in(self, run: Any) -> Iterator[str]:
        if not run.learner.batches.from_replay:
            yield from ("capacity", "learn_length", "sequence_period")
            yield from ("priority_exponent", "importance_sampling_exponent")
        if run.network.core.memory_window == 0:
            yield from ("memory", "memory_dtype")
