"""The common part of the checks of cores and encoders: sizes, calls, and what counts as a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from dtqn.settings.config import NetworkConfig
from dtqn.settings.named_code import ANY_FAULT, located
from dtqn.types import leaves, map_tree

BATCH: Final = 4
MANY: Final = 33
"""The rows of the larger batch."""
STEPS: Final = 9
TOLERANCE: Final = {torch.float64: 1e-8, torch.float32: 1e-4}
SMALL: Final = NetworkConfig(
    width=8,
    num_layers=2,
    num_heads=2,
    mlp_width=12,
    memory_length=5,
    embedding_width=3,
    head_width=6,
)
"""The settings of the modules that are made where none are given."""
SHAPES: Final = "shapes and dtypes"
_LEFT_ALONE: Final = "a call leaves its arguments alone"


class ContractError(AssertionError):
    """A core or encoder breaks a promise; one line says which."""


@contextmanager
def seeded() -> Iterator[None]:
    """Draws of torch's global generator from one seed; it goes on afterwards as if there had been none."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def moved(module: Any, name: str) -> Any:
    if not isinstance(module, nn.Module):
        raise broken(name, "can be made", f"it made a {type(module).__name__}; it must be a torch.nn.Module")
    with torch.no_grad():
        for path, parameter in module.named_parameters():
            if not parameter.is_floating_point():
                problem = f"{path} is of {parameter.dtype}; what is not of a floating type must be a buffer"
                raise broken(name, "can be made", problem)
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return module


def called(name: str, what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ContractError:
        raise
    except ANY_FAULT as error:  # whatever a user's class raises
        raise broken(name, SHAPES, f"{what} failed: {located(error)}") from error


def unwritten(name: str, what: str, arguments: Any, call: Callable[[], Any]) -> Any:
    """The result of a call, which must leave the tree of its arguments as it was."""
    kept = leaves(map_tree(torch.clone, arguments))
    result = call()
    for path, leaf in leaves(arguments).items():
        same(name, _LEFT_ALONE, f"{path} before and after {what}", leaf, kept[path], 0.0)
    return result


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def gradient(name: str, output: Tensor, of: Sequence[Tensor]) -> Sequence[Tensor]:
    """That of some function of the output; 0 of what it does not depend on."""
    if not of or not output.requires_grad:
        return [torch.zeros_like(one) for one in of]
    loss = output.sin().sum()
    return called(
        name,
        "its gradient",
        lambda: torch.autograd.grad(loss, of, allow_unused=True, materialize_grads=True),
    )


def some_gradient(name: str, contract: str, gradient: Sequence[Tensor]) -> None:
    if gradient and not any(bool(one.any()) for one in gradient):
        problem = "none reaches any parameter; what is not to learn must be frozen (requires_grad_(False))"
        raise broken(name, contract, problem)


def follows(
    name: str,
    module: nn.Module,
    make: Callable[[], nn.Module],
    output: Callable[[nn.Module], Tensor],
    tolerance: float,
) -> None:
    """The actor and the target network are given the learner's parameters, and must then be its function."""
    contract = "the output follows the parameters"
    first = output(module)
    other = make()
    output(other)  # what it keeps of its first call must not outlive its parameters
    what = "the outputs of one before and after another was made and called"
    same(name, contract, what, output(module), first, tolerance)
    called(name, "loading the state_dict of another", lambda: other.load_state_dict(module.state_dict()))
    what = "the outputs of one and of another that has loaded its state_dict"
    same(name, contract, what, output(other), first, tolerance)
    moved(module, name)
    if any(True for _ in module.parameters()) and _difference(output(module), first) < tolerance / 100:
        raise broken(name, contract, "its parameters have changed, and its output has not")


def same(name: str, contract: str, what: str, one: Tensor, other: Tensor, tolerance: float) -> None:
    """A `ContractError` unless both are alike, relative to the larger of 1 and their largest number."""
    if one.shape != other.shape:
        raise broken(name, contract, f"{what}: the shapes are {tuple(one.shape)} and {tuple(other.shape)}")
    if one.numel() == 0:
        return
    difference = _difference(one, other)
    if difference > tolerance * max(1.0, float(other.detach().double().abs().max())):
        raise broken(name, contract, f"{what} differ (by {difference:.2g} at most)")


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest; infinite where there is none to tell."""
    difference = (one.detach().double() - other.detach().double()).abs().max()
    return float(difference.nan_to_num(nan=float("inf")))


def broken(name: str, contract: str, problem: str) -> ContractError:
    return ContractError(" ".join(f"{name} breaks the contract '{contract}': {problem}".split()))


def kind(x: Any) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
