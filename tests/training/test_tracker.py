import http.server
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
import wandb
from PIL import Image

from dtqn.settings import presets
from dtqn.settings.layers import named
from dtqn.training import wandb_tracker
from dtqn.training.directory import RunDir, config_hash
from dtqn.training.wandb_tracker import Tracker, open_tracker
from tests.training import wandb_file

_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}


def _row(number):
    return {"env_steps": 100 * number, "eval/success": None, "learner/loss": 0.5 / (number + 1)}


def _run_file(directory: Path) -> Path:
    (file,) = directory.glob("wandb/offline-run-*/run-*.wandb")
    return file


_OFFLINE = """
import json, os, sys, time
from pathlib import Path
from dtqn.settings import presets
from dtqn.training import wandb_tracker
from dtqn.training.directory import RunDir
from dtqn.training.wandb_tracker import open_tracker
wandb_tracker._WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", wandb_tracker._WAIT_SECONDS))
directory, flags, sent, then = Path(sys.argv[1]), {"wandb": sys.argv[2]}, int(sys.argv[3]), sys.argv[4]
rows = [{"env_steps": 100 * n, "eval/success": None, "learner/loss": n / 4} for n in range(10)]
(directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows[:sent]))
tracker = open_tracker(presets.resolve(None, flags, {}), RunDir(directory), "abcd1234", print, None)
for number in range(sent, 10):
    tracker.log(number, rows[number])
if then == "kill":
    import signal
    from tests.training import wandb_file
    (file,) = directory.glob("wandb/offline-run-*/run-*.wandb")
    while len(wandb_file.history(file)) < 10:  # W&B's own process writes them, every half second
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
tracker.close(int(then) if then.isdigit() else 0)
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
    assert [row["_step"] for row in rows] == list(range(0, 20, 2))
    assert all("eval/success" not in row for row in rows)
    config = wandb_file.config(file)
    assert config["learner.n_step"] == 3
    how_it_runs = {"device", "threads", "evaluator", "wandb", "checkpoint_every", "versions", "machine"}
    assert not how_it_runs & config.keys(), "as the first start said; a resume elsewhere changes nothing"
    assert list(wandb_file.run(file).tags) == [], "nor the tags, which may have been edited since"
    assert wandb_file.step_metrics(file) == {"env_steps": "", "learner_steps": "env_steps", "*": "env_steps"}


@pytest.mark.parametrize(
    "exit_code, preempted", [(0, False), (1, False), (130, False), (143, True), (138, True)]
)
def test_a_run_that_was_preempted_says_so_at_its_end(tmp_path, exit_code, preempted):
    """Ctrl-C (130) is a person's own wish; SIGTERM and SIGUSR1 are a machine's."""
    assert _offline(tmp_path, then=str(exit_code)).stderr == ""
    assert wandb_file.preempted(_run_file(tmp_path)) == preempted
    assert len(wandb_file.history(_run_file(tmp_path))) == 10


def test_a_run_says_what_it_depends_on(tmp_path):
    """Configuration, versions, machine, commit: also where the run is started in another repository."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert _offline(tmp_path).stderr == ""
    file = _run_file(tmp_path)
    config = wandb_file.config(file)
    settings = named(presets.resolve(None, {"wandb": "offline"}, {}))
    assert settings.items() <= config.items()
    assert config["versions"]["torch"] == importlib.metadata.version("torch")
    versions = config["versions"].keys()  # with its own where it is installed and not only checked out
    assert versions - {"dtqn"} == {"python", "torch", "numpy", "gymnasium", "wandb"}
    assert config["machine"]["cpus"] == os.cpu_count()
    assert "continues" not in config
    run = wandb_file.run(file)
    name = f"gridverse-memory-7x7-gtrxl-seed1-{config_hash(presets.resolve(None, {}, {}))}"
    names = ("gridverse-memory-7x7-gtrxl", "train", name, "dtqn", "abcd1234")
    assert (run.run_group, run.job_type, run.display_name, run.project, run.run_id) == names
    assert list(run.tags) == ["gridverse-memory-7x7", "gtrxl"], "task, agent and core, each once"
    environment = wandb_file.environment(file)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True)
    assert environment.git.commit == head.stdout.strip()
    assert environment.cpu_count > 0


def test_groups_and_job_types_come_from_the_environment(tmp_path):
    _offline(
        tmp_path,
        WANDB_RUN_GROUP="ablation",
        WANDB_JOB_TYPE="compare",
        WANDB_PROJECT="paper",
        WANDB_TAGS="mine, gtrxl",
    )
    run = wandb_file.run(_run_file(tmp_path))
    assert list(run.tags) == ["gridverse-memory-7x7", "gtrxl", "mine"]
    assert (run.run_group, run.job_type, run.project) == ("ablation", "compare", "paper")


def test_inside_a_sweep_a_restart_is_a_new_run_that_names_the_one_it_continues(tmp_path):
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("wandb_version: 1\nlearner.n_step:\n  value: 3\n")
    sweep = {"WANDB_SWEEP_ID": "swp", "WANDB_SWEEP_PARAM_PATH": str(parameters)}
    for sent, run_id in ((0, "first111"), (4, "second22")):
        done = _offline(tmp_path, sent=sent, WANDB_RUN_ID=run_id, **sweep)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    first, second = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert wandb_file.run(first).run_id == "first111"
    assert wandb_file.run(second).run_id == "second22"
    assert [wandb_file.run(file).sweep_id for file in (first, second)] == ["swp", "swp"]
    assert wandb_file.run(second).job_type == "sweep"
    assert "continues" not in wandb_file.config(first)
    assert wandb_file.config(second)["continues"] == "abcd1234", "the id that was handed in"
    assert wandb_file.config(second)["learner.n_step"] == 3, "the sweep's own name of the parameter"
    assert len(wandb_file.history(second)) == 10, "the whole curve, not what came since"


def test_pictures_and_artifact_at_the_end(tmp_path):
    """The offline file, and rows of a run that was then made longer."""
    for name in ("curve.png", "film.gif"):
        frames = [Image.new("RGB", (8, 8), shade) for shade in ("red", "blue")]
        frames[0].save(tmp_path / name, save_all=name.endswith("gif"), append_images=frames[1:])
    (tmp_path / "checkpoint/10").mkdir(parents=True)
    (tmp_path / "checkpoint/10/network.safetensors").write_bytes(b"weights")
    said = []
    config = presets.resolve(None, {"wandb": "offline"}, {})
    tracker = open_tracker(config, RunDir(tmp_path), "abcd1234", said.append, None)
    last = _row(0) | {"learner_steps": 7}
    tracker.log(0, last)
    tracker.pictures(0, last, {"curve": tmp_path / "curve.png", "film": tmp_path / "film.gif"})
    tracker.artifact({"checkpoint/10/network.safetensors": tmp_path / "checkpoint/10/network.safetensors"})
    tracker.log(1, _row(1))
    tracker.close()
    wandb_file.wait()
    assert said == []
    file = _run_file(tmp_path)
    rows = wandb_file.history(file)
    assert [row["_step"] for row in rows] == [0, 1, 2]
    assert (rows[1]["env_steps"], rows[1]["learner_steps"]) == (0, 7)
    for name, kind, original in (("curve", "image-file", "curve.png"), ("film", "video-file", "film.gif")):
        assert rows[1][f"{name}/_type"] == kind
        shown = file.parent / "files" / rows[1][f"{name}/path"]
        assert shown.read_bytes() == (tmp_path / original).read_bytes()
    (artifact,) = wandb_file.artifacts(file)
    assert (artifact.name, artifact.type) == ("run-abcd1234", "model")
    assert [entry.path for entry in artifact.manifest.contents] == ["checkpoint/10/network.safetensors"]
    kept = Path(artifact.manifest.contents[0].local_path)
    assert kept.read_bytes() == b"weights"
    assert kept.is_relative_to(tmp_path / "wandb")


class _Server(http.server.BaseHTTPRequestHandler):
    """As much of W&B's server as the start of a run asks for; whatever is sent later gets no answer."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/graphql" or b"CreateRunFiles" in asked:
            return
        project = {"id": "p", "name": "dtqn", "entity": {"id": "e", "name": "me"}}
        bucket = {"id": "x", "name": "abcd1234", "displayName": "n", "config": "{}", "project": project}
        data = {
            "upsertBucket": {"bucket": bucket, "inserted": True},
            "model": {"name": "dtqn", "bucket": None},
        }
        answer = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def test_a_network_that_goes_away_loses_nothing(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, key = f"http://127.0.0.1:{server.server_address[1]}", "a" * 40
    direct = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "WAIT_SECONDS": "2"}
    try:
        done = _offline(tmp_path, "online", WANDB_BASE_URL=url, WANDB_API_KEY=key, **direct)
    finally:
        server.shutdown()
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    (file,) = tmp_path.glob("wandb/run-*/run-*.wandb")
    assert line == f"W&B did not receive everything; to send the rest: wandb sync {file.parent}"
    assert len(wandb_file.history(file)) == 10


def test_auto_without_an_account_is_offline_and_a_killed_run_is_on_the_disk(tmp_path):
    done = _offline(tmp_path, wandb="auto", then="kill")
    assert (done.returncode, done.stdout, done.stderr) == (-9, "", "")
    assert len(wandb_file.history(_run_file(tmp_path))) == 10


def test_a_server_that_never_answers_costs_the_wait_and_one_line(tmp_path):
    assert wandb_tracker._WAIT_SECONDS == 10
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted = []
        threading.Thread(target=_accept, args=(server, accepted), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        key, direct = "a" * 40, {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        # `_offline` would time out if it waited without end.
        done = _offline(tmp_path, "auto", WANDB_BASE_URL=url, WANDB_API_KEY=key, WAIT_SECONDS="2", **direct)
    assert accepted, "the server was asked"
    assert done.returncode == 0
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert "cannot be reached" in done.stdout
    assert len(wandb_file.history(_run_file(tmp_path))) == 10


def _accept(server, accepted):
    try:
        while True:
            accepted.append(server.accept())
    except OSError:
        pass


def test_disabled_imports_nothing_and_writes_nothing(tmp_path):
    config = presets.resolve(None, {"wandb": "disabled"}, {})
    opened = open_tracker(config, RunDir(tmp_path), "abcd1234", pytest.fail, None)
    assert (opened._run, opened.id) == (None, "abcd1234")
    assert list(tmp_path.iterdir()) == []


def test_what_breaks_in_wandb_is_one_line(tmp_path, monkeypatch):

    def broken(*args, **kwargs):
        raise OSError("no space\nleft")

    monkeypatch.setattr(wandb, "init", broken)
    said = []
    config = presets.resolve(None, {"wandb": "offline"}, {})
    tracker = open_tracker(config, RunDir(tmp_path), "abcd1234", said.append, None)
    tracker.log(0, _row(0))
    assert said == ["W&B could not be started; the run goes on without it: OSError: no space left"]


class _Run:
    """A run at W&B that writes down what it is told; breaks where it should."""

    id, settings = "abcd1234", types.SimpleNamespace(sync_dir="its/files")

    def __init__(self, breaks=(), error=OSError("no space\nleft")):  # noqa: B008
        self.told, self._breaks, self._error = [], breaks, error

    def _tell(self, *told):
        if told[0] in self._breaks:
            raise self._error
        self.told.append(told)

    def log(self, values, step, commit):
        self._tell("pictures" if "curve" in values else "log", step, values["env_steps"])

    def log_artifact(self, artifact):
        self._tell("artifact", artifact.name, artifact.type)

    def finish(self, exit_code):
        self._tell("close", exit_code)


_LOST = ": OSError: no space left"


@pytest.mark.parametrize(
    ("inner", "told", "said"),
    [
        (_Run(), ["log", "pictures", "artifact", "close"], []),
        (
            _Run(("pictures", "artifact")),
            ["log", "close"],
            [f"W&B did not accept the {what}{_LOST}" for what in ("pictures", "artifact")],
        ),
        (_Run(("log",)), [], [f"W&B stopped working; the run goes on without it{_LOST}"]),
        (
            _Run(("log",), SystemExit(1)),
            [],
            ["W&B stopped working; the run goes on without it: SystemExit: 1"],
        ),
        (
            _Run(("pictures",), TimeoutError("30 s")),
            ["log"],
            ["W&B did not receive everything; to send the rest: wandb sync its/files"],
        ),
    ],
)
def test_a_tracker_that_breaks_costs_the_run_nothing(tmp_path, inner, told, said):
    lines, row = [], {"env_steps": 1, "learner_steps": 0}
    Image.new("RGB", (8, 8)).save(tmp_path / "curve.png")
    tracker = Tracker("abcd1234", inner, lines.append)
    tracker.log(0, row)
    tracker.pictures(0, row, {"curve": tmp_path / "curve.png"})
    tracker.artifact({})
    tracker.close(3)
    whole = [("log", 0, 1), ("pictures", 1, 1), ("artifact", "run-abcd1234", "model"), ("close", 3)]
    assert inner.told == [one for one in whole if one[0] in told]
    assert lines == said
