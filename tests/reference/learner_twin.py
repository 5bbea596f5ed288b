"""One learner step as section after section of the papers has it: sequence by sequence, timestep by timestep.

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


def timestep(timesteps: Any, b: int, t: int) -> Any:
    """Step t of sequence b as a batch of one sequence of one step."""
    return type(timesteps)(*(x[b, t][None, None] for x in timesteps))


def trace_row(network: nn.Module, trace: Any) -> dict[str, Tensor]:
    """The stored leaves of a trace of one step, by path."""
    left = leaves(trace)
    return {name: left[name][0, 0] for name in network.memory_spec()}


def state_after(network: nn.Module, timesteps: list[dict[str, Tensor]], episode_step: int) -> Any:
    """The state after these stored memory, of which the network says how many count."""
    held, count = {}, 0
    for name, field in network.memory_spec().items():
        last = [r[name].to(torch.float64) for r in timesteps[max(0, len(timesteps) - field.window) :]]
        held[name] = torch.stack(last)[None] if last else torch.zeros(1, 0, *field.shape, dtype=torch.float64)
        count = max(count, len(last))
    return network.state_from_memory(
        held, torch.ones(1, count, dtype=torch.bool), torch.tensor([episode_step])
    )


@torch.no_grad()
def state_at_start(network: nn.Module, batch: Any, b: int) -> Any:
    timesteps = [
        {name: x[b, i] for name, x in batch.memory.items()}
        for i in range(batch.memory_valid.shape[1])
        if batch.memory_valid[b, i]
    ]
    step = int(batch.episode_step[b])
    state = state_after(network, timesteps, step)
    for t in range(int(batch.burn_in_timesteps[b])):
        _, state, left = network(timestep(batch.burn_in, b, t), state)
        timesteps.append(trace_row(network, left))
        step += 1
    return state_after(network, timesteps, step)


class Row(NamedTuple):
    """A network's answer at one step."""

    q: list[float]
    numbers: list[list[float]]
    """For each action: the value itself, or the atoms' probabilities."""


@torch.no_grad()
def said(network: nn.Module, batch: Any, b: int) -> list[Row]:
    """The network's answers on the real timesteps of sequence b, one call a timestep."""
    state, timesteps = state_at_start(network, batch, b), []
    for t in range(int(batch.learn_timesteps[b])):
        output, state, _ = network(timestep(batch.learn, b, t), state)
        q = output.q[0, 0].tolist()
        if output.distribution is None:
            numbers = [[value] for value in q]
        else:
            numbers = output.distribution[0, 0].exp().tolist()
        timesteps.append(Row(q, numbers))
    return timesteps


def q_values(network: nn.Module, batch: Any, b: int) -> list[list[float]]:
    return [at_row.q for at_row in said(network, batch, b)]


@torch.no_grad()
def trace_rows(network: nn.Module, batch: Any, b: int) -> dict[int, dict[str, Tensor]]:
    """The traces of the real timesteps of burn-in and learned segment, by their distance from the sequence
    start."""
    held = [
        {name: x[b, i] for name, x in batch.memory.items()}
        for i in range(batch.memory_valid.shape[1])
        if batch.memory_valid[b, i]
    ]
    state, left = state_after(network, held, int(batch.episode_step[b])), {}
    burned = int(batch.burn_in_timesteps[b])
    for t in range(burned):
        _, state, trace = network(timestep(batch.burn_in, b, t), state)
        left[t - burned] = trace_row(network, trace)
    for t in range(int(batch.learn_timesteps[b])):
        _, state, trace = network(timestep(batch.learn, b, t), state)
        left[t] = trace_row(network, trace)
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
    gradients = torch.autograd.grad(
        total, list(online.parameters()), allow_unused=True, materialize_grads=True
    )
    priorities = [losses.priority(d, eta) for d in deltas]
    return Result(loss.item(), deltas, all_targets, priorities, list(gradients), recall.item())


def recall_loss(batch: Any, b: int, t: int, logits: Tensor) -> Tensor:
    """The loss of step t of a sequence's learned segment, of observations in MultiDiscrete([3, 4, 2])."""
    past = [
        *batch.burn_in.observation[b, : int(batch.burn_in_timesteps[b])],
        *batch.learn.observation[b, : t + 1],
    ]
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
    timesteps = int(batch.learn_timesteps[b])
    of_online, of_target = said(online, batch, b), said(target, batch, b)
    selector = [at_row.q for at_row in (of_online if config.double_q else of_target)]
    actions = [int(a) for a in batch.learn.prev_action[b, 1:timesteps]]
    reward = [config.reward_scale * float(r) for r in batch.learn.reward[b, :timesteps]]
    if "novel" in batch.learn_facts:
        for t in range(timesteps):
            reward[t] += config.novelty_weight if batch.learn_facts["novel"][b, t] else -config.repeat_cost
            if config.novelty_centred:
                share = float(batch.novel_share[b])
                reward[t] -= config.novelty_weight * share - config.repeat_cost * (1 - share)
    soft = config.bootstrap if config.bootstrap.name == "munchausen" else None
    tau = soft.temperature if soft else 1.0
    log_pi = [losses.log_policy(q, tau) for q in selector]
    if soft:
        for t, action in enumerate(actions):
            reward[t + 1] += losses.munchausen_bonus(log_pi[t][action], soft.alpha, tau)

    def value(t: int, numbers: list[list[float]]) -> list[float]:
        """The value of each action at step t, from its numbers."""
        if not soft:
            return numbers[losses.argmax(selector[t])]
        mixed = []
        for j in range(len(numbers[0])):
            total = 0.0
            for a, log_p in enumerate(log_pi[t]):
                total += math.exp(log_p) * (numbers[a][j] - tau * log_p)
            mixed.append(total)
        return mixed

    discount = batch.discount[b, :timesteps].tolist()
    values = [value(t, of_target[t].numbers) for t in range(timesteps)]
    learned = range(int(batch.learned_steps[b]))
    slack = getattr(config.returns, "tolerance", 0.0) * max(abs(max(q)) for q in selector)
    greedy = [max(selector[t]) - selector[t][action] <= slack for t, action in enumerate(actions)]
    n = config.n_step if config.returns.name == "n_step" else 1
    if not is_categorical(target):
        plain = [v for (v,) in values]
        if config.returns.name == "n_step":
            found = losses.targets(reward, discount, plain, timesteps, n, config.gamma, *pair)
            return [[found[t]] for t in learned]
        return [
            [
                pair[0](
                    losses.lambda_target(
                        t, reward, discount, plain, greedy, timesteps, config.gamma, config.returns.q_lambda,
                        config.returns.name == "watkins", pair[1],
                    )
                )
            ]
            for t in learned
        ]  # fmt: skip

    atoms = target.head.prediction.atoms.tolist()
    columns = [
        losses.targets(reward, discount, [z] * timesteps, timesteps, n, config.gamma, *pair) for z in atoms
    ]
    y = [[column[t] for column in columns] for t in range(timesteps - 1)]

    def masses(t: int) -> list[float]:
        """The probabilities of step t's target; with Q(lambda) the next step's too if the trace goes on."""
        timestep = losses.bootstrap_step(t, timesteps, n)
        mixture = values[timestep]
        goes_on = timestep < timesteps - 1 and (config.returns.name == "peng" or greedy[timestep])
        if config.returns.name != "n_step" and goes_on:
            weight = config.returns.q_lambda
            mixture = [
                (1 - weight) * now + weight * later
                for now, later in zip(mixture, masses(timestep), strict=True)
            ]
        return losses.project(list(zip(y[t], mixture, strict=True)), atoms)

    return [masses(t) for t in learned]


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
