"""The counting behind published figures; speed itself is never tested."""

from __future__ import annotations

import numpy as np
import pytest

import envs
from benchmarks import random_play


@pytest.mark.parametrize("id", ["gridverse-memory-5x5", "memory-cards-2", "heavenhell"])
def test_random_play_counts_the_first_episodes_of_every_copy(id: str) -> None:
    """Beside plain lists: row by row, copy by copy."""
    copies, each = 3, 2
    env = envs.make_vector(id, copies, seed=1)
    env.reset()
    env.action_space.seed(1)
    episodes: list[list[list[float]]] = [[[]] for _ in range(copies)]
    successes: list[list[bool]] = [[] for _ in range(copies)]
    begins = [False] * copies
    while min(len(s) for s in successes) < each:
        _, reward, terminated, truncated, infos = env.step(env.action_space.sample())
        for copy in range(copies):
            if begins[copy]:
                episodes[copy].append([])
            else:
                episodes[copy][-1].append(float(reward[copy]))
            begins[copy] = bool(terminated[copy] or truncated[copy])
            if begins[copy]:
                successes[copy].append(bool(infos["is_success"][copy]))
    counted = [episode for copy in episodes for episode in copy[:each]]
    result = random_play.play(id, copies, each)
    returns = [sum(episode) for episode in counted]
    assert result["episodes"] == 6
    assert result["return"] == pytest.approx(np.mean(returns))
    assert result["return_standard_error"] == pytest.approx(np.std(returns, ddof=1) / np.sqrt(6))
    assert result["length"] == np.mean([len(episode) for episode in counted])
    assert result["success"] == np.mean([s for copy in successes for s in copy[:each]])
