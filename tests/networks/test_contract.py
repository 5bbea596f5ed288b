"""The memory contract, for every kind of network: what makes the actor and the learner mean the same."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dtqn.networks.attention import RelativeAttention
from dtqn.networks.coberl import CoBERL
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.q_network import memory_window
from dtqn.networks.windowed_q_network import WindowedQNetwork
from dtqn.settings import layers, presets
from dtqn.types import State, StepInputs, from_leaves, leaves, map_tree, reset_states
from tests.cases import CASES, PRESETS, SMALL, SPACES, WINDOWED, another, inputs, make, network_config, part

STEPS = 11
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-9}


def of_preset(agent: str) -> dict[str, Any]:
    """The network of a preset, narrow, on one of the spaces in turn."""
    network = layers.build([presets.find_agent(agent).preset]).network.model_dump()
    sizes = {name: value for name, value in SMALL.items() if name not in ("num_layers", "num_heads")}
    sizes |= {"head_width": 16}  # a few ReLUs are all dead by chance
    return network | sizes | {"space": list(SPACES)[PRESETS.index(agent) % len(SPACES)]}


@pytest.fixture(params=[*CASES, *WINDOWED, *(f"preset {agent}" for agent in PRESETS)], scope="module")
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, str]:
    name = request.param
    settings = (
        of_preset(name.removeprefix("preset "))
        if name.startswith("preset ")
        else dict((CASES | WINDOWED)[name])
    )
    space = settings.pop("space")
    return make(space, **settings).requires_grad_(False), space


def partly_filled(network: nn.Module, batch: int, seed: int = 5) -> State:
    """A state whose timesteps have 0, 1, 2, ... steps behind them; the rest of their stored memory is
    junk."""
    window = window_of(network)
    steps = torch.arange(batch)
    valid = torch.arange(window) >= window - steps[:, None]
    return network.state_from_memory(some_trace(network, batch, seed), valid, steps)


def window_of(network: nn.Module) -> int:
    """The number of timesteps before a step that its state is a function of."""
    return network.held_timesteps if is_windowed(network) else memory_window(network)


def is_windowed(network: nn.Module) -> bool:
    return isinstance(network, WindowedQNetwork)


def some_trace(network: nn.Module, batch: int, seed: int) -> dict[str, Tensor]:
    """Random stored memory [B, W, ...]; for a windowed network raw timesteps."""
    if is_windowed(network):
        window = window_of(network)
        timesteps = inputs(space_of(network), batch, 2 * window + 2, seed, first=False)
        return {name: x[:, x.shape[1] - window :] for name, x in leaves(timesteps).items()}
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(batch, window_of(network), *field.shape, generator=generator, dtype=torch.float64)
        for name, field in network.memory_spec().items()
    }


def space_of(network: nn.Module) -> str:
    return next(name for name, space in SPACES.items() if space == network.observation_space)


def values(network: nn.Module, timesteps: StepInputs, state: State) -> Tensor:
    return network(timesteps, state)[0].q


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.sets(st.integers(1, STEPS - 1)), cached=st.lists(st.booleans(), min_size=STEPS, max_size=STEPS)
)
def test_any_split_into_calls_is_the_same_function(
    case: tuple[nn.Module, str], cuts: set[int], cached: list[bool]
) -> None:
    network, space = case
    timesteps = inputs(space, 4, STEPS, first=False)
    whole, _, whole_trace = network(timesteps, partly_filled(network, 4))
    state, q, stored = partly_filled(network, 4), [], []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), STEPS], strict=True):
        state = network.cache(state) if cached[start] else state
        output, state, left = network(part(timesteps, start, stop), state)
        q.append(output.q)
        stored.append(left)
    torch.testing.assert_close(torch.cat(q, 1), whole.q, **CLOSE)
    for name in network.memory_spec():
        joined = torch.cat([leaves(left)[name] for left in stored], 1)
        torch.testing.assert_close(joined, leaves(whole_trace)[name], **CLOSE)


def test_without_trace_the_values_are_the_same(case: tuple[nn.Module, str]) -> None:
    network, space = case
    timesteps, state = inputs(space, 4, STEPS, first=False), partly_filled(network, 4)
    output, _, _ = network(timesteps, state, want_memory=False)
    torch.testing.assert_close(output.q, values(network, timesteps, state), **CLOSE)


def test_batch_rows_are_independent(case: tuple[nn.Module, str]) -> None:
    network, space = case
    timesteps, others = inputs(space, 4, STEPS, 1), inputs(space, 4, STEPS, 2)
    is_mine = torch.tensor([True, False, True, False])
    mixed = StepInputs(
        *(
            torch.where(is_mine.view(-1, *[1] * (a.dim() - 1)), a, b)
            for a, b in zip(timesteps, others, strict=True)
        )
    )
    state, other_state = partly_filled(network, 4, 1), partly_filled(network, 4, 2)
    q = values(network, timesteps, state)
    mixed_q = values(network, mixed, reset_states(other_state, state, is_mine))
    torch.testing.assert_close(mixed_q[is_mine], q[is_mine], **CLOSE)
    for timestep in range(4):
        alone = StepInputs(*(x[timestep : timestep + 1] for x in timesteps))
        alone_state = map_tree(lambda x, timestep=timestep: x[timestep : timestep + 1], state)
        torch.testing.assert_close(values(network, alone, alone_state)[0], q[timestep], **CLOSE)


@pytest.mark.parametrize("cached", [False, True])
def test_reset_equals_a_fresh_start(case: tuple[nn.Module, str], cached: bool) -> None:
    network, space = case
    kept = network.cache if cached else lambda state: state
    before, after = inputs(space, 4, 7, 1), inputs(space, 4, 7, 2)
    first = torch.tensor([True, False, False, True])
    _, state, _ = network(before, kept(network.initial_state(4)))
    q = values(network, after, reset_states(state, kept(network.initial_state(4)), first))
    torch.testing.assert_close(q[first], values(network, after, network.initial_state(4))[first], **CLOSE)
    torch.testing.assert_close(q[~first], values(network, after, state)[~first], **CLOSE)


def test_a_cache_made_under_other_parameters_is_renewed(case: tuple[nn.Module, str]) -> None:
    network, space = case
    state = partly_filled(network, 4)
    stale = network.cache(state)
    if is_windowed(network) or not isinstance(network.core, GTrXL | CoBERL):
        assert stale is state  # nothing that parameters could spoil
        return
    made = leaves(stale).keys() - leaves(state).keys()
    assert {name.rpartition("/")[2] for name in made} == {"keys", "values"}
    stale = from_leaves(
        stale, {name: torch.full_like(x, 9.0) if name in made else x for name, x in leaves(stale).items()}
    )
    timesteps = inputs(space, 4, 3, first=False)
    torch.testing.assert_close(
        values(network, timesteps, network.cache(stale)), values(network, timesteps, state), **CLOSE
    )


def receptive_field(network: nn.Module, steps: int) -> tuple[int, int]:
    """The steps back to which an output depends on all inputs, at most `steps`, and on some of them."""
    if is_windowed(network):
        return network.context_length - 1, network.context_length - 1
    core = network.core
    if isinstance(core, GTrXL):
        near = sum(greatest_span(layer.attention) for layer in core.layers)
        return near, near if core.compression is None else core.num_layers * core.window
    return (steps, steps) if core.num_layers else (0, 0)


def greatest_span(attention: RelativeAttention) -> int:
    """The largest distance at which the soft mask of some head is above zero."""
    if attention.span is None:
        return attention.memory_length
    end = attention.span.ramp + float(attention.span.lengths().max())
    return min(attention.memory_length, math.ceil(end) - 1)


def test_an_output_depends_on_exactly_its_receptive_field(case: tuple[nn.Module, str]) -> None:
    """Each layer of a GTrXL looks M steps back, so L layers look L*M back and not one step more.

    With adaptive spans it is the sum of the layers' greatest. With compressed memory it is L*M at least, and
    some of the steps beyond, at most L*W.

    A window of K steps looks K - 1 back, however many layers read it. A
    recurrence looks back to the episode's start, and a network without memory at the present only.
    """
    network, space = case
    reach, farthest = receptive_field(network, 8)
    steps = farthest + 4
    at = 1
    timesteps, changed = inputs(space, 2, steps, first=False), inputs(space, 2, steps, first=False)
    changed.observation[:, at] = another(space, timesteps.observation[:, at])
    changed.prev_action[:, at] = (timesteps.prev_action[:, at] + 1) % 3
    changed.reward[:, at] += 1
    q = (
        values(network, timesteps, network.initial_state(2))
        - values(network, changed, network.initial_state(2))
    ).abs()
    assert q[:, :at].max() == 0
    assert (q[:, at : at + reach + 1].amax(-1) > 1e-12).all()
    if is_windowed(network) or isinstance(network.core, GTrXL) or reach == 0:
        after = q[:, at + farthest + 1 :]
        torch.testing.assert_close(after, torch.zeros_like(after), rtol=0, atol=1e-13)


def junk_of(x: Tensor, junk: float) -> Tensor:
    """`junk`, or for integers the largest one, which no embedding has a timestep for."""
    if x.is_floating_point():
        return torch.tensor(junk, dtype=x.dtype)
    return torch.tensor(True if x.dtype == torch.bool else torch.iinfo(x.dtype).max, dtype=x.dtype)


@pytest.mark.parametrize("junk", [1e30, float("nan")])
def test_invalid_trace_rows_change_nothing(case: tuple[nn.Module, str], junk: float) -> None:
    network, space = case
    window = window_of(network)
    steps = torch.tensor([0, 1, 3, 12]).clamp(max=window)
    valid = torch.arange(window) >= window - steps[:, None]
    clean = some_trace(network, 4, 0)
    dirty = {
        name: torch.where(valid.view(4, window, *[1] * (x.dim() - 2)), x, junk_of(x, junk))
        for name, x in clean.items()
    }
    timesteps = inputs(space, 4, STEPS, first=False)
    q, dirty_q = (
        values(network, timesteps, network.state_from_memory(t, valid, steps)) for t in (clean, dirty)
    )
    assert torch.equal(q, dirty_q)


@pytest.mark.parametrize("extra", [0, 3])
def test_state_from_trace_equals_the_running_state(case: tuple[nn.Module, str], extra: int) -> None:
    """After any number of steps, from the last W stored memory, however many more or fewer are handed in."""
    network, space = case
    window = window_of(network)
    timesteps, probe = inputs(space, 3, window + 3, 1), inputs(space, 3, 4, 2, first=False)
    for steps in {1, max(1, window - 1), window + 1, window + 3}:
        _, running, stored = network(part(timesteps, 0, steps), network.initial_state(3))
        held = leaves(stored) if window else {}
        if is_windowed(network) and window:
            held |= leaves(part(timesteps, 0, steps))
        newest = {name: x[:, -window:] for name, x in held.items()}
        empty = {
            name: torch.full_like(x[:, :1], 7).expand(-1, extra, *x.shape[2:]) for name, x in newest.items()
        }
        joined = {name: torch.cat([empty[name], x], 1) for name, x in newest.items()}
        real = min(window, steps)
        valid = (
            (torch.arange(real + extra) >= extra).expand(3, -1)
            if window
            else torch.zeros(3, 0, dtype=torch.bool)
        )
        state = network.state_from_memory(joined, valid, torch.full((3,), steps))
        torch.testing.assert_close(values(network, probe, state), values(network, probe, running), **CLOSE)


def test_right_padding_changes_nothing(case: tuple[nn.Module, str]) -> None:
    """Neither values nor gradients of the real steps, where the loss leaves the others out."""
    network, space = case
    real = torch.tensor([STEPS, 1, 4, 8])
    is_real = torch.arange(STEPS) < real[:, None]
    timesteps, junk = inputs(space, 4, STEPS, 1, first=False), inputs(space, 4, STEPS, 2, first=False)
    far = junk.observation * 1e30 if space == "box" else junk.observation
    padded = StepInputs(
        torch.where(
            is_real.view(4, STEPS, *[1] * (timesteps.observation.dim() - 2)), timesteps.observation, far
        ),
        torch.where(is_real, timesteps.prev_action, junk.prev_action),
        torch.where(is_real, timesteps.reward, 1e30),
        timesteps.first,
    )
    state = partly_filled(network, 4)
    network.requires_grad_(True)
    try:
        results = []
        for given in (timesteps, padded):
            q = values(network, given, state)[is_real]
            gradient = torch.autograd.grad(
                q.sin().sum(), list(network.parameters()), allow_unused=True, materialize_grads=True
            )
            results.append([q, *gradient])
    finally:
        network.requires_grad_(False)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_trace_rows_have_the_shape_of_their_spec(case: tuple[nn.Module, str]) -> None:
    network, space = case
    output, _, stored = network(inputs(space, 2, 4), network.initial_state(2))
    assert output.q.shape == (2, 4, 3)
    for name, field in network.memory_spec().items():
        assert field.window >= 1
        assert leaves(stored)[name].shape == (2, 4, *field.shape)


@pytest.mark.parametrize("name", [*CASES, *WINDOWED])
def test_the_settings_know_the_trace_window(name: str) -> None:
    settings = dict((CASES | WINDOWED)[name])
    network = make(settings.pop("space"), **settings)
    assert memory_window(network) == network_config(**(SMALL | settings)).core.memory_window
