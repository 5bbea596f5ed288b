"""Targets: the values that steps should have, computed from rewards and the values of later steps.

Pure functions, one equation each. Legend: B sequences, R timesteps of a learned segment, A actions, Z numbers
of a distribution. Timestep t holds what arrived at t, so a_t is prev_action[t + 1] and its reward is r_{t+1}.
`learn_timesteps` [B] counts real ones; e = learn_timesteps - 1 is the last. Steps 0..R-2 may have a target;
step e gives a bootstrap value and is never learned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import torch
from torch import Tensor

from dtqn.choices import learner as choices
from dtqn.learning import losses
from dtqn.settings.config import LearnerConfig
from dtqn.types import length_mask


class ValueTransform(NamedTuple):
    """A pair h, h^-1 that the targets pass through."""

    apply: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor]


def signed_hyperbolic(x: Tensor, epsilon: float = 1e-3) -> Tensor:
    """h(x) = sign(x)(sqrt(|x| + 1) - 1) + epsilon x (Pohlen et al. 2018, arXiv 1805.11593, proposition A.2).

    The root's difference is written |x| / (sqrt(|x| + 1) + 1), which does not cancel.
    """
    return x / (torch.sqrt(x.abs() + 1) + 1) + epsilon * x


def signed_parabolic(y: Tensor, epsilon: float = 1e-3) -> Tensor:
    """The inverse of `signed_hyperbolic`, in the form that does not cancel in float32.

    With c = |y| + 1 + epsilon and u = 2c / (1 + sqrt(1 + 4 epsilon c)), which is sqrt(|x| + 1):
    x = sign(y) (u + 1) |y| / (1 + epsilon (u + 1)).
    """
    c = y.abs() + 1 + epsilon
    u = 2 * c / (1 + torch.sqrt(1 + 4 * epsilon * c))
    return y * (u + 1) / (1 + epsilon * (u + 1))


IDENTITY = ValueTransform(lambda x: x, lambda x: x)
SIGNED_HYPERBOLIC = ValueTransform(signed_hyperbolic, signed_parabolic)


def value_transform(value_rescaling: bool) -> ValueTransform:
    """The transform of a learner with this setting."""
    return SIGNED_HYPERBOLIC if value_rescaling else IDENTITY


# The value that a step bootstraps from.


def select_action(values: Tensor, action: Tensor) -> Tensor:
    """Values [B, T, A] at action [B, T] -> [B, T]; or [B, T, A, Z] -> [B, T, Z]."""
    index = action.view(*action.shape, *[1] * (values.dim() - 2))
    return values.gather(2, index.expand(-1, -1, 1, *values.shape[3:])).squeeze(2)


def double_q_value(values: Tensor, q_selector: Tensor) -> Tensor:
    """The values at argmax_a q_selector, [B, R] or [B, R, Z].

    With the target's values and the online network's choice that is double Q-learning (van Hasselt et al.
    2016, arXiv 1509.06461, equation 4), with the target's own choice plain Q-learning.
    """
    return select_action(values, q_selector.argmax(dim=-1))


LARGEST_GAP = 1.0
"""The most of a gap that advantage learning widens, in scaled rewards, or in h of them."""


def advantage_costs(values: Tensor, action: Tensor, alpha: float) -> Tensor:
    """alpha max(Q(s_t, a_t) - max_a Q(s_t, a), -1), [B, R - 1], to be added to the targets.

    Advantage learning (Bellemare et al. 2016, arXiv 1512.04860, equation 9) makes the gap between the best
    action and another one 1 / (1 - alpha) times as wide, and leaves the best action's value as it is. A wide
    gap is learned in spite of noise. Where a return goes on over several steps, its first action alone pays.

    Args:
        values: [B, R, A] of the target network; action: [B, R - 1] a_t.
    """
    return cost_of(select_action(values[:, :-1], action) - values[:, :-1].amax(dim=-1), alpha)


def cost_of(gap: Tensor, alpha: float) -> Tensor:
    """alpha max(gap, -1), of gaps [...] to the best action."""
    return alpha * gap.clamp(min=-LARGEST_GAP)


# Returns.


def bootstrap_steps(learn_timesteps: Tensor, num_steps: int, n_step: int) -> Tensor:
    """[B, num_steps] the step t + n_t that step t bootstraps from, n_t = min(n, e - t).

    On padding it is at least t.
    """
    step = torch.arange(num_steps, device=learn_timesteps.device)
    return torch.maximum(torch.minimum(step + n_step, learn_timesteps[:, None] - 1), step)


def at_steps(values: Tensor, steps: Tensor) -> Tensor:
    """Values [B, R, ...] at steps [B, T] -> [B, T, ...]"""
    index = steps.view(*steps.shape, *[1] * (values.dim() - 2))
    return values.gather(1, index.expand(-1, -1, *values.shape[2:]))


def n_step_targets(
    reward: Tensor,
    discount: Tensor,
    bootstrap_value: Tensor,
    learn_timesteps: Tensor,
    n_step: int,
    gamma: float,
    transform: ValueTransform = IDENTITY,
) -> Tensor:
    """n-step targets in the transformed space (R2D2, Kapturowski et al. 2019, section 2.3).

        y_t = h( sum_{k=1..n_t} gamma^(k-1) r_{t+k} + gamma^n_t discount_{t+n_t} h^-1(v_{t+n_t}) )

    Args:
        reward: [B, R] r_t, already scaled.
        discount: [B, R] 0 at the timestep that terminates, else 1.
        bootstrap_value: [B, R] v_t in the transformed space; or [B, R, Z], for a target from each number.
        learn_timesteps: [B] real timesteps.
    Returns: y [B, R - 1] or [B, R - 1, Z]; steps at and after e hold arbitrary finite or non-finite numbers:
        mask them.
    """
    num_steps, extra = reward.shape[1] - 1, [1] * (bootstrap_value.dim() - 2)
    later = bootstrap_steps(learn_timesteps, num_steps, n_step)
    real = length_mask(learn_timesteps, reward.shape[1])
    reward = torch.where(real, reward, 0.0).view(*reward.shape, *extra)
    goes_on = (discount > 0).view(*discount.shape, *extra)
    # Chosen, and not multiplied by the discount: 0 times infinity is NaN.
    value = at_steps(torch.where(goes_on, transform.inverse(bootstrap_value), 0.0), later)
    ahead = (later - torch.arange(num_steps, device=later.device)).view(*later.shape, *extra)
    returns = gamma ** ahead.to(value.dtype) * value
    for k in range(min(n_step, num_steps), 0, -1):
        # Where n is cut short, the rewards beyond the last timestep are zeros from above.
        returns[:, : num_steps + 1 - k] += gamma ** (k - 1) * reward[:, k:]
    return transform.apply(returns)


def near_greedy(
    q_max: Tensor, q_taken: Tensor, scale: Tensor, learn_timesteps: Tensor, tolerance: float
) -> Tensor:
    """[B, R] bool: where a_t was as good as the greedy action, or nearly.

        max_a Q(s_t, a) - Q(s_t, a_t) <= kappa max_t' m_t', t' over the sequence's real steps

    MEME's soft trace (Kapturowski et al. 2023, arXiv 2209.07550, section 3) has |Q(s_t)| in place of the
    sequence's largest m. That allows nothing where a value is near 0.

    Args:
        q_max, q_taken: [B, R]; padding may hold anything.
        scale: [B, R] m_t, from 0 up; padding may hold anything.
        tolerance: kappa.
    """
    real = length_mask(learn_timesteps, q_max.shape[1])
    return q_taken >= q_max - tolerance * torch.where(real, scale, 0.0).amax(dim=1, keepdim=True)


class Traces(NamedTuple):
    """How far Q(lambda) looks ahead in some sequences, as sums that add up over parts of a batch."""

    length: Tensor
    """Steps from all learned ones to their bootstraps: n of an n-step return, here a mean over n."""
    actions: Tensor
    """Actions at which a trace may go on."""
    cut: Tensor
    """Those at which it does not."""
    greedy: Tensor
    """Actions that the actor took as its best."""
    greedy_cut: Tensor
    """Those at which a trace does not go on, as another action is the best by now."""


def traces(
    continuation: Tensor, learn_timesteps: Tensor, mask: Tensor, acted_greedily: Tensor | None
) -> Traces:
    """The sums over a part of a batch; the length of step t is L_t = 1 + c_{t+1} L_{t+1}, c_e = 0.

    Args:
        continuation: [B, R] c_t; not read at step e and in padding.
        learn_timesteps: [B] real timesteps.
        mask: [B, R - 1] bool, the learned steps.
        acted_greedily: [B, R] bool; None: unknown, counted as False.
    """
    inside = length_mask(learn_timesteps - 1, continuation.shape[1])
    inside[:, 0] = False  # no return goes on there
    kept = torch.where(inside, continuation, 0.0)
    greedy = torch.zeros_like(inside) if acted_greedily is None else inside & acted_greedily
    length = _backwards(torch.ones_like(kept), kept)[:, 1:]
    cut = inside & (continuation == 0)
    counts = (x.sum() for x in (inside, cut, greedy, greedy & cut))
    return Traces(torch.where(mask, length, 0.0).sum(), *counts)


def lambda_targets(
    reward: Tensor,
    discount: Tensor,
    bootstrap_value: Tensor,
    continuation: Tensor,
    learn_timesteps: Tensor,
    gamma: float,
    transform: ValueTransform = IDENTITY,
) -> Tensor:
    """Targets of Q(lambda) in the transformed space, from the sequence's last timestep e backwards.

        y_t = h(G_t),  G_t = r_{t+1} + gamma discount_{t+1} ((1 - c_{t+1}) h^-1(v_{t+1}) + c_{t+1} G_{t+1}),
        c_e = 0

    c = lambda gives Peng's (Peng and Williams 1996; Kozuno et al. 2021, arXiv 2103.00107). c_t = lambda where
    a_t is greedy, or nearly so (`near_greedy`), and 0 elsewhere gives Watkins' (Watkins 1989).

    Args:
        reward: [B, R] r_t, already scaled.
        discount: [B, R] 0 at the timestep that terminates, which is e, else 1.
        bootstrap_value: [B, R] v_t, in the transformed space.
        continuation: [B, R] c_t; not read at step e and in padding.
        learn_timesteps: [B] real timesteps.
    Returns: y [B, R - 1]; steps at and after e hold arbitrary finite numbers: mask them.
    """
    real, inside = (length_mask(count, reward.shape[1]) for count in (learn_timesteps, learn_timesteps - 1))
    reward = torch.where(real, reward, 0.0)
    value = torch.where(real & (discount > 0), gamma * transform.inverse(bootstrap_value), 0.0)
    # The share of G_t that G_{t-1} keeps, and the rest of G_{t-1}.
    kept = torch.where(inside, continuation, 0.0)
    rest = reward + (1 - kept) * value
    return transform.apply(_backwards(rest, gamma * kept)[:, 1:])


def _backwards(added: Tensor, kept: Tensor) -> Tensor:
    """x_t = added_t + kept_t x_{t+1} from the last step on, 0 after it: [B, R] from [B, R] each."""
    x = torch.empty_like(added)
    later = torch.zeros_like(added[:, 0])
    columns = zip(added.unbind(1), kept.unbind(1), x.unbind(1), strict=True)
    # `now` is a view of x: each step is written where it belongs, and nothing is stacked.
    for add, keep, now in reversed(list(columns)):
        later = torch.addcmul(add, keep, later, out=now)
    return x


# The returns that `learner.returns` names.


class Steps(NamedTuple):
    """What a return is made of, apart from bootstrap values."""

    reward: Tensor
    """[B, R], scaled"""
    discount: Tensor
    """[B, R]"""
    learn_timesteps: Tensor
    """[B] real timesteps."""
    q_max: Tensor
    """[B, R] max_a Q(s_t, a)"""
    q_min: Tensor
    """[B, R] min_a Q(s_t, a)"""
    q_taken: Tensor
    """[B, R] Q(s_t, a_t)"""
    facts: Mapping[str, Tensor]
    """[B, R] each: `Sequences.learn_facts`."""


class Return(ABC):
    """How targets are made of what comes after each step."""

    def __init__(self, config: LearnerConfig, steps: Steps) -> None:
        self.config, self.steps = config, steps
        self.transform = value_transform(config.value_rescaling)

    @abstractmethod
    def targets(self, values: Tensor) -> Tensor:
        """Bootstrap values [B, R] -> [B, R - 1]."""

    @abstractmethod
    def distributions(self, probabilities: Tensor, atoms: Tensor) -> Tensor:
        """Bootstrap distributions [B, R, Z] on atoms [Z] -> the targets' [B, R - 1, Z]."""

    def traces(self, mask: Tensor) -> Traces | None:
        """How far it looks ahead from the learned steps, `mask` [B, R - 1]; None: as far from each."""
        return None

    def _n_step(self, values: Tensor, n: int) -> Tensor:
        reward, discount, learn_timesteps, *_ = self.steps
        gamma = self.config.discount_factor
        return n_step_targets(reward, discount, values, learn_timesteps, n, gamma, self.transform)


class NStep(Return):
    """It goes on for n steps, whatever the actions."""

    def targets(self, values: Tensor) -> Tensor:
        return self._n_step(values, self.config.n_step)

    def distributions(self, probabilities: Tensor, atoms: Tensor) -> Tensor:
        moved = self.targets(atoms.expand_as(probabilities))
        later = bootstrap_steps(self.steps.learn_timesteps, moved.shape[1], self.config.n_step)
        return losses.project(moved, at_steps(probabilities, later), atoms)


class Peng(Return):
    """Q(lambda), and the base of returns that go on by another c_t."""

    def __init__(self, config: LearnerConfig, steps: Steps) -> None:
        super().__init__(config, steps)
        self._c = self.continuation()

    def continuation(self) -> Tensor:
        """c_t [B, R], the share that goes on; anything at step e and in padding."""
        return torch.full_like(self.steps.q_max, cast(choices.Peng, self.config.returns).q_lambda)

    def targets(self, values: Tensor) -> Tensor:
        reward, discount, learn_timesteps, *_ = self.steps
        gamma, transform = self.config.discount_factor, self.transform
        return lambda_targets(reward, discount, values, self._c, learn_timesteps, gamma, transform)

    def distributions(self, probabilities: Tensor, atoms: Tensor) -> Tensor:
        moved = self._n_step(atoms.expand_as(probabilities), 1)
        return losses.project_lambda(moved, probabilities, self._c, self.steps.learn_timesteps, atoms)

    def traces(self, mask: Tensor) -> Traces:
        facts = self.steps.facts
        greedy = facts["q_taken"] >= facts["q_max"] if "q_max" in facts else None
        return traces(self._c, self.steps.learn_timesteps, mask, greedy)


class Watkins(Peng):
    """It is cut where a_t is not greedy."""

    def continuation(self) -> Tensor:
        chosen, steps = cast(choices.Watkins, self.config.returns), self.steps
        scale = steps.q_max - steps.q_min if chosen.tolerance_of == "gaps" else steps.q_max.abs()
        near = near_greedy(steps.q_max, steps.q_taken, scale, steps.learn_timesteps, chosen.tolerance)
        return torch.where(near, super().continuation(), 0.0)
