"""Small networks with parameters drawn at random, and inputs for them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from dtqn import networks
from dtqn.choices.cores import CORES
from dtqn.settings import layers
from dtqn.settings.config import ActorConfig, Config, LearnerConfig, NetworkConfig
from dtqn.settings.layers import fitted, flat, merge, nested
from dtqn.settings.values import is_own
from dtqn.types import StepInputs

NUM_ACTIONS = 3
SPACES: dict[str, gymnasium.Space] = {
    "discrete": gymnasium.spaces.Discrete(5, start=2),
    "multi_discrete": gymnasium.spaces.MultiDiscrete([3, 4, 2]),
    "multi_binary": gymnasium.spaces.MultiBinary(3),
    "box": gymnasium.spaces.Box(-1, 1, (3,), np.float32),
}
SMALL: dict[str, Any] = {
    "width": 8, "num_layers": 2, "num_heads": 2, "mlp_width": 12, "memory_length": 5, "head_width": 6,
    "embedding_width": 3, "context_length": 5,
}  # fmt: skip
PRESETS = sorted(path.stem for path in (layers.CONFIGS / "agents").glob("*.yaml"))
"""The suite's agents."""
OURS: dict[str, Any] = {name: core for name, core in CORES.by_name.items() if not is_own(name)}
"""The settings of each core of the suite."""
REGISTERED: dict[str, dict[str, Any]] = {
    name: {"core": name} for name, core in OURS.items() if not core.is_windowed
}
"""Every core of the suite that carries a state, as it is by default."""
CASES: dict[str, dict[str, Any]] = {
    "gru": {"space": "multi_discrete"},
    "gru-post-nothing_before": {"norm": "post", "use_prev_action": False, "space": "discrete"},
    "output-plain": {"gate": "output", "dueling": False, "space": "box"},
    "output-post-M1": {"gate": "output", "norm": "post", "memory_length": 1, "space": "multi_binary"},
    "input-reward-M12": {"gate": "input", "use_prev_reward": True, "memory_length": 12, "space": "box"},
    "input-post": {"gate": "input", "norm": "post", "space": "discrete"},
    "highway-M0": {"gate": "highway", "memory_length": 0, "use_prev_reward": True, "space": "multi_discrete"},
    "highway-post-linear_head": {"gate": "highway", "norm": "post", "head_width": 0, "space": "box"},
    "sigtanh-M1": {"gate": "sigtanh", "memory_length": 1, "space": "discrete"},
    "sigtanh-post-M12": {"gate": "sigtanh", "norm": "post", "memory_length": 12, "space": "multi_binary"},
    "residual-one_layer": {"gate": "residual", "num_layers": 1, "space": "multi_discrete"},
    "residual-post-M0": {"gate": "residual", "norm": "post", "memory_length": 0, "space": "box"},
    "residual-none": {"gate": "residual", "norm": "none", "space": "box"},
    "coberl-M0": {"core": "coberl", "memory_length": 0, "num_layers": 1, "space": "multi_discrete"},
    "span-M12": {"adaptive_span": True, "memory_length": 12, "norm": "post", "space": "box"},
    "compressed": {"compressed_slots": 2, "memory_length": 4, "space": "discrete"},
    "compressed-post": {"compressed_slots": 1, "norm": "post", "space": "box"},
}
"""Every gate with both norms; every value of the other settings; what is built on GTrXL."""
WINDOWED: dict[str, dict[str, Any]] = {
    name: {"core": "dtqn"} | case
    for name, case in {
        "window": {"space": "multi_discrete", "norm": "post", "gate": "residual"},
        "window-pre-sinusoidal": {"space": "box", "positions": "sinusoidal", "use_prev_reward": True},
        "window-none-K8": {"space": "discrete", "positions": "none", "context_length": 8, "gate": "output"},
        "window-attn": {"space": "box", "norm": "none", "gate": "residual", "num_layers": 1, "head_width": 0},
        "window-shared": {"space": "box", "gate": "gru", "share_gates": True, "final_norm": True},
        "window-K1": {"space": "multi_binary", "context_length": 1, "norm": "post"},
        "window-K12": {"space": "discrete", "context_length": 12, "num_layers": 1},
    }.items()
}


def group(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A group's settings from the names that are within it, or were before choices had their own.

    What nothing chosen has is left out; mappings lie over the others.
    """
    plain = {f"{name}.{key}": value for key, value in settings.items() if not isinstance(value, dict)}
    others = {f"{name}.{key}": value for key, value in settings.items() if isinstance(value, dict)}
    values: dict[str, Any] = nested(fitted(merge(flat(plain), flat(others))))
    return values.get(name, {})


def config_from(values: dict[str, Any]) -> Config:
    """A run with these settings, by group, as `group` reads them."""
    return Config.model_validate(nested(fitted(flat(values))))


def network_config(**settings: Any) -> NetworkConfig:
    return NetworkConfig(**group("network", settings))


def learner_config(**settings: Any) -> LearnerConfig:
    return LearnerConfig(**group("learner", settings))


def actor_config(**settings: Any) -> ActorConfig:
    return ActorConfig(**group("actor", settings))


def randomise(module: nn.Module, seed: int = 0, scale: float = 0.3) -> nn.Module:
    """Move every parameter off its initial value, so that none hides behind a zero or a one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter += scale * drawn.to(parameter.device)
    return module


def make(space: str | gymnasium.Space = "box", seed: int = 0, **settings: Any) -> nn.Module:
    """A small float64 Q-network with random parameters."""
    torch.manual_seed(seed)
    observed = SPACES[space] if isinstance(space, str) else space
    network = networks.build(network_config(**(SMALL | settings)), observed, NUM_ACTIONS)
    return randomise(network.double(), seed)


def observations(space: str, shape: tuple[int, ...], generator: np.random.Generator) -> torch.Tensor:
    """Random observations [*shape, ...] of one of SPACES."""
    match space:
        case "discrete":
            values = generator.integers(2, 7, size=shape)
        case "multi_discrete":
            values = generator.integers([3, 4, 2], size=(*shape, 3))
        case "multi_binary":
            values = generator.integers(0, 2, size=(*shape, 3)).astype(np.int8)
        case _:
            values = generator.normal(size=(*shape, 3))
    return torch.from_numpy(values)


def another(space: str, observation: torch.Tensor) -> torch.Tensor:
    """A legal observation that differs from this one in every component."""
    match space:
        case "discrete":
            return (observation - 1) % 5 + 2
        case "multi_discrete":
            return (observation + 1) % torch.tensor([3, 4, 2])
        case "multi_binary":
            return 1 - observation
    return observation + 1


def inputs(space: str, batch: int, steps: int, seed: int = 0, first: bool = True) -> StepInputs:
    """Random timesteps [B, T, ...] of one episode each, from its first timestep on unless `first` is
    False."""
    generator = np.random.default_rng(seed)
    begins = torch.zeros(batch, steps, dtype=torch.bool)
    begins[:, :1] = first
    reward = torch.from_numpy(generator.normal(size=(batch, steps)))
    action = torch.from_numpy(generator.integers(NUM_ACTIONS, size=(batch, steps)))
    return StepInputs(
        observations(space, (batch, steps), generator), action, reward.masked_fill(begins, 0.0), begins
    )


def part(timesteps: StepInputs, start: int, stop: int) -> StepInputs:
    """Timesteps start..stop-1 of every sequence."""
    return StepInputs(*(x[:, start:stop] for x in timesteps))
