"""The memory that a run shares with its workers."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from dtqn.training.exchange import EPISODES, Exchange, shared_arrays
from dtqn.training.pool import WorkerPool
from dtqn.training.replay_fields import named
from tests.training import pools
from tests.training.pools import Here, trainer_of

here = pools.here


def test_shared_arrays_are_the_same_memory() -> None:
    forms = {
        "a": ((3, 2), np.dtype(np.float32)),
        "flag": ((5,), np.dtype(np.bool_)),
        "none": ((0,), np.dtype("i8")),
    }
    ours, descriptor = shared_arrays(forms)
    theirs, _ = shared_arrays(forms, descriptor)
    ours["a"][1] = [1.5, 2.5]
    theirs["flag"][4] = True
    assert theirs["a"].tolist() == [[0, 0], [1.5, 2.5], [0, 0]]
    assert ours["flag"].tolist() == [False] * 4 + [True]
    os.close(descriptor)
    theirs["a"][0, 0] = 7
    assert ours["a"][0, 0] == 7


def test_parameters_in_use_are_not_overwritten(here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are synced while requests are open, those that they name stay as they were."""
    monkeypatch.setattr(here, "at_once", False)
    trainer = trainer_of(2, 3)
    actor = trainer.actor
    assert isinstance(actor, WorkerPool)
    size = sum(one.numel() for one in trainer.network.parameters())
    generator = torch.Generator().manual_seed(1)
    sent = {0: torch.cat([one.flatten() for one in trainer.network.parameters()]).detach().clone()}
    for version in range(1, 40):
        values = torch.randn(size, generator=generator)
        sent[version] = values
        parts = values.split([one.numel() for one in trainer.network.parameters()])
        shaped = [part.view_as(one) for part, one in zip(parts, trainer.network.parameters(), strict=True)]
        actor.sync_weights(shaped, version)
        for member in actor._members:
            for request in member.asked:
                held = torch.cat([one.flatten() for one in actor._exchange.parameters[request.parameters]])
                assert torch.equal(held, sent[request.version])
        if version % 3:
            actor.vector_step()


def test_bytes_of_an_env_step(here: type[Here]) -> None:
    """By hand: 6 numbers of a byte, the action, reward, four flags, three Q-values, a version and memory."""
    trainer = trainer_of()
    fields = named(trainer.schema.timesteps)
    memory = 8 * 2  # one layer of width 8 in float16
    field = fields["observation"]
    observation = int(np.prod(field.shape)) * np.dtype(field.dtype).itemsize
    sizes = (int(np.prod(x.shape)) * np.dtype(x.dtype).itemsize for x in fields.values())
    ended = sum(dtype.itemsize for dtype in EPISODES.values())
    assert sum(sizes) + ended == observation + 1 + 4 + 4 + 12 + 4 + memory + (1 + 8 + 8 + 1)
    exchange = Exchange(trainer.config, trainer.network, trainer.schema)
    assert exchange.versions == exchange.vector_steps + 1 == 4
    exchange.close()
