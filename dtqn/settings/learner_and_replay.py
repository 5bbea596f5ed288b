"""The settings of updates and of replay; and which of them do not go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from dtqn.settings.group import Group, Rule, misfit

LEARNER: Sequence[Rule] = (
    misfit(
        lambda c: c.novelty_centred and not c.reads_novelty,
        "learner.novelty_centred is true, but learner.novelty_weight and learner.repeat_cost are 0: "
        "there is nothing to centre; try false, or learner.novelty_weight 0.1",
    ),
    misfit(
        lambda c: c.munchausen and c.value_rescaling,
        "learner.munchausen is true with learner.value_rescaling true: an entropy cannot be added to "
        "rescaled values; try false for one of them",
    ),
)


class LearnerConfig(Group):
    """Updates: optimiser, targets, losses."""

    rules_of_group = LEARNER

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
    value_rescaling: bool = False
    """Learn h(Q) with R2D2's h instead of Q; for tasks with large returns."""
    reward_scale: float = Field(0.2, gt=0)
    """Factor on rewards in the loss only; networks and logs see raw rewards."""
    novelty_weight: float = Field(0.0, ge=0)
    """Reward, in the loss only, for each observation that its episode had not shown before."""
    repeat_cost: float = Field(0.0, ge=0)
    """Cost, in the loss only, of each observation that its episode had shown before."""
    novelty_centred: bool = False
    """Less their mean over recent steps, which lags where it moves (novelty_weight, repeat_cost)."""
    target_update: Literal["soft", "hard", "none"] = "soft"
    """Move the target network a little at every update, or copy it every `target_update_period`; none: the
    online network bootstraps itself."""
    target_ema_rate: float = Field(0.02, gt=0, le=1)
    """Share of the online parameters in a soft target update."""
    target_update_period: int = Field(2500, ge=1)
    """Learner steps between hard target updates."""
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


REPLAY: Sequence[Rule] = (
    misfit(
        lambda c: c.period > c.learn_length,
        "replay.sequence_period is {c.sequence_period}, above replay.learn_length {c.learn_length}: "
        "steps between would never be learned; try {c.learn_length}",
    ),
)


class ReplayConfig(Group):
    """Replay: its size, its sequences, their priorities and their memory."""

    rules_of_group = REPLAY

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
