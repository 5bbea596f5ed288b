"""Recurrent PQN in plain loops (Gallici et al. 2025, arXiv 2407.04811): copy by copy, timestep by timestep.

A rollout is a list of timesteps of one environment, with episodes that begin and end in it. Nothing is cut
into parts: the network runs from the state that acting left, and starts anew at the first timestep of an
episode. The network is written out as well, so that gradient flows from timestep to timestep.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

BETAS = (0.9, 0.999)


class Row(NamedTuple):
    """As it arrived, and the hidden state before it."""

    observation: list[int]
    prev_action: int
    reward: float
    goes_on: bool
    """False where the episode has terminated."""
    first: bool
    last: bool
    hidden: Tensor


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = sum(x) / len(x)
    variance = sum((x - mean) ** 2) / len(x)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def step(p: dict[str, Tensor], timestep: Row, hidden: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
    """Q-values and the next hidden state: embeddings, two layers with LayerNorm and ReLU, a GRU, a head.

    The previous action's vector is added to what the GRU reads.

    Args:
        p: the network's parameters by their names.
        starts: the first timestep of each component's embeddings.
    """
    table = p["encoder.observation.embedding.weight"]
    parts = [table[start + value] for start, value in zip(starts, timestep.observation, strict=True)]
    x = p["encoder.join.weight"] @ torch.cat(parts) + p["encoder.join.bias"]
    x = norm(x, p["encoder.layers.0.weight"], p["encoder.layers.0.bias"]).clamp(min=0)
    x = p["encoder.layers.2.weight"] @ x + p["encoder.layers.2.bias"]
    x = norm(x, p["encoder.layers.3.weight"], p["encoder.layers.3.bias"]).clamp(min=0)
    if not timestep.first:
        x = x + p["encoder.prev_action.weight"][timestep.prev_action]
    h = torch.zeros_like(hidden) if timestep.first else hidden
    gru = "core.layers.0.gru."
    of_x = p[f"{gru}weight_ih_l0"] @ x + p[f"{gru}bias_ih_l0"]
    of_h = p[f"{gru}weight_hh_l0"] @ h + p[f"{gru}bias_hh_l0"]
    size = len(h)
    reset = torch.sigmoid(of_x[:size] + of_h[:size])
    keep = torch.sigmoid(of_x[size : 2 * size] + of_h[size : 2 * size])
    new = torch.tanh(of_x[2 * size :] + reset * of_h[2 * size :])
    h = (1 - keep) * new + keep * h
    return p["head.q.weight"] @ h + p["head.q.bias"], h


def peng_returns(
    rewards: list[float],
    goes_on: list[bool],
    ends: list[bool],
    values: list[float],
    gamma: float,
    q_lambda: float,
) -> list[float | None]:
    """The return of the action at each timestep but the last, None where the timestep ends an episode.

    Args:
        rewards, goes_on, ends: as they arrive with each row: `ends` of the episode's last timestep,
            terminated or truncated, `goes_on` unless it is terminated.
        values: max_a Q of each timestep.
    """
    found: list[float | None] = [None] * (len(rewards) - 1)
    for t in reversed(range(len(rewards) - 1)):
        if ends[t]:
            continue
        future = values[t + 1]
        if t + 2 < len(rewards) and not ends[t + 1]:
            later = found[t + 1]
            assert later is not None
            future = (1 - q_lambda) * values[t + 1] + q_lambda * later
        found[t] = rewards[t + 1] + (gamma * future if goes_on[t + 1] else 0.0)
    return found


class RAdam:
    """Liu et al. 2020, algorithm 2; rectified from rho_t > 5 on, as in optax and torch."""

    def __init__(self, count: int, learning_rate: float, epsilon: float) -> None:
        self.learning_rate, self.epsilon, self.t = learning_rate, epsilon, 0
        self.m: list[Any] = [0.0] * count
        self.v: list[Any] = [0.0] * count

    def step(self, parameters: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        self.t += 1
        b1, b2 = BETAS
        rho = 2 / (1 - b2) - 1
        rho_t = rho - 2 * self.t * b2**self.t / (1 - b2**self.t)
        after = []
        for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
            self.m[i] = b1 * self.m[i] + (1 - b1) * g
            self.v[i] = b2 * self.v[i] + (1 - b2) * g * g
            m = self.m[i] / (1 - b1**self.t)
            if rho_t > 5:
                v = torch.sqrt(self.v[i] / (1 - b2**self.t))
                r = math.sqrt((rho_t - 4) * (rho_t - 2) * rho / ((rho - 4) * (rho - 2) * rho_t))
                m = r * m / (v + self.epsilon)
            after.append(p - self.learning_rate * m)
        return after


class NaivePQN:
    """The run of `Trainer(config)` on a vector task of integer observations, without evaluations."""

    def __init__(self, config: Any, parameters: dict[str, Tensor], env: Any, nvec: list[int]) -> None:
        self.config, self.env = config, env
        self.p = {name: x.detach().clone() for name, x in parameters.items()}
        self.starts = [sum(nvec[:i]) for i in range(len(nvec))]
        learner = config.learner
        self.optimizer = RAdam(len(self.p), learner.learning_rate, learner.adam_epsilon)
        self.count = config.actor.num_envs
        self.actor_generator, self.generator = (
            np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(key,))) for key in (1, 2)
        )
        observation = env.reset()[0]
        zero = torch.zeros(config.network.width, dtype=torch.float64)
        self.timesteps: list[list[Row]] = [[] for _ in range(self.count)]
        self.now = [Row(observation[i].tolist(), 0, 0.0, True, True, False, zero) for i in range(self.count)]
        self.env_steps = 0
        self.actions: list[list[int]] = []
        self.losses: list[float] = []

    def epsilon(self) -> float:
        actor = self.config.actor
        share = min(1.0, self.env_steps / actor.epsilon_anneal_env_steps)
        return 1 + (actor.epsilon_final - 1) * share

    @torch.no_grad()
    def act(self) -> None:
        draws = self.actor_generator.random(self.count)
        anything = self.actor_generator.integers(self.env.single_action_space.n, size=self.count)
        actions, hidden = [], []
        for i, timestep in enumerate(self.now):
            q, h = step(self.p, timestep, timestep.hidden, self.starts)
            actions.append(
                int(anything[i]) if draws[i] < self.epsilon() else q.tolist().index(max(q.tolist()))
            )
            hidden.append(h)
            self.timesteps[i].append(timestep)
        self.env_steps += [timestep.last for timestep in self.now].count(False)
        self.actions.append(actions)
        observation, reward, terminated, truncated, _ = self.env.step(np.array(actions))
        self.now = [
            Row(
                observation[i].tolist(), actions[i], float(reward[i]), not terminated[i], self.now[i].last,
                bool(terminated[i] or truncated[i]), hidden[i],
            )
            for i in range(self.count)
        ]  # fmt: skip

    def window(self, copy: int) -> list[Row]:
        """The timesteps to learn from: the rollout's, the one before it, and its burn-in where that is
        learned."""
        timesteps, length = self.timesteps[copy], self.config.learner.batches.length
        start = len(timesteps) - length
        if start == 0 or timesteps[start - 1].last:
            return timesteps[start:]
        start -= 1
        before = self.config.replay.burn_in_length
        while before and not timesteps[start].first:
            start, before = start - 1, before - 1
        return timesteps[start:]

    def loss(self, p: dict[str, Tensor], copies: list[int]) -> Tensor | None:
        """None where these environments took no action in the rollout."""
        config, errors = self.config.learner, []
        for copy in copies:
            timesteps = self.window(copy)
            hidden, q = timesteps[0].hidden, []
            for timestep in timesteps:
                values, hidden = step(p, timestep, hidden, self.starts)
                q.append(values)
            returns = peng_returns(
                [config.reward_scale * timestep.reward for timestep in timesteps],
                [timestep.goes_on for timestep in timesteps],
                [timestep.last for timestep in timesteps],
                [float(values.detach().max()) for values in q],
                config.gamma,
                config.returns.q_lambda,
            )
            for t, target in enumerate(returns):
                if target is not None:
                    errors.append((target - q[t][timesteps[t + 1].prev_action]) ** 2 / 2)
        return sum(errors) / len(errors) if errors else None

    def learn(self) -> None:
        """All epochs of the rollout that has just ended."""
        config = self.config.learner
        for _ in range(config.batches.epochs):
            copies = self.generator.permutation(self.count).tolist()
            size = self.count // config.batches.minibatches
            for k in range(config.batches.minibatches):
                p = {name: x.clone().requires_grad_() for name, x in self.p.items()}
                loss = self.loss(p, copies[k * size : (k + 1) * size])
                if loss is None:
                    continue
                gradients = list(torch.autograd.grad(loss, list(p.values()), materialize_grads=True))
                size_of_all = math.sqrt(sum(float((g * g).sum()) for g in gradients))
                if size_of_all > config.max_grad_norm:
                    gradients = [g * config.max_grad_norm / (size_of_all + 1e-6) for g in gradients]
                after = self.optimizer.step(list(self.p.values()), gradients)
                self.p = dict(zip(self.p, after, strict=True))
                self.losses.append(float(loss.detach()))
