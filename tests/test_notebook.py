"""The cells of docs/notebook.ipynb, run one after the other on a short run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

_NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def test_the_notebook_acts_and_draws_the_dependence_map(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    monkeypatch.setenv("DTQN_RUN", str(tiny_run))
    monkeypatch.setattr(plt, "show", lambda: None)
    space: dict[str, Any] = {}
    cells = json.loads(_NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gtrxl on t-maze-passive-6"
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
