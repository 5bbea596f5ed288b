"""The exported contract suite: the suite's own cores and encoders pass it, and broken ones do not."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dtqn.networks import builder
from dtqn.networks.stack import Hidden
from dtqn.settings.config import NetworkConfig
from dtqn.testing import SMALL, ContractError, check_core, check_encoder
from dtqn.types import StepInputs, TraceSpec
from tests.cases import CASES, SPACES
from tests.own_cores import Averages

CORES: dict[str, dict[str, Any]] = {
    **{name: {key: value for key, value in case.items() if key != "space"} for name, case in CASES.items()},
    **{core: {"core": core} for core in ("coberl", "lstm", "gru", "mingru", "lru", "deltanet", "none")},
    "skips": {"core": "lstm", "skip_connections": True, "chrono_init": True},
    "darqn": {"core": "lstm", "soft_attention": True},
}


def small(**settings: Any) -> NetworkConfig:
    return NetworkConfig.model_validate(SMALL.model_dump() | settings)


@pytest.mark.parametrize("name", CORES)
def test_the_suites_cores_pass(name: str) -> None:
    check_core(builder.make_core, small(**CORES[name]))


def test_a_core_with_two_windows_passes() -> None:
    check_core(Averages, small())


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


class Average(nn.Module):
    """h_t = a h_{t-1} + (1 - a) x_t; the output is x_t + W h_t."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.keep = nn.Parameter(torch.zeros(width))
        self.mix = nn.Linear(width, width)
        self.width = width

    def trace_spec(self) -> Any:
        return Hidden(TraceSpec((self.width,), 1))

    def initial_state(self, batch_size: int) -> Any:
        return Hidden(self.keep.new_zeros(batch_size, self.width))

    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        if valid.shape[1] == 0:
            return self.initial_state(len(valid))
        last = rows.hidden[:, -1].to(self.keep.dtype)
        return Hidden(last.masked_fill(~valid[:, -1, None], 0.0))

    def cache(self, state: Any) -> Any:
        return state

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        keep, hidden, rows = torch.sigmoid(self.keep), state.hidden, []
        for t in range(x.shape[1]):
            hidden = keep * hidden + (1 - keep) * x[:, t]
            rows.append(hidden)
        trace = torch.stack(rows, dim=1)
        output = x + self.mix(trace)
        return self.changed(x, state, output, Hidden(trace[:, -1].detach()), Hidden(trace))

    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        """What a broken one gives in place of these."""
        return output, after, trace


class LeaksTheFuture(Average):
    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        return super().forward(x + 1e-3 * x.mean(dim=1, keepdim=True), state, want_trace)


class CarriesAnAttribute(Average):
    """It forgets to reset: the state is its own attribute."""

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        before = getattr(self, "left", state)
        before = before if before.hidden.shape == state.hidden.shape else state
        output, self.left, trace = super().forward(x, before, want_trace)
        return output, self.left, trace


class MixesTheBatch(Average):
    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output + 1e-3 * after.hidden.mean(), after, trace


class SeesTheLengthOfACall(Average):
    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output / x.shape[1], after, trace


class StoresAnotherRow(Average):
    """It stores each row rounded."""

    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output, after, Hidden((trace.hidden * 100).round() / 100)


class ReadsInvalidRows(Average):
    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        if valid.shape[1] == 0:
            return self.initial_state(len(valid))
        return Hidden(rows.hidden[:, -1].to(self.keep.dtype))


class WritesIntoItsState(Average):
    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        output, after, trace = super().forward(x, state, want_trace)
        state.hidden.copy_(after.hidden)
        return output, after, trace


class GivesAnotherShape(Average):
    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output, Hidden(after.hidden[:, None]), trace


class GivesAShortTrace(Average):
    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output, after, Hidden(trace.hidden[:, -1:])


class KeepsTheGradient(Average):
    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        output, _, trace = super().forward(x, state, want_trace)
        return output, Hidden(trace.hidden[:, -1]), trace


class KeepsHalfPrecision(Average):
    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        if valid.shape[1] == 0:
            return self.initial_state(len(valid))
        return Hidden(rows.hidden[:, -1].masked_fill(~valid[:, -1, None], 0.0))


class NeedsARow(Average):
    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        return Hidden(rows.hidden[:, -1].to(self.keep.dtype).masked_fill(~valid[:, -1, None], 0.0))


class Multiplies(Average):
    """Padding of 1e6 reaches the gradient: a norm over all steps of the call, of which forward undoes it."""

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        output, after, trace = super().forward(x, state, want_trace)
        leak = self.mix.bias.sum() * x.mean()
        return output + (leak - leak.detach()), after, trace


class WritesIntoItsStateWithoutTrace(Average):
    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        output = super().forward(x, state)
        if not want_trace:
            state.hidden.add_(1.0)
        return output


class WritesIntoItsRows(Average):
    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        state = super().state_from_trace(rows, valid, episode_step)
        rows.hidden.mul_(0.5)
        return state


class WritesIntoTheFlags(Average):
    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        state = super().state_from_trace(rows, valid, episode_step)
        valid.fill_(False)
        return state


class WritesIntoWhatItCaches(Average):
    def cache(self, state: Any) -> Any:
        state.hidden.add_(1.0)
        return Hidden(state.hidden - 1.0)


class CountsUp(Average):
    """Its rows grow with the episode. They are exact in float64; float16 rounds them to 1/512 at last."""

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        steps = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None].expand(x.shape)
        count = state.hidden[:, None] + 0.01 * steps
        return x + self.mix(torch.cos(300 * count)), Hidden(count[:, -1]), Hidden(count)


class Sums(Average):
    """The sum of all features; it says that its state is one of the last `window` rows."""

    window = 80

    def trace_spec(self) -> Any:
        return Hidden(TraceSpec((self.width,), self.window))

    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        return Hidden(rows.hidden.to(self.keep.dtype).masked_fill(~valid[..., None], 0.0).sum(dim=1))

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        sums = state.hidden[:, None] + x.cumsum(dim=1)
        return x + self.mix(0.01 * torch.sin(sums)), Hidden(sums[:, -1].detach()), Hidden(x)


class SumsFarther(Sums):
    window = 2000


class OverflowsLater(Average):
    """Its output is 2^(steps squared)."""

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        count = state.hidden[:, None] + torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None].expand(
            x.shape
        )
        return x + self.mix(0 * torch.exp2(count**2)), Hidden(count[:, -1]), Hidden(count)


class MixesALargeBatch(Average):
    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        return super().forward(x + x.mean(dim=0) if len(x) >= 8 else x, state, want_trace)


class MixesALargeBatchOfRows(Average):
    def state_from_trace(self, rows: Any, valid: Tensor, episode_step: Tensor) -> Any:
        state = super().state_from_trace(rows, valid, episode_step)
        return Hidden(state.hidden.mean(dim=0).expand_as(state.hidden)) if len(valid) >= 8 else state


class HasDoubleConstants(Average):
    def initial_state(self, batch_size: int) -> Any:
        return Hidden(torch.zeros(batch_size, self.width, dtype=torch.float64))


class HasADoubleBuffer(Average):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("scale", torch.ones(width, dtype=torch.float64))

    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output * self.scale, after, trace


class Detaches(Average):
    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output.detach(), after, trace


class DetachesItsInput(Average):
    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        return super().forward(x.detach(), state, want_trace)


class Frozen(Average):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.requires_grad_(False)


class KeepsItsFirstWeights(Average):
    """Some of them: the others are followed."""

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        if not hasattr(self, "kept"):
            self.kept = self.keep.detach().clone()
        output, after, trace = super().forward(x, state, want_trace)
        return output + self.kept, after, trace


class HasWeightsOfNoStateDict(Average):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.shift = torch.randn(width)

    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output + self.shift, after, trace


class ReadsTheNewestOnesWeights(Average):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        type(self).newest = self.keep

    def changed(self, x: Tensor, state: Any, output: Tensor, after: Any, trace: Any) -> Any:
        return output + self.newest, after, trace


class KeepsTheFirstOnesWeights(Average):
    """All of them, of the class's first call, but a gradient goes through to its own."""

    first: list[Tensor] = []  # noqa: RUF012  # what is wrong with it

    def __init__(self, width: int) -> None:
        super().__init__(width)
        del self.mix

    def forward(self, x: Tensor, state: Any, want_trace: bool = True) -> Any:
        self.first.append(self.keep.detach().clone())
        output = x + self.first[0] + self.keep - self.keep.detach()
        return output, state, Hidden(state.hidden[:, None].expand(x.shape))


class NothingToLearn(Average):
    """Its only weights are buffers."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        for module, name in ((self, "keep"), (self.mix, "weight"), (self.mix, "bias")):
            value = getattr(module, name).detach()
            delattr(module, name)
            module.register_buffer(name, value)


def test_a_core_without_parameters_passes() -> None:
    core = NothingToLearn(3)
    assert not list(core.parameters()) and len(core.state_dict()) == 3
    check_core(lambda config: NothingToLearn(config.width))


def test_a_core_of_frozen_parameters_passes() -> None:
    check_core(lambda config: Frozen(config.width))


def test_a_trace_that_is_stored_exactly_may_grow() -> None:
    """As the setting or the core itself says."""

    class Exact(CountsUp):
        def trace_spec(self) -> Any:
            return Hidden(TraceSpec((self.width,), 1, np.dtype(np.float32)))

    check_core(lambda config: CountsUp(config.width), trace_dtype="float32")
    check_core(lambda config: Exact(config.width))


def test_a_small_core_passes() -> None:
    check_core(lambda config: Average(config.width))
    check_core(lambda config: Average(config.width), small(width=6))


@pytest.mark.parametrize(
    ("core", "contract"),
    [
        (LeaksTheFuture, "causality"),
        (CarriesAnAttribute, "a reset equals a fresh start"),
        (MixesTheBatch, "batch rows are independent"),
        (SeesTheLengthOfACall, "any split into calls is the same function"),
        (StoresAnotherRow, "the state made of stored trace rows is the carried one"),
        (ReadsInvalidRows, "junk in invalid trace rows changes nothing"),
        (WritesIntoItsState, "a call leaves its arguments alone"),
        (GivesAnotherShape, "shapes and dtypes"),
        (GivesAShortTrace, "shapes and dtypes"),
        (KeepsTheGradient, "shapes and dtypes"),
        (KeepsHalfPrecision, "shapes and dtypes"),
        (NeedsARow, "shapes and dtypes"),
        (Multiplies, "junk in padding changes nothing"),
        (WritesIntoItsStateWithoutTrace, "a call leaves its arguments alone"),
        (WritesIntoItsRows, "a call leaves its arguments alone"),
        (WritesIntoTheFlags, "a call leaves its arguments alone"),
        (WritesIntoWhatItCaches, "a call leaves its arguments alone"),
        (CountsUp, "the state made of stored trace rows is the carried one"),
        (Sums, "the state made of stored trace rows is the carried one"),
        (SumsFarther, "the state made of stored trace rows is the carried one"),
        (OverflowsLater, "shapes and dtypes"),
        (MixesALargeBatch, "batch rows are independent"),
        (MixesALargeBatchOfRows, "the state made of stored trace rows is the carried one"),
        (HasDoubleConstants, "shapes and dtypes"),
        (HasADoubleBuffer, "shapes and dtypes"),
        (Detaches, "a gradient reaches its parameters and its input"),
        (DetachesItsInput, "a gradient reaches its parameters and its input"),
        (KeepsItsFirstWeights, "the output follows the parameters"),
        (HasWeightsOfNoStateDict, "the output follows the parameters"),
        (ReadsTheNewestOnesWeights, "the output follows the parameters"),
        (KeepsTheFirstOnesWeights, "the output follows the parameters"),
    ],
)
def test_a_broken_core_is_told_what_it_breaks(core: type[Average], contract: str) -> None:
    with pytest.raises(ContractError, match=f"^mine breaks the contract '{contract}': ") as error:
        check_core(lambda config: core(config.width), name="mine")
    assert "\n" not in str(error.value)


class Steps(nn.Module):
    """The features are an embedding of the observation and, after an episode's start, of the action."""

    def __init__(self, config: NetworkConfig, space: Any, num_actions: int) -> None:
        super().__init__()
        self.observation = nn.Embedding(int(space.n), config.width)
        self.action = nn.Embedding(num_actions, config.width)

    def forward(self, inputs: StepInputs) -> Tensor:
        action = self.action(inputs.prev_action.long()).masked_fill(inputs.first[..., None], 0.0)
        return self.observation(inputs.observation.long()) + action


class LooksBack(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        return super().forward(inputs).cumsum(dim=1)


class CentresTheBatch(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        features = super().forward(inputs)
        return features - features.mean(dim=0)


class ReadsTheFirstAction(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        return super().forward(inputs._replace(first=inputs.first & False))


class Flattens(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        return super().forward(inputs).flatten(1)


class WantsInt64(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        return super().forward(inputs) * (inputs.observation.dtype == torch.int64)


class WritesToTheReward(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        inputs.reward.clamp_(-0.5, 0.5)
        return super().forward(inputs)


class WritesToTheFlag(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        features = super().forward(inputs)
        inputs.first.fill_(True)
        return features


class CentresALargeBatch(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        features = super().forward(inputs)
        return features - features.mean(dim=0) if len(features) >= 8 else features


class DetachesFeatures(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        return super().forward(inputs).detach()


class KeepsItsFirstEmbedding(Steps):
    def forward(self, inputs: StepInputs) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = self.action.weight.detach().clone()
        return super().forward(inputs) + self.kept[0]


class FrozenSteps(Steps):
    def __init__(self, config: NetworkConfig, space: Any, num_actions: int) -> None:
        super().__init__(config, space, num_actions)
        self.requires_grad_(False)


class CountsItsCalls(Steps):
    def __init__(self, config: NetworkConfig, space: Any, num_actions: int) -> None:
        super().__init__(config, space, num_actions)
        self.calls = nn.Parameter(torch.zeros(1, dtype=torch.int64), requires_grad=False)


@pytest.mark.parametrize("encoder", [Steps, FrozenSteps])
def test_a_small_encoder_passes(encoder: type[Steps]) -> None:
    check_encoder(encoder)


@pytest.mark.parametrize(
    ("encoder", "contract"),
    [
        (LooksBack, "the features of a step are of that step alone"),
        (CentresTheBatch, "batch rows are independent"),
        (ReadsTheFirstAction, "no previous action is read where an episode begins"),
        (Flattens, "shapes and dtypes"),
        (WantsInt64, "integers of any dtype are read alike"),
        (WritesToTheReward, "a call leaves its arguments alone"),
        (WritesToTheFlag, "a call leaves its arguments alone"),
        (CentresALargeBatch, "batch rows are independent"),
        (DetachesFeatures, "a gradient reaches its parameters"),
        (KeepsItsFirstEmbedding, "the output follows the parameters"),
        (CountsItsCalls, "can be made"),
    ],
)
def test_a_broken_encoder_is_told_what_it_breaks(encoder: type[Steps], contract: str) -> None:
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
