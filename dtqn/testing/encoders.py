"""The promises of an encoder.

Legend: B batch, T steps of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from torch import Tensor

from dtqn.networks.q_network import Encoder
from dtqn.settings.config import NetworkConfig
from dtqn.testing import faults
from dtqn.testing.faults import SMALL
from dtqn.types import StepInputs, map_tree


def check_encoder(
    make_encoder: Callable[[NetworkConfig, gymnasium.Space, int], Encoder],
    config: NetworkConfig = SMALL,
    observation_space: gymnasium.Space | None = None,
    num_actions: int = 3,
    name: str = "make_encoder",
    say: Callable[[str], object] = print,
) -> None:
    """Holds an encoder to `dtqn.networks.q_network.Encoder`: the features of a step are of that step alone.

    It runs in float32, as in a run: observations come in the dtypes of their space, and replay gives integers
    in the smallest dtype that holds them.

    Args:
        observation_space: the task's; a Discrete one of 5 without it.
        name: stands in the error.
        say: as of `check_core`.

    Raises:
        ContractError: one line that names the contract that is broken, and the largest difference.
    """
    space = observation_space or gymnasium.spaces.Discrete(5)
    with faults.seeded():
        encoder = _Encoder(make_encoder, config, space, num_actions, name)
        with encoder.told(say):
            encoder.hold(_PROMISES)


class _Encoder(faults.Subject):
    """An encoder under test, and what it is called with."""

    def __init__(
        self, make: Any, config: NetworkConfig, space: gymnasium.Space, num_actions: int, name: str
    ) -> None:
        super().__init__(lambda: make(config, space, num_actions), name, torch.float32, faults.BATCH)
        self.config, self.space, self.num_actions = config, space, num_actions
        self.inputs, self.others = (self.steps(seed) for seed in (1, 2))

    def features(self, given: StepInputs, module: Any = None) -> Tensor:
        """[B, T, D] or [B, T, P, D] by the encoder, or by another module."""
        features: Tensor = self.called("its call", lambda: (module or self.module)(given))
        return features

    def steps(self, seed: int, batch: int = faults.BATCH, steps: int = faults.STEPS) -> StepInputs:
        """Random timesteps [B, T, ...], from an episode's first one on."""
        generator = torch.Generator().manual_seed(seed)
        self.space.seed(seed)
        samples = [self.space.sample() for _ in range(batch * steps)]

        def stacked(*parts: Any) -> Tensor:
            tensors = [torch.as_tensor(part) for part in parts]
            return torch.stack(tensors).view(batch, steps, *tensors[0].shape)

        first = torch.zeros(batch, steps, dtype=torch.bool)
        first[:, 0] = True
        reward = torch.randn(batch, steps, generator=generator).masked_fill(first, 0.0)
        action = torch.randint(self.num_actions, (batch, steps), generator=generator)
        return StepInputs(map_tree(stacked, *samples), action, reward, first)


def _inputs_are_left_alone(encoder: _Encoder) -> None:
    """The actor's timesteps and replay's are read again."""
    encoder.unwritten("a call", encoder.inputs, lambda: encoder.features(encoder.inputs))


def _shapes_and_dtypes(encoder: _Encoder) -> None:
    whole = encoder.features(encoder.inputs)
    wanted = (faults.BATCH, faults.STEPS, encoder.config.width)
    has_parts = encoder.config.encoder.gives_parts and whole.dim() == 4
    shape = (*whole.shape[:2], *whole.shape[3 if has_parts else 2 :])
    right = f"its features are {faults.kind(whole)}; they must be torch.float32 {wanted}, by network.width"
    encoder.must(shape == wanted and whole.dtype == torch.float32, right)
    encoder.must(bool(whole.isfinite().all()), "its features are not finite")


def _steps(encoder: _Encoder) -> None:
    whole = encoder.features(encoder.inputs)
    encoder.features(encoder.others)
    encoder.same("a first call and a later one", encoder.features(encoder.inputs), whole)
    for at in range(faults.STEPS):
        alone = encoder.features(map_tree(lambda x, at=at: x[:, at : at + 1], encoder.inputs))
        encoder.same(f"step {at} alone and among others", alone, whole[:, at : at + 1])


def _batch_elements(encoder: _Encoder) -> None:
    for given in (encoder.inputs, encoder.steps(3, faults.MANY, 2)):
        for i, beside in enumerate(encoder.features(given)):
            alone = encoder.features(map_tree(lambda x, i=i: x[i : i + 1], given))
            encoder.same(f"batch element {i} alone and among others", alone[0], beside)


def _first_action(encoder: _Encoder) -> None:
    own = encoder.inputs
    changed = torch.where(own.first, (own.prev_action + 1) % encoder.num_actions, own.prev_action)
    other = encoder.features(own._replace(prev_action=changed))
    encoder.same("the features with one previous action and another", other, encoder.features(own))


def _dtypes(encoder: _Encoder) -> None:
    narrow = encoder.features(map_tree(_narrow, encoder.inputs))
    encoder.same("the features of int64 and of uint8", narrow, encoder.features(encoder.inputs))


def _narrow(x: Tensor) -> Tensor:
    if x.is_floating_point() or x.dtype == torch.bool or x.min() < 0 or x.max() > 255:
        return x
    return x.to(torch.uint8)


def _gradient_arrives(encoder: _Encoder) -> None:
    encoder.some_gradient(encoder.gradient(encoder.features(encoder.inputs), encoder.trainable))


def _parameters_are_followed(encoder: _Encoder) -> None:
    encoder.follows(lambda module: encoder.features(encoder.inputs, module))


_PROMISES = (
    (faults.LEFT_ALONE, _inputs_are_left_alone),
    (faults.SHAPES, _shapes_and_dtypes),
    ("the features of a step are of that step alone", _steps),
    (faults.BATCH_ELEMENTS, _batch_elements),
    ("no previous action is read where an episode begins", _first_action),
    ("integers of any dtype are read alike", _dtypes),
    ("a gradient reaches its parameters", _gradient_arrives),
    (faults.FOLLOWS, _parameters_are_followed),
)
"""By their contracts."""
