"""The model card of a short run: its header, its words, its example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

import dtqn
from dtqn.acting.episode_intervals import wilson_interval
from dtqn.acting.evaluation import EvaluationResult
from dtqn.choices.cores import OwnCore
from dtqn.export import folder
from dtqn.settings.config import Config
from dtqn.training.directory import RunDir
from tests import tiny


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
    assert f"success {score['success']:.1%} [{low:.1%}, {high:.1%}]" in body
    for part in (
        "![learning curve](learning_curve.png)",
        "dtqn.load(",
        "python -m dtqn --config config.yaml\n",
    ):
        assert part in body
    assert str(exported.parent) not in text, "nothing of this machine's folders"
    printed = tiny.printed(capsys, "--config", exported / "config.yaml", "--print-config")
    assert printed == (exported / "config.yaml").read_text(), "the command that made it"


def _card(config: Config, finished: bool = True) -> str:
    about = {"env_steps": 9, "learner_steps": 1, "seconds": 2.0, "finished": finished}
    return folder.text(config, about, {"last": EvaluationResult(None, None, None, 7.5, 9.0, 1)}, 7, [])


def test_the_card_says_what_is_not_among_the_files(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunDir(exported).read_config()
    assert "Not in these files" not in _card(config)
    task = folder.task_identity(config)._replace(made_of="lamps.py", is_native=False)
    monkeypatch.setattr(folder, "task_identity", lambda config: task)
    network = config.network.model_copy(update={"core": OwnCore(name="cores:Own")})
    own = _card(config.model_copy(update={"agent": "mine", "network": network}))
    assert "Not in these files, and needed to load it: the task (lamps.py), `cores:Own`." in own
    assert "python -m dtqn --config config.yaml --agent mine=gtrxl\n" in own


def test_the_card_says_how_the_episodes_were_played(exported: Path) -> None:
    config = RunDir(exported).read_config()
    assert "Scores are of greedy episodes on seed 7" in _card(config)
    evaluation = config.evaluation.model_copy(update={"epsilon": 0.05})
    by_chance = _card(config.model_copy(update={"evaluation": evaluation}))
    assert "Scores are of epsilon-greedy (0.05) episodes on seed 7" in by_chance
    assert "return 7.500, of 1 episode" in by_chance, "one return has no interval"
    assert "not finished: 600 environment steps were planned" in _card(config, finished=False)


def test_the_example_of_the_card_acts(exported: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL)
    config = RunDir(exported).read_config()
    env = dtqn.load(exported).make_env(1, seed=1)
    names = {"observation": env.reset()[0][0], "reward": 0.0}
    exec(compile(example.replace("FOLDER", str(exported)), "README.md", "exec"), names)
    assert 0 <= names["action"] < 4 and config.agent == "gtrxl"


def test_names_forge_no_line_and_no_command(exported: Path) -> None:
    """`config.yaml` may be a stranger's."""
    agent = "a|b\n# solved `x`; rm -rf $HOME <b>"
    text = _card(RunDir(exported).read_config().model_copy(update={"agent": agent}))
    title = next(line for line in text.splitlines() if line.startswith("# "))
    assert title == "# a\\|b # solved `x`; rm -rf $HOME &lt;b> on t-maze-passive-6"
    assert "\n# solved" not in text.split("---\n", 2)[2].partition("## Train")[0]
    assert f"--agent '{agent}=gtrxl'" in text
