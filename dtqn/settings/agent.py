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
    """The memory between encoder and head: `dtqn` re-reads a window, `none` forgets all (DQN)."""
    width: int = Field(64, ge=2, le=1_000_000)
    """D, features a layer takes and passes on; a multiple of the core's `num_heads`, and even for gtrxl."""
    encoder: Annotated[SerializeAsAny[encoders.Encoder], encoders.ENCODERS] = encoders.StepEncoder()
    """From inputs to features; `dtqn`: as in DTQN's public code; `parts`: one vector a part (DARQN)."""
    dueling: bool = True
    """Split the head into a value and advantages (Wang et al. 2016)."""
    head_width: int = Field(64, ge=0, le=1_000_000)
    """Hidden features of the head; 0: a linear head."""
    distribution: Annotated[SerializeAsAny[Member], predictions.PREDICTIONS] = predictions.Expectation()
    """The head's estimate of a return: its mean, or probabilities of atoms (C51)."""
    recall_weight: float = Field(0.0, ge=0)
    """Weight of a loss that asks a core with memory which values the episode has shown; 0: none."""

    def misfits(self) -> Iterator[str]:
        if why := self.core.width_misfit(self.width):
            yield f"network.width is {self.width}{why}"

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Settings of a core's and an encoder's own, as code from before they were apart reads them."""
        return {**getattr(self.encoder, "kwargs", {}), **getattr(self.core, "kwargs", {})}


class LearnerConfig(Group):
    """Updates: optimiser, targets, losses."""

    optimizer: Literal["adam", "radam"] = "adam"
    """Adam, or RAdam, whose first steps are smaller (Liu et al. 2020)."""
    learning_rate: float = Field(1e-3, gt=0)
    """Adam's step size at the start."""
    final_learning_rate_share: float = Field(0.05, ge=0, le=1)
    """Share of the step size that is left at the run's end: it falls from 60 % of the env steps on, on a
    straight line; 1: it stays constant."""
    adam_epsilon: float = Field(1e-8, gt=0)
    """Adam's denominator constant."""
    weight_decay: float = Field(0.0, ge=0)
    """lambda: an update shrinks each matrix by the step size times this (AdamW)."""
    batches: Annotated[SerializeAsAny[updates.Batches], updates.BATCHES] = updates.Replayed()
    """What updates learn from: sequences drawn from replay, or rollouts, learned at once and forgotten."""
    gamma: float = Field(0.99, ge=0, le=1)
    """Discount factor of one environment step."""
    n_step: int = Field(3, ge=1)
    """n, rewards summed before the bootstrap, fewer at an episode's end; for Q(lambda), the tail's length."""
    returns: Annotated[SerializeAsAny[Member], updates.RETURNS] = updates.NStep()
    """Target of a step: an n-step return, Peng's Q(lambda), or Watkins', cut at exploring actions."""
    next_window: bool = False
    """Bootstrap from a window of its own, the sequence without its first step (DTQN's public code)."""
    double_q: bool = True
    """Choose the bootstrap's action with the online network (van Hasselt et al. 2016)."""
    bootstrap: Annotated[SerializeAsAny[Member], updates.BOOTSTRAPS] = updates.Greedy()
    """What bootstraps a step: the best action, or this with a cost for the others."""
    value_rescaling: bool = False
    """Learn h(Q) with R2D2's h instead of Q; for tasks with large returns."""
    reward_scale: Annotated[float | Literal["auto"], AutoOr(float, 0)] = 0.2
    """Factor on rewards in the loss only; networks and logs see raw rewards. auto: 1 over the spread of
    returns in 10 000 random steps of the task, before a run begins (Schaul et al. 2021)."""
    novelty_weight: float = Field(0.0, ge=0)
    """Reward, in the loss only, for each observation that its episode had not shown before."""
    repeat_cost: float = Field(0.0, ge=0)
    """Cost, in the loss only, of each observation that its episode had shown before."""
    target_update: Annotated[SerializeAsAny[Member], updates.TARGET_UPDATES] = updates.Soft()
    """Move the target network a little at every update, or copy the online one at intervals; none: the online
    network bootstraps itself."""
    auxiliary_weight: float = Field(0.0, ge=0)
    """Weight of the network's own loss, added to the TD loss (coberl, spans, compressed memory)."""
    max_grad_norm: float = Field(10.0, gt=0)
    """Gradients are scaled down to this norm."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of encoder and core in an update; parameters, head and losses stay float32."""

    @property
    def scale(self) -> float:
        """`reward_scale`, which has been settled."""
        assert self.reward_scale != "auto"
        return self.reward_scale

    @property
    def reads_novelty(self) -> bool:
        """Whether the loss asks which observations are new to their episode."""
        return self.novelty_weight > 0 or self.repeat_cost > 0

    def misfits(self) -> Iterator[str]:
        has_target = self.target_update.name != "none"
        if self.next_window and has_target and self.bootstrap.name == "advantage":
            yield (
                "learner.next_window is true with learner.bootstrap advantage, which reads the target "
                "network's values of a sequence's first step, but no window of it has them; try greedy"
            )
        if self.next_window and (reader := self._reads_first_step()):
            yield (
                f"learner.next_window is true with learner.double_q false and {reader}, which reads the "
                "target network's values of a sequence's first step, but no window of that network has it; "
                "try learner.double_q true"
            )

    def _reads_first_step(self) -> str:
        """What reads the target network's values of a sequence's first step; empty where nothing does."""
        if self.double_q or self.target_update.name == "none":
            return ""
        tolerance = getattr(self.returns, "tolerance", 0.0)
        return f"learner.returns.tolerance {tolerance:g}" if tolerance else ""

    def misfits_in(self, run: Any) -> Iterator[str]:
        core = run.network.core
        if self.auxiliary_weight and not (core.auxiliary_loss or core.is_own):
            yield (
                f"learner.auxiliary_weight is {self.auxiliary_weight}, but network.core {core.name} as it is "
                "set has no auxiliary loss; try 0"
            )
        if self.precision != "float32" and not core.rounds:
            yield (
                f"learner.precision is {self.precision} with network.core {core.name}, which is not "
                "computed in it; try float32, or another core, such as gtrxl or lstm"
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
    """Steps kept, over all streams; the oldest go first."""
    learn_length: int = Field(40, ge=1)
    """Steps of a sequence that get a TD error."""
    sequence_period: int | None = Field(None, ge=1)
    """Steps between sequence starts in an episode, at most `learn_length`, which None stands for: each step
    is in one sequence."""
    burn_in_length: int = Field(4, ge=0)
    """Steps before the sequence's start that are run without gradient to freshen the stored memory."""
    priority_exponent: float = Field(0.9, ge=0, le=1)
    """alpha in P(i) ~ p_i^alpha; first priorities come from the actor's Q-values; 0: uniform draws."""
    importance_sampling_exponent: float = Field(0.6, ge=0, le=1)
    """beta in the weights (N P(i))^-beta; 0 weighs all equally."""
    memory: Literal["stored", "zero", "refreshed"] = "refreshed"
    """The state a sequence starts from: what the actor left, the initial one, or the last update's."""
    learn_burn_in: bool = False
    """Give the steps of burn-in or context a TD error too: a sequence is learned from its first one on."""
    memory_dtype: Literal["float16", "float32"] = "float16"
    """How stored memory is kept."""

    @property
    def period(self) -> int:
        return min(self.sequence_period or self.learn_length, self.learn_length)

    def misfits_in(self, run: Any) -> Iterator[str]:
        window = run.network.core.memory_window
        if self.learn_burn_in and self.memory == "refreshed" and window != 0:
            yield (
                "replay.learn_burn_in is true with replay.memory refreshed, which is for steps that are not "
                "learned; try stored or zero"
            )
        if run.learner.batches.from_replay and self.learn_burn_in and self.priority_exponent:
            yield (
                f"replay.learn_burn_in is true with replay.priority_exponent {self.priority_exponent}, but "
                "first priorities are of the learned segment alone; try 0"
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
                f"learner.next_window is true with replay.memory {self.memory}, which is of the step before "
                "the sequence and not the next one's; try zero"
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
