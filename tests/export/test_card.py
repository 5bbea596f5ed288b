"""The model card of a short run: its header, its words, its example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

import dtqn
from dtqn import cli
from dtqn.acting.statistics import wilson_interval
from dtqn.export import card, certificate
from dtqn.training.directory import RunDir


def test_the_card_is_one_that_the_hub_reads(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (exported / "README.md").read_text()
    _, header, body = text.split("---\n", 2)
    found = yaml.safe_load(header)
    assert found["library_name"] == "dtqn" and "t-maze-passive-6" in found["tags"]
    (result,) = found["model-index"][0]["results"]
    score = json.loads((exported / "certificate.json").read_text())["scores"]["last"]
    success = next(metric for metric in result["metrics"] if metric["type"] == "success_rate")
    assert success["value"] == pytest.approx(score["success"], abs=1e-4)
    low, high = wilson_interval(round(40 * score["success"]), 40)
    assert f"success {100 * score['success']:.1f} % ({100 * low:.1f} to {100 * high:.1f})" in body
    for part in (
        "![learning curve](learning_curve.png)",
        "dtqn.load(",
        "python -m dtqn --config config.yaml\n",
    ):
        assert part in body
    assert str(exported.parent) not in text, "nothing of this machine's folders"
    capsys.readouterr()
    assert cli.main(["--config", str(exported / "config.yaml"), "--print-config"]) == 0
    assert capsys.readouterr().out == (exported / "config.yaml").read_text(), "the command that made it"


def test_the_card_says_what_is_not_among_the_files(exported: Path) -> None:
    config, made = RunDir(exported).read_config(), certificate.read(exported)
    greedy = card.text(config, made, [], "", None)
    assert "Not in these files" not in greedy
    assert "Scores are of greedy episodes" in greedy and "`policy.act` is greedy" not in greedy
    by_chance = config.model_copy(
        update={"evaluation": config.evaluation.model_copy(update={"epsilon": 0.05})}
    )
    told = card.text(by_chance, made, [], "", None)
    assert "Scores are of epsilon-greedy (0.05) episodes" in told
    assert "`policy.act` is greedy in any case." in told
    made["task"]["made_of"], made["own_networks"] = "lamps.py", ["cores:Own"]
    own = card.text(config.model_copy(update={"agent": "mine"}), made, [], "", "me/agent")
    assert "Not in these files, and needed to load it: the task (lamps.py), `cores:Own`." in own
    assert 'folder = snapshot_download("me/agent")' in own
    assert "python -m dtqn --config config.yaml --agent mine=gtrxl\n" in own


def test_the_example_of_the_card_acts(exported: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL)
    config = RunDir(exported).read_config()
    env = dtqn.load(exported).make_env(1, seed=1)
    names = {"observation": env.reset()[0][0], "reward": 0.0}
    exec(compile(example.replace("FOLDER", str(exported)), "README.md", "exec"), names)
    assert 0 <= names["action"] < 4 and config.agent == "gru"
