"""Learner updates of DTQN and DRQN at their published size, beside plain torch.nn networks of that size.

    python -m benchmarks rivals

A rival has the published network, batch, loss, optimiser and passes (Esslinger et al. 2022, arXiv
2206.01078, and its public code): whole windows of 50 steps, the online network on 0..49, both networks on
1..50, a squared TD error at every step, clipping, Adam, in float32. Ours are `dtqn-paper` and `drqn-paper` on
batches of a replay that they have filled: on one thread in float32, and in bfloat16 where the processor has
it; and in float32 as a run on two cores learns, beside a rival with two threads. All take turns, chunk by
chunk; figures are medians over chunks. The floor is the time of an update's matrix products at the machine's
best rate.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.agent import Turns, flop_per_update, matrix_product, trainer_of
from benchmarks.timing import in_turns, median, median_ratio
from dtqn.training import machine

CHUNKS = 15
OURS = {"float32": {"threads": "1"}, "two cores": {"threads": "2"}}
"""Settings of each way to learn."""
if machine.has_bfloat16():  # without it such an update takes minutes
    OURS["bfloat16"] = {"threads": "1", "learner__precision": "bfloat16"}
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


def on_two_threads(update: Callable[[], None]) -> Callable[[], None]:
    """The same update by two threads of torch's."""

    def threaded() -> None:
        torch.set_num_threads(2)
        update()
        torch.set_num_threads(1)

    return threaded


def measure(seconds: float = 10.0) -> dict[str, Any]:
    """Updates of each agent and of its rival, in turns of `seconds / CHUNKS`."""
    machine.prepare()
    torch.manual_seed(0)
    rivals = {"dtqn": PlainDTQN(), "drqn": PlainDRQN()}
    actions: dict[str, Callable[[], Any]] = {}
    flop: dict[str, float] = {}
    for name, rival in rivals.items():
        for way, settings in OURS.items():
            turns = Turns(trainer_of(5_000, agent=f"{name}-paper", **settings))
            actions[f"{name} {way}"] = turns.update
            if way == "float32":  # of two processes the other one's would not be counted
                flop[name] = flop_per_update(turns)
        plain = plain_update(rival)
        actions |= {f"{name} plain": plain, f"{name} plain, two cores": on_two_threads(plain)}
    actions["product"], per_product = matrix_product()
    for action in actions.values():
        action()
    taken = in_turns(actions, seconds, CHUNKS)
    of_product = median(taken.pop("product"), per_product)["per_cpu_second"]
    return {
        "machine": machine.name(),
        "updates_per_second": {name: median(rates)["per_second"] for name, rates in taken.items()},
        "ratio_to_rival": {
            f"{name} {way}": median_ratio(taken[f"{name} {way}"], taken[_rival_of(name, way)])
            for name in rivals
            for way in OURS
        },
        "floor_ms": {name: 1000 * count / of_product for name, count in flop.items()},
    }


def _rival_of(name: str, way: str) -> str:
    return f"{name} plain, two cores" if way == "two cores" else f"{name} plain"


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    rates, floors = result["updates_per_second"], result["floor_ms"]
    lines = [
        f"{'':<16}{'ours':>12}{'plain':>12}{'floor':>12}{'ratio':>10}   ms of an update; plain over ours"
    ]
    for name, ratio in result["ratio_to_rival"].items():
        agent, way = name.split(maxsplit=1)
        ours, plain = (1000 / rates[each] for each in (name, _rival_of(agent, way)))
        lines.append(f"{name:<16}{ours:>12.1f}{plain:>12.1f}{floors[agent]:>12.1f}{ratio:>10.2f}")
    return "\n".join(lines)
