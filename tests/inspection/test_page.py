"""Pictures, observations, the choice of episodes and of steps, the table and the curve."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from PIL import Image

import envs
from dtqn.inspection import page_episodes, report
from dtqn.inspection.page_episodes import MOST_STEPS, MOST_WINDOWS, Observations, Part, Pictures, choose, png
from dtqn.inspection.recorder import Episode, Outcome
from dtqn.inspection.report import Run
from dtqn.settings.names import name_of
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row
from tests.cases import inputs


def _opened(link: str) -> np.ndarray:
    head, _, body = link.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))).convert("RGB"))


def test_pictures_are_kept_to_the_bit_and_once() -> None:
    env = envs.make_vector("gridverse-memory-7x7", 3, 1, render_mode="rgb_array")
    env.reset()
    rendered: Any = env.render()
    pictures = Pictures()
    numbers = [pictures.add(png(picture)) for picture in (*rendered, rendered[0])]
    assert numbers[3] == numbers[0] and len(pictures.links()) == len({p.tobytes() for p in rendered})
    for number, picture in zip(numbers, rendered, strict=False):
        np.testing.assert_array_equal(_opened(pictures.links()[number]), picture)


def test_pictures_are_made_smaller_until_they_fit() -> None:
    pictures = Pictures()
    rng = np.random.default_rng(0)
    for _ in range(3):
        pictures.add(png(rng.integers(256, size=(100, 500, 3), dtype=np.uint8)))
    full, less = pictures.links(10**9), pictures.links(100_000)
    assert _opened(full[0]).shape == (64, 320, 3), "LARGEST_SIDE"
    assert sum(map(len, less)) < 110_000 < sum(map(len, full))
    assert _opened(less[0]).shape[1] in (160, 80, 40)


@pytest.mark.parametrize(
    ("space", "view", "kind", "columns", "depth", "count"),
    [
        (Discrete(5), None, "cells", 1, 1, 1),
        (MultiDiscrete([21] * 6), (2, 3), "cells", 3, 1, 6),
        (MultiDiscrete([21] * 7), (2, 3), "cells", 3, 1, 7),
        (MultiDiscrete([21] * 6), None, "cells", 6, 1, 6),
        (MultiDiscrete(np.full((2, 3, 3), 9)), None, "cells", 3, 3, 18),
        (Box(-1, 1, (4,)), None, "numbers", 4, 1, 4),
        (Box(-1, 1, (20,)), None, "numbers", 8, 1, 20),
        (Box(0, 255, (84, 84, 3), np.uint8), None, "picture", 0, 0, 84 * 84 * 3),
        (Box(0, 255, (84, 84), np.uint8), None, "picture", 0, 0, 84 * 84),
    ],
)
def test_the_form_of_an_observation(
    space: Any, view: Any, kind: str, columns: int, depth: int, count: int
) -> None:
    assert page_episodes._part("x", space, view) == Part("x", kind, columns, depth, count)


def test_observations_hold_what_was_observed_and_each_once() -> None:
    space = Dict({"a": MultiDiscrete([9, 9]), "b": Box(0, 255, (16, 16, 3), np.uint8)})
    pictures = Pictures()
    observations = Observations(
        [page_episodes._part(name, part, None) for name, part in space.spaces.items()], pictures
    )
    timesteps = torch.zeros(1, 3, 16, 16, 3, dtype=torch.uint8)
    timesteps[0, 1] = 200
    shown: Any = {"a": torch.tensor([[[1, 2], [1, 2], [1, 2]]]), "b": timesteps}
    assert observations.of(shown) == [0, 1, 0]
    assert observations.seen == [[[1, 2], 0], [[1, 2], 1]]
    assert (_opened(pictures.links()[1]) == 200).all()


def test_gridverse_tells_its_actions_and_the_form_of_its_view() -> None:
    spec = envs.spec("gridverse-memory-7x7")
    assert len(spec.action_names) == spec.action_space.n and "turn left" in spec.action_names
    assert spec.view is not None and math.prod(spec.view) == spec.observation_space.shape[0]
    assert envs.spec("gridverse-memory-7x7", frame_stack=2).view is None
    assert envs.spec("gridverse-memory-7x7", time_limit=9).view == spec.view
    assert envs.spec("gridverse-memory-7x7", observation="grid").view is None


def _episode(length: int) -> Episode:
    timesteps = inputs("box", 1, length)
    return Episode(
        timesteps, None, np.zeros(length, int), torch.zeros(length, 2), np.zeros(length), 0.0, True
    )


def test_failures_come_first_and_fill_what_successes_leave() -> None:
    episodes = [Outcome(3, float(n), n % 4 == 0) for n in range(12)]  # 0, 4 and 8 succeed
    assert choose(episodes, 6, True) == [1, 2, 3, 0, 4, 8]
    assert choose(episodes, 8, True) == [1, 2, 3, 5, 6, 0, 4, 8]
    assert choose([Outcome(3, 0.0, True)] * 5, 4, True) == [0, 1, 2, 3]
    assert choose(episodes, 1, True) == [1]
    assert choose(episodes, 4, False) == [0, 1, 11, 10]


def test_a_long_episode_is_shown_at_equal_distances_and_with_its_cue() -> None:
    assert page_episodes.steps_of(_episode(7)).tolist() == list(range(7))
    long = _episode(1000)
    assert len(page_episodes.steps_of(long)) == MOST_STEPS == len(page_episodes.steps_of(long, context=1000))
    assert len(page_episodes.steps_of(long, context=50)) == MOST_WINDOWS
    assert isinstance(long.inputs.observation, torch.Tensor)
    other = long.inputs.observation.clone()
    other[0, 7] += 1
    steps = page_episodes.steps_of(long._replace(other=other))
    assert {0, 7, 999} <= set(steps.tolist()) and len(steps) in (MOST_STEPS, MOST_STEPS + 1)
    assert np.diff(np.setdiff1d(steps, [7])).max() <= 11


def _row(steps: int, success: float | None, value: float, half: float = 0.1) -> Row:
    timestep: Row = {
        "env_steps": steps,
        "seconds": steps / 10,
        "eval/return": value,
        "eval/return_error": half,
    }
    if success is not None:
        timestep |= {"eval/success": success, "eval/success_low": success - half}
        timestep["eval/success_high"] = success + half
    return timestep


def _run(
    agent: str, seed: int, timesteps: list[Row], env: str = "t-maze-passive-6", ended: bool = True
) -> Run:
    config = resolve(None, {"env": env, "agent": agent, "seed": str(seed)}, {})
    return Run(f"seed {seed}", name_of(config), config, timesteps, ended, RunDir(Path("nowhere")))


def test_a_row_of_the_table_is_the_last_evaluation() -> None:
    """Success by the interval of its timestep, minutes by the clock."""
    timesteps = [_row(1000, 0.25, -2.0), {"env_steps": 2000, "learner/loss": 0.5}]
    ended = _run("gru", 1, [_row(500, 0.9, 3.0), *timesteps])
    open_one = _run("gru", 2, [_row(6000, None, -2.0)], "CartPole-v1", ended=False)
    of_ended, of_open = report.row(ended), report.row(open_one)
    assert of_ended == ["t-maze-passive-6", "gru", "1", "success 25.0% [15.0%, 35.0%]", "1 000", "1.7"]
    assert of_open[3] == "return -2"
    assert of_open[4].startswith("6 000 of ") and of_open[5] == "10.0"


def test_an_agent_is_a_line() -> None:
    """Of two runs the mean with both ends, of one the interval of its evaluations."""
    two = [
        _run("gru", seed, [_row(100, value, 0.0), _row(200, 1.0, 0.0)])
        for seed, value in ((1, 0.2), (2, 0.6))
    ]
    single = _run("lstm", 1, [_row(100, 0.5, 0.0), _row(300, 0.7, 0.0)])
    other_task = _run("gru", 1, [_row(50, None, 7.0)], "CartPole-v1", ended=False)
    of_maze, of_pole = report.panels([*two, single, other_task])
    assert (of_maze.name, of_pole.name) == ("success", "return")
    mean, lstm = of_maze.curves
    assert (mean.label, list(mean.x), list(mean.runs)) == ("gru", [100, 200], [2])
    assert mean.y == pytest.approx([0.4, 1.0])
    assert (mean.low, mean.high) == (pytest.approx([0.2, 1.0]), pytest.approx([0.6, 1.0]))
    assert (lstm.label, list(lstm.x), list(lstm.y)) == ("lstm", [100, 300], [0.5, 0.7])
    assert lstm.low == pytest.approx([0.4, 0.6]) and lstm.high == pytest.approx([0.6, 0.8])
    assert list(of_pole.curves[0].y) == [7.0] and of_pole.curves[0].low is None
