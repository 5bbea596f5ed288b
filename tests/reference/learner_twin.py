"""One learner step as section after section of the papers has it: sequence by sequence, step by step.

The networks under test are called with one sequence and one step at a time; the rest is loops.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dtqn.types import leaves
from tests.reference import losses_twin as losses

SLOTS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1)]
"""Component and value of each of the values of MultiDiscrete([3, 4, 2])."""


class Result(NamedTuple):
    loss: float
    deltas: list[list[float]]
    """For each sequence, of its learned steps."""
    targets: list[list[float]]
    priorities: list[float]
    gradients: list[Tensor]
    """One for each of the online network's parameters, not clipped."""
    recall: float
    """The loss of recall."""


def timestep(block: Any, b: int, t: int) -> Any:
    """Timestep t of sequence b as a batch of one sequence of one step."""
    return type(block)(*(x[b, t][None, None] for x in block))


def memory_of(network: nn.Module, memory: Any) -> dict[str, Tensor]:
    """The stored leaves of the memory of one step, by path."""
    left = leaves(memory)
    return {name: left[name][0, 0] for name in network.memory_spec()}


def state_after(network: nn.Module, stored: list[dict[str, Tensor]], episode_step: int) -> Any:
    """The state after this stored memory, of which the network says how many steps count."""
    held, count = {}, 0
    for name, field in network.memory_spec().items():
        last = [x[name].to(torch.float64) for x in stored[max(0, len(stored) - field.window) :]]
        held[name] = torch.stack(last)[None] if last else torch.zeros(1, 0, *field.shape, dtype=torch.float64)
        count = max(count, len(last))
    valid = torch.ones(1, count, dtype=torch.bool)
    return network.state_from_memory(held, valid, torch.tensor([episode_step]))


@torch.no_grad()
def state_at_start(network: nn.Module, batch: Any, b: int) -> Any:
    stored = [
        {name: x[b, i] for name, x in batch.memory.items()}
        for i in range(batch.memory_valid.shape[1])
        if batch.memory_valid[b, i]
    ]
    step = int(batch.episode_step[b])
    state = state_after(network, stored, step)
    for t in range(int(batch.burn_in_timesteps[b])):
        _, state, left = network(timestep(batch.burn_in, b, t), state)
        stored.append(memory_of(network, left))
        step += 1
    return state_after(network, stored, step)


class Answer(NamedTuple):
    """A network's answer at one step."""

    q: list[float]
    numbers: list[list[float]]
    """For each action: the value itself, or the atoms' probabilities."""


@torch.no_grad()
def said(network: nn.Module, batch: Any, b: int) -> list[Answer]:
    """The network's answers at the real timesteps of sequence b, one call each."""
    state, answers = state_at_start(network, batch, b), []
    for t in range(int(batch.learn_timesteps[b])):
        output, state, _ = network(timestep(batch.learn, b, t), state)
        q = output.q[0, 0].tolist()
        if output.distribution is None:
            numbers = [[value] for value in q]
        else:
            numbers = output.distribution[0, 0].exp().tolist()
        answers.append(Answer(q, numbers))
    return answers


def q_values(network: nn.Module, batch: Any, b: int) -> list[list[float]]:
    return [answer.q for answer in said(network, batch, b)]


@torch.no_grad()
def memory_at_steps(network: nn.Module, batch: Any, b: int) -> dict[int, dict[str, Tensor]]:
    """The memory of the real steps of burn-in and learned segment, by their distance from the start."""
    held = [
        {name: x[b, i] for name, x in batch.memory.items()}
        for i in range(batch.memory_valid.shape[1])
        if batch.memory_valid[b, i]
    ]
    state, left = state_after(network, held, int(batch.episode_step[b])), {}
    burned = int(batch.burn_in_timesteps[b])
    for t in range(burned):
        _, state, memory = network(timestep(batch.burn_in, b, t), state)
        left[t - burned] = memory_of(network, memory)
    for t in range(int(batch.learn_timesteps[b])):
        _, state, memory = network(timestep(batch.learn, b, t), state)
        left[t] = memory_of(network, memory)
    return left


def is_categorical(network: nn.Module) -> bool:
    return type(network.head.prediction).__name__ == "Categorical"


def output_with_gradient(network: nn.Module, batch: Any, b: int) -> Any:
    """The same in one call, since no gradient passes between calls: [1, timesteps, A]."""
    real = type(batch.learn)(*(x[b : b + 1, : int(batch.learn_timesteps[b])] for x in batch.learn))
    return network(real, state_at_start(network, batch, b))[0]


def update(online: nn.Module, target: nn.Module, batch: Any, config: Any, eta: float) -> Result:
    """Loss, priorities and gradient; `config` has the fields of the learner's settings."""
    deltas, all_targets, loss = [], [], torch.zeros((), dtype=torch.float64)
    recall = torch.zeros((), dtype=torch.float64)
    count = int(batch.learned_steps.sum())
    for b in range(len(batch.learn_timesteps)):
        regressed_on = targets_of(online, target, batch, b, config)
        output = output_with_gradient(online, batch, b)
        of_sequence, expected = [], []
        for t in range(int(batch.learned_steps[b])):
            action = int(batch.learn.prev_action[b, t + 1])
            q = output.q[0, t, action]
            if output.distribution is None:
                (y,) = regressed_on[t]
                each = (y - q) ** 2 / 2
            else:
                atoms = online.head.prediction.atoms.tolist()
                y = sum(mass * atom for mass, atom in zip(regressed_on[t], atoms, strict=True))
                log_p = output.distribution[0, t, action]
                each = -sum(mass * log_p[i] for i, mass in enumerate(regressed_on[t]))
            of_sequence.append(y - q.item())
            expected.append(y)
            weight = float(batch.importance_weights[b]) / count
            loss = loss + weight * each
            if output.recall is not None:
                recall = recall + weight * recall_loss(batch, b, t, output.recall[0, t])
        deltas.append(of_sequence)
        all_targets.append(expected)
    total = loss + (online.head.recall.weight * recall if recall else 0.0)
    parameters = list(online.parameters())
    gradients = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    priorities = [losses.priority(d, eta) for d in deltas]
    return Result(loss.item(), deltas, all_targets, priorities, list(gradients), recall.item())


def recall_loss(batch: Any, b: int, t: int, logits: Tensor) -> Tensor:
    """The loss of step t of a sequence's learned segment, of observations in MultiDiscrete([3, 4, 2])."""
    burned = int(batch.burn_in_timesteps[b])
    past = [*batch.burn_in.observation[b, :burned], *batch.learn.observation[b, : t + 1]]
    shown = {(place, value) for seen in past for place, value in enumerate(seen.tolist())}
    total = torch.zeros((), dtype=torch.float64)
    for number, logit in enumerate(logits):
        p = 1 / (1 + torch.exp(-logit))
        if SLOTS[number] in shown:
            total = total - torch.log(p)
        elif int(batch.episode_step[b]) == 0:
            total = total - torch.log(1 - p)
    return total / len(logits)


def targets_of(online: nn.Module, target: nn.Module, batch: Any, b: int, config: Any) -> list[list[float]]:
    """For each learned step of sequence b: its target, or the atoms' masses."""
    pair = (losses.rescale, losses.unscale) if config.value_rescaling else (losses.identity, losses.identity)
    size = int(batch.learn_timesteps[b])
    of_online, of_target = said(online, batch, b), said(target, batch, b)
    selector = [answer.q for answer in (of_online if config.double_q else of_target)]
    actions = [int(a) for a in batch.learn.prev_action[b, 1:size]]
    reward = [config.reward_scale * float(r) for r in batch.learn.reward[b, :size]]
    if "novel" in batch.learn_facts:
        for t in range(size):
            reward[t] += config.novelty_weight if batch.learn_facts["novel"][b, t] else -config.repeat_cost
    costs = [0.0] * len(actions)
    if config.bootstrap.name == "advantage":
        for t, action in enumerate(actions):
            costs[t] = losses.advantage_cost(of_target[t].q, action, config.bootstrap.alpha)

    discount = batch.discount[b, :size].tolist()
    values = [of_target[t].numbers[losses.argmax(selector[t])] for t in range(size)]
    learned = range(int(batch.learned_steps[b]))
    of_gaps = getattr(config.returns, "tolerance_of", "values") == "gaps"
    slack = max(max(q) - min(q) if of_gaps else abs(max(q)) for q in selector)
    slack *= getattr(config.returns, "tolerance", 0.0)
    greedy = [max(selector[t]) - selector[t][action] <= slack for t, action in enumerate(actions)]
    n = config.n_step if config.returns.name == "n_step" else 1
    if not is_categorical(target):
        plain = [v for (v,) in values]
        if config.returns.name == "n_step":
            found = losses.targets(reward, discount, plain, size, n, config.gamma, *pair)
            return [[found[t] + costs[t]] for t in learned]
        return [
            [
                costs[t] + pair[0](
                    losses.lambda_target(
                        t, reward, discount, plain, greedy, size, config.gamma, config.returns.q_lambda,
                        config.returns.name == "watkins", pair[1],
                    )
                )
            ]
            for t in learned
        ]  # fmt: skip

    atoms = target.head.prediction.atoms.tolist()
    columns = [losses.targets(reward, discount, [z] * size, size, n, config.gamma, *pair) for z in atoms]
    y = [[column[t] for column in columns] for t in range(size - 1)]

    def masses(t: int) -> list[float]:
        """The probabilities of step t's target; with Q(lambda) the next step's too if the trace goes on."""
        step = losses.bootstrap_step(t, size, n)
        mixture = values[step]
        goes_on = step < size - 1 and (config.returns.name == "peng" or greedy[step])
        if config.returns.name != "n_step" and goes_on:
            weight = config.returns.q_lambda
            mixture = [
                (1 - weight) * now + weight * later for now, later in zip(mixture, masses(step), strict=True)
            ]
        return losses.project(list(zip(y[t], mixture, strict=True)), atoms)

    def moved(t: int) -> list[float]:
        """The same, of returns that are larger by the step's cost, which is 0 or less."""
        return losses.project([(z + costs[t], p) for z, p in zip(atoms, masses(t), strict=True)], atoms)

    return [moved(t) for t in learned]


def norm(gradients: list[Tensor]) -> float:
    total = 0.0
    for gradient in gradients:
        total += float((gradient * gradient).sum())
    return math.sqrt(total)


class Adam:
    """Kingma and Ba 2015, algorithm 1; with a decay of matrices Loshchilov and Hutter 2019, algorithm 2."""

    def __init__(
        self, parameters: list[Tensor], learning_rate: float, epsilon: float, decay: float = 0.0
    ) -> None:
        self.learning_rate, self.epsilon, self.decay, self.t = learning_rate, epsilon, decay, 0
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
            decay = self.decay if p.dim() > 1 else 0.0
            after.append(
                p.detach() - self.learning_rate * (m / (torch.sqrt(v) + self.epsilon) + decay * p.detach())
            )
        return after
