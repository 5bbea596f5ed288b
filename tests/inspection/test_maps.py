"""Maps of several runs in one picture."""

from pathlib import Path

import numpy as np
import pytest

from dtqn.inspection import maps
from tests import tiny


def test_maps_are_of_earlier_steps(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The goal's side is shown at step 0 of 7."""
    look = maps.look(tiny_run, 20, 7, "last")
    assert (look.task, look.agent.split()[0], look.cue.tolist()) == ("t-maze-passive-6", "gtrxl", [0])
    for values in (look.saw, look.did):
        assert np.array_equal(np.isnan(values), ~np.tri(len(values), dtype=bool)) and np.nanmax(values) > 0
    for more in ([], ["--actions"]):
        file = tmp_path / f"{len(more)}.png"
        assert tiny.printed(capsys, "maps", tiny_run, tiny_run, "--out", file, *more) == f"{file}\n"
        assert file.read_bytes().startswith(b"\x89PNG")
    told = tiny.refused(capsys, "maps", tmp_path / "none", "--out", file)
    assert told.endswith("holds no run (there is no such folder)")
