"""The command: what lies in the page, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dtqn import cli
from dtqn.experiments import comparison_forms
from dtqn.inspection import dependence, page_runs, report
from dtqn.inspection.attention import attention
from dtqn.inspection.recorder import play
from dtqn.training import trained
from dtqn.training.directory import EXPORTED_WEIGHTS, RunDir
from dtqn.training.setup import make_env
from tests.inspection.conftest import PLAYED

_NAME = "t-maze-passive-6 gtrxl seed"


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
        assert row[:3] == ["t-maze-passive-6", "gtrxl", seed]
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
            maps["actions"] = dependence.actions_before(network, episode, 4)
            for kind, expected in maps.items():
                for t, row in enumerate(told["maps"][kind]):
                    np.testing.assert_allclose(row, 1000 * expected[t, : t + 1], atol=0.501)
            assert told["cue"] == [0]
            observed = episode.inputs.observation[0].numpy()
            seen = [of_page["views"][number][0] for number in told["view"]]
            np.testing.assert_allclose(seen, observed, rtol=1e-3)


def test_the_page_of_a_run_lies_in_its_folder(window_run: Path, capsys: pytest.CaptureFixture) -> None:
    capsys.readouterr()
    assert cli.main(["report", str(window_run), *PLAYED]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"report: {window_run / 'report.html'} (")
    assert len(data(window_run / "report.html", "player")["runs"]) == 1


@pytest.mark.parametrize(
    "argv, message",
    [
        (
            ["nowhere"],
            "nowhere: holds no run (there is no config.yaml) and no comparison (there is no table.js",
        ),
        (["{runs}/one", "{runs}/one"], "{runs}/one: is given twice"),
        (["{runs}/one", "--out", "{runs}"], "--out is {runs}: a folder; must be a file such as"),
        (["{runs}/one", "--out", "{runs}/one/config.yaml/page.html"], "cannot be written"),
        (["{runs}/exported"], "{runs}/exported: is an exported agent, whose README.md has its figures"),
        (["{runs}/one", "--episodes", "1"], "--episodes: 1 must be an integer of at least 2"),
        (["{runs}/one", "--episodes", "3", "--shown", "4"], "--shown is 4: only 3 are played"),
        ([], "the following arguments are required: DIR"),
    ],
)
def test_what_is_refused(runs: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    (runs / "exported").mkdir(exist_ok=True)
    for name in ("config.yaml", EXPORTED_WEIGHTS):
        shutil.copy(runs / "one/config.yaml", runs / "exported" / name)
    capsys.readouterr()
    assert cli.main(["report", *(word.format(runs=runs) for word in argv)]) == 2
    out, error = capsys.readouterr()
    assert message.format(runs=runs) in error
    assert error.count("\n") == 1
    assert "playing" not in out, "told before what takes time"


def test_a_run_without_an_evaluation_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "config.yaml").write_bytes((runs / "one" / "config.yaml").read_bytes())
    (tmp_path / "metrics.jsonl").write_text('{"env_steps": 10, "learner/loss": 0.5}\n')
    assert cli.main(["report", str(tmp_path)]) == 2
    assert f"{tmp_path}: has not been evaluated yet" in capsys.readouterr().err


def test_an_unfinished_run_without_weights_is_reported_without_episodes(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for name in ("config.yaml", "metrics.jsonl", "task.json"):
        (tmp_path / name).write_bytes((runs / "one" / name).read_bytes())
    assert cli.main(["report", str(tmp_path), *PLAYED]) == 0
    assert "has no episodes on the page" in capsys.readouterr().err
    page = tmp_path / "report.html"
    assert data(page, "player")["runs"] == []
    assert "1 run, 1 unfinished" in page.read_text(encoding="utf-8")


def test_of_many_runs_the_first_of_each_agent_is_played() -> None:
    def run(agent: str) -> Any:
        return SimpleNamespace(config=SimpleNamespace(env="task", agent=agent))

    runs = [*(run("a") for _ in range(5)), *(run("b") for _ in range(5))]
    assert report._to_play(runs[:8]) == runs[:8]
    played = report._to_play(runs)
    assert played[0] is runs[0] and played[1] is runs[5] and len(played) == 2


def test_a_run_is_looked_for_beside_its_comparison_first(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present folder may hold another run of the same name, as of another machine."""
    shutil.copytree(runs / "two", tmp_path / "here/one")
    shutil.copytree(runs / "one", tmp_path / "there/one")
    monkeypatch.chdir(tmp_path / "here")
    for folder, seed in (("there/compare/t-maze", 1), ("elsewhere/compare/t-maze", 2)):
        found = page_runs._finished("one", tmp_path / folder)
        assert found is not None and RunDir(found).read_config().seed == seed


def _table(folder: Path, *run_dirs: str) -> Path:
    """A comparison of these runs."""
    folder.mkdir(parents=True)
    run = {"env": "t-maze-passive-6", "agent": "gtrxl"}
    runs = [{**run, "seed": seed, "run_dir": where} for seed, where in enumerate(run_dirs)]
    table = comparison_forms.Table([], None, {}, [])
    (folder / "table.json").write_text(comparison_forms.to_json(table, runs))
    return folder


def test_the_page_of_a_comparison(runs: Path, capsys: pytest.CaptureFixture) -> None:
    """Its runs that have finished; one that is gone, a record or made again is told of and left out."""
    begun = RunDir(runs / "again")
    begun.prepare(RunDir(runs / "two").read_config())
    folder = _table(runs / "compare" / "t-maze", "one", "gone", "two.json", "again")
    capsys.readouterr()
    assert cli.main(["report", str(folder), *PLAYED]) == 0
    page, errors = folder / "report.html", capsys.readouterr().err
    assert [run["label"] for run in data(page, "player")["runs"]] == [f"{_NAME} 1"]
    for name in ("gone", "two.json", "again"):
        line = f"{name}: is no directory of a finished run, so it is not on the page"
        assert f"warning: {line}" in errors and line in page.read_text(encoding="utf-8")
    assert cli.main(["report", str(folder), str(runs / "one")]) == 2
    assert f"{folder}: holds a comparison; give it alone" in capsys.readouterr().err
    nothing = _table(runs / "compare" / "nothing", "gone")
    assert cli.main(["report", str(nothing)]) == 2
    assert "none of the runs of its table.json has finished and can be found" in capsys.readouterr().err
