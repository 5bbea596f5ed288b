"""DTQN's bag against its twin: what is in it after each step, and the Q-values that it gives."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dtqn import networks
from dtqn.learning.batches import take
from dtqn.networks.bag import Bag, BagAttention, BagQNetwork
from dtqn.settings.config import Config, NetworkConfig
from dtqn.types import QOutput, StepInputs
from tests.cases import make, randomise
from tests.learning.batches import Shape, make_batch
from tests.networks import modules
from tests.networks.parameters import decoder_parameters
from tests.reference.bag_twin import attend, episode
from tests.reference.decoder_twin import decoder

WIDTH, HEADS, K, ACTIONS = 8, 2, 3, 4


class Observe(nn.Linear):
    def forward(self, inputs: StepInputs) -> Tensor:
        return super().forward(inputs.observation)


class Head(nn.Linear):
    def forward(self, features: Tensor) -> QOutput:
        return QOutput(super().forward(features))


def bare(bag_size: int) -> BagQNetwork:
    torch.manual_seed(0)
    core = modules.decoder(num_layers=1, context_length=K).double()
    space = gymnasium.spaces.Box(-1, 1, (WIDTH,), np.float64)
    head = Head(2 * WIDTH, ACTIONS).double()
    network = BagQNetwork(
        attention=BagAttention(width=WIDTH, num_heads=HEADS).double(),
        encoder=Observe(WIDTH, WIDTH).double(),
        decoder=core,
        head=head,
        observation_space=space,
        bag_size=bag_size,
    )
    return randomise(network)  # type: ignore[return-value]


def rows(features: Tensor) -> StepInputs:
    nothing = torch.zeros(features.shape[:2])
    return StepInputs(features, nothing.long(), nothing, nothing.bool())


def settings_of(network: BagQNetwork) -> tuple[Any, ...]:
    layers = [decoder_parameters("residual", layer) for layer in network.decoder.layers]
    names = {"q": "query", "k": "key", "v": "value", "O": "output"}
    attention = {}
    for short, name in names.items():
        linear = getattr(network.attention, name)
        attention |= {f"W_{short}": linear.weight, f"b_{short}": linear.bias}

    def decode(window: Tensor) -> Tensor:
        return decoder(window, layers, HEADS, network.decoder.positions, "post", "residual")

    def head(features: Tensor) -> Tensor:
        return network.head.weight @ features + network.head.bias

    return decode, head, attention, HEADS


@pytest.mark.parametrize("bag_size", [1, 2, 4])
def test_twin(bag_size: int) -> None:
    """Gradients too: rows in the bag are read anew at each step, so the encoder's has a part of theirs."""
    network = bare(bag_size)
    generator = torch.Generator().manual_seed(1)
    seen, weights = torch.randn(2, 3, 12, WIDTH, generator=generator, dtype=torch.float64)
    output, _, trace = network(rows(seen), network.initial_state(3))
    kept, changed, q = 0, 0, []
    for b in range(3):
        features = network.encoder(rows(seen[b]))
        expected, bags = episode(features, K, bag_size, *settings_of(network))
        q.append(torch.stack(expected))
        torch.testing.assert_close(output.q[b], q[-1], rtol=0, atol=1e-9)
        for t, bag in enumerate(bags):
            assert trace.bag.size[b, t] == len(bag) == min(bag_size, max(0, t + 1 - K))
            assert torch.equal(trace.bag.rows.observation[b, t, : len(bag)], seen[b, bag])
            if t and len(bags[t - 1]) == bag_size:
                kept, changed = kept + (bag == bags[t - 1]), changed + (bag != bags[t - 1])
    assert kept > 2 and changed > 2  # both were chosen
    named = dict(network.named_parameters())
    gradients = [
        torch.autograd.grad((values * weights[..., :ACTIONS]).sum(), list(named.values()))
        for values in (output.q, torch.stack(q))
    ]
    # A key's bias adds the same to all scores; a bag of one row has no second score to weigh against it.
    without = ("attention.key.bias",) if bag_size > 1 else ("attention.key.", "attention.query.")
    for name, one, other in zip(named, *gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, msg=name)
        assert one.abs().max() > 1e-9 or name.startswith(without)


def test_a_window_reads_one_bag_at_all_its_positions() -> None:
    """Places beyond its size, with large numbers in them, are not seen."""
    network = bare(3).requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    seen, content = torch.randn(2, 2, K, WIDTH, generator=generator, dtype=torch.float64)
    decode, head, attention, heads = settings_of(network)
    for size in range(4):
        dirty = content.clone()
        dirty[:, size:] = 1e30
        q = network.window(rows(seen), bag=Bag(rows(dirty), torch.full((2,), size))).q
        for b in range(2):
            bag = list(network.encoder(rows(content[b]))[:size])
            for t, x in enumerate(decode(network.encoder(rows(seen[b])))):
                read = attend(x, bag, attention, heads)
                torch.testing.assert_close(q[b, t], head(torch.cat([x, read])), rtol=0, atol=1e-9)
        if size == 0:
            assert torch.equal(q, network.window(rows(seen)).q)


def test_it_is_built_with_its_own_head() -> None:
    space = gymnasium.spaces.MultiDiscrete([21] * 6)
    sizes = {"core": "dtqn", "width": 16, "num_heads": 2, "head_width": 8, "dueling": False}
    plain, bagged = (networks.build(NetworkConfig(**sizes, bag_size=n), space, 6) for n in (0, 5))
    count = [sum(p.numel() for p in network.parameters()) for network in (plain, bagged)]
    assert count[1] - count[0] == 4 * (16 * 16 + 16) + 16 * 8  # the attention, and the head's wider input
    assert {name: (field.shape, field.window) for name, field in bagged.trace_spec().items()} == {
        "bag/rows/observation": ((5, 6), 0), "bag/rows/prev_action": ((5,), 0),
        "bag/rows/reward": ((5,), 0), "bag/rows/first": ((5,), 0), "bag/size": ((), 0),
    }  # fmt: skip


def test_what_has_no_bag_is_refused() -> None:
    space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(3)})
    with pytest.raises(ValueError, match=r"bag_size is 2, but no bag is made of a Dict.*try 0"):
        networks.build(NetworkConfig(core="dtqn", bag_size=2), space, 3)
    with pytest.raises(ValueError, match=r"learn_burn_in is true with network\.bag_size 2"):
        Config.model_validate(
            {
                "network": {"core": "dtqn", "bag_size": 2},
                "replay": {"learn_length": 10, "burn_in_length": 40, "learn_burn_in": True},
            }
        )


def test_a_part_of_a_batch_has_its_own_bags() -> None:
    network = make("box", core="dtqn", context_length=4, bag_size=2).requires_grad_(False)
    shapes = (Shape(0, 2, 5), Shape(0, 1, 2), Shape(0, 2, 3), Shape(0, 0, 4))
    batch = make_batch(network, "box", shapes, learn_length=2)
    whole = network.learn_values(batch)[0].q
    members = torch.tensor([1, 2])
    part = network.learn_values(take(batch, members))[0].q
    for b, of_batch in zip(part, members, strict=True):
        rows = shapes[of_batch].learn
        torch.testing.assert_close(b[:rows], whole[of_batch, :rows], rtol=0, atol=1e-12)
    emptied = batch._replace(beside=batch.beside | {"bag/size": torch.zeros_like(batch.beside["bag/size"])})
    assert (network.learn_values(emptied)[0].q - whole).abs().max() > 1e-3


def test_a_core_without_a_bag_reads_no_size_of_one() -> None:
    space = gymnasium.spaces.Discrete(5)
    sizes = [
        sum(
            p.numel()
            for p in networks.build(NetworkConfig(core="lstm", bag_size=size), space, 3).parameters()
        )
        for size in (0, 4)
    ]
    assert sizes[0] == sizes[1]
