import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dtqn import layers, metrics
from dtqn.metrics import MetricsFile, NoTracker, open_tracker, read_rows
from tests.dtqn import wandb_file

_ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}


def _row(number):
    return {"env_steps": 100 * number, "eval/success": None, "learner/loss": 0.5 / (number + 1)}


def test_rows_come_back_in_order(tmp_path):
    file = MetricsFile(tmp_path / "m.jsonl")
    for number in range(3):
        file.append(_row(number))
    file.sync()
    file.close()
    assert file.rows == 3
    assert read_rows(tmp_path / "m.jsonl") == [_row(0), _row(1), _row(2)]


@pytest.mark.parametrize("tail", [b"", b'{"env_st', b'{"env_steps": 3}', b"\0\0\0\n", b"garbage\n"])
def test_reopening_keeps_the_first_rows_and_drops_a_half_written_line(tmp_path, tail):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"".join(json.dumps(_row(n)).encode() + b"\n" for n in range(4)) + tail)
    assert read_rows(path) == [_row(n) for n in range(4)]
    file = MetricsFile(path, 2)
    file.append(_row(9))
    file.close()
    assert read_rows(path) == [_row(0), _row(1), _row(9)]


def test_opening_for_all_rows_keeps_them(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"env_steps": 1}\n{"env')
    MetricsFile(path, None).close()
    assert path.read_bytes() == b'{"env_steps": 1}\n'


def test_a_file_that_is_not_there_has_no_rows(tmp_path):
    assert read_rows(tmp_path / "none.jsonl") == []


def _run_file(directory: Path) -> Path:
    (file,) = directory.glob("wandb/offline-run-*/run-*.wandb")
    return file


_OFFLINE = """
import os, sys, time
from pathlib import Path
from dtqn import layers, metrics
from dtqn.metrics import open_tracker
metrics._WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", metrics._WAIT_SECONDS))
directory, flags, sent, then = Path(sys.argv[1]), {"wandb": sys.argv[2]}, int(sys.argv[3]), sys.argv[4]
rows = [{"env_steps": 100 * n, "eval/success": None, "learner/loss": n / 4} for n in range(10)]
tracker = open_tracker(layers.resolve(None, flags, {}), directory, "abcd1234", rows[:sent], print)
for number in range(sent, 10):
    tracker.log(number, rows[number])
tracker.summary({"best/eval_success": 0.75})
if then == "kill":
    time.sleep(2.5)
    import signal
    os.kill(os.getpid(), signal.SIGKILL)
tracker.close()
"""


def _offline(directory, wandb="offline", sent=0, then="close", **environment):
    return subprocess.run(
        [sys.executable, "-c", _OFFLINE, str(directory), wandb, str(sent), then],
        env=_ENVIRONMENT | {"HOME": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def test_an_offline_file_holds_every_row_silently_also_those_of_before_a_resume(tmp_path):
    done = _offline(tmp_path, sent=6)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    file = _run_file(tmp_path)
    rows = wandb_file.history(file)
    assert [row["env_steps"] for row in rows] == [100 * n for n in range(10)]
    assert [row["_step"] for row in rows] == list(range(10))
    assert all("eval/success" not in row for row in rows)
    assert wandb_file.summary(file)["best/eval_success"] == 0.75
    assert wandb_file.config(file)["learner"]["n_step"] == 3
    assert wandb_file.step_metrics(file)["*"] == "env_steps"


def test_auto_without_an_account_is_offline_and_a_killed_run_is_on_the_disk(tmp_path):
    done = _offline(tmp_path, wandb="auto", then="kill")
    assert (done.returncode, done.stdout, done.stderr) == (-9, "", "")
    assert len(wandb_file.history(_run_file(tmp_path))) == 10


def test_a_server_that_never_answers_costs_the_wait_and_one_line(tmp_path):
    assert metrics._WAIT_SECONDS == 10
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted = []
        threading.Thread(target=_accept, args=(server, accepted), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        key, direct = "a" * 40, {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        # Where it waited without end, `_offline` would time out.
        done = _offline(tmp_path, "auto", WANDB_BASE_URL=url, WANDB_API_KEY=key, WAIT_SECONDS="2", **direct)
    assert accepted, "the server was asked"
    assert done.returncode == 0
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert "not to be reached" in done.stdout
    assert len(wandb_file.history(_run_file(tmp_path))) == 10


def _accept(server, accepted):
    try:
        while True:
            accepted.append(server.accept())
    except OSError:
        pass


def test_disabled_imports_nothing_and_writes_nothing(tmp_path):
    config = layers.resolve(None, {"wandb": "disabled"}, {})
    assert isinstance(open_tracker(config, tmp_path, "abcd1234", [], pytest.fail), NoTracker)
    assert list(tmp_path.iterdir()) == []


def test_what_breaks_in_wandb_is_one_line(tmp_path, monkeypatch):
    import wandb

    def broken(*args, **kwargs):
        raise OSError("no space\nleft")

    monkeypatch.setattr(wandb, "init", broken)
    said = []
    tracker = open_tracker(
        layers.resolve(None, {"wandb": "offline"}, {}), tmp_path, "abcd1234", [], said.append
    )
    tracker.log(0, _row(0))
    assert said == ["W&B could not be started, the run goes on without it: OSError no space left"]
