"""Two questions with three answers each: yes, no, cannot tell.

*Does this agent use its memory?* Its score with memory emptied every few steps, or taken from another
episode at the same step, is held beside the score with memory as it is.

*Does the task need memory?* The score of this agent is held beside that of the best agent without memory that
the user has trained, with the same encoder and budget, played greedily and with some random actions. Agents
that see a stack of several steps say how much memory.

A difference counts where intervals lie apart by more than `MARGIN` of the range from random actions to the
best result that is known; there is none where they lie within it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from dtqn.acting.episode_intervals import Figure

MARGIN = 0.05

Answer = Literal["yes", "no", "cannot tell"]


class Verdict(NamedTuple):
    """Whether a task needs memory, and why we think so."""

    answer: Answer
    because: str
    stack: int | None = None
    """Steps of the shortest frame stack that does as well, where one does and memory is needed."""


def uses_memory(intact: Figure, disturbed: dict[str, Figure], random: Figure, best: float) -> Verdict:
    """`disturbed`: what was done to the memory -> the score."""
    if intact.low <= random.high:
        return Verdict("cannot tell", _beside_random(intact, random))
    margin = MARGIN * (max(best, intact.value) - random.value)
    worst = min(disturbed, key=lambda name: disturbed[name].high)
    if disturbed[worst].high < intact.low - margin:
        return Verdict("yes", f"memory {worst}: {disturbed[worst].value:.3g}, as it is: {intact.value:.3g}")
    if all(x.low > intact.high - margin for x in disturbed.values()):
        return Verdict("no", f"no disturbance of its memory costs more than {MARGIN:.0%} of the range")
    return Verdict("cannot tell", "intervals overlap; more episodes would tell (--episodes)")


def needs_memory(
    best_agent: Figure,
    memoryless: dict[str, Figure],
    stacked: dict[int, Figure],
    random: Figure,
    best: float,
) -> Verdict:
    """Whether, and for how many steps.

    Args:
        memoryless: an agent that sees one step -> its score.
        stacked: steps that an agent without memory sees together -> its score.
    """
    if not memoryless:
        return Verdict("cannot tell", "no run without memory is given (--memoryless RUN)")
    if best_agent.low <= random.high:
        return Verdict("cannot tell", _beside_random(best_agent, random))
    margin = MARGIN * (max(best, best_agent.value) - random.value)
    name = max(memoryless, key=lambda run: memoryless[run].low)
    text = f"{name} without memory: {memoryless[name].value:.3g}, this agent: {best_agent.value:.3g}"
    if memoryless[name].low >= best_agent.high - margin:
        return Verdict("no", text)
    if best_agent.low <= max(x.high for x in memoryless.values()) + margin:
        return Verdict("cannot tell", f"{text}; the intervals do not lie apart")
    enough = [steps for steps, x in sorted(stacked.items()) if x.low >= best_agent.high - margin]
    if enough:
        return Verdict("yes", f"{text}; a stack of {enough[0]} steps does as well", enough[0])
    if stacked and max(x.high for x in stacked.values()) + margin < best_agent.low:
        return Verdict("yes", f"{text}; a stack of {max(stacked)} steps does not do as well")
    return Verdict("yes", text)


def _beside_random(agent: Figure, random: Figure) -> str:
    """Why an agent whose interval does not lie above that of random actions tells nothing.

    Of few episodes a perfect score has a wide interval too, which says nothing against the agent.
    """
    if agent.value <= random.value:
        return "the agent is not better than random actions"
    return (
        f"random actions: {random.value:.3g}, this agent: {agent.value:.3g}; intervals overlap; "
        "more episodes would tell (--episodes)"
    )
