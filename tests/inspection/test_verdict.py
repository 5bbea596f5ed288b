"""The two verdicts, from intervals given by hand."""

from __future__ import annotations

import pytest

from dtqn.acting.episode_intervals import Figure
from dtqn.inspection.trials import needs_memory, uses_memory

RANDOM = Figure(0.3, 0.25, 0.35, 100)
GOOD = Figure(0.98, 0.94, 1.0, 100)


def around(value: float) -> Figure:
    return Figure(value, value - 0.03, value + 0.03, 100)


@pytest.mark.parametrize(
    "intact, disturbed, answer",
    [
        (GOOD, {"a": around(0.5), "b": around(0.97)}, "yes"),
        (GOOD, {"a": Figure(0.99, 0.98, 1.0, 100)}, "no"),
        (GOOD, {"a": around(0.9)}, "cannot tell"),
        (GOOD, {"a": around(0.88)}, "cannot tell"),  # 0.91 is above 0.94 - 0.05 * 0.7
        (GOOD, {"a": around(0.86)}, "yes"),
        (around(0.32), {"a": around(0.1)}, "cannot tell"),
    ],
)
def test_it_uses_its_memory(intact: Figure, disturbed: dict[str, Figure], answer: str) -> None:
    assert uses_memory(intact, disturbed, RANDOM, best=1.0).answer == answer


@pytest.mark.parametrize(
    "best, memoryless, answer",
    [
        (GOOD, {"dqn": around(0.5), "other": around(0.6)}, "yes"),
        (GOOD, {"dqn": around(0.5), "other": Figure(0.99, 0.97, 1.0, 100)}, "no"),
        (GOOD, {"dqn": around(0.92)}, "cannot tell"),
        (GOOD, {}, "cannot tell"),
        (RANDOM, {"dqn": around(0.1)}, "cannot tell"),
    ],
)
def test_the_task_needs_a_memory(best: Figure, memoryless: dict[str, Figure], answer: str) -> None:
    assert needs_memory(best, memoryless, {}, RANDOM, best=1.0).answer == answer


@pytest.mark.parametrize(
    "stacked, stack, words",
    [
        ({2: around(0.6), 4: Figure(0.99, 0.97, 1.0, 100), 16: Figure(1.0, 0.98, 1.0, 100)}, 4, "of 4 steps"),
        ({2: around(0.6), 4: around(0.7)}, None, "of 4 steps does not"),
        ({2: around(0.6), 4: around(0.92)}, None, "this agent: 0.98"),
        ({}, None, "this agent: 0.98"),
    ],
)
def test_stacks_say_how_much_memory(stacked: dict[int, Figure], stack: int | None, words: str) -> None:
    found = needs_memory(GOOD, {"dqn": around(0.5)}, stacked, RANDOM, best=1.0)
    assert (found.answer, found.stack) == ("yes", stack)
    assert words in found.because
    assert needs_memory(GOOD, {"dqn": Figure(0.98, 0.97, 1.0, 400)}, stacked, RANDOM, best=1.0) == (
        "no", "dqn without memory: 0.98, this agent: 0.98", None)  # fmt: skip


@pytest.mark.parametrize(
    "agent, because",
    [
        (Figure(1.0, 0.722, 1.0, 10), "random actions: 0.6, this agent: 1; intervals overlap; more episodes"),
        (Figure(0.6, 0.313, 0.832, 10), "the agent is not better than random actions"),
        (Figure(0.4, 0.168, 0.687, 10), "the agent is not better than random actions"),
    ],
)
def test_an_interval_that_overlaps_that_of_random_actions(agent: Figure, because: str) -> None:
    """An agent that did better in few episodes is not called as bad as chance."""
    random = Figure(0.6, 0.313, 0.832, 10)
    uses = uses_memory(agent, {"a": around(0.1)}, random, best=1.0)
    needs = needs_memory(agent, {"dqn": around(0.1)}, {}, random, best=1.0)
    for found in (uses, needs):
        assert found.answer == "cannot tell" and found.because.startswith(because)


def test_a_worse_rival_with_a_wide_interval_does_not_hide_a_good_one() -> None:
    rivals = {"good": Figure(0.98, 0.97, 0.99, 400), "wide": Figure(0.9, 0.7, 1.0, 10)}
    assert needs_memory(GOOD, rivals, {}, RANDOM, best=1.0).answer == "no"
