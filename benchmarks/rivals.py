"""Learner updates of DTQN and DRQN at their published size, beside plain torch.nn networks of that size.

    python -m benchmarks rivals

One process, one thread. A rival has the published network, batch, loss, optimiser and passes (Esslinger et
al. 2022, arXiv 2206.01078, and its public code): whole windows of 50 steps, the online network on 0..49, both
networks on 1..50, a squared TD error at every step, clipping, Adam, in float32. Ours are
`dtqn-paper` and `drqn-paper` on batches of a replay that they have filled, once in float32 and once in
bfloat16 (`learner.precision`). All take turns, chunk by chunk; figures are medians over chunks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.agent import Turns, trainer_of
from benchmarks.timing import in_turns, median, median_ratio
from dtqn.training import machine

CHUNKS = 15
PRECISIONS = ("float32", "bfloat16")
BATCH, WINDOW, CELLS, VALUES, ACTIONS = 32, 50, 6, 23, 6
EMBEDDING, WIDTH, HEADS, MLP, LAYERS = 8, 128, 8, 512, 2


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VALUES, EMBEDDING)
        self.join = nn.Linear(CELLS * EMBEDDING, WIDTH)

    def forward(self, observation: Tensor) -> Tensor:
        features: Tensor = self.join(self.embedding(observation).flatten(2))
        return features


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, MLP), nn.ReLU(), nn.Linear(MLP, WIDTH))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y, _ = self.attention(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
        x = self.norms[0](x + F.relu(y))
        normed: Tensor = self.norms[1](x + F.relu(self.mlp(x)))
        return normed


class PlainDTQN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.positions = nn.Parameter(torch.zeros(WINDOW, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = _head()
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(WINDOW))

    def forward(self, observation: Tensor) -> Tensor:
        x = self.encoder(observation) + self.positions
        for layer in self.layers:
            x = layer(x, self.get_buffer("mask"))
        q: Tensor = self.head(self.norm(x))
        return q


class PlainDRQN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.lstm, self.head = Encoder(), nn.LSTM(WIDTH, WIDTH, batch_first=True), _head()

    def forward(self, observation: Tensor) -> Tensor:
        q: Tensor = self.head(self.lstm(self.encoder(observation))[0])
        return q


def _head() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, ACTIONS))


def plain_update(online: nn.Module) -> Callable[[], None]:
    """One update of a network on random windows."""
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-4)
    observation = torch.randint(0, VALUES, (BATCH, WINDOW + 1, CELLS))
    action = torch.randint(0, ACTIONS, (BATCH, WINDOW, 1))
    reward, discount = torch.randn(BATCH, WINDOW), torch.full((BATCH, WINDOW), 0.99)

    def update() -> None:
        q = online(observation[:, :-1]).gather(2, action).squeeze(2)
        with torch.no_grad():
            best = online(observation[:, 1:]).argmax(dim=2, keepdim=True)
            value = target(observation[:, 1:]).gather(2, best).squeeze(2)
        loss = F.mse_loss(q, reward + discount * value)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 1.0)
        optimizer.step()

    return update


def measure(seconds: float = 10.0) -> dict[str, Any]:
    """Updates of each agent and of its rival, in turns of `seconds / CHUNKS`."""
    machine.prepare()
    torch.manual_seed(0)
    rivals = {"dtqn": PlainDTQN(), "drqn": PlainDRQN()}
    actions: dict[str, Callable[[], None]] = {}
    for name, rival in rivals.items():
        for precision in PRECISIONS:
            settings = {"learner__precision": precision}
            trainer = trainer_of(5_000, agent=f"{name}-paper", **settings)
            actions[f"{name} {precision}"] = Turns(trainer).update
        actions[f"{name} plain"] = plain_update(rival)
    for action in actions.values():
        action()
    taken = in_turns(actions, seconds, CHUNKS)
    ratios = {
        f"{name} {precision}": median_ratio(taken[f"{name} {precision}"], taken[f"{name} plain"])
        for name in rivals
        for precision in PRECISIONS
    }
    return {
        "updates_per_cpu_second": {name: median(rates)["per_cpu_second"] for name, rates in taken.items()},
        "ratio_to_rival": ratios,
        "parameters_of_rival": {
            name: sum(p.numel() for p in rival.parameters()) for name, rival in rivals.items()
        },
    }


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    figures = result["updates_per_cpu_second"]
    lines = [f"{'':<16}{'ours':>12}{'plain':>12}{'ratio':>10}   updates per CPU second"]
    for name, ratio in result["ratio_to_rival"].items():
        plain = figures[f"{name.split()[0]} plain"]
        lines.append(f"{name:<16}{figures[name]:>12.1f}{plain:>12.1f}{ratio:>10.2f}")
    return "\n".join(lines)
