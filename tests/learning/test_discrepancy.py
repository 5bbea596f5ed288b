"""Staleness beside whole episodes, step by step."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dtqn.learning.discrepancy import Discrepancy, discrepancy
from dtqn.types import Sequences, StepInputs
from tests.cases import inputs, make, part, randomise
from tests.reference import learner_twin as twin


def stored_episode(
    network: nn.Module, sequence_starts: list[int], burn_in: int, timesteps: int
) -> tuple[Sequences, StepInputs]:
    """Sequences cut from one episode, with the trace that `network` left, and the episode itself."""
    episode = StepInputs(
        *(
            x.expand(len(sequence_starts), *x.shape[1:])
            for x in inputs("box", 1, max(sequence_starts) + timesteps)
        )
    )
    _, _, trace = network(episode, network.initial_state(len(sequence_starts)))
    window = network.memory_spec()["memory"].window
    held = torch.zeros_like(trace.memory[:, :window])
    valid = torch.zeros(len(sequence_starts), window, dtype=torch.bool)

    def cut(start: int, stop: int) -> StepInputs:
        return StepInputs(*(x[0, start:stop] for x in episode))

    for b, sequence_start in enumerate(sequence_starts):
        start = sequence_start - burn_in
        real = min(start, window)
        held[b, window - real :] = trace.memory[b, start - real : start]
        valid[b, window - real :] = True
    learn = StepInputs(*map(torch.stack, zip(*(cut(a, a + timesteps) for a in sequence_starts), strict=True)))
    count = len(sequence_starts)
    batch = Sequences(
        memory={"memory": held.detach()},
        memory_valid=valid,
        episode_step=torch.tensor(sequence_starts) - burn_in,
        burn_in=StepInputs(
            *map(torch.stack, zip(*(cut(a - burn_in, a) for a in sequence_starts), strict=True))
        ),
        burn_in_timesteps=torch.full((count,), burn_in),
        learn=learn,
        discount=torch.ones(count, timesteps),
        learn_timesteps=torch.full((count,), timesteps),
        learned_steps=torch.full((count,), timesteps - 1),
        importance_weights=torch.ones(count),
    )
    return batch, episode


@pytest.mark.parametrize("chunk_timesteps", [4, 100])
@pytest.mark.parametrize("burn_in", [0, 2])
def test_discrepancy(burn_in: int, chunk_timesteps: int) -> None:
    """Nothing from the trace of the same parameters; by the formulas otherwise."""
    network = make("box")
    with torch.no_grad():
        for parameter in network.parameters():  # what torch's versions draw at first is not the same
            parameter.zero_()
    randomise(network, seed=6, scale=0.5)
    sequence_starts = [3, 6, 14]
    batch, episode = stored_episode(network, sequence_starts, burn_in, timesteps=6)
    # A shorter one: its last learned step is another, and later steps are not in the maximum.
    batch = batch._replace(learned_steps=torch.tensor([5, 2, 5]))

    def measure() -> Discrepancy:
        return discrepancy(network, batch, lambda start, stop: part(episode, start, stop), chunk_timesteps)

    learned = torch.arange(6) < batch.learned_steps[:, None]
    found = measure()
    for value in found.delta_q(batch.learned_steps):
        assert value.tolist() == pytest.approx([0.0] * 3, abs=1e-12)
    differs, lost = found.greedy_actions(learned)
    assert not differs.any() and lost.tolist() == [0.0] * 12

    randomise(network, seed=26, scale=0.5)
    batch = batch._replace(memory={"memory": -3 * batch.memory["memory"]})
    q = network(episode, network.initial_state(3))[0].q
    found = measure()
    at_first, at_last = found.delta_q(batch.learned_steps)
    flags, losses = [], []
    whole = torch.cat(
        [q[b, a : a + n] for b, (a, n) in enumerate(zip(sequence_starts, (5, 2, 5), strict=True))]
    )
    spread = (whole.max() - whole.min()).item()
    for b, sequence_start in enumerate(sequence_starts):
        count = int(batch.learned_steps[b])
        stored = twin.q_values(network, batch, b)[:count]
        largest = abs(max(value for at_step in stored for value in at_step))
        for value, step in ((at_first, 0), (at_last, count - 1)):
            pairs = zip(stored[step], q[b, sequence_start + step].tolist(), strict=True)
            expected = math.sqrt(sum((mine - again) ** 2 for mine, again in pairs)) / largest
            assert value[b].item() == pytest.approx(expected, rel=1e-6)
        for step in range(count):
            exact = q[b, sequence_start + step].tolist()
            chosen = stored[step].index(max(stored[step]))
            losses.append(max(exact) - exact[chosen])
            best, second = sorted(exact, reverse=True)[:2]
            if best - second >= 0.01 * spread:
                flags.append(chosen != exact.index(best))
    assert (at_first > 1e-4).all()
    differs, lost = found.greedy_actions(learned)
    assert differs.tolist() == flags and any(flags) and not all(flags)
    assert lost.tolist() == pytest.approx(losses, abs=1e-9)


def test_a_near_tie_is_no_other_action() -> None:
    """By hand: of a range of 1 a gap of 0.009 is a near tie and one of 0.011 is not."""
    exact = torch.tensor([[[0.0, 1.0], [0.5, 0.509], [0.5, 0.511], [0.2, 0.9]]])
    found = Discrepancy(stored=exact.flip(-1), exact=exact)
    differs, lost = found.greedy_actions(torch.tensor([[True, True, True, False]]))
    assert differs.tolist() == [True, True]
    assert lost.tolist() == pytest.approx([1.0, 0.009, 0.011], abs=1e-6)
