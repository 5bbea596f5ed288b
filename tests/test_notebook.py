"""The cells of docs/notebook.ipynb, run one after the other on a short run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dtqn import cli

_NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
_SHORT = [
    *("--env", "t-maze-passive-4", "--task.time-limit", "12", "--agent", "gru", "--network.width", "16"),
    *("--total-env-steps", "300", "--warmup-env-steps", "100", "--evaluation.period", "300"),
    *("--evaluation.episodes", "10", "--learner.env_steps_per_update", "50", "--learner.batch_size", "4"),
    *("--wandb", "disabled", "--actor.num_envs", "4", "--replay.capacity", "2000"),
]


def test_the_notebook_acts_and_draws_the_dependence_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert cli.main([*_SHORT, "--run-dir", str(run)]) == 0
    capsys.readouterr()
    monkeypatch.setenv("DTQN_RUN", str(run))
    monkeypatch.setattr(plt, "show", lambda: None)
    space: dict[str, Any] = {}
    cells = json.loads(_NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gru on t-maze-passive-4"
    assert lines[1].startswith(f"{space['steps']} steps, return ")
    length = space["episode"].length
    assert length >= 4 and space["episode"].cue[0]
    (image,) = plt.gcf().axes[0].images
    drawn = np.ma.filled(image.get_array().astype(float), np.nan)
    below = np.tri(length, dtype=bool)
    np.testing.assert_array_equal(drawn[below], space["shown"].advantage[below])
    assert np.isnan(drawn[~below]).all() and space["shown"].advantage[0, 0] > 0
    assert sum(line.startswith("step ") for line in lines) == min(5, length)
    plt.close("all")
