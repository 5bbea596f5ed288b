"""The objective of an update: from the outputs of both networks to the loss of each learned step.

It combines three choices:

- the policy whose value bootstraps a row: greedy, or Munchausen's soft one;
- the return made of rewards and these values: n-step, or Q(lambda);
- the head's description of a return: its expected value, or its probabilities on atoms.

Legend: B sequences, R rows of the learn block, A actions, Z numbers of a distribution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dtqn.learning import losses, returns
from dtqn.networks.heads import Categorical, Prediction
from dtqn.settings.config import LearnerConfig
from dtqn.types import QOutput, Sequences, first_rows, map_tree


class StepErrors(NamedTuple):
    """The errors of a batch's steps, [B, R - 1] each; only those in the mask are learned."""

    td_error: Tensor
    """The target's expected value minus `q_taken`."""
    mask: Tensor
    """bool"""
    q_taken: Tensor
    """Q(s_t, a_t); the expected value of a distribution."""
    target: Tensor
    """The target's expected value, on the atoms where there are some."""
    loss: Tensor
    """0 outside of the mask."""
    traces: returns.Traces | None = None
    """Those of Q(lambda)."""
    recall: Tensor | None = None
    """The loss of recall, where the head has one; 0 outside of the mask."""


Values = Callable[[Tensor], Tensor]
"""Values of all actions [B, R, A] or [B, R, A, Z] -> the policy's, [B, R] or [B, R, Z]."""


class Following(NamedTuple):
    """The rows after each step, and how targets are made of them and of bootstrap values."""

    reward: Tensor
    """[B, R], scaled"""
    discount: Tensor
    """[B, R]"""
    learn_rows: Tensor
    """[B] real rows."""
    continuation: Tensor | None
    """[B, R] c_t of Q(lambda); None: n-step returns."""
    n_step: int
    gamma: float
    transform: returns.ValueTransform

    def targets(self, values: Tensor) -> Tensor:
        """Bootstrap values [B, R] -> [B, R - 1]."""
        if self.continuation is None:
            return self._n_step_targets(values, self.n_step)
        return returns.lambda_targets(
            self.reward,
            self.discount,
            values,
            self.continuation,
            self.learn_rows,
            self.gamma,
            self.transform,
        )

    def distributions(self, probabilities: Tensor, atoms: Tensor) -> Tensor:
        """Bootstrap distributions [B, R, Z] on atoms [Z] -> those of the targets [B, R - 1, Z]."""
        n = self.n_step if self.continuation is None else 1
        moved = self._n_step_targets(atoms.expand_as(probabilities), n)
        if self.continuation is not None:
            return losses.project_lambda(moved, probabilities, self.continuation, self.learn_rows, atoms)
        rows = returns.bootstrap_rows(self.learn_rows, moved.shape[1], n)
        return losses.project(moved, returns.at_rows(probabilities, rows), atoms)

    def _n_step_targets(self, values: Tensor, n: int) -> Tensor:
        return returns.n_step_targets(
            self.reward, self.discount, values, self.learn_rows, n, self.gamma, self.transform
        )


class Regression(Protocol):
    """How a head's prediction of a return is moved to its target."""

    def target(self, output: QOutput, value: Values, following: Following) -> Tensor:
        """The targets of each step, from the target network's output."""
        ...

    def errors(self, output: QOutput, action: Tensor, target: Tensor, mask: Tensor) -> StepErrors:
        """From the online network's output at steps 0..R-2 and the actions [B, R - 1] taken there."""
        ...


class ValueRegression:
    """An expected value; the loss of the TD error is half its square."""

    def target(self, output: QOutput, value: Values, following: Following) -> Tensor:
        return following.targets(value(output.q))

    def errors(self, output: QOutput, action: Tensor, target: Tensor, mask: Tensor) -> StepErrors:
        q_taken = returns.select_action(output.q, action)
        td_error = target - q_taken
        loss = losses.squared_loss(torch.where(mask, td_error, 0.0))
        return StepErrors(td_error, mask, q_taken, target, loss)


class CategoricalRegression:
    """C51 (Bellemare et al. 2017, arXiv 1707.06887): the bootstrap's atoms are moved and projected back."""

    def __init__(self, prediction: Categorical) -> None:
        self._prediction = prediction

    def target(self, output: QOutput, value: Values, following: Following) -> Tensor:
        probabilities = value(_distribution(output)).exp()
        return following.distributions(probabilities, self._prediction.atoms.to(probabilities.dtype))

    def errors(self, output: QOutput, action: Tensor, target: Tensor, mask: Tensor) -> StepErrors:
        taken = returns.select_action(_distribution(output), action)
        log_p, of_target = (torch.where(mask[..., None], x, 0.0) for x in (taken, target))
        expected = (target * self._prediction.atoms.to(target.dtype)).sum(dim=-1)
        q_taken = returns.select_action(output.q, action)
        loss = losses.cross_entropy(log_p, of_target)
        return StepErrors(expected - q_taken, mask, q_taken, expected, loss)


def _distribution(output: QOutput) -> Tensor:
    assert output.distribution is not None
    return output.distribution


class Objective:
    """The errors of a batch, from the outputs of both networks."""

    def __init__(self, config: LearnerConfig, prediction: Prediction) -> None:
        """`prediction` is what the network's head makes of its last layer (`dtqn.networks.heads`)."""
        self.config = config
        self.transform = returns.value_transform(config.value_rescaling)
        self._regression: Regression = ValueRegression()
        if isinstance(prediction, Categorical):
            self._regression = CategoricalRegression(prediction)

    def errors(self, batch: Sequences, online: QOutput, target: QOutput, chooser: QOutput) -> StepErrors:
        """The gradient is in `online`; with `double_q` it is `chooser` that chooses the actions."""
        config, action = self.config, batch.learn.prev_action[:, 1:].long()
        with torch.no_grad():
            selector = (chooser if config.double_q else target).q
            novel = None if batch.novel is None else batch.novel.learn
            reward = self._reward(batch.learn.reward, novel, batch.novel_share)
            value: Values = functools.partial(returns.double_q_value, q_selector=selector)
            if config.munchausen:
                tau = config.munchausen_temperature
                log_policy = (selector / tau).log_softmax(dim=-1)
                reward = returns.munchausen_rewards(
                    reward, log_policy, action, config.munchausen_alpha, tau, config.munchausen_clip
                )
                value = functools.partial(returns.soft_value, log_policy=log_policy, temperature=tau)

            taken = nn.functional.pad(returns.select_action(selector[:, :-1], action), (0, 1))
            following = self._following(
                reward, batch.discount, batch.learn_rows, selector.amax(dim=-1), taken
            )
            regressed_on = self._regression.target(target, value, following)
        mask = first_rows(batch.learned_steps, action.shape[1])
        at_steps = map_tree(lambda x: x[:, :-1], online)
        errors = self._regression.errors(at_steps, action, regressed_on, mask)
        if following.continuation is None:
            return errors
        acted_greedily = batch.acted_greedily and batch.acted_greedily.learn
        traces = returns.traces(following.continuation, batch.learn_rows, mask, acted_greedily)
        return errors._replace(traces=traces)

    def first_td_errors(
        self,
        reward: Tensor,
        discount: Tensor,
        novel: Tensor,
        novel_share: Tensor | None,
        q_max: Tensor,
        q_taken: Tensor,
        learn_rows: Tensor,
    ) -> Tensor:
        """TD errors [B, R - 1] from what the actor saw, its largest Q and that of its action, [B, R] each.

        They leave out the policy of Munchausen's target, which needs all actions. `novel_share` [B] is that
        of `Sequences`.
        """
        reward = self._reward(reward, novel, novel_share)
        following = self._following(reward, discount, learn_rows, q_max, q_taken)
        return following.targets(q_max) - q_taken[:, :-1]

    def _reward(self, reward: Tensor, novel: Tensor | None, share: Tensor | None) -> Tensor:
        """The learner's own, [B, R]: the task's by its scale, and more where `novel` than elsewhere.

        What it adds, if it is centred, is 0 on average over steps of which `share` [B] is novel.
        """
        scaled, config = reward * self.config.reward_scale, self.config
        if novel is None or not config.reads_novelty:
            return scaled
        cost = config.repeat_cost
        weight, is_novel = config.novelty_weight + cost, novel.to(scaled.dtype)
        if config.novelty_centred:
            assert share is not None
            return scaled + weight * (is_novel - share[:, None].to(scaled.dtype))
        return scaled + weight * is_novel - cost

    def _following(
        self, reward: Tensor, discount: Tensor, learn_rows: Tensor, q_max: Tensor, q_taken: Tensor
    ) -> Following:
        """By the Q-values of the best action and of a_t, [B, R] each, that say where a trace goes on."""
        config, continuation = self.config, None
        if config.returns != "n_step":
            continuation = torch.full_like(reward, config.q_lambda)
            if config.returns == "watkins":
                near = returns.near_greedy(q_max, q_taken, learn_rows, config.trace_tolerance)
                continuation = torch.where(near, continuation, 0.0)
        return Following(
            reward, discount, learn_rows, continuation, config.n_step, config.gamma, self.transform
        )
