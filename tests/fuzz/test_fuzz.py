"""Some inputs and folders: `python -m tests.fuzz` and `python -m tests.hostile` try all of them."""

from __future__ import annotations

import pytest

from tests import hostile
from tests.fuzz import outcome
from tests.fuzz.kinds import Samples


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with outcome.alone(folder):
        yield Samples(folder)


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_file_is_answered_or_refused_in_one_line(samples, seed):
    found = {name: samples.tried(name, f"test/{seed}") for name in samples.kinds}
    assert not {name: one for name, one in found.items() if one.verdict in outcome.FAULTS}


@pytest.mark.parametrize("folder", ["env is a function of Python's", ".config.yaml.tmp is a link"])
def test_a_hostile_folder_runs_and_changes_nothing(samples, folder):
    for command in (["eval", "RUN", "--episodes", "2"], ["--resume", "RUN", "--total-env-steps", "248"]):
        found = hostile.tried(samples, hostile.FOLDERS[folder], command)
        assert found.verdict == ("answered" if "link" in folder else "refused"), found


@pytest.mark.parametrize(
    ("code", "out", "err", "verdict"),
    [
        (0, "done\n", "", "answered"),
        (2, "", "error: no\n", "refused"),
        (2, "", "error: no\nmore\n", "unclear"),
        (0, "\x1b[2J", "", "unclear"),
        (1, "", "Traceback (most recent call last):\nerror: x\n", "traceback"),
    ],
)
def test_the_judge(code, out, err, verdict):
    assert outcome._verdict(code, out, err) == verdict
