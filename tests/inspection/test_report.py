"""The command: what lies in the page, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtqn import cli
from dtqn.inspection import dependence
from dtqn.inspection.attention import attention
from dtqn.inspection.recorder import play
from dtqn.training import trained
from dtqn.training.directory import RunDir
from dtqn.training.setup import make_env
from tests import tiny
from tests.inspection.conftest import PLAYED

_AGENT = (
    "gtrxl+network.core.mlp_width=16+network.width=16+learner.batches.size=4+learner.batches.env_steps_per_update=40.0"
    "+replay.capacity=2000+replay.learn_length=3+replay.burn_in_length=0+actor.num_envs=4"
)
_NAME = f"t-maze-passive-6 {_AGENT} seed"


def data(page: Path, name: str) -> Any:
    """The JSON of a script element."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf'<script type="application/json" id="{name}-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_page_is_one_file_that_asks_for_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 5_000_000
    assert list(page.parent.iterdir()) == [page]
    before_scripts = text.partition("<script")[0]
    assert not re.search(r'(src|href)="(?!data:|#)', before_scripts)
    assert '<link rel="stylesheet"' not in text and "$" not in before_scripts


def test_the_table_has_a_row_for_each_run(page: Path, runs: Path) -> None:
    text = page.read_text(encoding="utf-8").partition("<script")[0]
    rows = [re.findall(r"<td>(.*?)</td>", line) for line in text.splitlines() if "<td>" in line]
    for row, seed, name in zip(rows, ("1", "2"), ("one", "two"), strict=True):
        result = RunDir(runs / name).read_result()
        assert result is not None
        assert row[:3] == ["t-maze-passive-6", _AGENT, seed]
        assert row[3].startswith(f"success {result['last_evaluation']['eval/success']:.1%} [")
        assert row[4].replace(" ", "") == str(result["env_steps"])


def test_episodes_are_those_that_the_debugger_plays(page: Path, runs: Path) -> None:
    """Q-values, actions, returns and maps against episodes that are played here again."""
    for label, name in ((f"{_NAME} 1", "one"), (f"{_NAME} 2", "two")):
        (of_page,) = (run for run in data(page, "player")["runs"] if run["label"] == label)
        directory = RunDir(runs / name)
        config = directory.read_config()
        network = trained.load_network(directory, config, "last").requires_grad_(False)
        episodes = play(network, make_env(config, 8, np.random.SeedSequence(7)))
        generator = np.random.default_rng(7)
        assert len(of_page["episodes"]) == 4
        for told in of_page["episodes"]:
            episode = episodes[told["number"]]
            assert told["action"] == episode.action.tolist()
            assert told["return"] == pytest.approx(episode.episode_return, rel=1e-5)
            assert sum(told["reward"]) == pytest.approx(episode.episode_return, rel=1e-5)
            assert told["success"] == episode.success
            np.testing.assert_allclose(told["q"], episode.q, rtol=1e-5, atol=1e-9)
            others = dependence.replacements(episodes, told["number"], 7, generator)
            one = dependence.one_step(network, episode, others)
            looked = attention(network, episode)
            assert looked is not None
            maps = {"shown": one.advantage, "flips": one.flips, "attention": looked.rollout}
            maps["actions"] = dependence.actions_before(network, episode)
            for kind, expected in maps.items():
                for t, row in enumerate(told["maps"][kind]):
                    np.testing.assert_allclose(row, 1000 * expected[t, : t + 1], atol=0.501)
            assert told["cue"] == [0]
            observed = episode.inputs.observation[0].numpy()
            seen = [of_page["views"][number][0] for number in told["view"]]
            np.testing.assert_allclose(seen, observed, rtol=1e-3)


def test_the_page_of_a_run_lies_in_its_folder(window_run: Path, capsys: pytest.CaptureFixture) -> None:
    last = tiny.printed(capsys, "report", window_run, *PLAYED).splitlines()[-1]
    assert last.startswith(f"report: {window_run / 'report.html'} (")
    assert len(data(window_run / "report.html", "player")["runs"]) == 1


@pytest.mark.parametrize(
    "argv, message",
    [
        (["nowhere"], "nowhere: holds no run (there is no such folder)"),
        (["{runs}/one", "{runs}/one"], "{runs}/one: is given twice"),
        (["{runs}/one", "--out", "{runs}"], "--out is {runs}: a folder; must be a file such as"),
        (["{runs}/one", "--out", "{runs}/one/config.yaml/page.html"], "cannot be written"),
        (["{runs}/one", "--episodes", "1"], "--episodes: 1 must be an integer of at least 2"),
        (["{runs}/one", "--episodes", "3", "--shown", "4"], "--shown is 4: only 3 are played"),
        ([], "the following arguments are required: RUN_DIR"),
    ],
)
def test_what_is_refused(runs: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    error = tiny.refused(capsys, "report", *(word.format(runs=runs) for word in argv))
    assert message.format(runs=runs) in error


def test_a_run_without_an_evaluation_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "config.yaml").write_bytes((runs / "one" / "config.yaml").read_bytes())
    (tmp_path / "metrics.jsonl").write_text('{"env_steps": 10, "learner/loss": 0.5}\n')
    assert f"{tmp_path}: has not been evaluated yet" in tiny.refused(capsys, "report", tmp_path)


def test_an_unfinished_run_without_weights_is_reported_without_episodes(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for name in ("config.yaml", "metrics.jsonl", "task.json"):
        (tmp_path / name).write_bytes((runs / "one" / name).read_bytes())
    assert cli.main(["report", str(tmp_path), *PLAYED]) == 0
    assert "has no episodes on the page" in capsys.readouterr().err
    page = tmp_path / "report.html"
    assert data(page, "player")["runs"] == []
    assert "<td>600 of 600</td>" in page.read_text(encoding="utf-8"), "it has not finished"
