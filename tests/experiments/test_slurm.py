"""A real Slurm of one machine (`apt-get install slurm-wlm`, as root), without accounting and munge."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from dtqn.settings.config import ConfigError
from tests.experiments import stand_in

_ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("slurmctld") is None, reason="needs Slurm"),
    pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="needs root"),
]
pytest.importorskip("submitit")

_CONF = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=16000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10
"""


def _free_ports():
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Slurm's two daemons."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    file = folder / "slurm.conf"
    file.write_text(_CONF.format(host=socket.gethostname(), ports=_free_ports(), folder=folder))
    os.environ["SLURM_CONF"] = str(file)
    daemons = [
        subprocess.Popen(["slurmctld", "-D"], stderr=subprocess.DEVNULL),
        subprocess.Popen(["slurmd", "-D", "-N", socket.gethostname()], stderr=subprocess.DEVNULL),
    ]
    try:
        until = time.monotonic() + 60
        while "idle" not in _answer("sinfo", "-h", "-o", "%T"):
            assert time.monotonic() < until, (folder / "slurmctld.log").read_text()[-2000:]
            time.sleep(0.5)
        yield
    finally:
        _answer("scancel", "-u", "root")
        time.sleep(2)
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()
        del os.environ["SLURM_CONF"]


def _answer(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


@pytest.fixture
def make(tmp_path, monkeypatch, cluster):
    """A function that makes a pool of jobs of the patient program, in Slurm."""
    from dtqn.experiments import slurm_launcher

    for name in ("_LOOK_SECONDS", "_ENDING_LOOK_SECONDS"):
        monkeypatch.setattr(slurm_launcher, name, 0.2)
    monkeypatch.setenv("PYTHONPATH", str(_ROOT))
    program = stand_in.patient_program(tmp_path)

    def make(*names, **options):
        launcher = slurm_launcher.SlurmLauncher(tmp_path / "slurm", {"mem": "100", **options})
        return stand_in.queue(program, launcher, *(stand_in.job(tmp_path, name) for name in names))

    yield make
    _answer("scancel", "-u", "root")
    until = time.monotonic() + 60
    while _answer("squeue", "-h") and time.monotonic() < until:
        time.sleep(0.5)


def _run(pool, after=lambda: None):
    def at_change(changed):
        after()
        # A job that was queued again may begin two minutes later, by Slurm's own rule.
        for line in _answer("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i %r").splitlines():
            if line.endswith("BeginTime"):
                _answer("scontrol", "update", f"JobId={line.split()[0]}", "StartTime=now")

    return stand_in.run(pool, at_change)


def _saved(folder):
    return (folder / "output.log").read_text()


def test_jobs_that_need_the_same_are_one_array(make, tmp_path):
    pool, where = make("a", "b", "c"), set()

    def after():
        where.update((job.name, job.where) for job in pool.jobs if job.where)
        if len(where) >= 2:
            for name in "abc":
                (tmp_path / name / "finish").touch()

    assert _run(pool, after) == dict.fromkeys("abc", "finished")
    assert where >= {("a", socket.gethostname()), ("b", socket.gethostname())}
    assert len(list((tmp_path / "slurm").glob("[0-9]*.sh"))) == 1
    assert len(list((tmp_path / "slurm").glob("*_2_0_result.pkl"))) == 1


def test_a_preempted_training_saves_and_goes_on(make, tmp_path):
    pool, urgent = make("a"), []

    def after():
        if pool.jobs[0].rows and not urgent:
            urgent.append(_answer("sbatch", "-p", "urgent", "-n2", "-o", "/dev/null", "--wrap", "sleep 3"))

    assert _run(pool, after) == {"a": "finished"}
    assert urgent and _saved(tmp_path / "a").startswith("saved after")
    assert (tmp_path / "a/begun").read_text() == "2" and pool.jobs[0].killed == ""
    assert len(list((tmp_path / "slurm").glob("[0-9]*.sh"))) == 1, "the same job again"


def test_a_training_whose_time_is_up_saves_and_goes_on(make, tmp_path):
    pool = make("a", time="1", signal_delay_s="40")
    assert _run(pool) == {"a": "finished"}
    assert _saved(tmp_path / "a").startswith("saved after")
    assert (tmp_path / "a/begun").read_text() == "2" and pool.jobs[0].killed == ""
    assert len(list((tmp_path / "slurm").glob("[0-9]*.sh"))) == 1, "the same job again"


def test_ctrl_c_lets_what_runs_save_and_takes_back_what_waits(make, tmp_path):
    pool = make("a", "b", "c")

    def after():
        if sum(bool(job.rows) for job in pool.jobs) == 2 and pool.caught is None:
            os.kill(os.getpid(), signal.SIGINT)

    assert _run(pool, after) == dict.fromkeys("abc", "interrupted")
    assert sum((tmp_path / name / "output.log").exists() for name in "abc") == 2
    for job in pool.jobs[:2]:
        assert _saved(job.directory.path).startswith("saved after")
    assert not _answer("squeue", "-h", "-t", "RUNNING,PENDING")


def test_a_job_that_somebody_cancels_saves_and_is_run_once_more(make, tmp_path):
    pool, cancelled = make("a"), []

    def after():
        if pool.jobs[0].rows and not cancelled:
            cancelled.append(_answer("scancel", "-u", "root"))

    assert _run(pool, after) == {"a": "finished"}
    assert _saved(tmp_path / "a").startswith("saved after")
    assert pool.jobs[0].killed.startswith("killed by SIG")


def test_what_sbatch_refuses_is_one_line(make):
    pool = make("a", partition="none")
    with pytest.raises(
        ConfigError, match=r"^--launcher is slurm: sbatch: error: invalid partition specified: none$"
    ):
        _run(pool)


def test_a_slurm_that_does_not_answer_is_one_line(make, monkeypatch, tmp_path):
    (tmp_path / "none.conf").write_text("ClusterName=none\nSlurmctldHost=none(127.0.0.1)\nSlurmctldPort=1\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none.conf"))
    with pytest.raises(ConfigError, match="no Slurm answers here"):
        make("a")
