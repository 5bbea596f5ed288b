"""Functions recorded once as a CUDA graph, and replayed.

An update of a small network is two to three thousand operators. A host that launches them one by one takes
longer than a GPU that computes them. A graph launches them all at once. It replays what was recorded on the
same memory: shapes are fixed (`dtqn.shapes`), no host reads a number on the way, and arguments are copied to
where the recording had its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dtqn.types import map_tree

WARM_UP_CALLS = 3
"""Calls that run as they are before one is recorded, in which libraries set themselves up."""


class CudaRecorder:
    """Records what a function does to the device's memory as a CUDA graph."""

    def warm_up(self, function: Callable[[], Any]) -> Any:
        """Runs the function as it is and gives its result."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            result = function()
        torch.cuda.current_stream().wait_stream(side)
        return result

    def record(self, function: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """Something that does again what the function does, and the result, which each replay overwrites.

        Nothing is done yet when this returns.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = function()
        return graph.replay, result


class Held:
    """Trees of tensors at one place: each call copies its arguments there."""

    def __init__(self) -> None:
        self._held: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        if not self._held:
            self._held = tuple(map_tree(lambda x: x.clone(), tree) for tree in arguments)
        for held, tree in zip(self._held, arguments, strict=True):
            map_tree(lambda to, x: to.copy_(x, non_blocking=True), held, tree)
        return self._held


class Captured:
    """A function of trees of tensors that is run, then recorded, then replayed.

    Its result is overwritten by the next call.
    """

    def __init__(
        self, function: Callable[..., Any], hold: Callable[..., tuple[Any, ...]], recorder: CudaRecorder
    ) -> None:
        """`hold` copies the arguments of each call to the same place and gives that."""
        self._function, self._hold, self._recorder = function, hold, recorder
        self._calls = 0
        self._replay: Callable[[], None] | None = None
        self._result: Any = None

    def __call__(self, *arguments: Any) -> Any:
        held = self._hold(*arguments)
        if self._calls < WARM_UP_CALLS:
            self._calls += 1
            return self._recorder.warm_up(lambda: self._function(*held))
        if self._replay is None:
            self._replay, self._result = self._recorder.record(lambda: self._function(*held))
        self._replay()
        return self._result
