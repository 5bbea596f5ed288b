"""Pictures, views, the choice of episodes and of steps, the table of a comparison, figures for print."""

from __future__ import annotations

import base64
import functools
import io
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from PIL import Image

import envs
from dtqn import networks
from dtqn.experiments import comparison_forms
from dtqn.experiments.comparison_table import AgentFigures, RunFigures
from dtqn.experiments.intervals import Estimate
from dtqn.inspection import charts, curves, facts, figures, sources
from dtqn.inspection.album import Album
from dtqn.inspection.dependence import q_values
from dtqn.inspection.episodes import Episode, Outcome, Watch, play
from dtqn.inspection.played import MOST_STEPS, choose, steps_of
from dtqn.inspection.views import Part, Views, _part
from dtqn.settings.config import Config, ConfigError, NetworkConfig
from dtqn.settings.presets import resolve
from dtqn.training.metrics import Row
from dtqn.types import map_tree
from tests.cases import inputs, make


def _opened(link: str) -> np.ndarray:
    head, _, body = link.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))).convert("RGB"))


def test_a_colour_is_called_by_all_the_runs_that_have_it() -> None:
    line = functools.partial(curves.Line, x=[0.0, 9.0], y=[0.1, 0.2], low=None, high=None)
    thin = [line(f"lstm seed {seed}", 0, is_thin=True) for seed in (11, 12)]
    mean = curves.Line("lstm, 2 runs", 0, [0.0, 9.0], [0.1, 0.2], [0.0, 0.0], [0.3, 0.3])
    assert charts._name(thin) == "lstm"
    assert charts._name([*thin, mean]) == "lstm, 2 runs"
    assert charts._name(thin[:1]) == "lstm seed 11"
    chart = curves.Chart("x", "Return", "", "episode return", [*thin, mean], False, ("random actions", -5.0))
    drawn = json.dumps(charts.item(chart))
    assert "random actions" in drawn and "[-5.0, -5.0]" in drawn


def test_random_actions_are_within_the_chart_and_agents_are_told_apart() -> None:
    """Also where agents do worse, and where there are more of them than colours."""
    agents = [curves.Line(f"a{n}", n, [0.0, 9.0], [0.01, 0.06], None, None) for n in range(12)]
    chart = curves.Chart("x", "Success", "", "success rate", agents, True, ("random actions", 0.33))
    drawn = json.dumps(charts.item(chart))
    assert f'"end": {1.04 * 0.33}' in drawn
    assert '"name": "Legend"' in drawn
    styles = [charts._DASHES[n // len(charts.COLOURS)] for n in range(12)]
    assert len({(charts.COLOURS[n % len(charts.COLOURS)], styles[n]) for n in range(12)}) == 12
    assert drawn.count('"line_dash": [7, 3]') == 4 * 3, "and their forms that are muted or not selected"


def test_runs_that_are_no_seeds_of_one_agent_are_told_of() -> None:
    one, other = (resolve(None, {"agent": "lstm", "seed": seed}, {}) for seed in ("1", "2"))
    changed = resolve(None, {"agent": "lstm", "seed": "2", "learner.gamma": "0.9"}, {})
    assert sources._mixed([one, other]) == []
    assert sources._mixed([one, changed]) == [
        f"Runs of lstm on {one.env} DIFFER in learner.gamma: their mean is of no one agent."
    ]
    assert sources._mixed([one, one]) == [
        f"Runs of lstm on {one.env} have the SAME SEED: they are one run, made again."
    ]


def test_pictures_are_kept_to_the_bit_and_once() -> None:
    env = envs.make_vector("gridverse-memory-7x7", 3, 1, render_mode="rgb_array")
    env.reset()
    pictures: Any = env.render()
    album = Album()
    numbers = [album.show(album.add(picture)) for picture in (*pictures, pictures[0])]
    assert numbers[3] == numbers[0] and len(album) == len({p.tobytes() for p in pictures})
    for number, picture in zip(numbers, pictures, strict=False):
        np.testing.assert_array_equal(_opened(album.links()[number]), picture)


def test_pictures_that_are_not_shown_take_no_bytes() -> None:
    album = Album()
    first, second, third = (album.add(np.full((8, 8), grey, np.uint8)) for grey in (10, 20, 30))
    album.show(second)
    links = album.links()
    assert (links[first], links[third]) == ("", "") and (_opened(links[second]) == 20).all()


def test_pictures_are_made_smaller_until_they_fit() -> None:
    album = Album()
    rng = np.random.default_rng(0)
    for _ in range(3):
        album.show(album.add(rng.integers(256, size=(100, 500, 3), dtype=np.uint8)))
    full, less = album.links(10**9), album.links(100_000)
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
def test_the_form_of_a_view(space: Any, view: Any, kind: str, columns: int, depth: int, count: int) -> None:
    assert _part("x", space, view) == Part("x", kind, columns, depth, count)


def test_views_hold_what_was_observed_and_each_once() -> None:
    space = Dict({"a": MultiDiscrete([9, 9]), "b": Box(0, 255, (16, 16, 3), np.uint8)})
    album = Album()
    views = Views([_part(name, part, None) for name, part in space.spaces.items()], album)
    pictures = torch.zeros(1, 3, 16, 16, 3, dtype=torch.uint8)
    pictures[0, 1] = 200
    shown: Any = {"a": torch.tensor([[[1, 2], [1, 2], [1, 2]]]), "b": pictures}
    assert views.of(shown) == [0, 1, 0]
    assert views.seen == [[[1, 2], 0], [[1, 2], 1]]
    assert (_opened(album.links()[1]) == 200).all()


def test_gridverse_tells_its_actions_and_the_form_of_its_view() -> None:
    spec = envs.spec("gridverse-memory-7x7")
    assert len(spec.action_names) == spec.action_space.n and "turn left" in spec.action_names
    assert spec.view is not None and math.prod(spec.view) == spec.observation_space.shape[0]
    assert envs.spec("gridverse-memory-7x7", frame_stack=2).view is None
    assert envs.spec("gridverse-memory-7x7", flicker=0.1).view == spec.view
    assert envs.spec("gridverse-memory-7x7", observation="grid").view is None


def _episode(length: int) -> Episode:
    rows = inputs("box", 1, length)
    return Episode(rows, None, np.zeros(length, int), torch.zeros(length, 2), np.zeros(length), 0.0, True)


def test_failures_come_first_and_fill_what_successes_leave() -> None:
    episodes = [Outcome(3, float(n), n % 4 == 0) for n in range(12)]  # 0, 4 and 8 succeed
    assert choose(episodes, 6, True) == [1, 2, 3, 0, 4, 8]
    assert choose(episodes, 8, True) == [1, 2, 3, 5, 6, 0, 4, 8]
    assert choose([Outcome(3, 0.0, True)] * 5, 4, True) == [0, 1, 2, 3]
    assert choose(episodes, 1, True) == [1]
    assert choose(episodes, 4, False) == [0, 1, 11, 10]


def test_a_long_episode_is_shown_at_equal_distances_and_with_its_cue() -> None:
    assert steps_of(_episode(7), 16).tolist() == list(range(7))
    long = _episode(1000)
    assert isinstance(long.inputs.observation, torch.Tensor)
    other = long.inputs.observation.clone()
    other[0, 7] += 1
    steps = steps_of(long._replace(other=other), 4)
    assert {0, 7, 999} <= set(steps.tolist()) and len(steps) in (MOST_STEPS, MOST_STEPS + 1)
    assert np.diff(np.setdiff1d(steps, [7])).max() <= 6
    few = steps_of(long, 40)  # 2 * 400 000 / 40 / 1000
    assert len(few) == 20
    window = steps_of(long, 4, context=50)  # 50 + 950 * 50 / 4 rows to the end
    assert len(window) == 2 * 400_000 // (4 * 11_925) == 16
    assert len(steps_of(long, 10**6)) == 8


def test_watched_pictures_are_those_of_the_replayed_actions() -> None:
    """The second way: the same actions in another environment of the same seed."""

    def copies() -> Any:
        return envs.make_vector("t-maze-passive-6", 3, 5, render_mode="rgb_array")

    env = copies()
    network = networks.build(NetworkConfig(width=8, num_layers=1), env.single_observation_space, 4)
    seen: dict[tuple[int, int], np.ndarray] = {}
    watch = Watch([0, 2], lambda copy, step, picture: seen.update({(copy, step): picture}))
    episodes = play(network, env, watch=watch)
    env = copies()
    env.reset()
    for t in range(episodes[0].length + 1):
        for copy in (0, 2):
            np.testing.assert_array_equal(seen.pop((copy, t)), env.render()[copy])
        if t < episodes[0].length:
            env.step(np.array([episode.action[t] for episode in episodes]))
    assert not seen


def test_an_episode_has_its_rewards_and_the_other_secret_where_it_is_asked() -> None:
    env = envs.make_vector("t-maze-passive-6", 3, 5)
    network = networks.build(NetworkConfig(width=8, num_layers=1), env.single_observation_space, 4)
    whole = play(network, env)
    some = play(network, envs.make_vector("t-maze-passive-6", 3, 5), others_of=[1])
    assert [episode.cue is None for episode in some] == [True, False, True]
    assert whole[1].cue is not None and (some[1].cue == whole[1].cue).all() and whole[1].cue[0]
    for episode in whole:
        assert episode.reward[:-1] == pytest.approx(episode.inputs.reward[0, 1:].numpy())
        assert episode.reward.sum() == pytest.approx(episode.episode_return)


def test_neighbouring_rows_are_one_point_of_staleness() -> None:
    """8, 2, 0 and 6 sequences of 8: the third row has no figure, and the last rows join the point before."""
    key = "replay/stale_action_share"

    def row(steps: int, value: float | None, share: float) -> Row:
        return {"env_steps": steps, key: value, "replay/delta_q_share": share}

    rows = [row(10 * n, 1.0, 1.0) for n in range(7)] + [row(70, 0.0, 0.25), row(80, None, 0.0)]
    x, y = curves.pooled([*rows, row(90, 0.5, 0.75)], key)
    assert (x, y) == ([pytest.approx((8 * 210 + 2 * 70 + 6 * 90) / 64)], [pytest.approx((56 + 3) / 64)])
    x, y = curves.pooled([*rows, *rows, row(95, 0.0, 1.0)], key)
    assert len(x) == 1, "66 and 58 sequences are less than twice 64"
    x, y = curves.pooled([*rows] * 3, key)
    assert len(x) == 2 and y[0] == pytest.approx((56 + 8) / (58 + 8))
    assert curves.pooled(rows[-1:], key) == ([], [])


def test_the_table_of_a_comparison_is_read_back_as_it_was() -> None:
    lines = [
        AgentFigures("task", "a", 6, 6, 6, "success", 0.5, 1.25, {"MMER": 0.3}, None, 1, 0.1, 0.9,
                     Estimate(0.5, 0.4, 0.6), None, 3, 1000, 2.5, 100, 30.0),
        AgentFigures("task", "b", 3, 6, 3, "success", 0.25, -1.0, {"MMER": 0.1},
                     improvement=Estimate(0.2, 0.1, 0.3)),
    ]  # fmt: skip
    table = comparison_forms.Table(lines, "a", {"task": ["below it"]}, ["a note"])
    content = json.loads(comparison_forms.to_json(table, [RunFigures("task", "a", 1, "runs/a")]))
    again = comparison_forms.from_json(content)
    assert again.parts == table.parts and again.notes == table.notes
    assert again.lines == lines
    assert facts.comparison(again, ["more"])[0].notes[-2:] == ["a note", "more"]


def test_a_table_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text('{"table": 3}')
    with pytest.raises(ConfigError, match=r"table\.json: is no table of a comparison"):
        sources.read([tmp_path])


def test_the_time_of_a_run_is_all_counted() -> None:
    """Rows of 10, 20, 40 and 5 seconds: one before any update, two plain ones, one with an evaluation."""
    ends, evaluated = (10.0, 30.0, 70.0, 75.0), (False, False, True, False)
    rows = [
        {"env_steps": 100 * n, "learner_steps": 5 * n, "seconds": end, "speed/env_steps_per_second": 10.0 * n}
        | ({"eval/return": 1.0} if is_evaluated else {})
        for n, (end, is_evaluated) in enumerate(zip(ends, evaluated, strict=True))
    ]

    run: Any = SimpleNamespace(label="seed 1", outcome=SimpleNamespace(rows=rows))
    assert facts._time(run) == ["seed 1", "1:15", "0:10 (13%)", "0:40 (53%)", "0:25 (33%)", "20", "-"]


def test_settings_are_told_where_they_are_not_the_defaults() -> None:
    def run(label: str, **changes: Any) -> SimpleNamespace:
        return SimpleNamespace(label=label, config=Config.model_validate(changes))

    runs: Any = [
        run("seed 1", seed=1, learner={"gamma": 0.5}),
        run("seed 2", seed=2, learner={"gamma": 0.5}),
        run("other", seed=1, total_env_steps=1000, warmup_env_steps=10),
    ]
    grid = facts.settings(runs)
    assert grid.header == ["setting", "default", "seeds 1, 2", "other"]
    default = Config()
    told = {row[0]: row[1:] for row in grid.rows}
    assert told["learner.gamma"] == [str(default.learner.gamma), "0.5", str(default.learner.gamma)]
    assert told["total_env_steps"] == [str(default.total_env_steps)] * 2 + ["1000"]
    assert set(told) == {"learner.gamma", "total_env_steps", "warmup_env_steps"}


def test_the_similarity_of_positions_by_hand() -> None:
    network: Any = make("box", core="dtqn", context_length=3)
    table = torch.tensor([[3.0, 4.0], [4.0, 3.0], [-3.0, -4.0]])
    width = network.decoder.positions.shape[1]
    with torch.no_grad():
        network.decoder.positions.zero_()
        network.decoder.positions[:, :2] = table
    assert width >= 2
    found = figures.position_similarity(network)
    assert found == pytest.approx(np.array([[1, 0.96, -1], [0.96, 1, -0.96], [-1, -0.96, 1]]), abs=1e-6)
    assert figures.position_similarity(make("box", core="lstm")) is None
    assert figures.position_similarity(make("box", core="dtqn", positions="none")) is None


def test_the_last_window_is_what_the_last_decision_reads() -> None:
    network: Any = make("box", core="dtqn", context_length=4)
    rows = inputs("box", 1, 9)
    episode = Episode(rows, None, np.zeros(9, int), q_values(network, rows)[0], np.zeros(9), 0.0, False)
    found = figures.window_attention(network, episode)
    assert found is not None
    start, looked = found
    assert start == 5 and looked.weights.shape[-1] == 4
    with torch.no_grad():
        window = map_tree(lambda x: x[:, 5:], rows)
        alone = q_values(network, window)
    torch.testing.assert_close(alone[0, -1], episode.q[-1])
    assert looked.weights.sum(axis=-1) == pytest.approx(1.0)


def test_the_density_leaves_out_steps_that_were_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[T, T], nan in a column that was left out: the mean at a distance is of the others."""
    known = np.array([[1.0, 0, 0], [2.0, 3.0, 0], [4.0, 5.0, 6.0]])
    cut = known.copy()
    cut[:, 1] = np.nan
    drawn: list[Any] = []
    monkeypatch.setattr(figures.plots, "recall_density", lambda *arguments: drawn.extend(arguments))
    figures._density({3: known, 7: cut}, 7, tmp_path, "")
    own, over_all, *_ = drawn
    assert own == [(1.0 + 6.0) / 2, 2.0, 4.0]  # at distance 0 the left-out step itself is missing
    assert over_all == pytest.approx(((10 / 3 + 3.5) / 2, (3.5 + 2.0) / 2, 4.0))
