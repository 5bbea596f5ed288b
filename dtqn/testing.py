"""The contract of cores and encoders as checks: what makes the actor and the learner mean the same.

    from dtqn.testing import check_core
    check_core(make_core)

The suite's own cores pass the same checks, and a run asks them of a user's core before it starts. Each check
raises a `ContractError` of one line, which names the promise that is broken and by how much.

Legend: B batch, T steps of a call, W trace window, D width, P parts of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import gymnasium
import torch
from torch import Tensor, nn

from dtqn.networks.q_network import FEATURES, Core, Encoder
from dtqn.settings.config import NetworkConfig
from dtqn.settings.own import located
from dtqn.types import State, StepInputs, Trace, from_leaves, leaves, map_tree, reset_rows

BATCH: Final = 4
STEPS: Final = 9
LONG_WINDOW: Final = 64
"""Trace rows beyond which no check waits until the first one leaves the window."""
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
    make_core: Callable[[NetworkConfig], Core], config: NetworkConfig = SMALL, name: str = "make_core"
) -> None:
    """Holds the core that `make_core(config)` makes to `dtqn.networks.q_network.Core`, in float64.

    Its parameters are moved a little, so that none hides behind an initial zero.

    Args:
        name: stands in the error.

    Raises:
        ContractError: one line that names the contract that is broken, and the largest difference.
    """
    with _seeded():
        core = _moved(_called(name, "can be made", lambda: make_core(config)), name).double()
        subject = _Core(core, config, name)
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
        ):
            check(subject)


class _Core:
    """A core under test: its calls and what it is called with."""

    def __init__(self, module: Any, config: NetworkConfig, name: str) -> None:
        self.module, self.name, self.width = module, name, config.width
        self._shape = (_PARTS, config.width) if config.soft_attention else (config.width,)
        self.spec = self._try("trace_spec", module.trace_spec)
        self.fields = leaves(self.spec)
        self.input_window: int = getattr(module, "input_window", 0)
        self.windows = {name: field.window for name, field in self.fields.items()}
        if self.input_window:
            self.windows[FEATURES] = self.input_window
        self.window = max(self.windows.values(), default=0)
        self._generator = torch.Generator().manual_seed(1)

    def features(self, steps: int, batch: int = BATCH) -> Tensor:
        return torch.randn(batch, steps, *self._shape, generator=self._generator, dtype=torch.float64)

    def __call__(self, x: Tensor, state: State, want_trace: bool = True) -> tuple[Tensor, State, Trace]:
        def call() -> tuple[Tensor, State, Trace]:
            output, after, trace = self.module(x, state, want_trace)
            return output, after, trace

        return self._try(f"call on {tuple(x.shape)}", call)

    def output(self, x: Tensor, state: State) -> Tensor:
        return self(x, state)[0]

    def initial_state(self, batch: int = BATCH) -> State:
        return self._try("initial_state", lambda: self.module.initial_state(batch))

    def state_from_trace(self, rows: Mapping[str, Tensor], valid: Tensor, steps: Tensor) -> State:
        tree = from_leaves(self.spec, rows)
        features = (rows[FEATURES],) if self.input_window else ()
        return self._try(
            "state_from_trace", lambda: self.module.state_from_trace(tree, valid, steps, *features)
        )

    def cache(self, state: State) -> State:
        return self._try("cache", lambda: self.module.cache(state))

    def some_rows(self, count: int, batch: int = BATCH) -> dict[str, Tensor]:
        """The last rows [B, count, ...] that `state_from_trace` reads after so many steps from the start."""
        x = self.features(count, batch)
        if count == 0 or not self.fields:
            empty = {name: torch.zeros(batch, count, *f.shape).double() for name, f in self.fields.items()}
            return self.rows(x, empty)
        return self.rows(x, leaves(self(x, self.initial_state(batch))[2]))

    def rows(self, x: Tensor, trace: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The rows that `state_from_trace` reads of steps x [B, T, D] and their trace, as many of each as its
        window allows."""
        given = {**trace, FEATURES: x}
        return {name: given[name].detach()[:, -size:] for name, size in self.windows.items()}

    def same(self, contract: str, what: str, one: Tensor, other: Tensor) -> None:
        _same(self.name, contract, what, one, other)

    def must(self, holds: bool, contract: str, problem: str) -> None:
        if not holds:
            raise _broken(self.name, contract, problem)

    def _try(self, what: str, call: Callable[[], Any]) -> Any:
        return _called(self.name, f"its {what}", call)


def _shapes_and_dtypes(core: _Core) -> None:
    contract = "shapes and dtypes"
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
            leaf.dim() >= 1 and len(leaf) == BATCH,
            contract,
            f"initial_state({BATCH}) is {_kind(leaf)} at {at}; its first dimension must be {BATCH}",
        )
        core.must(
            not leaf.is_floating_point() or leaf.dtype == torch.float64,
            contract,
            f"initial_state is {_kind(leaf)} at {at}; it must have the parameters' dtype, float64 here",
        )
    for steps in (1, STEPS):
        x = core.features(steps)
        output, after, trace = core(x.requires_grad_(), state)
        wanted = (BATCH, steps, core.width)
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
            wanted = (BATCH, steps, *field.shape)
            core.must(
                tuple(left[path].shape) == wanted,
                contract,
                f"its trace is {_kind(left[path])} at {path}; by its trace_spec it must be {wanted}",
            )
    for count in (0, 1):  # at an episode's start replay has no row
        rows = core.some_rows(count)
        rows |= {name: rows[name].to(torch.float32) for name in core.fields}
        made = core.state_from_trace(rows, torch.ones(BATCH, count).bool(), torch.full((BATCH,), count))
        kinds = [{path: leaf.dtype for path, leaf in leaves(one).items()} for one in (made, state)]
        core.must(
            kinds[0] == kinds[1],
            contract,
            f"state_from_trace of {count} float32 rows has {kinds[0]}; it must have {kinds[1]}",
        )


_LEFT_ALONE = "a call leaves its arguments alone"


def _arguments_are_left_alone(core: _Core) -> None:
    contract = _LEFT_ALONE
    x, (_, state, _) = core.features(STEPS), core(core.features(2), core.initial_state())
    kept, kept_x = map_tree(Tensor.clone, state), x.clone()
    core(x, state)
    core.same(contract, "its input before and after", x, kept_x)
    for path, leaf in leaves(state).items():
        core.same(contract, f"the state's {path or 'root'} before and after", leaf, leaves(kept)[path])


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
    first = torch.tensor([True, False] * (BATCH // 2))
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
    for row in range(BATCH):
        alone = core.output(x[row : row + 1], map_tree(lambda leaf, at=row: leaf[at : at + 1], state))
        core.same(contract, f"batch row {row} alone and beside others", alone[0], output[row])


def _parity(core: _Core) -> None:
    contract = "the state made of stored trace rows is the carried one"
    window, probe = core.window, core.features(3)
    far = window + 3 if window <= LONG_WINDOW else STEPS
    for steps in sorted({0, 1, min(window, far), far}):
        state, rows = core.initial_state(), core.some_rows(0)
        if steps:
            x = core.features(steps)
            _, state, trace = core(x, state)
            rows = core.rows(x, leaves(trace))
        valid = torch.ones(BATCH, min(steps, window)).bool()
        made = core.state_from_trace(rows, valid, torch.full((BATCH,), steps))
        what = f"the output after the state that {steps} steps left, carried and made anew,"
        core.same(contract, what, core.output(probe, made), core.output(probe, state))


def _invalid_rows(core: _Core) -> None:
    contract = "junk in invalid trace rows changes nothing"
    window = min(core.window, LONG_WINDOW)
    if not window:
        return
    clean, probe = core.some_rows(window), core.features(3)
    steps = torch.arange(BATCH).clamp(max=window)
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
    real = torch.arange(BATCH) + 2
    is_real = torch.arange(STEPS) < real[:, None]
    x = core.features(STEPS)
    mask = is_real.view(BATCH, STEPS, *[1] * (x.dim() - 2))
    parameters = [p for p in core.module.parameters() if p.requires_grad]
    results: list[Sequence[Tensor]] = []
    for given in (x, torch.where(mask, x, 1e6)):
        output = core.output(given, core.initial_state())[is_real]
        gradient: Sequence[Tensor] = []
        if parameters and output.requires_grad:
            gradient = torch.autograd.grad(
                output.sin().sum(), parameters, allow_unused=True, materialize_grads=True
            )
        results.append([output, *gradient])
    for at, (one, other) in enumerate(zip(*results, strict=True)):
        what = "the gradient of the real steps" if at else "the output of the real steps"
        core.same(contract, what, other, one)


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
    with _seeded():
        module: Any = _called(name, "can be made", lambda: make_encoder(config, space, num_actions))
        module = _moved(module, name)
        inputs, others = (_inputs(space, num_actions, seed) for seed in (1, 2))

        def features(given: StepInputs) -> Tensor:
            return _called(name, "its call", lambda: module(given))

        def same(contract: str, what: str, one: Tensor, other: Tensor) -> None:
            _same(name, contract, what, one, other, 1e-4)

        kept = leaves(map_tree(torch.clone, inputs))
        whole = features(inputs)
        wanted = (BATCH, STEPS, config.width)
        good = tuple(whole.shape) == wanted or (
            config.soft_attention and whole.dim() == 4 and (*whole.shape[:2], whole.shape[3]) == wanted
        )
        if not good or whole.dtype != torch.float32:
            right = f"torch.float32 {wanted}, by network.width"
            raise _broken(name, "shapes and dtypes", f"its features are {_kind(whole)}; they must be {right}")
        if not bool(whole.isfinite().all()):
            raise _broken(name, "shapes and dtypes", "its features are not finite")
        for path, leaf in leaves(inputs).items():  # the actor's rows and replay's are read again
            same(_LEFT_ALONE, f"the inputs' {path} before and after", leaf, kept[path])
        features(others)
        contract = "the features of a step are of that step alone"
        same(contract, "a first call and a later one", features(inputs), whole)
        for at in range(STEPS):
            alone = features(map_tree(lambda x, at=at: x[:, at : at + 1], inputs))
            same(contract, f"step {at} alone and among others", alone, whole[:, at : at + 1])
        for row in range(BATCH):
            alone = features(map_tree(lambda x, row=row: x[row : row + 1], inputs))
            same(
                "batch rows are independent", f"batch row {row} alone and beside others", alone[0], whole[row]
            )
        changed = torch.where(inputs.first, (inputs.prev_action + 1) % num_actions, inputs.prev_action)
        what = "the features with one previous action and another"
        contract = "no previous action is read where an episode begins"
        same(contract, what, features(inputs._replace(prev_action=changed)), whole)
        contract = "integers of any dtype are read alike"
        same(contract, "the features of int64 and of uint8", features(map_tree(_narrow, inputs)), whole)


def _inputs(space: gymnasium.Space, num_actions: int, seed: int) -> StepInputs:
    """Random rows [B, T, ...], from an episode's first one on."""
    generator = torch.Generator().manual_seed(seed)
    space.seed(seed)
    samples = [space.sample() for _ in range(BATCH * STEPS)]

    def stacked(*parts: Any) -> Tensor:
        tensors = [torch.as_tensor(part) for part in parts]
        return torch.stack(tensors).view(BATCH, STEPS, *tensors[0].shape)

    first = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    first[:, 0] = True
    reward = torch.randn(BATCH, STEPS, generator=generator).masked_fill(first, 0.0)
    action = torch.randint(num_actions, (BATCH, STEPS), generator=generator)
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
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return module


def _called(name: str, what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ContractError:
        raise
    except Exception as error:  # whatever a user's class raises
        raise _broken(name, "shapes and dtypes", f"{what} failed: {located(error)}") from error


def _same(name: str, contract: str, what: str, one: Tensor, other: Tensor, tolerance: float = 1e-8) -> None:
    """A `ContractError` unless both are alike, relative to the larger of 1 and their largest number."""
    if one.shape != other.shape:
        raise _broken(name, contract, f"{what}: the shapes are {tuple(one.shape)} and {tuple(other.shape)}")
    if one.numel() == 0:
        return
    one, other = one.detach().double(), other.detach().double()
    difference = float((one - other).abs().max().nan_to_num(nan=float("inf")))
    if difference > tolerance * max(1.0, float(other.abs().max())):
        raise _broken(name, contract, f"{what} differ (by {difference:.2g} at most)")


def _broken(name: str, contract: str, problem: str) -> ContractError:
    return ContractError(" ".join(f"{name} breaks the contract '{contract}': {problem}".split()))


def _kind(x: Any) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
