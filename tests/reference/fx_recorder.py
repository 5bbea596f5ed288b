"""A CPU's stand-in for CUDA graphs: a function's operators, traced once and run again on the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten


class FxRecorder:
    """As a graph's, its replay reads no number on the host and knows no branch but the recorded one.

    Tracing does what the function does; `state` are the tensors that this must leave as they were.
    """

    def __init__(self, state: Callable[[], list[Tensor]]) -> None:
        self._state = state
        self.replays = 0

    def warm_up(self, function: Callable[[], Any]) -> Any:
        return function()

    def record(self, function: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        before = [x.detach().clone() for x in self._state()]
        traced = make_fx(lambda: tree_flatten(function())[0])()
        with torch.no_grad():
            for x, value in zip(self._state(), before, strict=True):
                x.copy_(value)
            structure: Any = None

            def noted() -> list[Any]:
                nonlocal structure
                found, structure = tree_flatten(function())
                return found

            result = [x.detach().clone() if isinstance(x, Tensor) else x for x in noted()]
            for x, value in zip(self._state(), before, strict=True):
                x.copy_(value)

        def replay() -> None:
            self.replays += 1
            with torch.no_grad():
                for to, x in zip(result, traced(), strict=True):
                    if isinstance(to, Tensor):
                        to.copy_(x)

        return replay, tree_unflatten(result, structure)
