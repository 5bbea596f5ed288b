"""The tables of results, by hand-made records, intervals of textbooks and the pages that show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import areas, recipe, summary
from dtqn.settings.config import ConfigError

ROOT = Path(__file__).parents[1]


def record(seed: int, success: list[float]) -> dict[str, Any]:
    """A record of `lstm` on `hallway`, with an evaluation of 500 episodes after each 1 000 env steps."""
    steps = [1000 * (i + 1) for i in range(len(success))]
    return {
        **{"env": "hallway", "agent": "lstm", "seed": seed, "settings_hash": f"{seed:08x}", "settings": {}},
        "evaluations": {
            "env_steps": steps,
            "eval/success": success,
            "eval/stage": [2] * len(success),
        },
        "metrics": {"eval/value_estimate": 2.5, "eval/discounted_return": -2.0},
        "result": {"reward_scale": 0.1},  # a spread of 10
    }


def run(score: float, task: str = "hallway", agent: str = "lstm") -> recipe.Run:
    return recipe.Run(task, agent, [score], [score], 0.0)


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
    assert summary.cell([run(float(i < solved)) for i in range(of)]).replace(summary.NO_BREAK, " ") == text


def test_a_row_by_hand() -> None:
    runs = [
        run(0.95),
        run(0.89),
        run(0.9, "maze"),
        run(1.0, agent="dqn"),
        run(1.0, "other"),
        run(1.0, agent="my"),
    ]
    row = {"title": "Hallway, maze", "tasks": ["hallway", "maze"], "published": "all"}
    rows = [row, {"title": "not run", "tasks": ["hall"]}]
    *_, line = summary.table(runs, rows).replace(summary.NO_BREAK, " ").splitlines()
    assert line == "| Hallway, maze |  | 2/3 [.09, .99] |  | 1/1 [.03, 1] | all |"


def test_the_pages_show_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for page, arguments in (("docs/results.md", []), ("README.md", ["--rows", "5"])):
        assert summary.main(arguments) == 0
        printed = capsys.readouterr().out
        assert printed.strip() in Path(page).read_text(encoding="utf-8"), page


def test_every_task_of_the_suites_is_in_one_row() -> None:
    rows = yaml.safe_load((ROOT / summary.ROWS).read_text(encoding="utf-8"))
    named = [task for row in rows for task in row["tasks"]]
    suites = [*summary.SUITES, *summary.LATER]
    tasks = {name for suite in suites for name in areas.scores_of(ROOT / suite)}
    assert sorted(named) == sorted(tasks)


@pytest.mark.parametrize(
    ("suite", "page"),
    [("held-out", "table"), ("second", "second"), ("third", "third"), ("development", "development")],
)
def test_the_table_of_a_recipe_is_of_its_records(
    capsys: pytest.CaptureFixture[str], suite: str, page: str
) -> None:
    folder = ROOT / "docs" / "benchmarks" / "recipe"
    recipe.main([str(folder / f"{suite}.yaml"), str(folder / f"{suite}.jsonl")])
    assert capsys.readouterr().out == (folder / f"{page}.md").read_text(encoding="utf-8")


def test_what_each_part_is_worth_is_of_its_records(capsys: pytest.CaptureFixture[str]) -> None:
    folder = ROOT / "docs" / "benchmarks" / "recipe"
    areas.main([str(folder / "left-out.yaml"), str(folder / "left-out.jsonl"), "--baseline", "whole"])
    assert capsys.readouterr().out in (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8")


def test_how_the_recipe_does_by_hand(tmp_path: Path) -> None:
    """The best is 0.8, so 0.76 is solved, and the first run's 0.4 after its first 0.76 is a loss."""
    suite, records = tmp_path / "suite.yaml", tmp_path / "records.jsonl"
    score = {"of": "success", "random": 0.0, "optimal": 0.8}
    suite.write_text(yaml.safe_dump({"tasks": [{"name": "hallway", "env_steps": 3000, "scores": [score]}]}))
    runs = [record(1, [0.76, 0.4, 0.76]), record(2, [0.2, 0.76]), record(3, [0.2])]
    records.write_text("".join(json.dumps(one) + "\n" for one in runs))
    found = recipe.read(suite, records)
    assert [one.lost for one in found] == [0.5, None, None]
    assert [one.is_solved for one in found] == [True, True, False]
    assert [one.promised for one in found] == pytest.approx([0.45] * 3)
    table = recipe.table(found, {"hallway": 3000})
    assert "| hallway | 3 k | 2/3: 0.25 to 0.95 |" in table
    assert "`lstm`: 2 of 3 runs solved their task" in table and "tasks, 50.0% of full" in table
    late = (0.95 - (0.95 + 0.5 + 0.95) / 3 + 0.95 - (0.25 + 0.95) / 2 + 0) / 3
    assert f"score {100 * late:.1f} points above" in table and "on 1 of 1 tasks: hallway." in table
    with pytest.raises(ConfigError, match="has no run of"):
        recipe.read(ROOT / "docs" / "benchmarks" / "recipe" / "held-out.yaml", records)
