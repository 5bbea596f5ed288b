"""The best play of MiniGrid's Memory tasks, in the package's environment and beside numbers by hand."""

from __future__ import annotations

import gymnasium
import pytest

from benchmarks import minigrid_memory

pytest.importorskip("minigrid")


def test_by_hand() -> None:
    """In S7, from the four columns that an episode may start in; T is 5 * 7^2.

    A turn to the left shows the cue, up to three columns away, and one to the right leads on. From column 1
    it is in sight at once. The way to the end is 4 columns less the start's, a turn and a step.
    """
    steps = {
        layout.start[0]: layout.best().steps
        for _, _, layout in minigrid_memory.layouts("MiniGrid-MemoryS7-v0")
    }
    assert steps == {1: 4 + 2, 2: 2 + 3 + 2, 3: 2 + 2 + 2, 4: 2 + 1 + 2}
    (figures,) = minigrid_memory.measure(["MiniGrid-MemoryS7-v0"]).values()
    assert figures["best_return"] == pytest.approx(1 - 0.9 * 6 / 245)
    assert figures["return_of_a_guess"] == pytest.approx(0.5 * (1 - 0.9 * 4.5 / 245))
    assert figures["longest_held"] == 6
    assert figures["success_of_reflex"] == 1


def test_a_reflex_is_right_where_the_way_back_shows_all() -> None:
    """S11's crossing is eight columns from the cue, of which a view shows six beyond its own."""
    assert minigrid_memory.success_of_reflex("MiniGrid-MemoryS9-v0", 40) == 1
    assert 0.3 < minigrid_memory.success_of_reflex("MiniGrid-MemoryS11-v0", 100) < 0.7


@pytest.mark.parametrize("id", minigrid_memory.TASKS)
def test_the_best_play_is_paid_by_the_package(id: str) -> None:
    env = gymnasium.make(id).unwrapped
    every = minigrid_memory.layouts(id)
    assert sum(p for p, _, _ in every) == pytest.approx(1)
    for _, seed, layout in every[:: max(1, len(every) // 12)]:
        best = layout.best()
        env.reset(seed=seed)
        side = layout.sides.index(tuple(map(int, env.success_pos)))
        left = len(best.actions[side])
        seen = [left] if env.agent_sees(*layout.cue) else []
        for action in best.actions[side]:
            _, reward, terminated, truncated, _ = env.step(action)
            left -= 1
            if left and env.agent_sees(*layout.cue):
                seen.append(left)
            assert terminated == (left == 0) and not truncated
        assert reward == pytest.approx(1 - 0.9 * len(best.actions[side]) / env.max_steps)
        assert min(seen) == best.held  # both sides are as far from where they part
