"""The table of results, beside hand-made records, intervals of textbooks and the pages that show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import recipe, summary
from dtqn.settings.config import ConfigError

ROOT = Path(__file__).parents[1]


def record(seed: int, success: list[float | None], **changed: Any) -> dict[str, Any]:
    """A record of `lstm` on `hallway`, with an evaluation of 500 episodes after each 1 000 env steps."""
    steps = [1000 * (i + 1) for i in range(len(success))]
    settings = {"total_env_steps": 3000, "learner": {"learning_rate": 0.003}}
    return {
        **{"env": "hallway", "agent": "lstm", "seed": seed, "settings_hash": f"{seed:08x}"},
        **{"settings": settings, "defaults": {"learner": {"gamma": 0.9}}, "result": {"env_steps": steps[-1]}},
        "evaluations": {
            "env_steps": steps,
            "eval/success": success,
            "eval/return": [0.95] * len(success),
            "eval/episodes": [500] * len(success),
            "eval/stage": [2] * len(success),
        },
        **changed,
    }


ROW = {
    "title": "Hallway",
    "tasks": ["hall*"],
    "seeds": [1, 9],
    "runs": {"lstm": {"agent": "lstm", "learner.learning_rate": 0.003, "learner.gamma": 0.9}},
}


def test_a_folder_of_files_and_a_file_of_lines_are_read_alike(tmp_path: Path) -> None:
    records = [record(seed, [1.0]) for seed in (1, 2, 3)]
    for one in records:
        (tmp_path / "folder" / "runs" / f"seed{one['seed']}.json").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / "runs" / f"seed{one['seed']}.json").write_text(json.dumps(one, indent=1))
    (tmp_path / "folder" / "table.json").write_text('{"runs": []}')
    (tmp_path / "folder" / "again.jsonl").write_text(json.dumps(records[1]) + "\n")
    lines = tmp_path / "records.jsonl"
    lines.write_text("".join(json.dumps(one) + "\n" for one in records))
    assert summary.read(lines) == records
    assert sorted(summary.read(tmp_path / "folder"), key=lambda one: int(one["seed"])) == records


def test_a_run_is_solved_by_two_evaluations_in_a_row() -> None:
    """The 95 % interval of 467 of 500 begins above 90 %, that of 450 does not."""
    assert summary.is_solved(record(1, [0.934, 0.934, 0.2]))
    assert not summary.is_solved(record(1, [0.934, 0.9, 0.934]))
    assert summary.is_solved(record(1, [0.2, 0.934])), "it ended early"
    assert summary.is_solved(record(1, [None]))  # a return of 0.95


@pytest.mark.parametrize(
    ("solved", "of", "text"),
    [
        (10, 10, "10/10 [.69, 1]"),
        (0, 5, "0/5 [0, .52]"),
        (33, 35, "33/35 [.81, .99]"),
        (1, 4, "1/4 [.01, .81]"),
    ],
)
def test_intervals_are_those_of_clopper_and_pearson(solved: int, of: int, text: str) -> None:
    """All of n: from 0.025^(1/n); none: to 1 - 0.025^(1/n); the others by quantiles of the beta law."""
    assert summary.cell([record(i, [float(i < solved)]) for i in range(of)]) == text


def test_a_row_by_hand() -> None:
    """Of seeds 1 to 9 with both settings: three runs, one of them early, one never solved."""
    records = [
        record(1, [0.5, 1.0]),
        record(2, [0.95, 0.95, 0.5]),
        record(3, [0.0, 0.0, 0.0]),
        record(4, [1.0], settings={"total_env_steps": 3000, "learner": {"learning_rate": 0.001}}),
        record(5, [1.0], defaults={"learner": {"gamma": 0.99}}),
        record(6, [1.0], agent="gtrxl"),
        record(7, [1.0], env="t-maze"),
        record(10, [1.0]),
    ]
    first, _, _, _, line = summary.table(records, [ROW]).splitlines()
    assert first.startswith("1 of these 3 runs were stopped")
    assert line == "| Hallway | | 2/3 [.09, .99] | | | 2 k | |"


def test_two_runs_of_one_seed_are_refused() -> None:
    with pytest.raises(ValueError, match="Hallway: there are two runs of lstm on hallway with seed 1"):
        summary.table([record(1, [1.0]), record(1, [1.0], settings_hash="other")], [ROW])


def test_the_pages_show_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for page, arguments in (("docs/results.md", []), ("README.md", ["--rows", "5"])):
        assert summary.main(arguments) == 0
        printed = capsys.readouterr().out
        assert printed.strip() in Path(page).read_text(encoding="utf-8"), page


def test_no_row_lacks_a_run() -> None:
    """All seeds of all tasks named, but for T-Maze of 500 steps and more and S17Random, which say so."""
    rows = yaml.safe_load((ROOT / "docs/results/summary.yaml").read_text(encoding="utf-8"))
    records = summary.read(ROOT / "docs/results")
    for row in rows:
        first, last = row["seeds"]
        tasks = 23 if "*" in row["tasks"][0] else len(row["tasks"])
        if row["title"].startswith(("T-Maze of 500", "MiniGrid Memory S17")):
            continue
        for wanted in row["runs"].values():
            assert len(summary.chosen(records, row, **wanted)) == tasks * (last - first + 1), row["title"]


def test_the_page_of_the_recipe_has_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    folder = ROOT / "docs" / "benchmarks" / "recipe"
    recipe.main([str(folder / "held-out.yaml"), str(folder / "held-out.jsonl")])
    assert capsys.readouterr().out in (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8")


def test_how_the_recipe_does_by_hand(tmp_path: Path) -> None:
    """The best is 0.8, so 0.76 is solved, and the first run's 0.4 after its first 0.76 is a loss."""
    suite, records = tmp_path / "suite.yaml", tmp_path / "records.jsonl"
    score = {"of": "success", "random": 0.0, "optimal": 0.8}
    suite.write_text(yaml.safe_dump({"tasks": [{"name": "hallway", "env_steps": 3000, "scores": [score]}]}))
    metrics = {"eval/value_estimate": 2.5, "eval/discounted_return": -2.0}
    told = {"metrics": metrics, "result": {"reward_scale": 0.1}}  # a spread of 10, so 0.45 of it too much
    runs = [record(1, [0.76, 0.4, 0.76], **told), record(2, [0.2, 0.76], **told), record(3, [0.2], **told)]
    records.write_text("".join(json.dumps(one) + "\n" for one in runs))
    found = recipe.read(suite, records)
    assert [run.lost for run in found["hallway"]] == [0.5, None, None]
    assert [run.is_solved for run in found["hallway"]] == [True, True, False]
    assert [run.promised for run in found["hallway"]] == pytest.approx([0.45] * 3)
    table = recipe.table(found, {"hallway": 3000})
    assert "| hallway | 3 k | 2/3: 0.25 to 0.95 |" in table
    assert "`lstm`: 2 of 3 runs solved their task" in table and "tasks, 50.0% of full" in table
    late = (0.95 - (0.95 + 0.5 + 0.95) / 3 + 0.95 - (0.25 + 0.95) / 2 + 0) / 3
    assert f"score {100 * late:.1f} points above" in table and "on 1 of 1 tasks: hallway." in table
    with pytest.raises(ConfigError, match="has no run of"):
        recipe.read(ROOT / "docs" / "benchmarks" / "recipe" / "held-out.yaml", records)
