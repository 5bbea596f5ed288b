"""Small modules, of which a test names the arguments that it is about, and what their tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn

from dtqn.learning.predictions import Expectation
from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.encoders import ObservationEncoder, StepEncoder, observation_encoder
from dtqn.networks.gates import LayerSettings
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.heads import DuelingHead, QHead
from dtqn.networks.rnn import GRULayer, LSTMLayer
from dtqn.types import QOutput, StepInputs

SMALL_LAYER = {"width": 8, "num_heads": 2, "mlp_width": 12, "gate_bias": None}
GATES = ["gru", "output", "input", "highway", "sigtanh", "residual"]


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients_of(loss: Tensor, module: nn.Module, *inputs: Tensor) -> dict[str, Tensor]:
    """Of inputs and of every parameter, by name; 0 where there is none."""
    named = {f"input {i}": x for i, x in enumerate(inputs)} | dict(module.named_parameters())
    wanted = list(named.values())
    found = torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
    return dict(zip(named, found, strict=True))


def assert_close(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    for name, gradient in one.items():
        torch.testing.assert_close(
            gradient, other[name], rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )


def assert_same_gradients(module: nn.Module, one: Tensor, other: Tensor, *inputs: Tensor) -> None:
    assert_close(*(gradients_of(x, module, *inputs) for x in (one, other)))


class Observe(nn.Module):
    """In place of an encoder: features in, features out."""

    def forward(self, inputs: StepInputs) -> Tensor:
        return inputs.observation


class Show(nn.Module):
    """In place of a head."""

    def forward(self, features: Tensor) -> QOutput:
        return QOutput(features)


def timesteps(features: Tensor) -> StepInputs:
    """What `Observe` reads."""
    nothing = torch.zeros(features.shape[:2])
    return StepInputs(features, nothing.long(), nothing, nothing.bool())


def of_layers(kind: Callable[..., Any], given: dict[str, Any]) -> Any:
    """A transformer, whose layers' common settings are among those that are given."""
    return kind(LayerSettings(**{name: given.pop(name) for name in LayerSettings._fields}), **given)


def gtrxl(**given: Any) -> GTrXL:
    layer = SMALL_LAYER | {"gate": "gru", "norm": "pre"}
    sizes = {"num_layers": 2, "memory_length": 4, "span_ramp": None, "compression": None}
    return of_layers(GTrXL, layer | sizes | given)


def decoder(**given: Any) -> TransformerDecoder:
    layer = SMALL_LAYER | {"gate": "residual", "norm": "post"}
    sizes = {"num_layers": 2, "context_length": 4, "positions": "learned"}
    return of_layers(TransformerDecoder, layer | sizes | {"share_gates": False, "final_norm": False} | given)


def step_encoder(space: gymnasium.Space, **given: Any) -> StepEncoder:
    sizes = {"num_actions": 3, "width": 8, "embedding_width": 4}
    options = {"use_prev_action": True, "use_prev_reward": False, "image_encoder": "nature"}
    layers = {"num_layers": 0}
    return StepEncoder(observation_space=space, **(sizes | options | layers | given))


def encoder(
    space: gymnasium.Space, embedding_width: int = 4, image_encoder: Any = "nature"
) -> ObservationEncoder:
    return observation_encoder(space, embedding_width=embedding_width, image_encoder=image_encoder)


def head(kind: type[QHead | DuelingHead], hidden_width: int, **given: Any) -> QHead | DuelingHead:
    sizes = {"width": 4, "num_actions": 3, "hidden_width": hidden_width}
    return kind(**(sizes | {"prediction": Expectation()} | given))


def lstm_layer(
    width: int, skip: bool = False, longest: int | None = None, orthogonal: bool = False
) -> LSTMLayer:
    return LSTMLayer(width=width, skip=skip, longest=longest, orthogonal=orthogonal)


def gru_layer(
    width: int, skip: bool = False, longest: int | None = None, orthogonal: bool = False
) -> GRULayer:
    return GRULayer(width=width, skip=skip, longest=longest, orthogonal=orthogonal)
