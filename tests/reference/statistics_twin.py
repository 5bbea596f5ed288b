"""Figures over seeds in plain loops, and their bootstrap intervals by listing every resample there is."""

from itertools import product


def iqm(scores):
    """Without a quarter, rounded down to whole scores, at each end."""
    ordered, cut = sorted(scores), len(scores) // 4
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


def improvement(mine, theirs):
    points = 0.0
    for x in mine:
        for y in theirs:
            points += 1.0 if x > y else 0.5 if x == y else 0.0
    return points / (len(mine) * len(theirs))


def mean_improvement(mine_by_task, theirs_by_task):
    each = [improvement(x, y) for x, y in zip(mine_by_task, theirs_by_task, strict=True)]
    return sum(each) / len(each)


def interval(statistic, samples):
    """The 2.5th and 97.5th percentile of `statistic` over all n^n resamples of each of the samples."""
    resamples = [list(product(sample, repeat=len(sample))) for sample in samples]
    values = sorted(statistic(*drawn) for drawn in product(*resamples))
    return percentile(values, 0.025), percentile(values, 0.975)


def percentile(ordered, share):
    """The least value that at least this share of all values do not exceed."""
    for count, value in enumerate(ordered, start=1):
        if count >= share * len(ordered):
            return value
    raise AssertionError
