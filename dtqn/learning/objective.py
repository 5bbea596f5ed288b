"""The objective of an update: from the outputs of both networks to the loss of each learned step.

It combines three choices:

- what bootstraps a step: the best action, with a cost of the others (advantage learning) or without;
- the return made of rewards and these values: n-step, or Q(lambda) (`dtqn.learning.returns`);
- the head's description of a return, which makes its target and its loss (`dtqn.learning.predictions`).

Legend: B sequences, R timesteps of the learned segment, A actions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dtqn.choices.learner import Advantage
from dtqn.learning import returns
from dtqn.learning.predictions import StepErrors, Values
from dtqn.networks.heads import Prediction
from dtqn.settings.config import LearnerConfig
from dtqn.settings.named_code import found
from dtqn.types import QOutput, Sequences, length_mask, map_tree


class Objective:
    """The errors of a batch, from the outputs of both networks."""

    def __init__(self, config: LearnerConfig, prediction: Prediction) -> None:
        """`prediction` is what the network's head makes of its last layer."""
        self.config, self._prediction = config, prediction
        self._return: type[returns.Return] = found(config.returns.made_by)

    def errors(self, batch: Sequences, online: QOutput, target: QOutput, chooser: QOutput) -> StepErrors:
        """The gradient is in `online`; with `double_q` it is `chooser` that chooses the actions."""
        config, action, facts = self.config, batch.learn.prev_action[:, 1:].long(), batch.learn_facts
        with torch.no_grad():
            selector = (chooser if config.double_q else target).q
            reward = self._reward(batch.learn.reward, facts.get("novel"))
            value: Values = functools.partial(returns.double_q_value, q_selector=selector)
            taken = nn.functional.pad(returns.select_action(selector[:, :-1], action), (0, 1))
            steps = returns.Steps(
                reward=reward,
                discount=batch.discount,
                learn_timesteps=batch.learn_timesteps,
                q_max=selector.amax(dim=-1),
                q_min=selector.amin(dim=-1),
                q_taken=taken,
                facts=facts,
            )
            following = self._return(config, steps)
            regressed_on = self._prediction.target(target, value, following)
            if isinstance(config.bootstrap, Advantage):
                costs = returns.advantage_costs(target.q, action, config.bootstrap.alpha)
                regressed_on = self._prediction.moved(regressed_on, costs)
        mask = length_mask(batch.learned_steps, action.shape[1])
        at_steps = map_tree(lambda x: x[:, :-1], online)
        errors = self._prediction.errors(at_steps, action, regressed_on, mask)
        return errors._replace(traces=following.traces(mask))

    def first_td_errors(self, told: Mapping[str, Tensor], learn_timesteps: Tensor) -> Tensor:
        """TD errors [B, R - 1] from what the actor saw: reward, discount and its facts, [B, R] each."""
        reward = self._reward(told["reward"], told["novel"])
        q_max, q_taken = told["q_max"], told["q_taken"]
        steps = returns.Steps(
            reward, told["discount"], learn_timesteps, q_max, told["q_min"], q_taken, facts=told
        )
        td_error = self._return(self.config, steps).targets(q_max) - q_taken[:, :-1]
        if isinstance(self.config.bootstrap, Advantage):
            td_error += returns.cost_of(q_taken - q_max, self.config.bootstrap.alpha)[:, :-1]
        return td_error

    def _reward(self, reward: Tensor, novel: Tensor | None) -> Tensor:
        """The learner's reward, [B, R]: the task's, scaled, and more where `novel` than elsewhere."""
        scaled, config = reward * self.config.scale, self.config
        if novel is None or not config.reads_novelty:
            return scaled
        cost = config.repeat_cost
        return scaled + (config.novelty_weight + cost) * novel.to(scaled.dtype) - cost
