"""Trainings on a Ray of two nodes, which are processes of this machine."""

import functools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtqn import cli
from dtqn.experiments import compare, jobs
from tests import clusters
from tests.experiments import stand_in
from tests.training import fake

ray = pytest.importorskip("ray")
_ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
cluster = clusters.cluster

_SMALL = (
    "--env gridverse-memory-5x5 --agents dqn --seeds 3 --total-env-steps 20000 --warmup-env-steps 100 "
    "--metrics-every 50 --actor.num-envs 4 --replay.capacity 5000 --evaluation.episodes 4 "
    "--evaluation.num-envs 4 --evaluation.period 1000 --task.time-limit 20 --wandb disabled "
    "--network.width 8 --network.head-width 8 --checkpoint-every 500"
)


class _View:
    def __init__(self, runs, at_change):
        self._runs, self._at_change = runs, at_change
        self.said = []

    def update(self, changed):
        self._at_change(self._runs)

    def say(self, text):
        self.said.append(text)

    def close(self):
        pass


def _trained(runs):
    """Results of every training, but for clocks and machines."""
    return {file.parent.name: fake.tree(file.parent) for file in runs.glob("*/dqn/seed*/result.json")}


@pytest.fixture(scope="module")
def by_local(tmp_path_factory):
    """The same trainings as processes of this machine."""
    runs = tmp_path_factory.mktemp("local")
    os.environ.setdefault("WANDB_JOB_TYPE", "compare")
    assert cli.main(["compare", *_SMALL.split(), "--runs-dir", str(runs)]) == 0
    return _trained(runs)


def test_a_node_that_dies_costs_nothing(cluster, by_local, tmp_path, monkeypatch):
    """Its training goes on elsewhere from its checkpoint, and ends bit for bit like one left alone."""
    views, places = [], set()

    def at_change(runs):
        places.update((run.name, run.where) for run in runs if run.where)
        for run in runs:
            steps = max((int(row["env_steps"]) for row in run.rows), default=0)
            checkpoint = (run.directory.checkpoints / "latest").exists()
            if run.where == "a" and "a" in cluster.named and steps > 1000 and checkpoint:
                cluster.remove_node(cluster.named.pop("a"), allow_graceful=False)

    def view(out, runs):
        views.append(_View(runs, at_change))
        return views[-1]

    monkeypatch.setattr(compare, "open_runs_view", view)
    argv = ["compare", *_SMALL.split(), "--runs-dir", str(tmp_path)]
    assert cli.main([*argv, "--launcher", "ray", "--ray-address", cluster.address]) == 0
    assert "a" not in cluster.named
    (said,) = [line for line in views[0].said if "has gone" in line]
    lost = said.partition(":")[0]
    assert said == f"{lost}: its machine a has gone; it goes on elsewhere"
    assert {(lost, "a"), (lost, "b")} <= places
    assert _trained(tmp_path) == by_local
    logs = "".join(log.read_text() for log in tmp_path.glob("*/dqn/seed*/output.log"))
    assert "resum" in logs


@pytest.fixture
def launcher(cluster, tmp_path, monkeypatch):
    """A launcher by the cluster, and the command of the small program."""
    from dtqn.experiments.ray_launcher import RayLauncher

    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.05)
    launcher = RayLauncher(cluster.address, None)
    launcher.program = stand_in.program(tmp_path)
    return launcher


def test_every_end_of_a_training_is_told(launcher, tmp_path):
    """As by the local launcher: failed, killed once, stopped, finished; with the output in its log."""
    plans = {"fails": {"code": 3}, "dies": {"dies": [1]}, "stops": {"rows": 1000}, "ends": {}}
    jobs = [stand_in.job(tmp_path, name, **plan) for name, plan in plans.items()]
    queue = stand_in.queue(launcher.program, launcher, *jobs)
    states = stand_in.run(queue, lambda changed: queue.stop(jobs[2]) if jobs[2].rows else None)
    assert list(states.values()) == ["failed", "finished", "stopped", "finished"]
    assert jobs[0].error == "exit code 3: error: it broke"
    assert jobs[1].killed == "killed by SIGKILL (out of memory?)"
    assert (tmp_path / "stops/saved").exists()
    assert {threads for *_, threads in stand_in.events(tmp_path)} == {"1"}
    job = stand_in.job(tmp_path, "none")
    assert stand_in.run(stand_in.queue([str(tmp_path / "absent")], launcher, job)) == {"none": "failed"}
    assert "No such file" in job.error and str(tmp_path / "absent") in job.error


def test_a_node_that_does_not_see_the_folder_of_the_runs_is_named(launcher, tmp_path, monkeypatch):
    elsewhere, job = launcher.start, stand_in.job(tmp_path, "a")

    def start(works):
        return elsewhere(
            [(command._replace(directory=tmp_path / "none"), config) for command, config in works]
        )

    monkeypatch.setattr(launcher, "start", start)
    assert stand_in.run(stand_in.queue(launcher.program, launcher, job)) == {"a": "failed"}
    why = "the node [ab] does not see /.*/none; --runs-dir must be a folder that all nodes share"
    assert re.fullmatch(f"exit code 1: Ray: {why}", job.error)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "127.0.0.1:1",
            "no Ray answers there (ConnectionRefusedError: [Errno 111] Connection refused); must be HOST",
        ),
        ("ray://a:1", "must be HOST:PORT, as `ray start --head` tells it, or auto"),
        ("a:port", "must be HOST:PORT, as `ray start --head` tells it, or auto"),
        ("auto", "no Ray answers there (ConnectionError: "),
    ],
)
def test_an_address_where_no_ray_answers_is_one_line(tmp_path, capfd, monkeypatch, address, message):
    another = functools.cache(set)  # in place of one that another test has started
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", another)
    argv = ["compare", *_SMALL.split(), "--runs-dir", str(tmp_path / "runs"), "--launcher", "ray"]
    assert cli.main([*argv, "--ray-address", address]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"error: --ray-address is {address}: {message}") and said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_training_outlives_its_parent(cluster, tmp_path, number):
    """After a SIGKILL the trainings save and end by themselves."""
    argv = ["compare", *_SMALL.replace("20000", "400000").split(), "--runs-dir", str(tmp_path)]
    command = [sys.executable, "-m", "dtqn", *argv, "--launcher", "ray", "--ray-address", cluster.address]
    with subprocess.Popen(
        command, cwd=_ROOT, start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as parent:
        while len([f for f in tmp_path.glob("*/dqn/*/metrics.jsonl") if f.stat().st_size > 2000]) < 2:
            assert parent.poll() is None
            time.sleep(0.2)
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)
        else:
            parent.kill()
    until = time.monotonic() + 60
    while any(str(tmp_path) in line for line in _commands()):
        assert time.monotonic() < until
        time.sleep(0.5)
    saved = [log for log in tmp_path.glob("*/dqn/*/output.log") if "interrupted and saved" in log.read_text()]
    assert len(saved) >= 2


def _commands():
    return subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True).stdout.splitlines()
