"""Some inputs and folders: `python -m tests.fuzz` and `python -m tests.hostile` try all of them."""

from __future__ import annotations

from collections import Counter

import pytest

from dtqn.training.metrics import read_rows
from tests import hostile
from tests.fuzz import outcome
from tests.fuzz.kinds import Samples


@pytest.fixture(scope="module")
def samples():
    with outcome.alone() as folder:
        yield Samples(folder)


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_file_is_answered_or_refused_in_one_line(samples, seed):
    found = {name: samples.spoiled(name, f"test/{seed}") for name in samples.kinds}
    assert not {name: one for name, one in found.items() if one.verdict in outcome.FAULTS}


@pytest.mark.parametrize("name", ["latest", "state.json", "best.safetensors", "metrics.jsonl"])
def test_what_a_damaged_run_answers_is_the_truth(samples, name):
    """An evaluation has the figures of the whole run; a resumed run goes on to its end."""
    came = Counter()
    for seed in range(12):
        found = samples.spoiled(name, f"truth/{seed}")
        came[found.verdict] += 1
        if found.verdict == "answered" and found.argv[0] == "eval":
            assert found.told == samples.tried(lambda _: None, found.argv).told
        elif found.verdict == "answered" and found.argv[0] == "--resume":
            assert read_rows(samples.run / "metrics.jsonl")[-1]["env_steps"] >= 248
    # Weights have a checksum over all their bytes, so no spoiled ones are answered.
    assert came["refused"] and (came["answered"] or name == "best.safetensors"), came


def test_weights_in_another_order_are_refused(samples):
    def shuffle(run):
        file = run / "checkpoint/best.safetensors"
        data = file.read_bytes()
        floats = [data[at : at + 4] for at in range(len(data) - 2000, len(data), 4)]
        file.write_bytes(data[:-2000] + b"".join(reversed(floats)))

    assert samples.tried(shuffle, samples.words("BEST")).verdict == "refused"


@pytest.mark.parametrize("folder", ["env is a function of Python's", ".config.yaml.tmp is a link"])
def test_a_hostile_folder_runs_and_changes_nothing(samples, folder):
    for command in ("eval RUN --episodes 2", "RESUME"):
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
        (0, outcome.SECRET, "", "outside shown"),
    ],
)
def test_the_judge(code, out, err, verdict):
    assert outcome._verdict(code, out, err) == verdict
