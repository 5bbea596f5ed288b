"""The contract of cores and encoders as checks: what makes the actor and the learner mean the same.

    from dtqn.testing import check_core
    check_core(make_core)

The suite's own cores pass the same checks, and a run asks them of a user's core before it starts. Each check
raises a `ContractError` of one line, which names the promise that is broken and by how much.

Rounding hides a small leak, and a few rows hide one between many copies. So a core is held to all promises in
float64, with few rows, and to those that rows and numbers can break in float32, as in a run, with many.

Legend: B batch, T steps of a call, W trace window, D width, P parts of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from dtqn.networks.q_network import FEATURES, Core, Encoder
from dtqn.settings.config import NetworkConfig
from dtqn.settings.own import ANY_FAULT, located
from dtqn.types import State, StepInputs, Trace, from_leaves, leaves, map_tree, reset_rows

BATCH: Final = 4
MANY: Final = 33
"""The rows of the larger batch."""
STEPS: Final = 9
LONG_WINDOW: Final = 64
"""Trace rows beyond which only `_long_parity` waits until the first one leaves the window."""
LONGEST_WINDOW: Final = 2048
"""Trace rows beyond which no check does."""
LONG_EPISODE: Final = 311
"""Steps after which a state is made of rounded rows: what grows with an episode is then coarse in float16.

It is no round number, as 300 hundredths are exact in any float."""
TOLERANCE: Final = {torch.float64: 1e-8, torch.float32: 1e-4}
LONG_CALL: Final = 128
"""Steps of a call that leads there: attention over a long window takes much memory in one."""
STORED_TOLERANCE: Final = 5e-3
"""What float16 rows may change: ten times what float16 rounds a number by.

docs/memory.md promises 1e-3 of Q-values, but features are another scale: those of the suite's cores that
remember what no norm bounds come to 1.5e-3, in the sizes of `SMALL`."""
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
_PARTS = 3


class ContractError(AssertionError):
    """A core or encoder breaks a promise; one line says which."""


def check_core(
    make_core: Callable[[NetworkConfig], Core],
    config: NetworkConfig = SMALL,
    name: str = "make_core",
    trace_dtype: str = "float16",
) -> None:
    """Holds the cores that `make_core(config)` makes to `dtqn.networks.q_network.Core`.

    Their parameters are moved a little, so that none hides behind an initial zero.

    Args:
        name: stands in the error.
        trace_dtype: the setting `replay.trace_dtype`, in which replay stores the trace.

    Raises:
        ContractError: one line that names the contract that is broken, and the largest difference.
    """

    def make() -> nn.Module:
        return _moved(_called(name, "can be made", lambda: make_core(config)), name)

    with _seeded():
        subject = _Core(make, config, name, trace_dtype, torch.float64, BATCH)
        for check in (
            _shapes_and_dtypes,
            _arguments_are_left_alone,
            _fresh_start,
            _batch_rows,
            _reset,
            _causality,
            _chunks,
            _switches,
            _parity,
            _invalid_rows,
            _padding,
            _long_parity,
            _gradient_arrives,
            _parameters_are_followed,
        ):
            check(subject)
        subject = _Core(make, config, name, trace_dtype, torch.float32, MANY)
        for check in (_shapes_and_dtypes, _batch_rows, _switches, _parity, _invalid_rows, _padding):
            check(subject)


class _Core:
    """A core under test: its calls and what it is called with."""

    def __init__(
        self,
        make: Callable[[], nn.Module],
        config: NetworkConfig,
        name: str,
        trace_dtype: str,
        dtype: torch.dtype,
        batch: int,
    ) -> None:
        self.dtype, self.batch, self.tolerance = dtype, batch, TOLERANCE[dtype]
        self._make = make
        module: Any = self.another()
        self.module, self.name, self.width = module, name, config.width
        self._shape = (_PARTS, config.width) if config.soft_attention else (config.width,)
        self.spec = self.attempt("trace_spec", module.trace_spec)
        self.fields = leaves(self.spec)
        self.stored_as = {
            path: torch.from_numpy(np.empty(0, field.dtype or trace_dtype)).dtype
            for path, field in self.fields.items()
        }
        self.input_window: int = getattr(module, "input_window", 0)
        self.windows = {name: field.window for name, field in self.fields.items()}
        if self.input_window:
            self.windows[FEATURES] = self.input_window
        self.window = max(self.windows.values(), default=0)
        self._generator = torch.Generator().manual_seed(1)

    def another(self) -> nn.Module:
        """One with parameters of its own. In float32 it is as a run makes it: a cast would mend constants."""
        module = self._make()
        return module if self.dtype == torch.float32 else module.to(self.dtype)

    def features(self, steps: int, batch: int | None = None) -> Tensor:
        size = (batch or self.batch, steps, *self._shape)
        return torch.randn(size, generator=self._generator, dtype=self.dtype)

    def __call__(self, x: Tensor, state: State, want_trace: bool = True) -> tuple[Tensor, State, Trace]:
        def call() -> tuple[Tensor, State, Trace]:
            output, after, trace = self.module(x, state, want_trace)
            return output, after, trace

        return self.attempt(f"call on {tuple(x.shape)}", call)

    def output(self, x: Tensor, state: State) -> Tensor:
        return self(x, state)[0]

    def initial_state(self, batch: int | None = None) -> State:
        return self.attempt("initial_state", lambda: self.module.initial_state(batch or self.batch))

    def state_from_trace(self, rows: Mapping[str, Tensor], valid: Tensor, steps: Tensor) -> State:
        tree = from_leaves(self.spec, rows)
        features = (rows[FEATURES],) if self.input_window else ()
        return self.attempt(
            "state_from_trace", lambda: self.module.state_from_trace(tree, valid, steps, *features)
        )

    def cache(self, state: State) -> State:
        return self.attempt("cache", lambda: self.module.cache(state))

    def some_rows(self, count: int) -> dict[str, Tensor]:
        """The last rows [B, count, ...] that `state_from_trace` reads after so many steps from the start."""
        x = self.features(count)
        if count == 0 or not self.fields:
            return self.rows(x, self.no_rows(len(x), count))
        return self.rows(x, leaves(self(x, self.initial_state())[2]))

    def no_rows(self, batch: int, count: int = 0) -> dict[str, Tensor]:
        return {
            name: torch.zeros(batch, count, *field.shape, dtype=self.dtype)
            for name, field in self.fields.items()
        }

    def rows(self, x: Tensor, trace: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The rows that `state_from_trace` reads of steps x [B, T, D] and their trace, as many of each as its
        window allows."""
        given = {**trace, FEATURES: x}
        return {name: given[name].detach()[:, -size:] for name, size in self.windows.items()}

    def stored(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The rows as replay gives them back; features come from the encoder, and are in no other dtype."""
        return {name: x.to(self.stored_as.get(name, x.dtype)) for name, x in rows.items()}

    def same(
        self, contract: str, what: str, one: Tensor, other: Tensor, tolerance: float | None = None
    ) -> None:
        _same(self.name, contract, what, one, other, self.tolerance if tolerance is None else tolerance)

    def must(self, holds: bool, contract: str, problem: str) -> None:
        if not holds:
            raise _broken(self.name, contract, problem)

    def attempt(self, what: str, call: Callable[[], Any]) -> Any:
        return _called(self.name, f"its {what}", call)


_SHAPES = "shapes and dtypes"


def _shapes_and_dtypes(core: _Core) -> None:
    contract = _SHAPES
    state = core.initial_state()

    def like_the_first(other: State, what: str) -> None:
        first, second = leaves(state), leaves(other)
        core.must(
            set(first) == set(second),
            contract,
            f"{what} has {sorted(second)}, and initial_state {sorted(first)}; they must be alike",
        )
        for path, leaf in second.items():
            right = first[path]
            core.must(
                (leaf.shape, leaf.dtype) == (right.shape, right.dtype),
                contract,
                f"{what} is {_kind(leaf)} at {path or 'its root'}, and initial_state {_kind(right)}; "
                "they must be alike",
            )

    for path, leaf in leaves(state).items():
        at = path or "its root"
        core.must(isinstance(leaf, Tensor), contract, f"initial_state is {type(leaf).__name__} at {at}")
        core.must(
            leaf.dim() >= 1 and len(leaf) == core.batch,
            contract,
            f"initial_state({core.batch}) is {_kind(leaf)} at {at}; its first dimension must be {core.batch}",
        )
        core.must(
            not leaf.is_floating_point() or leaf.dtype == core.dtype,
            contract,
            f"initial_state is {_kind(leaf)} at {at}; it must have the parameters' dtype, {core.dtype} here",
        )
    for steps in (1, STEPS):
        x = core.features(steps)
        output, after, trace = core(x.requires_grad_(), state)
        wanted = (core.batch, steps, core.width)
        core.must(
            (tuple(output.shape), output.dtype) == (wanted, x.dtype),
            contract,
            f"its output is {_kind(output)}; it must be {x.dtype} {wanted}",
        )
        core.must(bool(output.isfinite().all()), contract, "its output is not finite")
        like_the_first(after, f"the state after {steps} steps")
        core.must(
            not any(leaf.requires_grad for leaf in leaves(after).values()),
            contract,
            "gradient enters the state after a call; detach it",
        )
        left = leaves(trace)
        core.must(
            set(left) >= set(core.fields),
            contract,
            f"its trace has {sorted(left)}, and trace_spec {sorted(core.fields)}",
        )
        for path, field in core.fields.items():
            wanted = (core.batch, steps, *field.shape)
            core.must(
                tuple(left[path].shape) == wanted,
                contract,
                f"its trace is {_kind(left[path])} at {path}; by its trace_spec it must be {wanted}",
            )
    for count in (0, 1):  # at an episode's start replay has no row
        rows = core.stored(core.some_rows(count))
        made = core.state_from_trace(rows, *_all_valid(core.batch, count, count))
        kinds = [{path: leaf.dtype for path, leaf in leaves(one).items()} for one in (made, state)]
        core.must(
            kinds[0] == kinds[1],
            contract,
            f"state_from_trace of {count} rows as replay stores them has {kinds[0]}; it must have {kinds[1]}",
        )


_LEFT_ALONE = "a call leaves its arguments alone"


def _arguments_are_left_alone(core: _Core) -> None:
    x, (_, state, _) = core.features(STEPS), core(core.features(2), core.initial_state())
    for want_trace in (True, False):
        what = f"a call with want_trace={want_trace}"
        given = {"input": x, "state": state}
        _unwritten(core.name, what, given, partial(core, x, state, want_trace))
    _unwritten(core.name, "cache", {"state": state}, lambda: core.cache(state))
    count = min(STEPS, core.window)
    rows, (valid, steps) = core.some_rows(count), _all_valid(core.batch, count, STEPS)
    given = {"rows": rows, "valid": valid, "episode_step": steps}
    _unwritten(core.name, "state_from_trace", given, lambda: core.state_from_trace(rows, valid, steps))


_RESET = "a reset equals a fresh start"


def _fresh_start(core: _Core) -> None:
    x, probe = core.features(STEPS), core.features(STEPS)
    fresh = core.output(x, core.initial_state())
    core(probe, core.initial_state())
    core.same(
        _RESET,
        "the outputs of an episode, first and again later,",
        core.output(x, core.initial_state()),
        fresh,
    )


def _reset(core: _Core) -> None:
    x = core.features(STEPS)
    fresh = core.output(x, core.initial_state())
    _, state, _ = core(core.features(STEPS), core.initial_state())
    first = torch.arange(core.batch) % 2 == 0
    carried = core.output(x, state)
    mixed = core.output(x, reset_rows(state, core.initial_state(), first))
    core.same(
        _RESET, "the outputs of a batch row that was reset and of a fresh one", mixed[first], fresh[first]
    )
    core.same(
        _RESET, "the outputs of a row beside one that was reset and without", mixed[~first], carried[~first]
    )


def _switches(core: _Core) -> None:
    x, (_, state, _) = core.features(STEPS), core(core.features(3), core.initial_state())
    output, bare = core.output(x, state), core(x, state, False)[0]
    core.same("want_trace changes no output", "the outputs with it and without", bare, output)
    cached = core.output(x, core.cache(state))
    core.same("a cache changes no output", "the outputs with it and without", cached, output)


def _chunks(core: _Core) -> None:
    contract = "any split into calls is the same function"
    x, state = core.features(STEPS), core(core.features(2), core.initial_state())[1]
    whole, after, trace = core(x, state)
    probe = core.features(3)
    for cuts in (range(1, STEPS), (2, 7), (5,)):
        now, outputs, left = state, [], []
        for start, stop in zip([0, *cuts], [*cuts, STEPS], strict=True):
            output, now, rows = core(x[:, start:stop], now)
            outputs.append(output)
            left.append(leaves(rows))
        how = f"one call on {STEPS} steps and {len(cuts) + 1} calls"
        core.same(contract, f"its output in {how}", torch.cat(outputs, dim=1), whole)
        for name in core.fields:
            joined = torch.cat([rows[name] for rows in left], dim=1)
            core.same(contract, f"its trace's {name} in {how}", joined, leaves(trace)[name])
        core.same(contract, f"the state after {how}", core.output(probe, now), core.output(probe, after))


def _causality(core: _Core) -> None:
    contract = "causality"
    x, other = core.features(STEPS), core.features(STEPS)
    output = core.output(x, core.initial_state())
    for at in range(1, STEPS):
        changed = core.output(torch.cat([x[:, :at], other[:, at:]], dim=1), core.initial_state())
        what = f"the output of steps before {at} when the inputs from {at} on change"
        core.same(contract, what, changed[:, :at], output[:, :at])


def _batch_rows(core: _Core) -> None:
    contract = "batch rows are independent"
    x, (_, state, _) = core.features(STEPS), core(core.features(3), core.initial_state())
    output = core.output(x, state)
    for row in range(core.batch):
        alone = core.output(x[row : row + 1], map_tree(lambda leaf, at=row: leaf[at : at + 1], state))
        core.same(contract, f"batch row {row} alone and beside others", alone[0], output[row])


def _parity(core: _Core) -> None:
    window = core.window
    far = window + 3 if window <= LONG_WINDOW else STEPS
    _states_are_the_carried_ones(core, {0, 1, min(window, far), far}, core.batch)


def _long_parity(core: _Core) -> None:
    window = min(core.window, LONGEST_WINDOW)
    _states_are_the_carried_ones(core, {window, window + 3, LONG_EPISODE}, 2)


@torch.no_grad()
def _states_are_the_carried_ones(core: _Core, counts: set[int], batch: int) -> None:
    """After so many steps each, of trace rows as they are and as replay stores them."""
    contract = "the state made of stored trace rows is the carried one"
    stored_as = ", ".join(sorted({str(dtype).removeprefix("torch.") for dtype in core.stored_as.values()}))
    x, probe = core.features(max(counts), batch), core.features(3, batch)
    state, rows = core.initial_state(batch), core.rows(x[:, :0], core.no_rows(batch))
    cuts = sorted(counts | set(range(0, max(counts), LONG_CALL)))
    for start, steps in zip([0, *cuts], cuts, strict=False):
        if steps > start:
            output, state, trace = core(x[:, start:steps], state)
            core.must(
                bool(output.isfinite().all()), _SHAPES, f"its output is not finite within {steps} steps"
            )
            new = {**leaves(trace), FEATURES: x[:, start:steps]}
            rows = {
                name: torch.cat([old, new[name]], dim=1)[:, -core.windows[name] :]
                for name, old in rows.items()
            }
        if steps not in counts:
            continue
        carried = core.output(probe, state)
        valid, at = _all_valid(batch, min(steps, core.window), steps)
        for kind, given, tolerance in (
            ("", rows, core.tolerance),
            (f" of {stored_as} rows", core.stored(rows), max(core.tolerance, STORED_TOLERANCE)),
        ):
            made = core.output(probe, core.state_from_trace(given, valid, at))
            what = f"the output after the state that {steps} steps left, carried and made anew{kind},"
            core.same(contract, what, made, carried, tolerance)


def _invalid_rows(core: _Core) -> None:
    contract = "junk in invalid trace rows changes nothing"
    window = min(core.window, LONG_WINDOW)
    if not window:
        return
    clean, probe = core.some_rows(window), core.features(3)
    steps = torch.arange(core.batch).clamp(max=window)
    valid = torch.arange(window) >= window - steps[:, None]
    outputs = []
    for junk in (0.0, 1e30, float("nan")):
        rows = {}
        for name, leaf in clean.items():
            last = valid[:, window - leaf.shape[1] :]
            rows[name] = leaf.masked_fill(~last.view(*last.shape, *[1] * (leaf.dim() - 2)), junk)
        outputs.append(core.output(probe, core.state_from_trace(rows, valid, steps)))
        core.same(contract, f"the output with 0 and with {junk:g} in them", outputs[-1], outputs[0])
    fresh = core.output(probe[:1], core.initial_state(1))
    core.same(contract, "the output without any valid row and a fresh one", outputs[0][:1], fresh)


def _padding(core: _Core) -> None:
    contract = "junk in padding changes nothing"
    is_real = torch.arange(STEPS) < 2 + (torch.arange(core.batch) % (STEPS - 1))[:, None]
    x = core.features(STEPS)
    mask = is_real.view(*is_real.shape, *[1] * (x.dim() - 2))
    parameters = _trainable(core.module)
    results: list[Sequence[Tensor]] = []
    for given in (x, torch.where(mask, x, 1e6)):
        output = core.output(given, core.initial_state())[is_real]
        results.append([output, *_gradient(core.name, output, parameters)])
    for at, (one, other) in enumerate(zip(*results, strict=True)):
        what = "the gradient of the real steps" if at else "the output of the real steps"
        core.same(contract, what, other, one)


def _gradient_arrives(core: _Core) -> None:
    contract = "a gradient reaches its parameters and its input"
    x = core.features(STEPS).requires_grad_()
    output = core.output(x, core.initial_state())
    *of_parameters, of_x = _gradient(core.name, output, [*_trainable(core.module), x])
    _some_gradient(core.name, contract, of_parameters)
    core.must(bool(of_x.any()), contract, "none reaches its input, and so no encoder learns")


def _parameters_are_followed(core: _Core) -> None:
    x = core.features(STEPS)

    def output(module: Any) -> Tensor:
        def call() -> Tensor:
            result: Tensor = module(x, module.initial_state(len(x)), True)[0]
            return result

        return core.attempt("call", call)

    _follows(core.name, core.module, core.another, output, core.tolerance)


# Encoders.


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
        return _moved(_called(name, "can be made", lambda: make_encoder(config, space, num_actions)), name)

    with _seeded():
        module: Any = make()
        inputs, others = (_inputs(space, num_actions, seed) for seed in (1, 2))

        def features(given: StepInputs, module: Any = module) -> Tensor:
            return _called(name, "its call", lambda: module(given))

        def same(contract: str, what: str, one: Tensor, other: Tensor) -> None:
            _same(name, contract, what, one, other, TOLERANCE[torch.float32])

        # The actor's rows and replay's are read again.
        whole = _unwritten(name, "a call", inputs, lambda: features(inputs))
        wanted = (BATCH, STEPS, config.width)
        good = tuple(whole.shape) == wanted or (
            config.soft_attention and whole.dim() == 4 and (*whole.shape[:2], whole.shape[3]) == wanted
        )
        if not good or whole.dtype != torch.float32:
            right = f"torch.float32 {wanted}, by network.width"
            raise _broken(name, _SHAPES, f"its features are {_kind(whole)}; they must be {right}")
        if not bool(whole.isfinite().all()):
            raise _broken(name, _SHAPES, "its features are not finite")
        features(others)
        contract = "the features of a step are of that step alone"
        same(contract, "a first call and a later one", features(inputs), whole)
        for at in range(STEPS):
            alone = features(map_tree(lambda x, at=at: x[:, at : at + 1], inputs))
            same(contract, f"step {at} alone and among others", alone, whole[:, at : at + 1])
        contract = "batch rows are independent"
        for given in (inputs, _inputs(space, num_actions, 3, MANY, 2)):
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
        gradient = _gradient(name, features(inputs), _trainable(module))
        _some_gradient(name, "a gradient reaches its parameters", gradient)
        _follows(name, module, make, lambda one: features(inputs, one), TOLERANCE[torch.float32])


def _inputs(
    space: gymnasium.Space, num_actions: int, seed: int, batch: int = BATCH, steps: int = STEPS
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


# Helpers of both.


@contextmanager
def _seeded() -> Iterator[None]:
    """Draws of torch's global generator from one seed; it goes on afterwards as if there had been none."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _moved(module: Any, name: str) -> Any:
    if not isinstance(module, nn.Module):
        raise _broken(name, "can be made", f"it made a {type(module).__name__}; it must be a torch.nn.Module")
    with torch.no_grad():
        for path, parameter in module.named_parameters():
            if not parameter.is_floating_point():
                problem = f"{path} is of {parameter.dtype}; what is not of a floating type must be a buffer"
                raise _broken(name, "can be made", problem)
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return module


def _called(name: str, what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ContractError:
        raise
    except ANY_FAULT as error:  # whatever a user's class raises
        raise _broken(name, _SHAPES, f"{what} failed: {located(error)}") from error


def _all_valid(batch: int, rows: int, steps: int) -> tuple[Tensor, Tensor]:
    """`valid` and `episode_step` of `state_from_trace` after so many steps, with no row too many."""
    return torch.ones(batch, rows, dtype=torch.bool), torch.full((batch,), steps)


def _unwritten(name: str, what: str, arguments: Any, call: Callable[[], Any]) -> Any:
    """The result of a call, which must leave the tree of its arguments as it was."""
    kept = leaves(map_tree(torch.clone, arguments))
    result = call()
    for path, leaf in leaves(arguments).items():
        _same(name, _LEFT_ALONE, f"{path} before and after {what}", leaf, kept[path], 0.0)
    return result


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def _gradient(name: str, output: Tensor, of: Sequence[Tensor]) -> Sequence[Tensor]:
    """That of some function of the output; 0 of what it does not depend on."""
    if not of or not output.requires_grad:
        return [torch.zeros_like(one) for one in of]
    loss = output.sin().sum()
    return _called(
        name,
        "its gradient",
        lambda: torch.autograd.grad(loss, of, allow_unused=True, materialize_grads=True),
    )


def _some_gradient(name: str, contract: str, gradient: Sequence[Tensor]) -> None:
    if gradient and not any(bool(one.any()) for one in gradient):
        problem = "none reaches any parameter; what is not to learn must be frozen (requires_grad_(False))"
        raise _broken(name, contract, problem)


def _follows(
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
    _same(name, contract, what, output(module), first, tolerance)
    _called(name, "loading the state_dict of another", lambda: other.load_state_dict(module.state_dict()))
    what = "the outputs of one and of another that has loaded its state_dict"
    _same(name, contract, what, output(other), first, tolerance)
    _moved(module, name)
    if any(True for _ in module.parameters()) and _difference(output(module), first) < tolerance / 100:
        raise _broken(name, contract, "its parameters have changed, and its output has not")


def _same(name: str, contract: str, what: str, one: Tensor, other: Tensor, tolerance: float) -> None:
    """A `ContractError` unless both are alike, relative to the larger of 1 and their largest number."""
    if one.shape != other.shape:
        raise _broken(name, contract, f"{what}: the shapes are {tuple(one.shape)} and {tuple(other.shape)}")
    if one.numel() == 0:
        return
    difference = _difference(one, other)
    if difference > tolerance * max(1.0, float(other.detach().double().abs().max())):
        raise _broken(name, contract, f"{what} differ (by {difference:.2g} at most)")


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest; infinite where there is none to tell."""
    difference = (one.detach().double() - other.detach().double()).abs().max()
    return float(difference.nan_to_num(nan=float("inf")))


def _broken(name: str, contract: str, problem: str) -> ContractError:
    return ContractError(" ".join(f"{name} breaks the contract '{contract}': {problem}".split()))


def _kind(x: Any) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
