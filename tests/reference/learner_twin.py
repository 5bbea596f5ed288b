"""One learner step as section after section of the papers has it: sequence by sequence, row by row.

The networks under test are called with one sequence and one step at a time; the rest is loops.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.reference import losses_twin as losses


class Result(NamedTuple):
    loss: float
    deltas: list[list[float]]
    """For each sequence, of its learned steps."""
    targets: list[list[float]]
    priorities: list[float]
    gradients: list[Tensor]
    """Of the online network's parameters, not clipped."""


def row(rows: Any, b: int, t: int) -> Any:
    """Row t of sequence b as a batch of one sequence of one step."""
    return type(rows)(*(x[b, t][None, None] for x in rows))


def state_after(network: nn.Module, rows: list[dict[str, Tensor]], episode_step: int) -> Any:
    """The state after these trace rows, of which the network says how many count."""
    held, count = {}, 0
    for name, field in network.trace_spec().items():
        last = [r[name].to(torch.float64) for r in rows[max(0, len(rows) - field.window) :]]
        held[name] = torch.stack(last)[None] if last else torch.zeros(1, 0, *field.shape, dtype=torch.float64)
        count = max(count, len(last))
    return network.state_from_trace(
        held, torch.ones(1, count, dtype=torch.bool), torch.tensor([episode_step])
    )


@torch.no_grad()
def state_at_anchor(network: nn.Module, batch: Any, b: int) -> Any:
    rows = [
        {name: x[b, i] for name, x in batch.trace.items()}
        for i in range(batch.trace_valid.shape[1])
        if batch.trace_valid[b, i]
    ]
    step = int(batch.episode_step[b])
    state = state_after(network, rows, step)
    for t in range(int(batch.burn_in_rows[b])):
        _, state, left = network(row(batch.burn_in, b, t), state)
        rows.append({name: getattr(left, name)[0, 0] for name in network.trace_spec()})
        step += 1
    return state_after(network, rows, step)


@torch.no_grad()
def q_values(network: nn.Module, batch: Any, b: int) -> list[list[float]]:
    """Q-values of the real rows of sequence b, one call a row."""
    state, q = state_at_anchor(network, batch, b), []
    for t in range(int(batch.learn_rows[b])):
        output, state, _ = network(row(batch.learn, b, t), state)
        q.append(output.q[0, 0].tolist())
    return q


def q_with_gradient(network: nn.Module, batch: Any, b: int) -> Tensor:
    """The same in one call, since no gradient passes between calls: [rows, A]."""
    real = type(batch.learn)(*(x[b : b + 1, : int(batch.learn_rows[b])] for x in batch.learn))
    return network(real, state_at_anchor(network, batch, b))[0].q[0]


def update(online: nn.Module, target: nn.Module, batch: Any, config: Any, eta: float) -> Result:
    """Loss, priorities and gradient; `config` has the fields of the learner's settings."""
    pair = (losses.rescale, losses.unscale) if config.value_rescaling else (losses.identity, losses.identity)
    deltas, all_targets, loss = [], [], torch.zeros((), dtype=torch.float64)
    count = int(batch.learned_steps.sum())
    for b in range(len(batch.learn_rows)):
        rows = int(batch.learn_rows[b])
        q_online, q_target = q_values(online, batch, b), q_values(target, batch, b)
        q = q_with_gradient(online, batch, b)
        selector = q_online if config.double_q else q_target
        value = [
            losses.double_q(of_target, of_selector)
            for of_target, of_selector in zip(q_target, selector, strict=True)
        ]
        reward = [config.reward_scale * float(r) for r in batch.learn.reward[b, :rows]]
        y = losses.targets(
            reward, batch.discount[b, :rows].tolist(), value, rows, config.n_step, config.gamma, *pair
        )
        of_sequence = []
        for t in range(int(batch.learned_steps[b])):
            delta = y[t] - q[t, int(batch.learn.prev_action[b, t + 1])]
            of_sequence.append(delta.item())
            size = delta.abs()
            each = size - 0.5 if config.loss == "huber" and size > 1 else delta * delta / 2
            loss = loss + float(batch.importance_weights[b]) * each / count
        deltas.append(of_sequence)
        all_targets.append(y[: len(of_sequence)])
    gradients = torch.autograd.grad(
        loss, list(online.parameters()), allow_unused=True, materialize_grads=True
    )
    return Result(
        loss.item(), deltas, all_targets, [losses.priority(d, eta) for d in deltas], list(gradients)
    )


def norm(gradients: list[Tensor]) -> float:
    total = 0.0
    for gradient in gradients:
        total += float((gradient * gradient).sum())
    return math.sqrt(total)


class Adam:
    """Kingma and Ba 2015, algorithm 1."""

    def __init__(self, parameters: list[Tensor], learning_rate: float, epsilon: float) -> None:
        self.learning_rate, self.epsilon, self.t = learning_rate, epsilon, 0
        self.m = [torch.zeros_like(p) for p in parameters]
        self.v = [torch.zeros_like(p) for p in parameters]

    def step(self, parameters: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        """The parameters after one step."""
        self.t += 1
        after = []
        for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
            self.m[i] = 0.9 * self.m[i] + 0.1 * g
            self.v[i] = 0.999 * self.v[i] + 0.001 * g * g
            m = self.m[i] / (1 - 0.9**self.t)
            v = self.v[i] / (1 - 0.999**self.t)
            after.append(p.detach() - self.learning_rate * m / (torch.sqrt(v) + self.epsilon))
        return after
