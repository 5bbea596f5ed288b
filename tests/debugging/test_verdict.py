"""The two verdicts, from intervals given by hand."""

from __future__ import annotations

import pytest

from dtqn.debugging.verdict import Score, needs_memory, uses_memory

RANDOM = Score(0.3, 0.25, 0.35, 100)
GOOD = Score(0.98, 0.94, 1.0, 100)


def around(value: float, half: float = 0.03) -> Score:
    return Score(value, value - half, value + half, 100)


@pytest.mark.parametrize(
    "intact, disturbed, answer",
    [
        (GOOD, {"a": around(0.5), "b": around(0.97)}, "yes"),
        (GOOD, {"a": Score(0.99, 0.98, 1.0, 100)}, "no"),
        (GOOD, {"a": around(0.9)}, "cannot tell"),
        (GOOD, {"a": around(0.88)}, "cannot tell"),  # 0.91 is above 0.94 - 0.05 * 0.7
        (GOOD, {"a": around(0.86)}, "yes"),
        (around(0.32), {"a": around(0.1)}, "cannot tell"),
    ],
)
def test_it_uses_its_memory(intact: Score, disturbed: dict[str, Score], answer: str) -> None:
    assert uses_memory(intact, disturbed, RANDOM, best=1.0).answer == answer


@pytest.mark.parametrize(
    "best, memoryless, answer",
    [
        (GOOD, {"dqn": around(0.5), "stack": around(0.6)}, "yes"),
        (GOOD, {"dqn": around(0.5), "stack": Score(0.99, 0.97, 1.0, 100)}, "no"),
        (GOOD, {"dqn": around(0.92)}, "cannot tell"),
        (GOOD, {}, "cannot tell"),
        (RANDOM, {"dqn": around(0.1)}, "cannot tell"),
    ],
)
def test_the_task_needs_a_memory(best: Score, memoryless: dict[str, Score], answer: str) -> None:
    assert needs_memory(best, memoryless, RANDOM, best=1.0).answer == answer
