"""The command: a short run debugged, its files, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dtqn.inspection import debug, measures
from dtqn.inspection.measures import HELD
from dtqn.types import QOutput
from tests import tiny
from tests.inspection import known


@pytest.fixture(scope="module")
def runs(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(tiny_run, folder / "gtrxl")
    dqn = tiny.train(folder / "dqn", "dqn")
    tiny.train(folder / "stack", "dqn", "--task.frame_stack", "2")
    tiny.train(folder / "lstm", "lstm", "--env", "CartPole-v1")
    late = Path(shutil.copytree(dqn, folder / "late")) / "config.yaml"
    text = late.read_text()
    assert "  time_limit: null\n" in text
    late.write_text(text.replace("  time_limit: null\n", "  time_limit: 9\n"))
    return folder


def test_a_run_is_debugged(runs: Path, capsys: pytest.CaptureFixture) -> None:
    rivals = f"{runs / 'dqn'},{runs / 'stack'}"
    flags = ["--episodes", "12", "--replacements", "4", "--memoryless", rivals]
    text = tiny.printed(capsys, "debug", runs / "gtrxl", *flags)
    for name in ("parity", "learning", "the other cue", "recall density", "uses its memory?"):
        assert name in text
    found = json.loads((runs / "gtrxl" / "debug" / "debug.json").read_text())
    assert all(check["holds"] for check in found["contracts"])
    assert found["cue"]["rows"]["value"] == found["cue"]["first_row"]["value"] + 1 == 1
    assert found["dependence"]["episodes"] == 12
    dqn = str(runs / "dqn")
    assert list(found["memoryless"]) == [dqn, f"{dqn}, 10% random actions", f"{dqn}, 30% random actions"]
    assert list(found["stacked"]) == ["2"] and "a stack of 2 steps" in text
    for of in found["maps"]:
        dependence = np.array(of["dependence"])
        assert dependence.shape == (7, 7) and np.triu(dependence, 1).max() == 0
        assert of["cue"] == [0]


def test_a_task_that_names_no_cue(runs: Path, capsys: pytest.CaptureFixture) -> None:
    flags = ["--episodes", "6", "--replacements", "3", "--out", str(runs / "out"), "--json"]
    found = json.loads(tiny.printed(capsys, "debug", runs / "lstm", *flags))
    assert "cue" not in found
    assert found == json.loads((runs / "out" / "debug.json").read_text())


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--episodes", "16", "--replacements", "16"], "--episodes is 16: it must be above --replacements"),
        (["--episodes", "1"], "--episodes is 1: it must be at least 2"),
        (
            ["--memoryless", "{runs}/lstm"],
            "--memoryless is {runs}/lstm, a run on CartPole-v1; must be one on",
        ),
        (["--memoryless", "{runs}/gtrxl"], "a run with the core gtrxl; must be one without a core"),
        (["--memoryless", "{runs}/late"], "whose task.time_limit differs; must be as in the run itself"),
        (["--memoryless", "nowhere"], "nowhere"),
        (["--out", "{runs}/lstm/config.yaml"], "config.yaml cannot be written: File exists"),
        (["--replacements", "0"], "--replacements: 0 must be an integer of at least 1"),
    ],
)
def test_what_is_refused(
    runs: Path,
    flags: list[str],
    message: str,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before any episode is played."""
    monkeypatch.setattr(debug, "play", lambda *_: pytest.fail("an episode is played"))
    here = [flag.format(runs=runs) for flag in flags]
    assert message.format(runs=runs) in tiny.refused(capsys, "debug", runs / "gtrxl", *here)


def test_a_cue_in_sight_is_not_remembered() -> None:
    """The longest time since the cue was last shown at which a decision depended on it, by hand."""
    steps = np.array([False, True, True, False, False, True, False, False])

    def held(*depending: int) -> int:
        changes = np.zeros(8)
        changes[list(depending)] = 2 * HELD
        return measures.held(measures.Cue(steps, changes, changes > 1, False, None))

    assert [held(), held(1, 2, 5), held(3), held(4, 6), held(7), held(0)] == [0, 0, 1, 2, 2, 0]


class Memoryless(known.KnownNetwork):
    """Q_t(a) = a x_t."""

    def forward(self, inputs: Any, state: Any, want_memory: bool = True) -> Any:
        x = self.encoder(inputs)[..., :1]
        return QOutput(self.scale * x * torch.arange(known.ACTIONS)), state, {}


@pytest.mark.parametrize("network, remembers", [(Memoryless(), False), (known.KnownNetwork(), True)])
def test_a_network_without_memory_holds_no_cue(network: Any, remembers: bool) -> None:
    """The cue is in sight at the last step too. What that step shows is no memory, and is not exchanged."""
    shown = np.zeros((8, 2))
    shown[[2, 5, 7], 0] = 1.0
    episode = known.episode(shown, network)._replace(other=torch.from_numpy(-shown)[None])
    assert episode.cue is not None and np.flatnonzero(episode.cue).tolist() == [2, 5, 7]
    found = measures.cue(network, [episode, episode], 0, 1, np.random.default_rng(0))
    assert found is not None and found.flips[-1]
    assert (measures.held(found), found.last_flips) == ((2, True) if remembers else (0, False))
