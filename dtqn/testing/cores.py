"""The promises of a core.

Legend: B batch, T steps of a call, W memory window, D width, P parts of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from dtqn.networks.q_network import Core
from dtqn.settings.config import NetworkConfig
from dtqn.testing import faults
from dtqn.testing.faults import SMALL, kind
from dtqn.types import State, StoredMemory, from_leaves, leaves, length_mask, map_tree, reset_states

LONG_WINDOW: Final = 64
"""Steps of memory beyond which only `_long_parity` waits until the first one leaves the window."""
LONGEST_WINDOW: Final = 2048
"""Steps of memory beyond which no check does."""
LONG_EPISODE: Final = 311
"""Steps after which a state is made of rounded memory: what grows with an episode is then coarse in float16.

It is no round number, as 300 hundredths are exact in any float."""
LONG_CALL: Final = 128
"""Steps of a call that leads there: attention over a long window takes much memory in one."""
STORED_TOLERANCE: Final = 5e-3
"""What float16 memory may change: ten times what float16 rounds a number by.

docs/memory.md promises 1e-3 of Q-values, but features have another scale. In the suite's cores that remember
what no norm bounds, they change by up to 1.5e-3 at the sizes of `SMALL`."""
_PARTS = 3


def check_core(
    make_core: Callable[[NetworkConfig], Core],
    config: NetworkConfig = SMALL,
    name: str = "make_core",
    memory_dtype: str = "float16",
    say: Callable[[str], object] = print,
) -> None:
    """Holds the cores that `make_core(config)` makes to `dtqn.networks.q_network.Core`.

    Args:
        name: stands in the error.
        memory_dtype: the setting `replay.memory_dtype`, in which replay stores memory.
        say: is told the contracts that hold, the largest difference of what is allowed, and the verdict.

    Raises:
        ContractError: one line that names the contract that is broken, and the largest difference.
    """

    def subject(dtype: torch.dtype, batch: int) -> _Core:
        return _Core(lambda: make_core(config), name, dtype, batch, config, memory_dtype)

    with faults.seeded():
        few = subject(torch.float64, faults.BATCH)
        with few.told(say):
            few.hold((contract, check) for contract, check, _ in _PROMISES)
            many = subject(torch.float32, faults.MANY)
            many.figures = few.figures
            many.hold((contract, check) for contract, check, is_held in _PROMISES if is_held)


class _Core(faults.Subject):
    """A core under test: its calls and what it is called with."""

    def __init__(
        self,
        make: Callable[[], Any],
        name: str,
        dtype: torch.dtype,
        batch: int,
        config: NetworkConfig,
        memory_dtype: str,
    ) -> None:
        super().__init__(make, name, dtype, batch)
        self.width = config.width
        self._shape = (_PARTS, config.width) if config.encoder.gives_parts else (config.width,)
        self.spec = self.called("its memory_spec", self.module.memory_spec)
        self.fields = leaves(self.spec)
        self.stored_as = {
            path: torch.from_numpy(np.empty(0, field.dtype or memory_dtype)).dtype
            for path, field in self.fields.items()
        }
        self.window = max((field.window for field in self.fields.values()), default=0)
        self._generator = torch.Generator().manual_seed(1)

    def features(self, steps: int, batch: int | None = None) -> Tensor:
        size = (batch or self.batch, steps, *self._shape)
        return torch.randn(size, generator=self._generator, dtype=self.dtype)

    def __call__(
        self, x: Tensor, state: State, want_memory: bool = True
    ) -> tuple[Tensor, State, StoredMemory]:
        def call() -> tuple[Tensor, State, StoredMemory]:
            output, after, memory = self.module(x, state, want_memory)
            return output, after, memory

        called: tuple[Tensor, State, StoredMemory] = self.called(f"its call on {tuple(x.shape)}", call)
        return called

    def output(self, x: Tensor, state: State) -> Tensor:
        return self(x, state)[0]

    def initial_state(self, batch: int | None = None) -> State:
        return self.called("its initial_state", lambda: self.module.initial_state(batch or self.batch))

    def after(self, steps: int) -> State:
        """The state after so many steps of an episode."""
        return self(self.features(steps), self.initial_state())[1]

    def state_from_memory(self, memory: Mapping[str, Tensor], valid: Tensor, steps: Tensor) -> State:
        tree = from_leaves(self.spec, memory)
        return self.called("its state_from_memory", lambda: self.module.state_from_memory(tree, valid, steps))

    def cache(self, state: State) -> State:
        return self.called("its cache", lambda: self.module.cache(state))

    def some_memory(self, count: int) -> dict[str, Tensor]:
        """The memory [B, count, ...] that `state_from_memory` reads after so many steps from the start."""
        x = self.features(count)
        if count == 0 or not self.fields:
            return self.no_memory(len(x))
        return self.newest(leaves(self(x, self.initial_state())[2]))

    def no_memory(self, batch: int) -> dict[str, Tensor]:
        return {
            name: torch.zeros(batch, 0, *field.shape, dtype=self.dtype) for name, field in self.fields.items()
        }

    def newest(self, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What `state_from_memory` reads of memory: of each field as many steps as its window allows."""
        return {name: memory[name].detach()[:, -field.window :] for name, field in self.fields.items()}

    def stored(self, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Memory as replay gives it back."""
        return {name: x.to(self.stored_as[name]) for name, x in memory.items()}


def _shapes_and_dtypes(core: _Core) -> None:
    state = core.initial_state()
    for path, leaf in leaves(state).items():
        at = path or "its root"
        core.must(isinstance(leaf, Tensor), f"initial_state is {type(leaf).__name__} at {at}")
        what = f"initial_state({core.batch}) is {kind(leaf)} at {at}"
        is_whole = leaf.dim() >= 1 and len(leaf) == core.batch
        core.must(is_whole, f"{what}; its first dimension must be {core.batch}")
        is_right = not leaf.is_floating_point() or leaf.dtype == core.dtype
        core.must(is_right, f"{what}; it must have the parameters' dtype, {core.dtype} here")
    for steps in (1, faults.STEPS):
        x = core.features(steps)
        output, after, memory = core(x.requires_grad_(), state)
        wanted = f"{x.dtype} {(core.batch, steps, core.width)}"
        core.must(kind(output) == wanted, f"its output is {kind(output)}; it must be {wanted}")
        core.must(bool(output.isfinite().all()), "its output is not finite")
        kinds, right = _kinds(after), _kinds(state)
        unlike = f"the state after {steps} steps is {kinds}, and initial_state {right}; they must be alike"
        core.must(kinds == right, unlike)
        is_left = any(leaf.requires_grad for leaf in leaves(after).values())
        core.must(not is_left, "gradient enters the state after a call; detach it")
        of_memory = {path: tuple(leaf.shape) for path, leaf in leaves(memory).items() if path in core.fields}
        spec = {path: (core.batch, steps, *field.shape) for path, field in core.fields.items()}
        core.must(of_memory == spec, f"its memory is {of_memory}; by its memory_spec it must be {spec}")
    for count in (0, 1):  # at an episode's start replay has none
        stored = core.stored(core.some_memory(count))
        made = core.state_from_memory(stored, *_all_valid(core.batch, count, count))
        dtypes, right_ones = ({path: leaf.dtype for path, leaf in leaves(x).items()} for x in (made, state))
        what = f"state_from_memory of {count} steps as replay stores them"
        core.must(dtypes == right_ones, f"{what} has {dtypes}; it must have {right_ones}")


def _kinds(state: State) -> dict[str, str]:
    return {path: kind(leaf) for path, leaf in leaves(state).items()}


def _arguments_are_left_alone(core: _Core) -> None:
    x, state = core.features(faults.STEPS), core.after(2)
    for want_memory in (True, False):
        what = f"a call with want_memory={want_memory}"
        core.unwritten(what, {"input": x, "state": state}, partial(core, x, state, want_memory))
    core.unwritten("cache", {"state": state}, lambda: core.cache(state))
    count = min(faults.STEPS, core.window)
    memory, (valid, steps) = core.some_memory(count), _all_valid(core.batch, count, faults.STEPS)
    given = {"memory": memory, "valid": valid, "episode_step": steps}
    core.unwritten("state_from_memory", given, lambda: core.state_from_memory(memory, valid, steps))


def _fresh_start(core: _Core) -> None:
    x = core.features(faults.STEPS)
    fresh = core.output(x, core.initial_state())
    core.after(faults.STEPS)
    again = core.output(x, core.initial_state())
    core.same("the outputs of an episode, first and again later,", again, fresh)


def _reset(core: _Core) -> None:
    x = core.features(faults.STEPS)
    fresh = core.output(x, core.initial_state())
    state = core.after(faults.STEPS)
    first = torch.arange(core.batch) % 2 == 0
    carried = core.output(x, state)
    mixed = core.output(x, reset_states(state, core.initial_state(), first))
    core.same("the outputs of a batch element that was reset and of a fresh one", mixed[first], fresh[first])
    core.same("the outputs of other elements with the reset and without", mixed[~first], carried[~first])


def _memory_is_wanted(core: _Core) -> None:
    x, state = core.features(faults.STEPS), core.after(3)
    bare = core(x, state, False)[0]
    core.same("the outputs with it and without", bare, core.output(x, state))


def _cache(core: _Core) -> None:
    x, state = core.features(faults.STEPS), core.after(3)
    cached = core.output(x, core.cache(state))
    core.same("the outputs with it and without", cached, core.output(x, state))


def _chunks(core: _Core) -> None:
    x, state = core.features(faults.STEPS), core.after(2)
    whole, after, memory = core(x, state)
    probe = core.features(3)
    for cuts in (range(1, faults.STEPS), (2, 7), (5,)):
        now, outputs, left = state, [], []
        for start, stop in zip([0, *cuts], [*cuts, faults.STEPS], strict=True):
            output, now, of_call = core(x[:, start:stop], now)
            outputs.append(output)
            left.append(leaves(of_call))
        how = f"one call on {faults.STEPS} steps and {len(cuts) + 1} calls"
        core.same(f"its output in {how}", torch.cat(outputs, dim=1), whole)
        for name in core.fields:
            joined = torch.cat([of_call[name] for of_call in left], dim=1)
            core.same(f"its memory's {name} in {how}", joined, leaves(memory)[name])
        core.same(f"the state after {how}", core.output(probe, now), core.output(probe, after))


def _causality(core: _Core) -> None:
    x, other = core.features(faults.STEPS), core.features(faults.STEPS)
    output = core.output(x, core.initial_state())
    for at in range(1, faults.STEPS):
        changed = core.output(torch.cat([x[:, :at], other[:, at:]], dim=1), core.initial_state())
        what = f"the output of steps before {at} when the inputs from {at} on change"
        core.same(what, changed[:, :at], output[:, :at])


def _batch_elements(core: _Core) -> None:
    x, state = core.features(faults.STEPS), core.after(3)
    output = core.output(x, state)
    for i in range(core.batch):
        alone = core.output(x[i : i + 1], map_tree(lambda leaf, i=i: leaf[i : i + 1], state))
        core.same(f"batch element {i} alone and among others", alone[0], output[i])


def _parity(core: _Core) -> None:
    window = core.window
    far = window + 3 if window <= LONG_WINDOW else faults.STEPS
    _states_are_the_carried_ones(core, {0, 1, min(window, far), far}, core.batch)


def _long_parity(core: _Core) -> None:
    window = min(core.window, LONGEST_WINDOW)
    _states_are_the_carried_ones(core, {window, window + 3, LONG_EPISODE}, 2)


@torch.no_grad()
def _states_are_the_carried_ones(core: _Core, counts: set[int], batch: int) -> None:
    """After so many steps each, of memory as it is and as replay stores it."""
    stored_as = ", ".join(sorted({str(dtype).removeprefix("torch.") for dtype in core.stored_as.values()}))
    x, probe = core.features(max(counts), batch), core.features(3, batch)
    state, memory = core.initial_state(batch), core.no_memory(batch)
    cuts = sorted(counts | set(range(0, max(counts), LONG_CALL)))
    for start, steps in zip([0, *cuts], cuts, strict=False):
        if steps > start:
            output, state, left = core(x[:, start:steps], state)
            if not output.isfinite().all():
                raise core.broken(f"its output is not finite within {steps} steps", faults.SHAPES)
            new = leaves(left)
            memory = core.newest({name: torch.cat([old, new[name]], dim=1) for name, old in memory.items()})
        if steps not in counts:
            continue
        carried = core.output(probe, state)
        valid, at = _all_valid(batch, min(steps, core.window), steps)
        for made_of, given, tolerance in (
            ("", memory, core.tolerance),
            (f" of {stored_as} memory", core.stored(memory), max(core.tolerance, STORED_TOLERANCE)),
        ):
            made = core.output(probe, core.state_from_memory(given, valid, at))
            what = f"the output after the state that {steps} steps left, carried and made anew{made_of},"
            core.same(what, made, carried, tolerance)


def _invalid_memory(core: _Core) -> None:
    window = min(core.window, LONG_WINDOW)
    if not window:
        return
    clean, probe = core.some_memory(window), core.features(3)
    steps = torch.arange(core.batch).clamp(max=window)
    valid = torch.arange(window) >= window - steps[:, None]
    outputs = []
    for junk in (0.0, 1e30, float("nan")):
        memory = {}
        for name, leaf in clean.items():
            last = valid[:, window - leaf.shape[1] :]
            memory[name] = leaf.masked_fill(~last.view(*last.shape, *[1] * (leaf.dim() - 2)), junk)
        outputs.append(core.output(probe, core.state_from_memory(memory, valid, steps)))
        core.same(f"the output with 0 and with {junk:g} in it", outputs[-1], outputs[0])
    fresh = core.output(probe[:1], core.initial_state(1))
    core.same("the output without any valid memory and a fresh one", outputs[0][:1], fresh)


def _padding(core: _Core) -> None:
    is_real = length_mask(2 + torch.arange(core.batch) % (faults.STEPS - 1), faults.STEPS)
    x = core.features(faults.STEPS)
    mask = is_real.view(*is_real.shape, *[1] * (x.dim() - 2))
    results: list[Sequence[Tensor]] = []
    for given in (x, torch.where(mask, x, 1e6)):
        output = core.output(given, core.initial_state())[is_real]
        results.append([output, *core.gradient(output, core.trainable)])
    for at, (one, other) in enumerate(zip(*results, strict=True)):
        what = "the gradient of the real steps" if at else "the output of the real steps"
        core.same(what, other, one)


def _gradient_arrives(core: _Core) -> None:
    x = core.features(faults.STEPS).requires_grad_()
    output = core.output(x, core.initial_state())
    *of_parameters, of_x = core.gradient(output, [*core.trainable, x])
    core.some_gradient(of_parameters)
    core.must(bool(of_x.any()), "none reaches its input, and so no encoder learns")


def _parameters_are_followed(core: _Core) -> None:
    x = core.features(faults.STEPS)

    def output(module: Any) -> Tensor:
        return core.called("its call", lambda: module(x, module.initial_state(len(x)), True)[0])

    core.follows(output)


def _all_valid(batch: int, count: int, steps: int) -> tuple[Tensor, Tensor]:
    """`valid` and `episode_step` of `state_from_memory` after so many steps, with none too many."""
    return torch.ones(batch, count, dtype=torch.bool), torch.full((batch,), steps)


_CARRIED = "the state made of stored memory is the carried one"
_RESET = "a reset equals a fresh start"
_PROMISES: Final = (
    (faults.SHAPES, _shapes_and_dtypes, True),
    (faults.LEFT_ALONE, _arguments_are_left_alone, False),
    (_RESET, _fresh_start, False),
    (faults.BATCH_ELEMENTS, _batch_elements, True),
    (_RESET, _reset, False),
    ("causality", _causality, False),
    ("any split into calls is the same function", _chunks, False),
    ("want_memory changes no output", _memory_is_wanted, True),
    ("a cache changes no output", _cache, True),
    (_CARRIED, _parity, True),
    ("junk in invalid stored memory changes nothing", _invalid_memory, True),
    ("junk in padding changes nothing", _padding, True),
    (_CARRIED, _long_parity, False),
    ("a gradient reaches its parameters and its input", _gradient_arrives, False),
    (faults.FOLLOWS, _parameters_are_followed, False),
)
"""By their contracts, and whether a batch's size and rounding can break them."""
