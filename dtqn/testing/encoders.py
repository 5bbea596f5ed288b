"""The promises of an encoder.

Legend: B batch, T steps of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn

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
) -> None:
    """Holds an encoder to `dtqn.networks.q_network.Encoder`: the features of a step are of that step alone.

    It runs in float32, as in a run: observations come in the dtypes of their space, and replay gives integers
    in the smallest dtype that holds them.

    Args:
        observation_space: the task's; a Discrete one of 5 without it.
        name: stands in the error.

    Raises:
        ContractError: one line that names the contract that is broken, and the largest difference.
    """
    space = observation_space or gymnasium.spaces.Discrete(5)

    def make() -> nn.Module:
        return faults.moved(
            faults.called(name, "can be made", lambda: make_encoder(config, space, num_actions)), name
        )

    with faults.seeded():
        module: Any = make()
        inputs, others = (_inputs(space, num_actions, seed) for seed in (1, 2))

        def features(given: StepInputs, module: Any = module) -> Tensor:
            return faults.called(name, "its call", lambda: module(given))

        def same(contract: str, what: str, one: Tensor, other: Tensor) -> None:
            faults.same(name, contract, what, one, other, faults.TOLERANCE[torch.float32])

        # The actor's rows and replay's are read again.
        whole = faults.unwritten(name, "a call", inputs, lambda: features(inputs))
        wanted = (faults.BATCH, faults.STEPS, config.width)
        good = tuple(whole.shape) == wanted or (
            config.soft_attention and whole.dim() == 4 and (*whole.shape[:2], whole.shape[3]) == wanted
        )
        if not good or whole.dtype != torch.float32:
            right = f"torch.float32 {wanted}, by network.width"
            raise faults.broken(
                name, faults.SHAPES, f"its features are {faults.kind(whole)}; they must be {right}"
            )
        if not bool(whole.isfinite().all()):
            raise faults.broken(name, faults.SHAPES, "its features are not finite")
        features(others)
        contract = "the features of a step are of that step alone"
        same(contract, "a first call and a later one", features(inputs), whole)
        for at in range(faults.STEPS):
            alone = features(map_tree(lambda x, at=at: x[:, at : at + 1], inputs))
            same(contract, f"step {at} alone and among others", alone, whole[:, at : at + 1])
        contract = "batch rows are independent"
        for given in (inputs, _inputs(space, num_actions, 3, faults.MANY, 2)):
            together = features(given)
            for row, beside in enumerate(together):
                alone = features(map_tree(lambda x, row=row: x[row : row + 1], given))
                same(contract, f"batch row {row} alone and beside others", alone[0], beside)
        changed = torch.where(inputs.first, (inputs.prev_action + 1) % num_actions, inputs.prev_action)
        what = "the features with one previous action and another"
        contract = "no previous action is read where an episode begins"
        same(contract, what, features(inputs._replace(prev_action=changed)), whole)
        contract = "integers of any dtype are read alike"
        same(contract, "the features of int64 and of uint8", features(map_tree(_narrow, inputs)), whole)
        gradient = faults.gradient(name, features(inputs), faults.trainable(module))
        faults.some_gradient(name, "a gradient reaches its parameters", gradient)
        faults.follows(name, module, make, lambda one: features(inputs, one), faults.TOLERANCE[torch.float32])


def _inputs(
    space: gymnasium.Space,
    num_actions: int,
    seed: int,
    batch: int = faults.BATCH,
    steps: int = faults.STEPS,
) -> StepInputs:
    """Random rows [B, T, ...], from an episode's first one on."""
    generator = torch.Generator().manual_seed(seed)
    space.seed(seed)
    samples = [space.sample() for _ in range(batch * steps)]

    def stacked(*parts: Any) -> Tensor:
        tensors = [torch.as_tensor(part) for part in parts]
        return torch.stack(tensors).view(batch, steps, *tensors[0].shape)

    first = torch.zeros(batch, steps, dtype=torch.bool)
    first[:, 0] = True
    reward = torch.randn(batch, steps, generator=generator).masked_fill(first, 0.0)
    action = torch.randint(num_actions, (batch, steps), generator=generator)
    if isinstance(space, gymnasium.spaces.Dict):
        return StepInputs(
            {key: stacked(*(sample[key] for sample in samples)) for key in space}, action, reward, first
        )
    return StepInputs(stacked(*samples), action, reward, first)


def _narrow(x: Tensor) -> Tensor:
    if x.is_floating_point() or x.dtype == torch.bool or x.min() < 0 or x.max() > 255:
        return x
    return x.to(torch.uint8)
