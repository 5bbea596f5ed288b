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
from dtqn.experiments.comparison_table import AgentFigures, RunFigures
from dtqn.experiments.records import of_run
from dtqn.inspection import curves, dependence, report, sources
from dtqn.inspection.attention import attention
from dtqn.inspection.episodes import play
from dtqn.training import trained
from dtqn.training.directory import EXPORTED_WEIGHTS, RunDir
from dtqn.training.metrics import read_rows
from dtqn.training.setup import make_env
from tests.inspection.conftest import PLAYED


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


def test_episodes_are_those_that_the_debugger_plays(page: Path, runs: Path) -> None:
    """Q-values, actions, returns and maps against episodes that are played here again."""
    for label, name in (("seed 1", "one"), ("seed 2", "two")):
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


def test_curves_are_those_of_the_metrics(page: Path, runs: Path) -> None:
    """Each line of a chart, found by its name, against the rows of its run."""
    lines: dict[tuple[str, str], list[tuple[list[float], list[float]]]] = {}
    for item in data(page, "chart"):
        (root,) = item["doc"]["roots"]
        name = next(
            x for x in _models(root) if x["name"] == "LinearAxis" and _label(x) != "environment steps"
        )
        for renderer in _models(root):
            if renderer["name"] == "GlyphRenderer" and renderer["attributes"]["glyph"]["name"] == "Line":
                columns = dict(renderer["attributes"]["data_source"]["attributes"]["data"]["entries"])
                key = (_label(name), renderer["attributes"]["name"])
                lines.setdefault(key, []).append((columns["x"], columns["y"]))
    for label, folder in (("seed 1", "one"), ("seed 2", "two")):
        rows = read_rows(runs / folder / "metrics.jsonl")
        for axis, key, scale, suffix in (
            ("success rate", "eval/success", 1, ""),
            ("episode return", "eval/return", 1, ""),
            ("loss", "learner/loss", 1, ""),
            ("discounted return", "eval/value_estimate", 1, ""),
            ("discounted return", "eval/discounted_return", 1, ", return"),
            ("share of steps", "replay/stale_action_share", 1, ""),
            ("delta Q", "replay/delta_q_first", 1, ""),
            ("delta Q", "replay/delta_q_last", 1, ", last"),
            ("steps a second", "speed/env_steps_per_second", 1, ""),
            ("minutes", "seconds", 60, ""),
        ):
            ((x, y),) = lines[axis, label + suffix]
            if key.startswith("replay/"):
                assert (x, y) == curves.pooled(rows, key) and x
                continue
            wanted = [(row["env_steps"], row[key]) for row in rows if row.get(key) is not None]
            assert x == [steps for steps, _ in wanted] and len(x) >= 2
            assert y == pytest.approx([float(value or 0) / scale for _, value in wanted])


def test_small_shares_have_labels_of_their_own(page: Path) -> None:
    """0.5 % and 1.5 % are not both 1 %."""
    roots = [item["doc"]["roots"][0] for item in data(page, "chart")]
    formats = [x["attributes"]["format"] for x in _models(roots) if x["name"] == "NumeralTickFormatter"]
    assert formats and set(formats) == {"0.[00]%"}


def _models(value: Any) -> list[dict[str, Any]]:
    """All objects of a chart's JSON."""
    if isinstance(value, list):
        return [model for part in value for model in _models(part)]
    if not isinstance(value, dict):
        return []
    own = [value] if value.get("type") == "object" and "attributes" in value else []
    return own + [model for part in value.values() for model in _models(part)]


def _label(axis: dict[str, Any]) -> str:
    return str(axis["attributes"].get("axis_label"))


def test_tables_tell_settings_versions_and_results(page: Path, runs: Path) -> None:
    text = page.read_text(encoding="utf-8").partition("<script")[0]
    result = RunDir(runs / "one").read_result()
    assert result is not None
    success = f"{result['last_evaluation']['eval/success']:.1%}"
    assert f'<th scope="row">seed 1</th><td>{success} [' in text
    for cell in ("network.width", "learner.batch_size", result["code"][0], result["machine"], "random"):
        assert cell in text
    row = next(line for line in text.splitlines() if ">learner.batch_size<" in line)
    assert re.findall(r"<td>(.*?)</td>", row) == ["32", "4"], "one column for two seeds"
    assert ">total_env_steps<" in text and ">seed<" not in text and ">learner.gamma<" not in text


def test_the_page_of_a_run_lies_in_its_folder(
    window_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """And the figures in theirs; lines name both."""
    capsys.readouterr()
    figures = tmp_path / "figures"
    assert cli.main(["report", str(window_run), *PLAYED, "--figures", str(figures)]) == 0
    out = capsys.readouterr().out
    assert str(window_run / "report.html") in out and "attention.pdf" in out
    names = {"dependence.pdf", "recall-density.pdf", "attention.pdf", "rollout.pdf", "positions.pdf"}
    assert {file.name for file in figures.iterdir()} == names
    for file in figures.iterdir():
        content = file.read_bytes()
        assert content.startswith(b"%PDF") and b"/Subtype /Image" not in content, "vectors, not pixels"


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
        (
            ["{runs}/one", "--figures", "{runs}/one/config.yaml"],
            "config.yaml: cannot be written: File exists",
        ),
        (["{runs}/one", "--figures", "{runs}/one/config.yaml/f"], "config.yaml/f: cannot be written: Not a"),
        (
            ["{runs}/one", "--out", "{runs}/x", "--figures", "{runs}/x"],
            "--out is {runs}/x: a folder; must be",
        ),
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


def test_without_bokeh_the_command_says_what_to_install(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["report", str(runs / "one")]) == 2
    assert 'pip install "dtqn[report]"' in capsys.readouterr().err


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


def test_of_many_runs_the_middle_one_of_each_agent_is_played() -> None:
    def run(agent: str, last: float) -> Any:
        rows = [{"eval/return": 9.0}, {"eval/return": last}, {"learner/loss": 1.0}]
        config = SimpleNamespace(env="task", agent=agent)
        return SimpleNamespace(config=config, outcome=SimpleNamespace(rows=rows), directory=True)

    runs = [run("a", last) for last in (5, 1, 3, 2, 4)] + [run("b", last) for last in (1, 2, 0, 8, 9)]
    assert report._to_play(runs[:8]) == runs[:8]
    assert report._to_play(runs) == [runs[2], runs[6]]


def test_a_run_that_is_known_by_its_record_is_played_where_it_is_at_hand(runs: Path) -> None:
    """In the folder of runs that the comparison is in; elsewhere the record is all there is."""
    config = RunDir(runs / "two").read_config()
    at_hand = RunDir.of_config(config, runs / "of")
    shutil.copytree(runs / "two", at_hand.path)
    found = sources._at_hand(config, runs / "of/compare/t-maze")
    assert found is not None and found[1].path == at_hand.path.resolve()
    assert sources._at_hand(config, runs / "elsewhere/compare/t-maze") is None


def test_a_run_is_looked_for_beside_its_comparison_first(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present folder may hold another run of the same name, as of another machine."""
    shutil.copytree(runs / "two", tmp_path / "here/one")
    shutil.copytree(runs / "one", tmp_path / "there/one")
    monkeypatch.chdir(tmp_path / "here")
    for folder, seed in (("there/compare/t-maze", 1), ("elsewhere/compare/t-maze", 2)):
        found = sources._found("one", tmp_path / folder)
        assert found is not None and found[0].config.seed == seed


def test_the_page_of_a_comparison(runs: Path, capsys: pytest.CaptureFixture) -> None:
    """Its own table; a run by its directory, one by its record, one that is gone, one that failed.

    One that has gone on since, or another of the same settings, is not taken for that of the table.
    """
    directory = RunDir(runs / "two")
    result = directory.read_result()
    assert result is not None
    record = of_run(directory.read_config(), result, read_rows(directory.metrics_file))
    (runs / "two.jsonl").write_text(record.model_dump_json())
    shutil.copytree(runs / "one", runs / "went-on")
    figures = []
    for seed, where, error in (
        (1, "one", None),
        (2, f"two.jsonl#{record.key}", None),
        (3, "gone", None),
        (4, "x", "broke"),
        (5, "went-on", None),
    ):
        rows = read_rows(runs / ("two" if seed == 2 else "one") / "metrics.jsonl")
        last = [row for row in rows if row.get("eval/return") is not None][-1]
        steps = 400 if seed == 5 else last["env_steps"]
        ends = {"env_steps": steps, "episode_return": last["eval/return"]}
        figures.append(RunFigures("t-maze-passive-6", "gtrxl", seed, where, error=error, **ends))
    line = AgentFigures("t-maze-passive-6", "gtrxl", 3, 4, 3, "success", 0.123, 0.5, minimum=0.1, maximum=0.2)
    table = comparison_forms.Table([line], None, {}, ["FAILED, in no figure: x"])
    folder = runs / "compare" / "t-maze"
    folder.mkdir(parents=True)
    (folder / "table.json").write_text(comparison_forms.to_json(table, figures))
    assert cli.main(["report", str(folder), *PLAYED]) == 0
    page = folder / "report.html"
    assert [run["label"] for run in data(page, "player")["runs"]] == ["seed 1"]
    text = page.read_text(encoding="utf-8").partition("<script")[0]
    for cell in ("12.3%", "10.0% to 20.0%", "FAILED, in no figure: x", "gone: is not there any more"):
        assert cell in text
    assert "after 400 env steps; has gone on or is another run, so it is in the table only." in text

    assert '<th scope="row">seed 2</th>' in text
    shutil.move(runs / "one", runs / "away")  # no run that is left can be played
    capsys.readouterr()
    figures = runs / "figures"
    assert cli.main(["report", str(folder), *PLAYED, "--figures", str(figures)]) == 2
    assert f"--figures is {figures}: no run has a directory to play" in capsys.readouterr().err
    shutil.move(runs / "away", runs / "one")
    (runs / "two.jsonl").write_text("{")
    begun = RunDir(runs / "gone")  # it is made again
    begun.prepare(directory.read_config())
    capsys.readouterr()
    assert cli.main(["report", str(folder), *PLAYED]) == 0
    told = "gone: is not there any more, damaged, or being made again, so it is in the table only."
    assert told in page.read_text() and f"warning: {told}" in capsys.readouterr().err
    shutil.rmtree(begun.path)
    assert f"two.jsonl#{record.key}: is not there any more, damaged, or being made again" in page.read_text()
    capsys.readouterr()
    assert cli.main(["report", str(folder), str(runs / "one")]) == 2
    assert f"{folder}: holds a comparison; give it alone" in capsys.readouterr().err
