"""A run of several ranks: the updates, draws and priorities of one rank with all copies, and its files."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dtqn import cli
from dtqn.networks.q_network import QNetwork
from dtqn.program import Launch
from dtqn.ranks import ALONE, RankError
from dtqn.settings.config import Config, ConfigError, MisfitError
from dtqn.settings.presets import resolve
from dtqn.training import leader, preflight, session, setup
from dtqn.training.directory import RunDir
from dtqn.training.trainer import Trainer
from dtqn.types import map_tree
from tests import updates
from tests.ranks import InThread, Table, side_by_side
from tests.training.test_resume import ROOT, checkpoint, rows

SMALL: dict[str, Any] = {
    "env": "tests.toy:Echo",
    "seed": "5",
    "device": "cpu",
    "threads": "1",
    "evaluator": "inline",
    "wandb": "disabled",
    "total_env_steps": "160",
    "warmup_env_steps": "40",
    "metrics_every": "60",
    "network.width": "8",
    "network.num_heads": "2",
    "network.mlp_width": "8",
    "network.head_width": "8",
    "learner.batch_size": "3",
    "learner.env_steps_per_update": "6",
    "learner.n_step": "2",
    "actor.num_envs": "4",
    "actor.epsilon_anneal_env_steps": "60",
    "replay.capacity": "120",
    "replay.trace_dtype": "float32",
    "evaluation.period": "1000000",
    "evaluation.episodes": "4",
    "evaluation.num_envs": "4",
}
CASES: dict[str, dict[str, str]] = {
    "gtrxl": {
        "network.num_layers": "1",
        "network.memory_length": "3",
        "network.recall_weight": "0.5",
        "learner.novelty_weight": "0.3",
        "learner.novelty_centred": "true",
        "learner.weight_decay": "0.5",
        "replay.learn_length": "4",
        "replay.sequence_period": "3",
        "replay.burn_in_length": "2",
        "actor.publish_period": "2",
        "actor.optimism": "0.3",
    },
    "drqn": {
        "replay.learn_length": "4",
        "replay.sequence_period": "3",
        "replay.burn_in_length": "2",
        "replay.initial_priority": "max",
    },
    "dtqn": {
        "network.num_layers": "1",
        "network.context_length": "6",
        "network.dropout": "0.2",
        "replay.learn_length": "4",
        "replay.burn_in_length": "2",
    },
}


@pytest.fixture
def double() -> Iterator[None]:
    """Two ways of adding up then differ too little to choose another action."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def configured(agent: str, **flags: Any) -> Config:
    return resolve(None, SMALL | CASES[agent] | {"agent": agent} | flags, {})


@pytest.fixture(autouse=True)
def _one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    one_network_at_a_time(monkeypatch)


def one_network_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share the generator of initial parameters."""
    lock, make_network = threading.Lock(), setup.make_network

    def make(config: Config) -> QNetwork:
        with lock:
            return make_network(config)

    monkeypatch.setattr(setup, "make_network", make)


class JointActor:
    """The actors of all ranks as the one actor of a single rank."""

    def __init__(self, config: Config, trainer: Trainer, count: int) -> None:
        shares = [setup.share_of(config, InThread(rank, Table(count))) for rank in range(count)]
        self.actors = [setup.make_actor(config, trainer.network, share) for share in shares]
        self.env_steps = 0

    def tick(self) -> Any:
        ticks = []
        for actor in self.actors:
            before, actor.env_steps = self.env_steps, self.env_steps
            ticks.append(actor.tick())
            actor.taken = actor.env_steps - before
        self.env_steps += sum(actor.taken for actor in self.actors)
        for actor in self.actors:
            actor.env_steps = self.env_steps
        return [map_tree(lambda *parts: np.concatenate(parts), *each) for each in zip(*ticks, strict=True)]

    def publish(self, *given: Any) -> None:
        for actor in self.actors:
            actor.publish(*given)

    def metrics(self) -> dict[str, float]:
        return {"actor/epsilon": float(np.concatenate([actor.epsilon() for actor in self.actors]).mean())}


def run(trainer: Trainer) -> tuple[Trainer, list[dict[str, Any]], list[int]]:
    """The trainer at its end, its rows of metrics, and the sequences in each of its updates."""
    found, sizes, update = [], [], trainer.learner.update

    def counted(batch: Any, *rest: Any) -> Any:
        sizes.append(len(batch.learn_rows))
        return update(batch, *rest)

    trainer.learner.update = counted  # type: ignore[method-assign]
    while not trainer.finished:
        found.append(trainer.advance())
    trainer.check_same()
    return trainer, [row for row in found if row], sizes


def weights(trainer: Trainer) -> torch.Tensor:
    both = (trainer.learner.online, trainer.learner.target)
    return torch.cat([x.detach().reshape(-1) for network in both for x in network.parameters()])


@pytest.mark.parametrize("agent, count", [("gtrxl", 4), ("drqn", 2), ("dtqn", 2)])
def test_ranks_are_one_rank_with_all_copies(agent: str, count: int, double: None) -> None:
    """Parameters, rows with the refreshed memory, priorities, metrics; batches of few sequences, and none."""
    config = configured(agent)
    one = Trainer(config)
    one.actor = JointActor(config, one, count)  # type: ignore[assignment]
    initial = weights(one)
    one, expected, _ = run(one)
    several = side_by_side(count, lambda ranks: run(Trainer(config, ranks)))
    trainers, joined, sizes = zip(*several, strict=True)

    assert (initial - weights(one)).abs().max() > 0.01 and one.learner_steps >= 19
    for trainer in trainers:
        torch.testing.assert_close(weights(trainer), weights(one), rtol=0, atol=1e-9)
        assert torch.equal(weights(trainer), weights(trainers[0]))
        assert (trainer.env_steps, trainer.learner_steps) == (one.env_steps, one.learner_steps)
        assert trainer.replay.max_priority == pytest.approx(one.replay.max_priority)
    assert all(sum(joint) == 3 for joint in zip(*sizes, strict=True))
    assert {1, 2} <= set(sizes[0]) if count == 2 else 0 in sizes[0]

    whole, shards = one.replay.get_state(), [trainer.replay.get_state() for trainer in trainers]
    for name, stored in whole["rows"].items():
        ours = np.concatenate([shard["rows"][name] for shard in shards])
        np.testing.assert_allclose(ours, stored, rtol=1e-5, atol=1e-6, err_msg=name)
    first = one.replay.steps_per_stream * one.replay.num_streams // count
    slots = [shard["sampler"]["slots"] + rank * first for rank, shard in enumerate(shards)]
    np.testing.assert_array_equal(np.concatenate(slots), whole["sampler"]["slots"])
    priorities = [shard["sampler"]["priorities"] for shard in shards]
    np.testing.assert_allclose(np.concatenate(priorities), whole["sampler"]["priorities"], rtol=1e-5)

    measured = {name for row in expected for name in row if name.startswith("learner/")}
    measured |= {"replay/steps", "replay/sequences", "replay/importance_weight_min", "actor/epsilon"}
    measured |= {"actor/novel_share"} if agent == "gtrxl" else set()
    measured |= {f"replay/priority_{name}" for name in ("minimum", "mean", "maximum")}
    measured |= {"train/episodes", "train/total_return", "replay/learned_steps_per_update", "env_steps"}
    assert len(expected) == 2
    for found in joined:
        for name in measured:
            ours, theirs = ([row[name] for row in each] for each in (found, expected))
            assert ours == pytest.approx(theirs, rel=1e-6), name


def test_other_parameters_on_a_rank_are_noticed() -> None:
    config = configured("drqn")

    def work(ranks: InThread) -> None:
        trainer = Trainer(config, ranks)
        trainer.check_same()
        if ranks.rank == 1:
            with torch.no_grad():
                next(iter(trainer.learner.target.parameters())).view(-1)[0] += 1e-7
        trainer.check_same()

    with pytest.raises(RankError, match="at learner step 0 the parameters of rank 1 differ from those of"):
        side_by_side(2, work)


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"actor.num_envs": "5"}, "actor.num_envs is 5, which it does not divide; try 4 copies"),
        ({"learner.rollout_length": "8", "learner.minibatches": "2"}, "ranks learn from replay; try 0"),
        ({"actor.pool": "process"}, "actor.pool is process: each rank steps its own copies; try inline"),
    ],
)
def test_what_ranks_cannot_share_is_refused(flags: dict[str, str], message: str) -> None:
    with pytest.raises(MisfitError, match=f"learner.ranks is 2, but .*{message}"):
        configured("drqn", **{"learner.ranks": "2"}, **flags)


# -- The whole run -------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it is saved."""


def trained(path: Path, out: io.StringIO, *, resumed: bool = False) -> int:
    """A run of two ranks in threads, which prints to `out`: its exit code."""
    config, directory = configured("gtrxl", **RUN), RunDir(path)

    def work(ranks: InThread) -> int:
        if ranks.rank:
            leader.serve(ranks)  # type: ignore[arg-type]
            return 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leader, "Group", lambda: ranks)
            patch.setattr(session, "learning_curve", lambda *_: None)
            patch.setattr(Trainer, "film", lambda *_: None)
            return (session.resume if resumed else session.start)(config, directory, out)

    code: int = side_by_side(2, work)[0]
    return code


RUN = {
    "env": "gridverse-memory-5x5",
    "task.time_limit": "20",
    "total_env_steps": "110",
    "learner.ranks": "2",
    "checkpoint_every": "50",
    "metrics_every": "40",
    "evaluation.period": "60",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        one_network_at_a_time(patch)
        assert trained(path, io.StringIO()) == 0
    return path


def test_a_run_that_lost_a_rank_is_one_line_and_ends_like_one_that_did_not(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, out = Trainer._act, io.StringIO()

    def dying(trainer: Trainer) -> None:
        if trainer.ranks.rank == 1 and trainer.env_steps > 75:
            raise Killed
        act(trainer)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Trainer, "_act", dying)
        trained(tmp_path, out)
    assert out.getvalue().splitlines()[-1] == (
        f"error: another rank of the run has ended; to go on: {RunDir(tmp_path).resume_command}"
    )
    assert trained(tmp_path, out, resumed=True) == 0
    assert "resumed  at 5" in out.getvalue() and "2 ranks of 1 thread" in out.getvalue()
    assert rows(tmp_path) == rows(whole)
    assert any("eval/return" in row for row in rows(whole)[:-1])
    expected, got = checkpoint(whole), checkpoint(tmp_path)
    assert expected.keys() == got.keys()
    assert any("priorities" in name for name in expected if name.startswith("rank1"))
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


def test_a_finished_run_lets_its_ranks_go(whole: Path) -> None:
    out = io.StringIO()
    assert trained(whole, out, resumed=True) == 0
    assert "has finished at" in out.getvalue()


def test_a_damaged_shard_is_one_line(tmp_path: Path, whole: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run") / "checkpoint"
    newest = leader.checkpoint.current(folder)
    (newest / "rank1.safetensors").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"rank1.safetensors: is damaged"):
        leader.checkpoint.load_shard(newest, 1)
    (folder / "latest").unlink()
    with pytest.raises(ConfigError, match=r"rank1.safetensors: is damaged"):
        leader.checkpoint.current(folder)


# -- The command line ----------------------------------------------------------------------------------------


def started(monkeypatch: pytest.MonkeyPatch, ranks: int, *arguments: str, rank: int = 0) -> int:
    """The exit code of the program as torchrun starts it."""
    for name, value in (("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)):
        monkeypatch.setenv(name, str(value))
    return cli.main(list(arguments))


def test_the_memory_of_all_ranks_on_the_machine_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    one, four = configured("gtrxl"), configured("gtrxl", **{"learner.ranks": "4"})
    alone = preflight.memory(one, 1000)
    monkeypatch.setattr(preflight, "launch", lambda: Launch(0, 4, 2))
    replay, networks, copies, evaluation, process = alone.values()
    here = [replay // 2, 2 * networks, copies // 2, evaluation, 2 * process]
    assert list(preflight.memory(four, 1000).values()) == here


def test_torchrun_says_how_many_ranks_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert started(monkeypatch, 2, "--print-config") == 0
    assert "\n  ranks: 2\n" in capsys.readouterr().out
    assert started(monkeypatch, 2, "--print-config", rank=1) == 0
    assert capsys.readouterr().out == ""
    one, two = (resolve(None, {"learner.ranks": str(ranks)}, {}) for ranks in (1, 2))
    assert RunDir.of_config(one).path != RunDir.of_config(two).path
    assert RunDir(Path("x")).resume_command.startswith("torchrun --nproc-per-node 2 ")


@pytest.mark.parametrize(
    "ranks, arguments, message",
    [
        (1, ["--learner.ranks", "2"], "learner.ranks is 2: 1 process was started; it takes torchrun --npr"),
        (3, ["--learner.ranks", "2"], "learner.ranks is 2: 3 processes were started; it takes torchrun"),
        (2, ["--learner.ranks", "1"], "learner.ranks is 1: 2 processes were started; it takes no torchrun"),
        (3, [], "learner.ranks is 3, but actor.num_envs is 32, which it does not divide; try 33 copies"),
        (2, ["eval", "x"], "eval is one process; torchrun is for training"),
    ],
)  # fmt: skip
def test_another_number_of_ranks_is_refused_in_one_line(
    ranks: int,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert started(monkeypatch, ranks, *arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {message}") and printed.count("\n") == 1


def test_a_run_goes_on_with_as_many_ranks_as_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    RunDir(tmp_path).write_config(configured("gtrxl", **RUN))
    for ranks in (1, 4):
        assert started(monkeypatch, ranks, "--resume", str(tmp_path)) == 2
        assert capsys.readouterr().err.startswith("error: learner.ranks is 2: ")


# -- Real processes ------------------------------------------------------------------------------------------


def processes(count: int, *command: str) -> list[subprocess.Popen[str]]:
    """The ranks of a command, as torchrun starts them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=os.environ
            | {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]


def test_two_processes_give_the_update_of_one(tmp_path: Path) -> None:
    """Through gloo: parameters, priorities, refreshed memory and metrics of two updates, of three agents."""
    for process in processes(2, "-m", "tests.updates", str(tmp_path)):
        assert process.wait() == 0, process.communicate()[0]
    found = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    for agent, expected in updates.of_all(ALONE).items():
        for ours in found:
            torch.testing.assert_close(ours[agent]["weights"], expected["weights"], rtol=0, atol=1e-12)
            assert ours[agent]["metrics"] == pytest.approx(expected["metrics"], rel=1e-9)
        assert torch.equal(found[0][agent]["weights"], found[1][agent]["weights"])
        for name in ("priorities", "traces"):  # of each update and field those of rank 0, then of rank 1
            joined = [torch.cat(parts) for parts in zip(*(ours[agent][name] for ours in found), strict=True)]
            torch.testing.assert_close(joined, expected[name], rtol=0, atol=1e-12)


# -- torchrun ------------------------------------------------------------------------------------------------

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "run.py"]


def launched(*arguments: str, restarts: int = 0) -> subprocess.Popen[str]:
    command = [*TORCHRUN[:-1], "--max-restarts", str(restarts), TORCHRUN[-1], *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ranks_of(parent: subprocess.Popen[str]) -> list[int]:
    """The processes of a torchrun, by their ranks."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]) == parent.pid:
                told = folder.joinpath("environ").read_bytes().split(b"\0")
                found[next(x for x in told if x.startswith(b"RANK="))] = int(folder.name)
    return [pid for _, pid in sorted(found.items())]


def reaches(run: subprocess.Popen[str], path: Path, env_steps: int) -> None:
    """Waits until a run has a checkpoint and rows past so many env steps."""
    while not (path / "checkpoint/latest").exists() or rows(path)[-1]["env_steps"] < env_steps:
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.05)


@pytest.mark.slow
def test_torchrun_a_killed_rank_and_ctrl_c_cost_nothing(tmp_path: Path) -> None:
    """Rank 1 is killed, then rank 0, then all are interrupted: the run ends as if nothing had been."""
    flags = [part for name, value in (SMALL | CASES["gtrxl"] | RUN).items() for part in (f"--{name}", value)]
    flags += ["--total_env_steps", "4000", "--checkpoint_every", "500", "--metrics_every", "100"]
    whole, path = tmp_path / "whole", tmp_path / "run"
    assert launched(*flags, "--run-dir", str(whole)).wait(240) == 0

    arguments = [*flags, "--run-dir", str(path)]
    for victim, env_steps in ((1, 800), (0, 1600), (None, 2400)):
        run = launched(*arguments)
        reaches(run, path, env_steps)
        pids = ranks_of(run)
        assert len(pids) == 2
        if victim is None:
            run.send_signal(signal.SIGINT)
        else:
            os.kill(pids[victim], signal.SIGKILL)
        printed = run.communicate(timeout=60)[0]
        assert run.returncode != 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        ours = [line for line in printed.splitlines() if "to go on: torchrun --nproc-per-node 2" in line]
        assert len(ours) == (victim != 0), printed
        arguments = ["--resume", str(path)]
    run = launched(*arguments)
    printed = run.communicate(timeout=240)[0]
    assert run.returncode == 0, printed
    assert rows(path) == rows(whole)
    expected, got = checkpoint(whole), checkpoint(path)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


@pytest.mark.slow
def test_torchrun_goes_on_by_itself_where_it_is_told_to(tmp_path: Path) -> None:
    flags = [part for name, value in (SMALL | CASES["gtrxl"] | RUN).items() for part in (f"--{name}", value)]
    flags += ["--total_env_steps", "2000", "--checkpoint_every", "300"]
    run = launched(*flags, "--resume", "auto", "--runs-dir", str(tmp_path), restarts=1)
    while not (found := list(tmp_path.glob("*/*/*/checkpoint/latest"))):
        assert run.poll() is None
        time.sleep(0.05)
    os.kill(ranks_of(run)[1], signal.SIGKILL)
    printed = run.communicate(timeout=240)[0]
    assert run.returncode == 0 and "resumed  at " in printed and "done in" in printed, printed
    assert rows(found[0].parents[1])[-1]["env_steps"] >= 2000
