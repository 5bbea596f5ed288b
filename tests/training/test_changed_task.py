"""A run is not gone on with, nor its result reused, once its task is another one under the same name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

import dtqn
import envs
from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments import compare
from dtqn.settings.config import ConfigError
from dtqn.training import chance_level, checkpoint, trained
from dtqn.training.directory import RunDir, config_hash, lasting_settings, resolved
from dtqn.training.setup import make_network
from envs.gridverse.worlds import world
from tests import tiny
from tests.envs.test_identity import TASK
from tests.envs.test_pomdp_parser import TIGER
from tests.training import fake

_FLAGS = ["--total-env-steps", "200", "--checkpoint-every", "200", "--wandb", "disabled"]


@pytest.fixture(params=["module", "pomdp", "gridverse"])
def task(request, tmp_path, monkeypatch):
    """A task of a user's own: its id, its file, and what it reads after an edit that keeps its spaces."""
    if request.param == "module":
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "changed_guess", raising=False)
        file = tmp_path / "changed_guess.py"
        file.write_text(TASK.format(imports="", reward=1))
        return "changed_guess:Guess", file, TASK.format(imports="", reward=2)
    if request.param == "pomdp":
        file = tmp_path / "tiger.POMDP"
        file.write_text(TIGER)
        return f"pomdp:{file}", file, TIGER.replace("0.85", "0.75").replace("0.15", "0.25")
    data = world("gridverse-memory-5x5").to_data()
    file = tmp_path / "world.yaml"
    file.write_text(yaml.safe_dump(data))
    data["reward_functions"].append({"name": "living_reward", "reward": -0.5})
    return f"gridverse:{file}", file, yaml.safe_dump(data)


def _auto(tmp_path, id):
    return cli.main(["--resume", "auto", "--env", id, "--runs-dir", str(tmp_path / "runs"), *_FLAGS])


def _runs(tmp_path):
    return sorted(file.parent for file in (tmp_path / "runs").rglob("config.yaml"))


def test_an_edited_task_is_another_run(tmp_path, trainer, task, capsys):
    id, file, edited = task
    original = file.read_text()
    assert edited != original
    assert _auto(tmp_path, id) == 0
    (path,) = _runs(tmp_path)
    directory = RunDir(path)
    stored = json.loads((path / "task.json").read_text())
    assert stored == {"id": id, "digest": envs.identify(id).digest, "made_of": envs.identify(id).made_of}
    assert checkpoint.read_about(path / "checkpoint")["task"] == stored["digest"]
    result = directory.read_result()
    capsys.readouterr()
    assert _auto(tmp_path, id) == 0
    assert "has finished at 200 env steps" in capsys.readouterr().out, "unchanged, it is the same run"
    assert (
        result is not None and compare._job(directory.read_config(), tmp_path / "runs").directory.path == path
    )
    file.write_text(edited)
    assert directory.read_result() is None
    before = tiny.files(path)
    new = envs.identify(id).digest
    assert tiny.refused(capsys, "--resume", path) == (
        f"{path}: the task {id} has changed since the run began (digest {stored['digest']}, now {new} "
        f"of {stored['made_of']}); move the run away, start anew with another --run-dir, or go on with what "
        "is there now: --accept-changed-code"
    )
    assert tiny.files(path) == before
    job = compare._job(directory.read_config(), tmp_path / "runs")
    assert job.directory.path != path and not job.directory.metrics_file.exists()
    assert _auto(tmp_path, id) == 0
    assert len(_runs(tmp_path)) == 2
    file.write_text(original)
    assert directory.read_result() == result


def test_a_run_may_go_on_with_an_edited_task(tmp_path, trainer, task, capsys):
    """A fault of the task is mended, say. The run keeps when that was; then it is of the task as it is."""
    id, file, edited = task
    assert _auto(tmp_path, id) == 0
    (path,) = _runs(tmp_path)
    old = envs.identify(id).digest
    file.write_text(edited)
    new = envs.identify(id).digest
    before = tiny.files(path)
    accepts = ["--resume", path, "--accept-changed-code"]
    printed = tiny.printed(capsys, *accepts)
    assert "has finished at 200 env steps" in printed, "and so it stays"
    assert tiny.files(path) == before
    printed = tiny.printed(capsys, *accepts, "--total-env-steps", "400")
    assert f"the task {id} has changed since the run began (digest {old}, now {new} " in printed
    assert "; what is there now is accepted" in printed
    about = checkpoint.read_about(path / "checkpoint")
    assert (about["env_steps"], about["task"], about["changed_at"]) == (400, new, [200])
    result = RunDir(path).read_result()
    assert result is not None and result["changed_at"] == [200]
    assert cli.main(["--resume", str(path), "--total-env-steps", "600"]) == 0, "nothing has changed since"
    assert checkpoint.read_about(path / "checkpoint")["changed_at"] == [200]


_SURE = """
import gymnasium


class Sure(gymnasium.Env):
    '''Eight steps of one reward each.'''

    observation_space = gymnasium.spaces.Discrete(9)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {{}}

    def step(self, action):
        self.t += 1
        return self.t, {reward}, self.t == 8, False, {{}}
"""


_SMALL = [
    "--actor.num-envs",
    "4",
    "--network.width",
    "8",
    "--learner.batches.size",
    "4",
    "--wandb",
    "disabled",
]
_SMALL += ["--env", "changed_sure:Sure", "--evaluator", "inline"]


@pytest.fixture
def sure(tmp_path, monkeypatch):
    """The file of the task, which is imported from there."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "changed_sure", raising=False)
    file = tmp_path / "changed_sure.py"
    file.write_text(_SURE.format(reward=1.0))
    return file


def test_what_another_task_was_worth_is_no_goal_and_no_bar(tmp_path, sure, capsys):
    """The old task alone reached the goal of 5; the first full evaluation of the new one is its best."""
    run = str(tmp_path / "run")
    flags = ["--evaluation.period", "200", "--evaluation.episodes", "20", "--evaluation.first-episodes", "10"]
    flags += ["--evaluation.max-step-share", "9", "--warmup-env-steps", "100", "--total-env-steps", "400"]
    assert cli.main([*_SMALL, "--run-dir", run, *flags]) == 0
    sure.write_text(_SURE.format(reward=0.1))
    sys.modules.pop("changed_sure")
    more = ["--total-env-steps", "1000", "--stop-at-return", "5", "--accept-changed-code"]
    assert cli.main(["--resume", run, *more]) == 0
    result = RunDir(tmp_path / "run").read_result()
    assert result is not None and result["env_steps"] >= 1000, capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    played = [row for row in rows if row.get("eval/return") is not None]
    assert [round(row["eval/return"], 2) for row in played] == [8.0] * 2 + [0.8] * 3
    assert played[2]["eval/stage"] == 2
    best = checkpoint.best_figures(tmp_path / "run/checkpoint")
    assert best is not None and best["eval/return"] == pytest.approx(0.8)


def _last_error(tmp_path, argv):
    """Of a process of its own, as a task's module is imported once."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "dtqn", *argv], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()[-1]


def test_a_task_whose_spaces_have_changed_does_not_fit(tmp_path, trainer, sure):
    run = tmp_path / "run"
    config = fake.config_of(env="changed_sure:Sure", total_env_steps=200)
    directory = RunDir(run)
    directory.claim()
    directory.write_config(config)
    about = {"config": lasting_settings(resolved(config)), "finished": True, "ends_at": [None, None]}
    about |= {"env_steps": 200, "learner_steps": 1, "rows": 0, "seconds": 1.0}
    checkpoint.save(directory.checkpoints, 200, make_network(config).state_dict(), {}, about)
    sure.write_text(_SURE.format(reward=1.0).replace("Discrete(2)", "Discrete(12)"))
    last = _last_error(tmp_path, ["eval", str(run)])
    assert last.startswith(f"error: {run}/checkpoint: no longer fits changed_sure:Sure or the network: ")
    assert last.endswith("have changed since the run began; must begin anew, with another --run-dir")


def test_a_task_whose_categories_have_moved_does_not_fit(tmp_path, sure):
    """As many as before, so all shapes fit; but replay holds a number that is none of them now."""
    run = tmp_path / "run"
    flags = ["--warmup-env-steps", "50", "--total-env-steps", "100"]
    assert cli.main([*_SMALL, "--run-dir", str(run), *flags]) == 0
    moved = _SURE.format(reward=1.0).replace("Discrete(9)", "Discrete(9, start=1)")
    sure.write_text(moved.replace("return 0", "return 1").replace("return self.t", "return self.t + 1"))
    before = tiny.files(run)
    more = ["--total-env-steps", "200", "--accept-changed-code"]
    last = _last_error(tmp_path, ["--resume", str(run), *more])
    assert last.startswith(f"error: {run}/checkpoint: no longer fits changed_sure:Sure or the network: ")
    assert tiny.files(run) == before


@pytest.mark.parametrize("resume", [[], ["--resume", "auto"]])
def test_only_a_run_that_is_named_goes_on_with_changed_code(resume, capsys):
    told = tiny.refused(capsys, "--accept-changed-code", *resume)
    assert told == "--accept-changed-code is for --resume RUN_DIR; leave it out"


_NETWORK = """
import torch
from torch import nn
from tests import own_cores


class Own(own_cores.Averages):
    pass


class Encoder(nn.Module):
    def __init__(self, config, space, num_actions):
        super().__init__()
        self.width = config.width
        self.linear = nn.Linear(1, config.width)

    def forward(self, inputs):
        return self.linear(inputs.reward[..., None])
"""


@pytest.mark.parametrize("setting, name", [("network.core", "Own"), ("network.encoder", "Encoder")])
def test_an_edited_network_of_ones_own_is_another_run(tmp_path, trainer, monkeypatch, capsys, setting, name):
    """The task stays the same; what is imported by the module of the network counts too."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "changed_network.py"
    file.write_text(_NETWORK)
    monkeypatch.delitem(sys.modules, "changed_network", raising=False)
    value = f"changed_network:{name}"
    argv = ["--resume", "auto", "--env", "hallway", f"--{setting}", value, *_FLAGS]
    argv += ["--runs-dir", str(tmp_path / "runs")]
    assert cli.main(argv) == 0
    (path,) = _runs(tmp_path)
    directory = RunDir(path)
    result, config = directory.read_result(), directory.read_config()
    assert result is not None and not directory.task_warning(config)
    assert "module tests.own_cores" in json.loads((path / "task.json").read_text())["made_of"]
    assert config_hash(config) == path.name.rpartition("-")[2]
    file.write_text(_NETWORK.replace("pass", "calls = 0"))
    assert directory.read_result() is None
    said = f"{path}: the task hallway or {value} has changed since the run began"
    assert directory.task_warning(config).startswith(said)
    assert tiny.refused(capsys, "--resume", path).startswith(said)
    assert compare._job(config, tmp_path / "runs").directory.path != path
    file.write_text(_NETWORK)
    assert directory.read_result() == result


def test_an_interrupted_run_is_not_gone_on_with(tmp_path, trainer, task, capsys):
    """Not even where task.json has been made to fit the edited task: the checkpoint knows."""
    id, file, edited = task
    fake.killed(tmp_path / "run", trainer, env=id)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert fake.resume(tmp_path / "copy")[0] == 0
    original = file.read_text()
    file.write_text(edited)
    with pytest.raises(ConfigError, match="has changed since the run began"):
        fake.resume(tmp_path / "run")
    stored = json.loads((tmp_path / "run/task.json").read_text())
    (tmp_path / "run/task.json").write_text(json.dumps(stored | {"digest": envs.identify(id).digest}))
    with pytest.raises(ConfigError, match=f"digest {stored['digest']}, now {envs.identify(id).digest}"):
        fake.resume(tmp_path / "run")
    file.write_text(original)
    (tmp_path / "run/task.json").write_text("{")
    with pytest.raises(ConfigError, match=r"task\.json is missing or damaged"):
        fake.resume(tmp_path / "run")


def test_a_task_of_this_suite_whose_dynamics_have_changed(tmp_path, monkeypatch):
    """Its runs keep their names, so `compare` and `--resume auto` meet the old one and refuse."""
    config = fake.config_of()
    compare._job(config, tmp_path)
    compare._job(config, tmp_path)
    name = config_hash(config)
    monkeypatch.setattr(envs.identity, "DYNAMICS_VERSION", envs.identity.DYNAMICS_VERSION + 1)
    assert config_hash(config) == name
    with pytest.raises(ConfigError, match=r"gridverse-memory-7x7 has changed .*; move the run away"):
        compare._job(config, tmp_path)


def test_random_play_is_kept_task_by_task(tmp_path, monkeypatch, task):
    """Whoever stops it in the second task has the first; the line is of tasks that may take long."""
    id, native, said, played = task[0], "t-maze-passive-10", [], []

    def play(config, episodes):
        played.append(config.env)
        if len(played) == 2:
            raise KeyboardInterrupt
        return EvaluationResult(None, None, None, 1.0, 1.0, 1)

    monkeypatch.setattr(chance_level, "play", play)
    configs = [fake.config_of(env=id), fake.config_of(env=native)]
    with pytest.raises(KeyboardInterrupt):
        chance_level.measured(configs, tmp_path / "random.json", said.append)
    assert chance_level.measured(configs, tmp_path / "random.json", said.append).keys() == {native, id}
    assert played == [native, id, id]
    assert said == 2 * [f"{id}: 500 episodes of random actions"]


def test_random_play_of_an_edited_task_is_measured_anew(tmp_path, monkeypatch, task):
    id, file, edited = task
    played = []

    def play(config, episodes):
        played.append(config.env)
        return EvaluationResult(None, None, None, float(len(played)), 1.0, 1)

    monkeypatch.setattr(chance_level, "play", play)
    config = fake.config_of(env=id)
    for _ in range(2):
        chance_level.measured([config], tmp_path / "random.json")
    assert len(played) == 1
    file.write_text(edited)
    assert chance_level.measured([config], tmp_path / "random.json")[id].episode_return == 2


def test_random_play_is_measured_anew_where_its_file_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(chance_level, "play", lambda *_: EvaluationResult(None, None, None, 1.0, 1.0, 1))
    config, file = fake.config_of(env="t-maze-passive-10"), tmp_path / "random.json"
    for damage in (lambda x: x.pop("settings"), lambda x: x["result"].update(episode_return="many")):
        chance_level.measured([config], file)
        (entry,) = json.loads(file.read_text())
        damage(entry)
        file.write_text(json.dumps([entry]))
        assert chance_level.measured([config], file)["t-maze-passive-10"].episode_return == 1


def test_a_policy_of_an_edited_task_warns_and_is_loaded(tmp_path, task, monkeypatch, recwarn):
    id, file, edited = task
    directory = RunDir(tmp_path / "run")
    directory.claim()
    directory.write_config(fake.config_of(env=id))
    monkeypatch.setattr(trained, "load_network", lambda directory, config, weights: make_network(config))
    assert dtqn.load(directory.path).action_space.n > 1
    assert not recwarn.list
    before = envs.identify(id).digest
    file.write_text(edited)
    assert dtqn.load(str(directory.path)).action_space.n > 1
    (warning,) = recwarn.list
    assert warning.filename == __file__, "it points to the caller"
    now = envs.identify(id)
    assert str(warning.message) == (
        f"{directory.path}: the task {id} has changed since the run began (digest {before}, now "
        f"{now.digest} of {now.made_of}); the weights are used on the task as it is now"
    )


@pytest.mark.parametrize(
    ("argv", "out"),
    [(["eval", "run"], "5 episodes"), (["debug", "run", "--memoryless", "other"], "looked at")],
)
def test_commands_warn_of_every_run_that_they_look_at(
    tmp_path, trainer, task, capsys, monkeypatch, argv, out
):
    id, file, edited = task
    runs = [tmp_path / name for name in argv if not name.startswith("-") and name not in ("eval", "debug")]
    for path in runs:
        fake.start(path, env=id, total_env_steps=200)
    result = EvaluationResult(None, None, None, 1.0, 2.0, 5)
    monkeypatch.setattr(trained, "evaluate_run", lambda *args: result)
    monkeypatch.setattr("dtqn.inspection.debug.debug", lambda *args: {"contracts": []})
    monkeypatch.setattr("dtqn.inspection.debug.lines", lambda *args: ["looked at"])
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert cli.main(argv) == 0
    assert "changed since" not in capsys.readouterr().err
    file.write_text(edited)
    assert cli.main(argv) == 0
    printed = capsys.readouterr()
    assert out in printed.out
    changed = [line for line in printed.err.splitlines() if "changed since" in line]
    warned = [line.partition(": the task")[0] for line in changed]
    assert warned == [f"warning: {path.name}" for path in runs]
