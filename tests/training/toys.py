"""Trainers of the toy task (`tests.toy`), in the precision that a test compares in."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import envs
from dtqn import networks
from dtqn.settings.config import Config
from dtqn.training import setup
from dtqn.training.replay_fields import Schema
from tests import toy
from tests.cases import randomise


def play_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever task is asked for is the toy one."""
    spec = SimpleNamespace(
        id="toy",
        observation_space=toy.OBSERVATION_SPACE,
        action_space=toy.ACTION_SPACE,
        has_success=True,
        time_limit=toy.MAX_LENGTH,
    )
    monkeypatch.setattr(envs, "spec", lambda _, **__: spec)
    monkeypatch.setattr(envs, "make_vector", lambda _, num_envs, seed, **__: toy.ToyVectorEnv(num_envs))


def compute_in(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, memory_dtype: str, scale: float) -> None:
    """Networks of this precision, with random parameters of this scale; replay stores memory in its own."""
    make_schema = setup.make_schema

    def make_network(config: Config) -> nn.Module:
        task = envs.spec(config.env)
        torch.manual_seed(0)
        built = networks.build(config.network, task.observation_space, int(task.action_space.n))
        return randomise(built.to(dtype), scale=scale)

    def schema_of(config: Config, network: nn.Module) -> Schema:
        schema = make_schema(config, network)
        kind = np.dtype(memory_dtype)
        schema.fields = {
            name: dataclasses.replace(field, dtype=kind) if field.block == "memory" else field
            for name, field in schema.fields.items()
        }
        return schema

    monkeypatch.setattr(setup, "make_network", make_network)
    monkeypatch.setattr(setup, "make_schema", schema_of)
