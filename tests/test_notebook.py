"""The cells of docs/notebook.ipynb, run one after the other, with a short run; and its kept outputs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dtqn

_NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
_CELLS = [
    cell for cell in json.loads(_NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
]


def test_the_notebook_trains_compares_acts_and_draws_the_dependence_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for its comparison, which only gets its arguments here."""
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    monkeypatch.setattr(plt, "show", lambda: None)
    asked: list[Any] = []
    rows = [{"agent": "gtrxl", "success": 1.0, "finished": 2}, {"agent": "random", "finished": 0}]
    monkeypatch.setattr(
        dtqn, "compare", lambda *given, **more: asked.append((given, more)) or SimpleNamespace(rows=rows)
    )
    space: dict[str, Any] = {}
    for cell in _CELLS:
        source = "".join(cell["source"])
        exec(compile(source.replace("20_000", "600"), cell["id"], "exec"), space)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("   ") and " env steps: success " in lines[0]
    assert space["run"].finished and space["run"].config.total_env_steps == 600
    ((given, more),) = asked
    assert given == (["gtrxl", "dqn"], space["TASK"])
    assert more == {"seeds": 2, "total_env_steps": 600, "runs_dir": str(tmp_path), "wandb": "disabled"}
    assert "gtrxl  success 100.0% in the mean of 2 runs" in lines
    length = space["episode"].length
    assert length == 31 and space["episode"].cue[:2].all()
    (image,) = plt.gcf().axes[0].images
    drawn = np.ma.filled(image.get_array().astype(float), np.nan)
    below = np.tri(length, dtype=bool)
    np.testing.assert_array_equal(drawn[below], space["shown"].advantage[below])
    assert np.isnan(drawn[~below]).all()
    assert sum(line.startswith("step ") for line in lines) == 5
    plt.close("all")


def test_its_kept_outputs_show_an_agent_that_remembers() -> None:
    assert [cell["execution_count"] for cell in _CELLS] == list(range(1, len(_CELLS) + 1))
    printed = "".join("".join(out.get("text", ())) for cell in _CELLS for out in cell["outputs"])
    assert "gtrxl  success 100.0% in the mean of 2 runs" in printed
    assert "40 of 40 episodes succeed" in printed and "step 0, which shows the cue: 0.5" in printed
    assert sum("image/png" in out.get("data", {}) for cell in _CELLS for out in cell["outputs"]) == 1
