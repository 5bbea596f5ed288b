"""Scores of runs by hand, and the tally of a real training that they are computed from."""

import numpy as np
import pytest

from dtqn.experiments.scores import Score, best_epoch


def _log(ends, period=100):
    """Rows of tallies every `period` steps of episodes that end at (env step, return, success)."""
    rows, last = [], max(step for step, _, _ in ends)
    for step in range(period, last + period, period):
        before = [end for end in ends if end[0] <= step]
        rows.append(
            {
                "env_steps": step,
                "train/episodes": len(before),
                "train/total_return": float(sum(end[1] for end in before)),
                "train/total_success": sum(end[2] for end in before),
            }
        )
        rows.append({"env_steps": step + 1, "eval/return": 0.0})
    return rows


def test_mmer_is_the_best_mean_return_of_an_epoch():
    """Against every episode sorted into its epoch, with epochs without an end of an episode among them."""
    rng = np.random.default_rng(1)
    steps = np.cumsum(rng.integers(5, 900, size=60))
    ends = [(int(step), float(rng.normal() + step / 9000), 0) for step in steps]
    rows = _log(ends)
    by_epoch = {}
    for step, value, _ in ends:
        by_epoch.setdefault((step - 1) // 400, []).append(value)  # a row counts what has ended by its step
    whole = [np.mean(values) for epoch, values in by_epoch.items() if 400 * (epoch + 1) <= ends[-1][0]]
    assert best_epoch(rows, 400) == pytest.approx(max(whole))
    assert best_epoch(rows, 10**9) is None, "no whole epoch"
    assert best_epoch([], 400) is None
    falling = _log([(100, 5.0, 0), (200, -1.0, 0), (300, -1.0, 0)])
    assert (
        best_epoch(falling, 100) == 5.0 and Score(of="mmer", epoch_env_steps=300).value(falling, 300) == 1.0
    )
    rising = _log([(100, 1.0, 0), (200, 2.0, 0), (240, 9.0, 0)], period=50)
    assert best_epoch(rising, 100) == 2.0, "the third is cut short"
    score = Score(of="mmer", epoch_env_steps=100)
    assert score.value(rising, 240) == 2.0
    assert score.value(rising, 1000) is None, "it ended early, perhaps before its best epoch"
    assert score.value([], 240) is None


def test_greedy_scores_are_those_of_the_last_evaluation():
    rows = [
        {"eval/return": 3.0, "eval/success": 0.9},
        {"eval/return": -1.0, "eval/success": 0.25},
        {"env_steps": 9},
    ]
    assert (Score(of="success").value(rows, 0), Score(of="return").value(rows, 0)) == (0.25, -1.0)
    assert Score(of="return", random=-2.0, optimal=2.0).normalised(-1.0) == 0.25
    assert Score(of="return").normalised(1.0) is None and Score(of="success").value([], 0) is None


def test_a_runs_tally_counts_every_episode_and_goes_on(tmp_path):
    from dtqn.settings.presets import resolve
    from dtqn.training.trainer import Trainer

    flags = {"env": "bsuite-memory-len-2", "agent": "dqn", "actor.num_envs": "5", "replay.capacity": "3000"}
    flags |= {
        "total_env_steps": "330",
        "metrics_every": "60",
        "evaluation.episodes": "4",
        "learner.batches.size": "2",
    }
    config = resolve(None, flags, {})
    ended = []

    def watched():
        trainer = Trainer(config)
        vector_step = trainer.actor.vector_step

        def seen():
            timesteps, episodes = vector_step()
            ended.extend(zip(episodes.episode_return.tolist(), episodes.success.tolist(), strict=True))
            return timesteps, episodes

        trainer.actor.vector_step = seen
        return trainer

    trainer, rows = watched(), []
    while trainer.env_steps < 200:
        rows.append(trainer.advance())
    state = trainer.get_state()
    trainer = watched()
    trainer.set_state(state)
    while not trainer.finished:
        rows.append(trainer.advance())
        trainer.evaluator.evaluated()
    rows += trainer.finish()
    rows = [row for row in rows if row and "train/episodes" in row]
    last = rows[-1]
    assert len(rows) >= 5 and last["train/episodes"] == len(ended) == 110, "330 steps of episodes of 3"
    assert last["train/total_return"] == sum(value for value, _ in ended)
    assert last["train/total_success"] == sum(success for _, success in ended)
    counts = [row["train/episodes"] for row in rows]
    assert counts == sorted(counts)
