"""Launchers: machines that come and go, options, submitit on this machine."""

import contextlib
import functools
import itertools
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from dtqn import cli
from dtqn.experiments import compare, jobs, launchers
from dtqn.experiments.jobs import RunQueue
from dtqn.experiments.launcher import Command, Needs
from dtqn.program import WORKER
from dtqn.signals import Signals
from tests.experiments import stand_in
from tests.experiments.stand_in import run

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A function that makes a job of the small program."""
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.0)
    return functools.partial(stand_in.job, tmp_path)


class _Handle:
    """A training whose looks are told beforehand: None, the name of a machine, an exit code or `lost`."""

    def __init__(self, looks, folder):
        self.looks, self.where, self.lost, self.code, self._folder = iter(looks), None, False, None, folder

    def poll(self):
        if self.code is not None:
            return self.code
        match next(self.looks):
            case "lost":
                self.lost, self.code = True, -9
            case "row":
                with (self._folder / "metrics.jsonl").open("a") as file:
                    file.write('{"env_steps": 1}\n')
            case int() as code:
                self.code = code
                if code == 0:
                    stand_in.finish(self._folder)
            case where:
                self.where = where
        return self.code

    def end(self):
        self.looks = itertools.chain([143])

    def kill(self):
        self.code = -9


class _Cluster:
    """A launcher by such handles, a list of looks for each start of a job."""

    def __init__(self, looks):
        self.looks, self.started = looks, []

    def start(self, works):
        names = [command.directory.name for command, _ in works]
        self.started.append(names)
        return [
            _Handle(self.looks[name].pop(0), command.directory)
            for name, (command, _) in zip(names, works, strict=True)
        ]

    def close(self):
        pass


def _pool(make, cluster, parallel=None):
    return stand_in.queue(WORKER, cluster, *map(make, cluster.looks), parallel=parallel)


def test_a_launcher_gets_all_jobs_at_once_and_says_where_theyrun(make):
    cluster = _Cluster({"a": [[None, "n1", 0]], "b": [[None, None, None, "n2", 0]]})
    pool, seen = _pool(make, cluster), []

    def after(changed):
        seen.append([(job.state, job.where) for job in pool.jobs])

    assert run(pool, after=after) == {"a": "finished", "b": "finished"}
    assert cluster.started == [["a", "b"]]
    kept = [key for key, _ in itertools.groupby(seen)]
    assert [a for a, _ in itertools.groupby(state for state, _ in kept)] == [
        ("waiting", ""),
        ("running", "n1"),
        ("finished", ""),
    ]
    assert ("running", "n2") in {state for _, state in kept}


def test_given_a_number_no_more_are_handed_over(make):
    cluster = _Cluster({name: [["n", 0]] for name in "abc"})
    assert set(run(_pool(make, cluster, 2)).values()) == {"finished"}
    assert cluster.started[0] == ["a", "b"]


def test_a_training_goes_on_as_often_as_its_machine_goes_if_it_gets_on(make):
    """Without a new row between, the machine may go because of the training: once more, and no more."""
    cluster = _Cluster(
        {
            "a": [["n1", "row", "lost"]] * 3 + [["n2", 0]],
            "b": [["n1", "lost"], ["n2", "lost"], ["n3", 0]],
            "c": [["n1", "lost"], ["n2", "row", "lost"], ["n1", "lost"], ["n2", 0]],
        }
    )
    told = []
    pool = _pool(make, cluster)
    ended = run(pool, after=lambda _: told.extend(pool.news))
    assert ended == {"a": "finished", "b": "failed", "c": "finished"}
    assert told.count("a: its machine n1 has gone; it goes on elsewhere") == 3
    assert told.count("b: its machine n1 has gone; it is run once more") == 1
    assert pool.jobs[1].killed == "its machine n1 has gone"


def test_a_search_chooses_ahead_for_one_job_that_waits(make):
    cluster = _Cluster({"a": [["n1", *["n1"] * 4, 0]], "b": [[None, None, "n1", 0]]})
    pool = RunQueue(None, launcher=cluster)
    assert pool.has_room
    pool.add(make("a"))
    assert not pool.has_room
    seen = []

    def after(changed):
        if len(pool.jobs) == 1 and pool.has_room:
            pool.add(make("b"))
        seen.append((pool.jobs[-1].state, pool.has_room))

    assert set(run(pool, after=after).values()) == {"finished"}
    assert ("running", True) in seen and ("waiting", False) in seen and ("waiting", True) not in seen


_COMPARE = ["compare", "--agents", "dqn", "--seeds", "1"]
_RAY = ["--launcher", "ray", "--ray-address", "x:1"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--launcher", "slrum"],
            "--launcher is slrum: must be one of local, ray, slurm; did you mean slurm?",
        ),
        (["--ray-address", "x:1"], "--ray-address is x:1: leave it out, or give --launcher ray"),
        (
            ["--launcher", "slurm", "--ray-gpus", "1"],
            "--ray-gpus is 1.0: leave it out, or give --launcher ray",
        ),
        (
            ["--launcher", "ray", "--slurm.time", "5"],
            "--slurm.time is 5: leave it out, or give --launcher slurm",
        ),
        (
            ["--slurm.mail-type=END"],
            "--slurm.mail_type is END: leave it out, or give --launcher slurm",
        ),
        (["--slurm.time", "--jobs", "2"], "argument --slurm.time: expected one argument"),
        (
            ["--launcher", "ray", "--ray-gpus", "1.5"],
            "argument --ray-gpus: 1.5 must be a whole number, or a share between 0 and 1",
        ),
        (
            ["--launcher", "ray"],
            "--launcher ray needs --ray-address HOST:PORT, as `ray start --head` tells it, or auto",
        ),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(capsys, tmp_path, monkeypatch, argv, message):
    monkeypatch.setattr(launchers.importlib.util, "find_spec", lambda name: name)
    assert cli.main([*_COMPARE, *argv, "--runs-dir", str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert list(tmp_path.iterdir()) == []


_PLACES = {"local": [], "slurm": ["--launcher", "slurm"], "ray": _RAY}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("place", _PLACES)
def test_only_trainings_of_this_machine_need_its_devices_and_memory(
    capsys, tmp_path, monkeypatch, place, device
):
    """A log-in node has no GPU and little memory."""
    taken = []
    monkeypatch.setattr(launchers.Asked, "check", lambda asked: None)  # the extras may be missing
    monkeypatch.setattr(launchers, "opened", lambda asked, runs_dir: contextlib.nullcontext())
    monkeypatch.setattr(compare, "compare", lambda configs, *_, **__: taken.extend(configs) or 0)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("dtqn.training.machine.available_bytes", lambda: 1 << 20)
    argv = [*_COMPARE, *_PLACES[place], "--device", device, "--runs-dir", str(tmp_path)]
    code, said = cli.main(argv), capsys.readouterr().err
    if place != "local":
        assert (code, said) == (0, "")
        (config,) = taken
        needs = Needs.of(config)
        assert needs.gpus == (device == "cuda") and needs.memory_bytes > 10 << 20
        return
    assert code == 2 and not taken
    assert re.fullmatch("error: (device is cuda, but torch finds none|network.width is .*); try .*\n", said)


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
@pytest.mark.parametrize("command", [_COMPARE, ["sweep", "absent.yaml"]])
def test_a_missing_extra_is_named(capsys, monkeypatch, command, name, package):
    monkeypatch.setattr(launchers.importlib.util, "find_spec", lambda name: None)
    assert cli.main([*command, "--launcher", name]) == 2
    said = f'error: --launcher {name} needs {package}, which is not installed; pip install "dtqn[{name}]"\n'
    assert capsys.readouterr().err == said


def test_of_the_environment_only_what_must_goes_to_another_machine(tmp_path, monkeypatch):
    given = {"PYTHONPATH": "/ours", "WANDB_MODE": "offline", "OMP_NUM_THREADS": "2", "HOME": "/h"}
    monkeypatch.setenv("HOME", "/there")
    command = Command(("x",), Path("runs/a"), Path("runs/a/output.log"), given, tmp_path / "absent")
    sent = command.for_another_machine()
    assert sent.environment == {name: given[name] for name in given if name != "HOME"}
    there = sent.here()
    assert there.environment["HOME"] == "/there" and there.environment["PYTHONPATH"] == "/ours"
    assert there.folder == Path.cwd()
    assert there.arguments == ["x", "--resume", str(Path.cwd() / "runs/a")]


_SLURM = {
    "sbatch": "",
    "squeue": "ps -eo pid=,stat= | awk '$2 !~ /Z/ {print $1 \"|RUNNING|here\"}'",
    "scancel": 'case "$1" in --signal=INT) kill -INT "$2";; esac',
}
"""What stands for Slurm's commands, where jobs are processes of this machine."""


@pytest.fixture
def slurm(tmp_path, monkeypatch, make):
    """A launcher by submitit's executor for this machine, and the program of its trainings."""
    submitit = pytest.importorskip("submitit")
    from dtqn.experiments import slurm_launcher

    for name, script in _SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    executor = submitit.AutoExecutor
    monkeypatch.setattr(
        submitit, "AutoExecutor", lambda folder, cluster, **options: executor(folder, "local", **options)
    )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.05)
    for name in ("_ABSENT_SECONDS", "_LOOK_SECONDS", "_ENDING_LOOK_SECONDS"):
        monkeypatch.setattr(slurm_launcher, name, 0.5)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(_ROOT), *sys.path]))
    launcher = slurm_launcher.SlurmLauncher(tmp_path / "slurm", {"time": "10"})
    launcher.program = stand_in.patient_program(tmp_path)
    return launcher


@pytest.mark.parametrize(
    ("signalled", "state", "begun"), [(False, "finished", "2"), (True, "interrupted", "1")]
)
def test_a_slurm_job_that_is_warned_saves_and_is_queued_again_unless_the_pool_ends(
    slurm, make, tmp_path, signalled, state, begun
):
    pool = stand_in.queue(slurm.program, slurm, make("a"))
    if not signalled:
        (tmp_path / "a/warn").touch()

    def after(changed):
        if signalled and pool.jobs[0].rows and pool.caught is None:
            os.kill(os.getpid(), signal.SIGINT)

    assert run(pool, after=after) == {"a": state}
    assert (tmp_path / "a/begun").read_text() == begun
    assert (tmp_path / "a/output.log").read_text() == f"saved after {int(signal.SIGUSR1)}\n"
    assert pool.jobs[0].killed == ""


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("1:30", 2), ("2:00:00", 120), ("2:00:01", 121), ("1-0", 1440), ("1-2:30", 1590)],
)
def test_the_times_that_sbatch_takes(text, minutes):
    pytest.importorskip("submitit")
    from dtqn.experiments import slurm_launcher

    assert slurm_launcher._minutes(text) == minutes


def test_a_slurm_option_that_is_wrong_is_named(slurm, tmp_path):
    from dtqn.experiments import slurm_launcher

    for options, message in [
        ({"time": "soon"}, "--slurm.time is soon: must be minutes, H:M:S or D-H:M:S"),
        ({"time": "0"}, "--slurm.time is 0: must be a minute at least"),
        ({"array": "1-3"}, "--slurm.array is 1-3: leave it out: the launcher sets it"),
        ({"array_parallelism": "x"}, "--slurm.array_parallelism is x: must be an integer of at least 1"),
    ]:
        with pytest.raises(launchers.ConfigError, match=f"^{re.escape(message)}$"):
            slurm_launcher.SlurmLauncher(tmp_path, options)


@pytest.mark.parametrize(
    ("calm", "urgent"),
    [
        (["SIGUSR1", "SIGUSR1", "SIGUSR2", "SIGTERM"], "SIGINT"),
        (["SIGTERM", "SIGUSR1", "SIGUSR2"], "SIGINT"),
        (["SIGHUP", "SIGHUP", "SIGHUP"], "SIGTERM"),
    ],
)
def test_a_warning_never_takes_effect_at_once(calm, urgent):
    """Slurm may send a SIGTERM and a warning to a training whose job sends one; a terminal hangs up twice."""
    late, send = [], lambda name: os.kill(os.getpid(), getattr(signal, name))
    before = {
        number: signal.signal(number, lambda number, frame: late.append(number))
        for number in (getattr(signal, name) for name in {*calm, urgent})
    }
    try:
        with Signals() as signals:
            for name in calm:
                send(name)
            assert (signals.caught, late) == (getattr(signal, calm[0]), [])
            send(urgent)
            assert late == [getattr(signal, urgent)]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
