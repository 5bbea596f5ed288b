"""The common part of the checks of cores and encoders: sizes, calls, and what counts as a fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from dtqn.choices import cores, encoders
from dtqn.settings.config import NetworkConfig
from dtqn.settings.named_code import ANY_FAULT, located
from dtqn.text import columns
from dtqn.types import leaves, map_tree

BATCH: Final = 4
MANY: Final = 33
"""The elements of the larger batch."""
STEPS: Final = 9
TOLERANCE: Final = {torch.float64: 1e-8, torch.float32: 1e-4}
SMALL: Final = NetworkConfig(
    core=cores.GTrXL(num_layers=2, num_heads=2, mlp_width=12, memory_length=5),
    width=8,
    encoder=encoders.StepEncoder(embedding_width=3),
    head_width=6,
)
"""The settings of the modules that are made where none are given."""
MADE: Final = "can be made"
SHAPES: Final = "shapes and dtypes"
LEFT_ALONE: Final = "a call leaves its arguments alone"
FOLLOWS: Final = "the output follows the parameters"
BATCH_ELEMENTS: Final = "batch elements are independent"


class ContractError(AssertionError):
    """A core or encoder breaks a promise; one line says which."""


@contextmanager
def seeded() -> Iterator[None]:
    """Draws of torch's global generator from one seed; it goes on afterwards as if there had been none."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


class Subject:
    """A module under test.

    Its parameters are moved a little, so that none hides behind an initial zero.
    """

    def __init__(self, make: Callable[[], Any], name: str, dtype: torch.dtype, batch: int) -> None:
        """
        Args:
            make: gives a module with parameters of its own each time.
            name: stands in the error.
            batch: the size of its calls' batches.
        """
        self.name, self.dtype, self.tolerance, self.batch = name, dtype, TOLERANCE[dtype], batch
        self.contract = MADE
        """The promise that is looked at."""
        self.figures: dict[str, tuple[float, str]] = {}
        """By promise, the largest difference as a share of the one that is allowed, and both in words."""
        self._make = make
        self.module: Any = self.another()

    def another(self) -> Any:
        """One with parameters of its own. In float32 it is as a run makes it: a cast would mend constants."""
        module = self.called("it", self._make)
        if not isinstance(module, nn.Module):
            raise self.broken(f"it made a {type(module).__name__}; it must be a torch.nn.Module")
        self._move(module)
        return module if self.dtype == torch.float32 else module.to(self.dtype)

    def _move(self, module: nn.Module) -> None:
        with torch.no_grad():
            for path, parameter in module.named_parameters():
                if not parameter.is_floating_point():
                    problem = (
                        f"{path} is of {parameter.dtype}; what is not of a floating type must be a buffer"
                    )
                    raise self.broken(problem, MADE)
                parameter.add_(torch.randn_like(parameter), alpha=0.05)

    def hold(self, promises: Iterable[tuple[str, Callable[[Any], None]]]) -> None:
        """Look at each promise by its check, which reads this."""
        for self.contract, check in promises:
            check(self)
            self.figures.setdefault(self.contract, (0.0, ""))

    @contextmanager
    def told(self, say: Callable[[str], object]) -> Iterator[None]:
        """A block after which `say` is told which contracts were looked at, with their worst figures."""
        try:
            yield
        finally:
            told = [
                (contract, "holds" if math.isfinite(share) else "IS BROKEN", found)
                for contract, (share, found) in self.figures.items()
            ]
            for line in columns([("contract", "", "found of allowed"), *told]):
                say(line)
        say(f"{self.name} holds all {len(told)} contracts")

    def broken(self, problem: str, contract: str | None = None) -> ContractError:
        self.figures[contract or self.contract] = (math.inf, "")
        text = f"{self.name} breaks the contract '{contract or self.contract}': {problem}"
        return ContractError(" ".join(text.split()))

    def must(self, holds: bool, problem: str) -> None:
        if not holds:
            raise self.broken(problem)

    def called(self, what: str, call: Callable[[], Any]) -> Any:
        """The result of a call of the user's code."""
        try:
            return call()
        except ContractError:
            raise
        except ANY_FAULT as error:  # whatever a user's class raises
            raise self.broken(f"{what} failed: {located(error)}", SHAPES) from error

    def same(self, what: str, one: Tensor, other: Tensor, tolerance: float | None = None) -> None:
        """Whether both are alike, relative to the larger of 1 and their largest number."""
        if one.shape != other.shape:
            raise self.broken(f"{what}: the shapes are {tuple(one.shape)} and {tuple(other.shape)}")
        if one.numel() == 0:
            return
        difference = _difference(one, other)
        scale = max(1.0, float(other.detach().double().abs().max()))
        allowed = self.tolerance if tolerance is None else tolerance
        found = (difference / scale / (allowed or 1.0), f"{difference / scale:.2g} of {allowed:.2g}")
        self.figures[self.contract] = max(self.figures.get(self.contract, found), found)
        if difference > scale * allowed:
            raise self.broken(f"{what} differ (by {difference:.2g} at most)")

    def unwritten(self, what: str, arguments: Any, call: Callable[[], Any]) -> None:
        """Make a call, which must leave the tree of its arguments as it was."""
        kept = leaves(map_tree(torch.clone, arguments))
        call()
        for path, leaf in leaves(arguments).items():
            self.same(f"{path} before and after {what}", leaf, kept[path], 0.0)

    @property
    def trainable(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def gradient(self, output: Tensor, of: Sequence[Tensor]) -> Sequence[Tensor]:
        """The gradient of some function of the output; 0 for what it does not depend on."""
        if not of or not output.requires_grad:
            return [torch.zeros_like(one) for one in of]
        loss = output.sin().sum()
        return self.called(
            "its gradient",
            lambda: torch.autograd.grad(loss, of, allow_unused=True, materialize_grads=True),
        )

    def some_gradient(self, gradient: Sequence[Tensor]) -> None:
        """Whether one of the parameters gets any."""
        problem = "none reaches any parameter; what is not to learn must be frozen (requires_grad_(False))"
        self.must(not gradient or any(bool(one.any()) for one in gradient), problem)

    def follows(self, output: Callable[[Any], Tensor]) -> None:
        """The actor and the target network are given the learner's parameters, and must then be its function.

        Args:
            output: of a module, for the same input each time.
        """
        first = output(self.module)
        other = self.another()
        output(other)  # what it keeps of its first call must not outlive its parameters
        what = "the outputs of one before and after another was made and called"
        self.same(what, output(self.module), first)
        state = self.module.state_dict()
        self.called("loading the state_dict of another", lambda: other.load_state_dict(state))
        self.same("the outputs of one and of another that has loaded its state_dict", output(other), first)
        self._move(self.module)
        has_moved = _difference(output(self.module), first) >= self.tolerance / 100
        is_free = not any(True for _ in self.module.parameters())
        self.must(has_moved or is_free, "its parameters have changed, and its output has not")


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest; infinite where there is none to tell."""
    difference = (one.detach().double() - other.detach().double()).abs().max()
    return float(difference.nan_to_num(nan=float("inf")))


def kind(x: Any) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
