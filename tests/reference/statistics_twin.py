"""Figures over seeds in plain loops."""


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
