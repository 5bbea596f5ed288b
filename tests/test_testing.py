"""The exported contract suite: the suite's own cores and encoders pass it, and broken ones do not."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dtqn.networks import builder
from dtqn.networks.stack import Hidden
from dtqn.settings.config import NetworkConfig
from dtqn.testing import ContractError, check_core, check_encoder
from dtqn.types import MemorySpec, StepInputs
from tests import cases
from tests.cases import CASES, REGISTERED, SPACES, network_config
from tests.own_cores import Averages, make_convolved

CORES: dict[str, dict[str, Any]] = {
    **{f"case {name}": {k: v for k, v in case.items() if k != "space"} for name, case in CASES.items()},
    **REGISTERED,
    "skips": {"core": "lstm", "skip_connections": True, "core.initial_weights": "chrono"},
    "darqn": {"core": "lstm", "soft_attention": True},
}


def small(**settings: Any) -> NetworkConfig:
    return network_config(**(cases.SMALL | settings))


@pytest.mark.parametrize("name", CORES)
def test_the_suites_cores_pass(name: str) -> None:
    check_core(builder.make_core, small(**CORES[name]))


@pytest.mark.parametrize("make_core", [Averages, make_convolved], ids=["two windows", "two shapes"])
def test_a_core_whose_fields_differ_passes(make_core: Any) -> None:
    check_core(make_core, small())


ENCODERS: dict[str, dict[str, Any]] = {
    "default": {},
    "reward": {"use_prev_reward": True},
    "dtqn": {"encoder": "dtqn"},
    "parts": {"core": "lstm", "soft_attention": True},
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_suites_encoders_pass(space: str, encoder: str) -> None:
    check_encoder(builder.make_encoder, small(**ENCODERS[encoder]), SPACES[space])


def test_an_encoder_of_a_dict_and_of_pictures_passes() -> None:
    picture = gymnasium.spaces.Box(0, 255, (16, 16, 3), np.uint8)
    space = gymnasium.spaces.Dict({"picture": picture, "cue": gymnasium.spaces.Discrete(4, start=1)})
    check_encoder(builder.make_encoder, small(), space, num_actions=2)


class Call(NamedTuple):
    """What `Average` was given, and what it gives."""

    x: Tensor
    state: Any
    want_memory: bool
    output: Tensor
    after: Any
    memory: Any


class Average(nn.Module):
    """h_t = a h_{t-1} + (1 - a) x_t; the output is x_t + W h_t. A broken one has other methods."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.keep = nn.Parameter(torch.zeros(width))
        self.mix = nn.Linear(width, width)
        self.width = width
        self.begin()

    def begin(self) -> None:
        """The end of its `__init__`."""

    def read(self, x: Tensor) -> Tensor:
        return x

    def write(self, call: Call) -> None:
        """Done at the end of a call."""

    def told(self, call: Call) -> Call:
        return call

    def write_memory(self, memory: Any, valid: Tensor) -> None:
        """Done at the end of `state_from_memory`."""

    def made(self, last: Tensor, memory: Any, valid: Tensor) -> Tensor:
        """The state made of the `last` memory [B, D], 0 where it is not valid."""
        return last

    def memory_spec(self) -> Any:
        return Hidden(MemorySpec((self.width,), 1))

    def initial_state(self, batch_size: int) -> Any:
        return Hidden(self.keep.new_zeros(batch_size, self.width))

    def state_from_memory(self, memory: Any, valid: Tensor, episode_step: Tensor) -> Any:
        if valid.shape[1] == 0:
            return self.initial_state(len(valid))
        last = memory.hidden[:, -1].to(self.keep.dtype).masked_fill(~valid[:, -1, None], 0.0)
        state = Hidden(self.made(last, memory, valid))
        self.write_memory(memory, valid)
        return state

    def cache(self, state: Any) -> Any:
        return state

    def forward(self, x: Tensor, state: Any, want_memory: bool = True) -> Any:
        x, keep, hidden, steps = self.read(x), torch.sigmoid(self.keep), state.hidden, []
        for t in range(x.shape[1]):
            hidden = keep * hidden + (1 - keep) * x[:, t]
            steps.append(hidden)
        memory = torch.stack(steps, dim=1)
        after = Hidden(memory[:, -1].detach())
        call = Call(x, state, want_memory, x + self.mix(memory), after, Hidden(memory))
        self.write(call)
        return self.told(call)[-3:]


class CarriesAnAttribute(Average):
    """It forgets to reset: the state is its own attribute."""

    def forward(self, x: Tensor, state: Any, want_memory: bool = True) -> Any:
        before = getattr(self, "left", state)
        before = before if before.hidden.shape == state.hidden.shape else state
        output, self.left, memory = super().forward(x, before, want_memory)
        return output, self.left, memory


class NeedsMemory(Average):
    def state_from_memory(self, memory: Any, valid: Tensor, episode_step: Tensor) -> Any:
        return Hidden(memory.hidden[:, -1].to(self.keep.dtype).masked_fill(~valid[:, -1, None], 0.0))


class CountsUp(Average):
    """Its memory grows with the episode. It is exact in float64; float16 rounds it to 1/512 at last."""

    def forward(self, x: Tensor, state: Any, want_memory: bool = True) -> Any:
        steps = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None].expand(x.shape)
        count = state.hidden[:, None] + 0.01 * steps
        return x + self.mix(self.of(count)), Hidden(count[:, -1]), Hidden(count)

    def of(self, count: Tensor) -> Tensor:
        return torch.cos(300 * count)


class Sums(Average):
    """The sum of all features; it says that its state is one of the last `window` steps."""

    window = 80

    def memory_spec(self) -> Any:
        return Hidden(MemorySpec((self.width,), self.window))

    def state_from_memory(self, memory: Any, valid: Tensor, episode_step: Tensor) -> Any:
        return Hidden(memory.hidden.to(self.keep.dtype).masked_fill(~valid[..., None], 0.0).sum(dim=1))

    def forward(self, x: Tensor, state: Any, want_memory: bool = True) -> Any:
        sums = state.hidden[:, None] + x.cumsum(dim=1)
        return x + self.mix(0.01 * torch.sin(sums)), Hidden(sums[:, -1].detach()), Hidden(x)


def without_value(x: Tensor) -> Tensor:
    """0, whose gradient is that of x."""
    return x - x.detach()


def freeze(module: nn.Module) -> None:
    module.requires_grad_(False)


def keep_buffers_alone(core: Average) -> None:
    """Its only weights are no parameters."""
    for module, name in ((core, "keep"), (core.mix, "weight"), (core.mix, "bias")):
        value = getattr(module, name).detach()
        delattr(module, name)
        module.register_buffer(name, value)


@pytest.mark.parametrize("begin", [Average.begin, freeze, keep_buffers_alone])
@pytest.mark.parametrize("width", [6, 8])
def test_a_small_core_passes(begin: Any, width: int) -> None:
    core: Any = type("Core", (Average,), {"begin": begin})
    assert len(core(3).state_dict()) == 3
    check_core(lambda config: core(config.width), small(width=width))


def test_memory_that_is_stored_exactly_may_grow() -> None:
    """As the setting or the core itself says."""

    class Exact(CountsUp):
        def memory_spec(self) -> Any:
            return Hidden(MemorySpec((self.width,), 1, np.dtype(np.float32)))

    check_core(lambda config: CountsUp(config.width), memory_dtype="float32")
    check_core(lambda config: Exact(config.width))


CAUSALITY, RESET, ELEMENTS = "causality", "a reset equals a fresh start", "batch elements are independent"
SPLIT, SHAPES = "any split into calls is the same function", "shapes and dtypes"
CARRIED = "the state made of stored memory is the carried one"
INVALID = "junk in invalid stored memory changes nothing"
LEFT_ALONE, PADDING = "a call leaves its arguments alone", "junk in padding changes nothing"
GRADIENT = "a gradient reaches its parameters and its input"
FOLLOWS = "the output follows the parameters"
BROKEN_CORES: dict[str, tuple[str, type[Average], dict[str, Any]]] = {
    "leaks the future": (CAUSALITY, Average, {"read": lambda _, x: x + 1e-3 * x.mean(dim=1, keepdim=True)}),
    "carries an attribute": (RESET, CarriesAnAttribute, {}),
    "mixes the batch": (ELEMENTS, Average, {
        "told": lambda _, call: call._replace(output=call.output + 1e-3 * call.after.hidden.mean())}),
    "mixes a large batch": (ELEMENTS, Average, {
        "read": lambda _, x: x + x.mean(dim=0) if len(x) >= 8 else x}),
    "sees the length of a call": (SPLIT, Average, {
        "told": lambda _, call: call._replace(output=call.output / call.x.shape[1])}),
    "stores rounded memory": (CARRIED, Average, {
        "told": lambda _, call: call._replace(memory=Hidden((call.memory.hidden * 100).round() / 100))}),
    "mixes a large batch of memory": (CARRIED, Average, {
        "made": lambda _, last, *given: last.mean(dim=0).expand_as(last) if len(last) >= 8 else last}),
    "counts up": (CARRIED, CountsUp, {}),
    "sums": (CARRIED, Sums, {}),
    "sums farther": (CARRIED, Sums, {"window": 2000}),
    "reads invalid memory": (INVALID, Average, {
        "made": lambda core, last, memory, valid: memory.hidden[:, -1].to(core.keep.dtype)}),
    "writes into its state": (LEFT_ALONE, Average, {
        "write": lambda _, call: call.state.hidden.copy_(call.after.hidden)}),
    "writes into its state without memory": (LEFT_ALONE, Average, {
        "write": lambda _, call: call.want_memory or call.state.hidden.add_(1.0)}),
    "writes into its memory": (LEFT_ALONE, Average, {
        "write_memory": lambda _, memory, valid: memory.hidden.mul_(0.5)}),
    "writes into the flags": (LEFT_ALONE, Average, {"write_memory": lambda *given: given[-1].fill_(False)}),
    "writes into what it caches": (LEFT_ALONE, Average, {
        "cache": lambda _, state: Hidden(state.hidden.add_(1.0) - 1.0)}),
    "gives another shape": (SHAPES, Average, {
        "told": lambda _, call: call._replace(after=Hidden(call.after.hidden[:, None]))}),
    "gives short memory": (SHAPES, Average, {
        "told": lambda _, call: call._replace(memory=Hidden(call.memory.hidden[:, -1:]))}),
    "keeps the gradient": (SHAPES, Average, {
        "told": lambda _, call: call._replace(after=Hidden(call.memory.hidden[:, -1]))}),
    "keeps half precision": (SHAPES, Average, {
        "made": lambda _, last, memory, valid: memory.hidden[:, -1].masked_fill(~valid[:, -1, None], 0.0)}),
    "needs memory": (SHAPES, NeedsMemory, {}),
    "overflows later": (SHAPES, CountsUp, {"of": lambda _, count: 0 * torch.exp2((100 * count) ** 2)}),
    "has double constants": (SHAPES, Average, {
        "initial_state": lambda core, batch: Hidden(torch.zeros(batch, core.width, dtype=torch.float64))}),
    "has a double buffer": (SHAPES, Average, {
        "begin": lambda core: core.register_buffer("scale", torch.ones(core.width, dtype=torch.float64)),
        "told": lambda core, call: call._replace(output=call.output * core.scale)}),
    # A norm over all steps of the call, say, of which forward undoes the value.
    "multiplies": (PADDING, Average, {"told": lambda core, call: call._replace(
        output=call.output + without_value(core.mix.bias.sum() * call.x.mean()))}),
    "detaches": (GRADIENT, Average, {"told": lambda _, call: call._replace(output=call.output.detach())}),
    "detaches its input": (GRADIENT, Average, {"read": lambda _, x: x.detach()}),
    "keeps some of its first weights": (FOLLOWS, Average, {"told": lambda core, call: call._replace(
        output=call.output + vars(core).setdefault("kept", core.keep.detach().clone()))}),
    "has weights of no state dict": (FOLLOWS, Average, {
        "begin": lambda core: setattr(core, "shift", torch.randn(core.width)),
        "told": lambda core, call: call._replace(output=call.output + core.shift)}),
    "reads the newest one's weights": (FOLLOWS, Average, {
        "begin": lambda core: setattr(type(core), "newest", core.keep),
        "told": lambda core, call: call._replace(output=call.output + core.newest)}),
    # All of them, of the class's first call, but a gradient goes through to its own.
    "keeps the first one's weights": (FOLLOWS, Average, {
        "first": {}, "told": lambda core, call: call._replace(output=call.x + without_value(core.keep)
            + core.first.setdefault(0, core.keep.detach().clone()))}),
}  # fmt: skip
"""Its contract, and what is other in which core."""


@pytest.mark.parametrize("name", BROKEN_CORES)
def test_a_broken_core_is_told_what_it_breaks(name: str) -> None:
    contract, base, methods = BROKEN_CORES[name]
    core: Any = type("Core", (base,), methods)
    with pytest.raises(ContractError, match=f"^mine breaks the contract '{contract}': ") as error:
        check_core(lambda config: core(config.width), name="mine")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("leak", [1e-9, 1e-3])
def test_a_check_tells_what_held_and_by_how_much(leak: float, capsys: pytest.CaptureFixture[str]) -> None:
    """A step may see 1e-8 of later ones; here it sees so much."""
    core: Any = type(
        "Core",
        (Average,),
        {"told": lambda self, call: call._replace(output=call.output + leak * call.x.flip(1).tanh())},
    )
    is_broken = leak > 1e-8
    with pytest.raises(ContractError) if is_broken else contextlib.nullcontext():
        check_core(lambda config: core(config.width), name="mine")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    held = {line.partition("  ")[0]: line.split()[-3:] for line in lines}
    assert held.pop("contract") == ["found", "of", "allowed"]
    if is_broken:
        assert held["batch elements are independent"][-1] != "BROKEN" and held["causality"][-1] == "BROKEN"
        assert not any(line.startswith("mine") for line in lines)
    else:
        assert lines[-1] == f"mine holds all {len(held) - 1} contracts"
        assert held["shapes and dtypes"][-1] == "holds" and held["causality"][1:] == ["of", "1e-08"]
        assert 1e-10 < float(held["causality"][0]) < 1e-8


class Steps(nn.Module):
    """The features are an embedding of the observation and, after an episode's start, of the action.

    A broken one has other methods.
    """

    def __init__(self, config: NetworkConfig, space: Any, num_actions: int) -> None:
        super().__init__()
        self.observation = nn.Embedding(int(space.n), config.width)
        self.action = nn.Embedding(num_actions, config.width)
        self.begin()

    def begin(self) -> None:
        """The end of its `__init__`."""

    def read(self, inputs: StepInputs) -> StepInputs:
        return inputs

    def told(self, inputs: StepInputs, features: Tensor) -> Tensor:
        return features

    def write(self, inputs: StepInputs) -> None:
        """Done at the end of a call."""

    def forward(self, inputs: StepInputs) -> Tensor:
        read = self.read(inputs)
        action = self.action(read.prev_action.long()).masked_fill(read.first[..., None], 0.0)
        features = self.told(inputs, self.observation(read.observation.long()) + action)
        self.write(inputs)
        return features


@pytest.mark.parametrize("begin", [Steps.begin, freeze])
def test_a_small_encoder_passes(begin: Any) -> None:
    check_encoder(type("Encoder", (Steps,), {"begin": begin}))


BROKEN_ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "looks back": ("the features of a step are of that step alone", {
        "told": lambda _, inputs, x: x.cumsum(dim=1)}),
    "centres the batch": (ELEMENTS, {"told": lambda _, inputs, x: x - x.mean(dim=0)}),
    "centres a large batch": (ELEMENTS, {
        "told": lambda _, inputs, x: x - x.mean(dim=0) if len(x) >= 8 else x}),
    "reads the first action": ("no previous action is read where an episode begins", {
        "read": lambda _, inputs: inputs._replace(first=inputs.first & False)}),
    "flattens": (SHAPES, {"told": lambda _, inputs, x: x.flatten(1)}),
    "wants int64": ("integers of any dtype are read alike", {
        "told": lambda _, inputs, x: x * (inputs.observation.dtype == torch.int64)}),
    "writes to the reward": (LEFT_ALONE, {"write": lambda _, inputs: inputs.reward.clamp_(-0.5, 0.5)}),
    "writes to the flag": (LEFT_ALONE, {"write": lambda _, inputs: inputs.first.fill_(True)}),
    "detaches": ("a gradient reaches its parameters", {"told": lambda _, inputs, x: x.detach()}),
    "keeps its first embedding": (FOLLOWS, {
        "told": lambda core, inputs, x:
            x + vars(core).setdefault("kept", core.action.weight.detach().clone())[0]}),
    "counts its calls": ("can be made", {"begin": lambda core: core.register_parameter(
        "calls", nn.Parameter(torch.zeros(1, dtype=torch.int64), requires_grad=False))}),
}  # fmt: skip
"""Its contract, and what is other in it."""


@pytest.mark.parametrize("name", BROKEN_ENCODERS)
def test_a_broken_encoder_is_told_what_it_breaks(name: str) -> None:
    contract, methods = BROKEN_ENCODERS[name]
    encoder = type("Encoder", (Steps,), methods)
    with pytest.raises(ContractError, match=f"^mine breaks the contract '{contract}': ") as error:
        check_encoder(encoder, name="mine")
    assert "\n" not in str(error.value)


def test_a_check_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    check_core(lambda config: Average(config.width))
    check_encoder(Steps)
    assert torch.equal(torch.rand(2), expected)
