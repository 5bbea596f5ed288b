"""How often each 95 % interval of `compare` holds the true value, by simulation with runs that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dtqn.experiments import intervals
from dtqn.text import columns

RUNS: Final = (5, 10)
COMPARISONS: Final = 1000
BAR: Final = 0.9
LEVEL: Final = 0.7
Draw = Callable[[np.random.Generator, int], np.ndarray]


def failing(share: float, solved_from: float) -> Draw:
    """Success of runs of which this share fails near 0.5; others lie between `solved_from` and 1."""

    def draw(rng: np.random.Generator, runs: int) -> np.ndarray:
        solved = rng.uniform(solved_from, 1.0, runs)
        return np.where(rng.random(runs) < share, rng.uniform(0.4, 0.6, runs), solved)

    return draw


POPULATIONS: Final[dict[str, Draw]] = {
    "uniform": lambda rng, runs: rng.random(runs),
    **{
        f"{share:.0%} fail, others {where}": failing(share, solved_from)
        for where, solved_from in (("from 0.95", 0.95), ("at 1", 1.0))
        for share in (0.02, 0.2, 0.3, 0.5)
    },
}
FIGURES: Final = ("solved", "IQM", "IQM, two tasks", "P(better)", "profile, two tasks")
OTHER_TASK, BASELINE = failing(0.2, 1.0), failing(0.8, 0.8)


def truths(draw: Draw, rng: np.random.Generator) -> dict[str, float]:
    """The figures of endless runs."""
    mine, other, theirs = (each(rng, 200_000) for each in (draw, OTHER_TASK, BASELINE))
    ordered, cut = np.sort(np.minimum(theirs, BAR)), np.minimum(mine, BAR)
    wins = sum(np.searchsorted(ordered, cut, side).mean() for side in ("left", "right")) / 2 / len(ordered)
    found = [
        (mine >= BAR).mean(),
        intervals.interquartile_mean(mine),
        intervals.interquartile_mean(mine, other),
        wins,
        ((mine > LEVEL).mean() + (other > LEVEL).mean()) / 2,
    ]
    return dict(zip(FIGURES, map(float, found), strict=True))


def intervals_of(draw: Draw, runs: int, rng: np.random.Generator) -> dict[str, tuple[Any, Any]]:
    """Those of one comparison, by figure."""
    mine, other, theirs = (each(rng, runs) for each in (draw, OTHER_TASK, BASELINE))
    better = intervals.improved([np.minimum(mine, BAR)], [np.minimum(theirs, BAR)])
    band = intervals.profile([mine, other], np.array([LEVEL]))
    iqm, pooled = (intervals.iqm(samples, 0.0, 1.0) for samples in ([mine], [mine, other]))
    ends = (each[1:] if each else (1.0, 0.0) for each in (iqm, pooled, better))
    solved = intervals.binomial_interval(float((mine >= BAR).mean()), runs)
    return dict(zip(FIGURES, [solved, *ends, (band.low[0], band.high[0])], strict=True))


def coverage(draw: Draw, runs: int, rng: np.random.Generator, comparisons: int) -> dict[str, float]:
    """By figure, the share of comparisons whose interval held the truth."""
    known = truths(draw, rng)
    found = [intervals_of(draw, runs, rng) for _ in range(comparisons)]
    return {
        name: float(np.mean([one[name][0] - 1e-6 <= truth <= one[name][1] + 1e-6 for one in found]))
        for name, truth in known.items()
    }


def measure() -> dict[str, Any]:
    """A row for each number of runs and population."""
    rng = np.random.default_rng(0)
    rows = [
        {"runs": runs, "scores": name, **coverage(draw, runs, rng, COMPARISONS)}
        for runs in RUNS
        for name, draw in POPULATIONS.items()
    ]
    return {"comparisons": COMPARISONS, "rows": rows}


def table(result: dict[str, Any]) -> str:
    rows = result["rows"]
    texts = [
        [f"{value:.1%}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows
    ]
    return "\n".join(columns([list(rows[0]), *texts]))
