import dataclasses
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

import envs
from dtqn import cli
from dtqn.training import chance_level, checkpoint, display, messages, session, trained, wandb_tracker
from dtqn.training.directory import RunDir
from dtqn.training.metrics import CLOCKS, read_rows
from envs.task import LONGEST_EPISODE
from tests import tiny
from tests.training import fake, wandb_file
from tests.training.fake import edited_checkpoint

_ROOT = Path(__file__).parents[2]


def test_a_run_leaves_what_is_promised(tmp_path, trainer):
    assert fake.start(tmp_path / "run")[0] == 0
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        *("config.yaml", "metrics.jsonl", "learning_curve.png", "checkpoint", "wandb-id.txt", "result.json"),
        *("evaluation.gif", "task.json"),
    }
    assert {path.name for path in (tmp_path / "run/checkpoint").iterdir()} == {
        "latest",
        "1000",
        "best.safetensors",
    }
    rows = read_rows(tmp_path / "run/metrics.jsonl")
    assert [row["env_steps"] for row in rows] == list(range(50, 1001, 50))
    for key in ("learner_steps", *CLOCKS):
        assert all(key in row for row in rows)
    assert all(a["seconds"] <= b["seconds"] for a, b in itertools.pairwise(rows))
    assert list(rows[1])[:2] == ["env_steps", "learner_steps"]


def test_the_picture_of_a_finished_run_shows_what_random_actions_reach(tmp_path, trainer, monkeypatch):
    drawn = []
    monkeypatch.setattr("dtqn.plots.learning_curve", lambda *given: drawn.append(given[-2]))
    assert fake.start(tmp_path / "run")[0] == 0
    config = RunDir(tmp_path / "run").read_config()
    expected = chance_level.play(config, 20).success  # the fake's evaluations have 20 episodes
    assert drawn == [None] * 4 + [expected] and 0 < expected < 1
    monkeypatch.setattr(session, "task_identity", lambda config: envs.Identity("", "", is_native=False))
    monkeypatch.setattr(chance_level, "play", None)
    assert fake.start(tmp_path / "other")[0] == 0
    assert drawn[5:] == [None] * 5, "the price of a task that is not the suite's own is not known"


def test_the_configuration_is_stored_in_full(tmp_path, trainer):
    fake.start(tmp_path / "run")
    stored = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    assert stored["warmup_env_steps"] == 200
    assert stored["learner"].keys() == fake.config_of().learner.model_dump().keys()


def test_what_is_said(tmp_path, trainer):
    _, lines = fake.start(tmp_path / "my run")
    text = "\n".join(lines)
    for words in (
        "gridverse-memory-7x7",
        "gtrxl, 6 parameters",
        "replay 1 kB",
        "cpu, ",
        "my run",
        "1 000 env steps",
    ):
        assert words in text
    evaluations = [line for line in lines if "env steps/s" in line]
    assert len(evaluations) == 10
    assert re.search(
        r"1 000/1 000 env steps \(100%\)  eta 0:00 .*train \d+%  eval success .*%\]  loss 0", evaluations[-1]
    )
    assert re.fullmatch(
        r"done in 0:\d\d: success \S+% \[\S+%, \S+%\] over 20 episodes at 1 000 env steps; "
        r"best: success .* at \d+ "
        r"\(eval --checkpoint best\)",
        lines[-3],
    )
    assert lines[-2] == f"next     python -m dtqn eval '{tmp_path}/my run'"
    assert lines[-1] == f"report   python -m dtqn report '{tmp_path}/my run'"


def test_a_run_that_left_out_updates_says_so_at_its_end(tmp_path, trainer, monkeypatch):
    monkeypatch.setattr(trainer.learner, "skipped_updates", 2)
    lines = fake.start(tmp_path / "run")[1]
    told = (
        "2 of 102 updates were left out, as their loss or gradient was not finite (learner/skipped_updates)"
    )
    assert lines[-4] == told


def test_best_weights_are_those_of_the_best_evaluation(tmp_path, trainer):
    seen = {}
    trainer.at_step = staticmethod(lambda t: seen.update({t.env_steps: t.network.weight.clone()}))
    fake.start(tmp_path / "run")
    evaluations = {
        row["env_steps"]: row["eval/success"] for row in fake.rows(tmp_path / "run") if "eval/success" in row
    }
    best = max(evaluations, key=evaluations.get)
    figures = checkpoint.best_figures(tmp_path / "run/checkpoint")
    assert (figures["env_steps"], figures["eval/success"]) == (best, evaluations[best])
    assert torch.equal(checkpoint.load_weights(tmp_path / "run/checkpoint", "best")[1]["weight"], seen[best])
    assert torch.equal(checkpoint.load_weights(tmp_path / "run/checkpoint")[1]["weight"], seen[1000])


def test_where_no_success_is_defined_the_return_counts(tmp_path, trainer):
    trainer.has_success = False
    _, lines = fake.start(tmp_path / "run")
    assert re.match(r"done in 0:\d\d: return \S+ over 20 episodes", lines[-3])
    returns = [row["eval/return"] for row in fake.rows(tmp_path / "run") if "eval/return" in row]
    assert checkpoint.best_figures(tmp_path / "run/checkpoint")["eval/return"] == max(returns)


def test_evaluations_tell_the_best_and_the_mean_so_far_also_after_a_kill(tmp_path, trainer):
    """As columns: a sweep reads them over time and as the run's result. No later evaluation counts."""
    fake.resume(fake.killed(tmp_path / "run", trainer, 570))
    rows = [row for row in fake.rows(tmp_path / "run") if "eval/return" in row]
    assert len(rows) == 10
    for count in range(1, 11):
        for name in ("success", "return"):
            seen = [row[f"eval/{name}"] for row in rows[:count]]
            assert rows[count - 1][f"best_{name}"] == max(seen)
            assert rows[count - 1][f"mean_{name}"] == pytest.approx(sum(seen) / count)
    trainer.has_success = False
    fake.start(tmp_path / "other")
    assert not any("best_success" in row or "mean_success" in row for row in fake.rows(tmp_path / "other"))


def test_a_finished_run_is_reported_again_to_the_new_run_of_a_wandb_sweep(tmp_path, trainer, monkeypatch):
    fake.start(tmp_path / "run", wandb="offline")
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("wandb_version: 1\n")
    sweep = {"ID": "swp", "PARAM_PATH": str(parameters)}
    first = (tmp_path / "run/wandb-id.txt").read_text().strip()
    for name, value in sweep.items():
        monkeypatch.setenv(f"WANDB_SWEEP_{name}", value)
    monkeypatch.setenv("WANDB_RUN_ID", "second22")
    wandb_file.wait()  # an agent's program is a process of its own, which reads these anew
    assert "has finished" in fake.resume(tmp_path / "run", wandb="offline")[1][0]
    wandb_file.wait()
    (file,) = (tmp_path / "run").glob("wandb/offline-run-*/run-second22.wandb")
    assert wandb_file.config(file)["continues"] == first
    shown = [row["env_steps"] for row in wandb_file.history(file) if "train/success" in row]
    assert shown == list(range(50, 1001, 50))
    assert (tmp_path / "run/wandb-id.txt").read_text().strip() == "second22"
    names = [entry.path for entry in wandb_file.artifacts(file)[0].manifest.contents]
    assert {"config.yaml", "checkpoint/latest", "checkpoint/1000/network.safetensors"} <= set(names)
    assert not any("state.safetensors" in name for name in names)


def test_however_short_a_run_ends_with_what_it_owes(tmp_path, trainer):
    assert fake.start(tmp_path / "run", total_env_steps=10)[0] == 0
    assert [row["env_steps"] for row in fake.rows(tmp_path / "run") if "eval/success" in row] == [10]


@pytest.mark.parametrize("kills", [[470], [210, 590, 810], [400]])
def test_a_killed_and_resumed_run_ends_like_one_that_was_not(tmp_path, trainer, kills):
    for number, env_steps in enumerate(kills):
        fake.killed(tmp_path / "killed", trainer, env_steps, fake.resume if number else fake.start)
        with (tmp_path / "killed/metrics.jsonl").open("a") as file:
            file.write('{"env_steps": 1')
    fake.assert_goes_on(tmp_path / "killed")


def test_seconds_go_on_after_a_resume(tmp_path, trainer):
    fake.killed(tmp_path / "run", trainer)
    with edited_checkpoint(tmp_path / "run/checkpoint/400") as content:
        content["about"]["seconds"] = 1000.0
    fake.resume(tmp_path / "run")
    rows = read_rows(tmp_path / "run/metrics.jsonl")
    assert 1000 < rows[-1]["seconds"] < 1100
    assert rows[8]["seconds"] > 1000 > rows[7]["seconds"]


def test_a_run_killed_before_its_first_checkpoint_starts_anew(tmp_path, trainer):
    fake.killed(tmp_path / "killed", trainer, 150)
    assert checkpoint.best_figures(tmp_path / "killed/checkpoint")["env_steps"] == 100
    code, lines = fake.resume(tmp_path / "killed")
    assert (code, lines[0]) == (0, f"{tmp_path / 'killed'} has no checkpoint yet: the run starts anew")
    fake.start(tmp_path / "whole")
    assert fake.tree(tmp_path / "killed") == fake.tree(tmp_path / "whole")


def test_a_finished_run_says_so_and_can_be_made_longer(tmp_path, trainer):
    fake.start(tmp_path / "run")
    before = fake.tree(tmp_path / "run")
    code, lines = fake.resume(tmp_path / "run")
    assert code == 0
    assert len(lines) == 1
    assert "has finished at 1 000 env steps: success" in lines[0]
    assert fake.tree(tmp_path / "run") == before
    assert fake.resume(tmp_path / "run", total_env_steps=1500)[0] == 0
    fake.start(tmp_path / "longer", total_env_steps=1500, warmup_env_steps=200, **{"evaluation.period": "83"})
    assert fake.tree(tmp_path / "run") == fake.tree(tmp_path / "longer")
    assert RunDir(tmp_path / "run").read_config() == RunDir(tmp_path / "longer").read_config()


def test_what_a_finished_run_came_to(tmp_path, trainer):
    directory = RunDir(tmp_path / "run")
    fake.killed(tmp_path / "run", trainer)
    assert directory.read_result() is None
    fake.resume(tmp_path / "run")
    result, last = directory.read_result(), read_rows(tmp_path / "run/metrics.jsonl")[-1]
    assert (result["env_steps"], result["learner_steps"], result["parameters"]) == (1000, 100, 6)
    assert result["last_evaluation"].items() <= last.items()
    assert result["seconds"] >= last["seconds"]
    (tmp_path / "run/result.json").unlink()  # as a kill right after the last checkpoint leaves it
    assert fake.resume(tmp_path / "run")[0] == 0
    assert directory.read_result() == result
    fake.killed(tmp_path / "run", trainer, 1200, fake.resume, total_env_steps=1500)
    assert directory.read_result() is None


def test_a_run_is_found_by_its_settings(tmp_path, trainer, capsys):
    def auto(*flags):
        return cli.main(["--resume", "auto", "--runs-dir", str(tmp_path), *_FLAGS, *flags])

    fake.killed(tmp_path, trainer, begin=lambda path: auto())
    (path,) = (tmp_path / "gridverse-memory-7x7/gtrxl").iterdir()
    assert path == RunDir.of_config(fake.config_of(), tmp_path).path
    capsys.readouterr()
    assert auto("--threads", "2", "--warmup-env-steps", "200") == 0, "the same run, written otherwise"
    assert "resumed  at 400 env steps" in capsys.readouterr().out
    fake.start(tmp_path / "whole")
    assert fake.tree(path) == fake.tree(tmp_path / "whole")
    assert RunDir(path).read_config().threads == 2
    assert auto() == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{path} has finished at 1 000 env steps: success")
    assert len(printed.splitlines()) == 1
    assert auto("--learner.n-step", "5") == 0
    assert len(list(path.parent.iterdir())) == 2


_FLAGS = ["--total-env-steps", "1000", "--checkpoint-every", "200", "--wandb", "disabled"]


def _evaluations(trainer, **columns):
    """The fake's are these at 100, 200, ... env steps, the last ones from then on."""

    def evaluation(self):
        place = self.env_steps // 100 - 1
        found = {f"eval/{name}": values[min(place, len(values) - 1)] for name, values in columns.items()}
        return {"eval/return": 1.0, "eval/length": 5.0, "eval/episodes": 20} | found

    trainer._evaluation = evaluation


def test_a_run_ends_at_the_success_that_was_asked_for(tmp_path, trainer):
    """By the lower end of its interval."""
    low = [0.1, 0.66, 0.69, 0.7, 0.2]
    success, high = ([value + more for value in low] for more in (0.05, 0.1))
    _evaluations(trainer, success_low=low, success=success, success_high=high)
    assert fake.start(tmp_path / "run", stop_at_success=0.7)[0] == 0
    assert fake.rows(tmp_path / "run")[-1]["env_steps"] == 400
    assert "has finished" in fake.resume(tmp_path / "run")[1][0]
    assert fake.resume(tmp_path / "run", stop_at_success=None)[0] == 0
    assert fake.rows(tmp_path / "run")[-1]["env_steps"] == 1000


def test_a_run_ends_at_the_return_that_was_asked_for(tmp_path, trainer):
    """By the lower end of its interval, the mean less 1.96 standard errors; success does not count there."""
    columns = {"return": [0.9] * 4 + [0.0], "return_error": [0.3, 0.21, 0.2, 0.0, 0.1]}
    _evaluations(trainer, success=[1.0], success_low=[1.0], success_high=[1.0], **columns)
    assert fake.start(tmp_path / "run", stop_at_return=0.5)[0] == 0
    assert fake.rows(tmp_path / "run")[-1]["env_steps"] == 300
    assert "has finished" in fake.resume(tmp_path / "run")[1][0]
    assert fake.resume(tmp_path / "run", stop_at_return=0.9)[0] == 0
    assert fake.rows(tmp_path / "run")[-1]["env_steps"] == 400


@pytest.mark.parametrize(
    ("number", "code", "times"), [(signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 1), (signal.SIGHUP, 129, 2)]
)
def test_a_signal_finishes_the_tick_saves_and_says_how_to_go_on(tmp_path, trainer, number, code, times):
    """A terminal that goes away sends SIGHUP twice: the system, and the shell."""
    fake.at(trainer, 470, lambda: [os.kill(os.getpid(), number) for _ in range(times)])
    before = signal.getsignal(number)
    found, lines = fake.start(tmp_path / "run")
    assert found == code
    assert lines[-1] == f"interrupted and saved; to continue: python -m dtqn --resume {tmp_path / 'run'}"
    assert checkpoint.read_about(tmp_path / "run/checkpoint")["env_steps"] == 470
    assert signal.getsignal(number) == before
    fake.at(trainer, None, lambda: None)
    fake.assert_goes_on(tmp_path / "run")


def test_a_row_without_a_step_of_its_own_has_no_speed(tmp_path, trainer, monkeypatch):
    """An update that the end of a run owes comes at the env step of the row before."""
    monkeypatch.setattr(trainer, "finish", lambda self: (self._evaluate(), [self._clocks()])[1])
    assert fake.start(tmp_path / "run")[0] == 0
    *_, before, last = read_rows(tmp_path / "run/metrics.jsonl")
    assert before["env_steps"] == last["env_steps"] == 1000
    for name in ("env_steps", "learner_steps"):
        assert before[f"speed/{name}_per_second"] > 0
        assert last[f"speed/{name}_per_second"] is None


def test_a_signal_after_the_end_of_a_run_changes_nothing(tmp_path, trainer, monkeypatch):
    """The workers of a pool and W&B take a moment to go; by then the run is saved."""
    close, before = wandb_tracker.Tracker.close, signal.signal(signal.SIGTERM, signal.default_int_handler)
    monkeypatch.setattr(
        wandb_tracker.Tracker,
        "close",
        lambda self, code: (os.kill(os.getpid(), signal.SIGTERM), close(self, code)),
    )
    try:
        code, lines = fake.start(tmp_path / "run")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert code == 0 and lines[-1].startswith("report   ")


@pytest.mark.parametrize(("limit", "told"), [(LONGEST_EPISODE, 1), (50, 0)])
def test_a_task_without_a_time_limit_is_told_of(tmp_path, trainer, monkeypatch, limit, told):
    spec = dataclasses.replace(envs.spec("hallway"), time_limit=limit)
    monkeypatch.setattr(messages, "task_spec", lambda config: spec)
    code, lines = fake.start(tmp_path / "run", env="hallway")
    assert code == 0
    assert sum("endless episodes are cut after 27 000 steps" in line for line in lines) == told


FULL = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB of which\nnone"
TOLD = "the GPU has no memory left: CUDA out of memory. Tried to allocate 2.00 GiB"
KEPT = "what the run had at 400 env steps is kept"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (session.NonFiniteError("10 updates in a row"), f"10 updates in a row; {KEPT}"),
        (
            torch.OutOfMemoryError(FULL),
            f"{TOLD}; {KEPT}; to continue without it: python -m dtqn --resume {{path}} --device cpu",
        ),
    ],
    ids=["not finite", "full"],
)
def test_an_error_is_neither_hidden_nor_saved(tmp_path, trainer, error, told):
    fake.fail_at(trainer, 470, error)
    code, lines = fake.start(tmp_path / "run")
    assert (code, lines[-1]) == (1, f"error: {told.format(path=tmp_path / 'run')}")
    assert checkpoint.read_about(tmp_path / "run/checkpoint")["env_steps"] == 400


def test_a_gpu_that_is_full_from_the_start_is_one_line(tmp_path, monkeypatch):
    def full(config, is_new):
        raise torch.OutOfMemoryError(FULL)

    monkeypatch.setattr(session, "Trainer", full)
    with pytest.raises(session.ConfigError, match=f"^device is auto, but {TOLD}; try cpu$"):
        fake.start(tmp_path / "run", device="auto")


def test_a_checkpoint_of_another_program_is_one_line(tmp_path, trainer, capsys):
    fake.start(tmp_path / "run", total_env_steps=200)
    folder = tmp_path / "run/checkpoint"
    weights = checkpoint.load_weights(folder)[1]
    checkpoint.save(folder, 300, weights, {"other": 1}, checkpoint.read_about(folder))
    assert tiny.refused(capsys, "--resume", tmp_path / "run", "--total-env-steps", 400).startswith(
        str(folder)
    )


def test_rows_at_wandb_after_a_resume_are_those_of_the_metrics_file(tmp_path, trainer):
    fake.resume(fake.killed(tmp_path / "run", trainer, wandb="offline"))
    files = sorted((tmp_path / "run/wandb").glob("offline-run-*/run-*.wandb"))
    assert len({file.name for file in files}) == 1, "one id"
    assert len(files) == 2
    wandb_file.wait()
    history = wandb_file.history(files[-1])
    rows = read_rows(tmp_path / "run/metrics.jsonl")
    assert [row["env_steps"] for row in history] == [row["env_steps"] for row in rows]
    assert [row.get("eval/success") for row in history] == [row.get("eval/success") for row in rows]
    best = checkpoint.best_figures(tmp_path / "run/checkpoint")
    assert wandb_file.summary(files[-1])["best_success"] == best["eval/success"]


def test_the_live_view_of_a_terminal():
    out = fake.Terminal()
    view = display.View(out, 1000, 0)
    view.progress(500)
    view.row(
        {
            "env_steps": 500,
            "learner_steps": 10,
            "eval/return": 1.0,
            "eval/success": None,
            "learner/loss": 0.25,
        }
    )
    view.say("a note")
    time.sleep(0.6)
    view.close()
    for words in ("500 env steps: return 1", "a note", "500/1 000 env steps (50%)", "loss 0.25"):
        assert words in out.getvalue()


def test_ctrl_c_on_a_real_run_and_evaluation_of_what_it_saved(tmp_path):
    """The real trainer in a process of its own, as a user meets it; W&B's process gets the Ctrl-C too."""
    path, environment = tmp_path / "run", os.environ | {"WANDB_MODE": "offline", "HOME": str(tmp_path)}
    argv = ["--env", "gridverse-memory-5x5", "--run-dir", path, "--metrics-every", "100"]
    argv += ["--actor.num-envs", "4"]
    argv += ["--replay.capacity", "5000", "--warmup-env-steps", "200", "--evaluation.episodes", "5"]
    argv += ["--network.width", "8", "--network.core.num_layers", "1", "--network.head-width", "8"]
    argv += ["--task.time-limit", "50"]
    command = [sys.executable, "run.py", *map(str, argv)]
    run = subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    while len(read_rows(path / "metrics.jsonl")) < 3:
        assert run.poll() is None
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)
    printed = run.communicate(timeout=120)[0].splitlines()
    assert (run.returncode, printed[-1]) == (
        130,
        f"interrupted and saved; to continue: python run.py --resume {path}",
    )
    result = trained.evaluate_run(RunDir(path), 6, 7, "last")
    assert result.episodes == 6
    assert result == trained.evaluate_run(RunDir(path), 6, 7, "last")
    assert (path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    (file,) = path.glob("wandb/offline-run-*/run-*.wandb")
    assert len(wandb_file.history(file)) == len(read_rows(path / "metrics.jsonl"))
