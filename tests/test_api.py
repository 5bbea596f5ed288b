"""Runs from Python: objects in place of names, callbacks, threads, and the same files as the command's."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import dtqn
import envs
from dtqn import cli
from dtqn.plots import learning_curve
from dtqn.settings.layers import flat
from dtqn.training.metrics import CLOCK_KEYS
from envs import this_process
from tests import tiny
from tests.own_cores import Averages

_SMALL = {
    "total_env_steps": 300,
    "warmup_env_steps": 100,
    "metrics_every": 50,
    "wandb": "disabled",
    "threads": 1,
    "device": "cpu",
    "evaluator": "inline",
    "evaluation": {"period": 100, "episodes": 10, "first_episodes": 10},
    "actor": {"num_envs": 4},
    "replay": {"capacity": 2000, "learn_length": 3, "burn_in_length": 0},
    "learner": {"batches": {"env_steps_per_update": 40, "size": 4}},
    "network": {"width": 16},
}
CELL = """
import gymnasium
from torch import nn
from envs.vector import Dynamics, read_field
import numpy as np

class Walk(gymnasium.Env):
    '''Five steps; the first action pays.'''
    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return self.t, float(action == 0), self.t >= 5, False, {}


class Count(Dynamics):
    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(2)

    def start(self, num, rng):
        self.t = np.zeros(num, np.int64)

    def restart(self, env_ids, rng):
        self.t[env_ids] = 0

    def step(self, action, rng):
        self.t += 1
        return action * 1.0, self.t >= 5

    def observe(self, rng):
        return self.t.clip(0, 5)

    def get(self):
        return {"t": self.t.copy()}

    def put(self, state):
        self.t = state["t"].copy()

    def read(self, state, num):
        return {"t": read_field("t", state["t"], (), num, np.int64, 0, 9)}


class OwnEncoder(nn.Module):
    def __init__(self, config, observation_space, num_actions):
        super().__init__()
        self.output_width = config.width
        self.embedding = nn.Embedding(int(observation_space.n), config.width)

    def forward(self, inputs):
        return self.embedding(inputs.observation.long())
"""


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """What a cell of a notebook has defined, in an empty folder; objects go at its end."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, scope)
    kept = dict(vars(this_process._module))
    yield SimpleNamespace(**scope)
    vars(this_process._module).clear()
    vars(this_process._module).update(kept)
    this_process._made.clear()


def train(*arguments: Any, **settings: Any) -> dtqn.Run:
    """A run of a second; groups of settings are laid over the small ones."""
    for name, value in settings.items():
        if isinstance(value, dict) and name in _SMALL:
            settings[name] = _SMALL[name] | value
    return dtqn.train(*arguments, **{**_SMALL, **settings})


def rows_of(run: dtqn.Run) -> list[dict[str, Any]]:
    """What is the same however the run was made."""
    return [{key: value for key, value in row.items() if key not in CLOCK_KEYS} for row in run.metrics]


def test_a_class_of_a_notebook_trains_acts_and_is_evaluated(cell, capsys):
    run = train(cell.Walk)
    assert run.run_dir.parts[1] == "this_process-Walk"
    printed = capsys.readouterr().out
    assert "env is this_process:Walk, found in this process alone" in printed
    assert f"next     dtqn.evaluate({str(run.run_dir)!r})\n" in printed
    assert (run.finished, run.evaluation["env_steps"]) == (True, run.metrics[-1]["env_steps"])
    run.policy.reset()
    assert run.policy.act(0) in (0, 1)
    played = dtqn.evaluate(run, episodes=8, seed=3)
    assert (played.episodes, played.length) == (8, 5.0)
    table = run.to_pandas()
    assert table.index.tolist() == [row["env_steps"] for row in run.metrics] and "eval/return" in table
    assert played == dtqn.evaluate(run.run_dir, episodes=8, seed=3)
    assert cli.main(["export", str(run.run_dir), "--to", "exported", "--episodes", "4"]) == 0
    assert dtqn.load("exported").act(0) in (0, 1)


def test_it_is_the_run_of_the_command(cell, own_folder):
    """Settings, files and numbers, of a class that other processes find."""
    Path("steps.py").write_text(CELL)
    assert cli.main(["--env", "steps:Count", *_typed(_SMALL), "--run-dir", "typed"]) == 0
    import steps

    run = train(steps.Count, run_dir="called")
    assert run.metrics and rows_of(run) == rows_of(dtqn.Run("typed"))
    for name in ("config.yaml", "task.json"):
        assert Path("called", name).read_text() == Path("typed", name).read_text()


def _typed(settings: dict[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in flat(settings).items()]


def test_tasks_are_looked_at_as_objects(cell):
    envs.check_task(cell.Count)
    assert envs.spec(cell.Walk).action_space.n == 2 and envs.try_task(cell.Walk)[""] == 5


def test_lambdas_and_closures_are_told_apart(cell):
    """Two of one name are two tasks."""

    def limited(limit: int) -> Any:
        return lambda: gymnasium.wrappers.TimeLimit(cell.Walk(), limit)

    short, long = (train(limited(limit)) for limit in (2, 4))
    assert [run.config.env for run in (short, long)] == ["this_process:lambda", "this_process:lambda_2"]
    assert [dtqn.evaluate(run, episodes=4).length for run in (short, long)] == [2.0, 4.0]


@pytest.mark.parametrize(
    ("name", "settings"), [("actor.pool", {"actor": {"pool": "process"}}), ("evaluator", {})]
)
def test_other_processes_need_a_module(cell, own_folder, name, settings):
    settings = {"evaluator": "process"} | settings
    with pytest.raises(dtqn.ConfigError) as refused:
        train(cell.Walk, **settings)
    why = "other processes cannot find this_process:Walk; put it in a file, or try inline"
    assert str(refused.value) == f"{name} is process: {why}"
    Path("steps.py").write_text(CELL)
    import steps

    assert train(steps.Walk, **settings).finished
    assert train(cell.Walk, evaluator="auto").config.evaluator == "inline"


def test_an_own_core_and_encoder_are_objects(cell):
    class Wider(Averages):
        pass

    run = train(cell.Walk, network={"core": Wider, "encoder": cell.OwnEncoder})
    network = run.config.network
    assert (network.core.name, network.encoder.name) == ("this_process:Wider", "this_process:OwnEncoder")
    assert type(run.policy.network.core) is Wider
    train(cell.Count, network={"core": Averages}, run_dir="named")
    assert dtqn.Run("named").config.network.core.name == "tests.own_cores:Averages"


def test_a_resume_asks_for_the_object_again(cell, capsys):
    """It goes on to the numbers that it would have had."""

    class Stop:
        def on_checkpoint(self, run):
            return True

    whole = train(cell.Count, run_dir="whole", checkpoint_every=100)
    run = train(cell.Count, run_dir="run", checkpoint_every=100, callbacks=Stop())
    assert not run.finished and len(run.metrics) < len(whole.metrics)
    vars(this_process._module).pop("Count")  # as in another process
    ask = "is an object of the Python process that began the run; hand it over again from Python"
    told = tiny.refused(capsys, "--resume", "run")
    assert told == f"env is this_process:Count: task this_process:Count {ask}"
    with pytest.raises(dtqn.ConfigError, match=ask):
        dtqn.evaluate("run")
    assert dtqn.load("run", handed={"env": cell.Count}).act(0) in (0, 1)
    vars(this_process._module).pop("Count")
    run = dtqn.train(cell.Count, resume="run")
    assert run.finished and rows_of(run) == rows_of(whole)
    with pytest.raises(dtqn.ConfigError, match="the task this_process:Count has changed since the run began"):
        dtqn.train(cell.Walk, resume="run", total_env_steps=400)


class _Told:
    """Writes down what it is told, and draws from every generator of the process."""

    def __init__(self, stops: str = "", raises: str = "") -> None:
        self.events: list[str] = []
        self._stops, self._raises = stops, raises

    def _told(self, event: str) -> bool:
        self.events.append(event)
        random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
        torch.set_num_threads(2)
        if event == self._raises:
            raise KeyError(event)
        return event == self._stops

    def on_start(self, run):
        return self._told("start")

    def on_metrics(self, run, row):
        with pytest.raises(TypeError):
            row["env_steps"] = 0
        assert dict(row) == run.metrics[-1]
        return self._told("metrics")

    def on_evaluation(self, run, row):
        assert dict(row) == run.evaluation
        return self._told("evaluation")

    def on_checkpoint(self, run):
        run.policy.act(0)
        dtqn.evaluate(run, episodes=2)
        return self._told("checkpoint")

    def on_end(self, run):
        return self._told("end")


def test_callbacks_are_told_and_change_no_number(cell):
    told, pictures = _Told(), []

    def plot(run, row):
        learning_curve(run.metrics, file := Path(f"{row['env_steps']}.png"), "so far")
        pictures.append(file)

    alone = train(cell.Walk, run_dir="alone", checkpoint_every=100)
    run = train(cell.Walk, run_dir="told", checkpoint_every=100, callbacks=[told, plot])
    assert rows_of(run) == rows_of(alone)
    assert torch.get_num_threads() == 1
    assert (told.events[0], told.events[-1], told.events.count("evaluation")) == ("start", "end", 3)
    assert told.events.count("metrics") == len(run.metrics) == len(pictures)
    assert told.events.count("checkpoint") == 3 and all(file.stat().st_size > 0 for file in pictures)


@pytest.mark.parametrize("event", ["start", "metrics", "evaluation", "checkpoint"])
def test_a_callback_stops_a_run_which_is_saved(cell, event, capsys):
    run = train(cell.Walk, callbacks=[_Told(stops=event)], checkpoint_every=100)
    assert not run.finished
    assert f"saved; to continue: dtqn.train(resume={str(run.run_dir)!r})" in capsys.readouterr().out
    assert dtqn.train(cell.Walk, resume=run.run_dir).finished


def _presses_ctrl_c(run, row):
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("callback", "error"),
    [
        *((_Told(raises=event), KeyError) for event in ("start", "evaluation", "checkpoint", "end")),
        (SimpleNamespace(on_evaluation=_presses_ctrl_c), KeyboardInterrupt),
    ],
)
def test_what_a_callback_raises_comes_after_saving(cell, callback, error):
    with pytest.raises(error):
        train(cell.Walk, run_dir="run", callbacks=[callback])
    assert dtqn.load("run").act(0) in (0, 1)
    assert dtqn.train(cell.Walk, resume="run").finished


def test_progress_goes_to_a_stream(cell):
    with pytest.raises(dtqn.ConfigError, match=r"^out is run: must be a stream, such as sys\.stderr; run_"):
        train(cell.Walk, out="run")


def test_two_runs_side_by_side_are_as_alone(cell):
    """One of them in a thread."""
    found: dict[str, dtqn.Run] = {}

    def go(name: str) -> None:
        found[name] = train(cell.Walk, run_dir=name, seed=2)

    go("first")
    thread = threading.Thread(target=go, args=("beside",))
    thread.start()
    alone = train(cell.Walk, run_dir="here")
    thread.join()
    assert rows_of(found["beside"]) == rows_of(found["first"]) != rows_of(alone)
    assert rows_of(train(cell.Walk, run_dir="again")) == rows_of(alone)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"env": "hallwey"}, "env is hallwey: unknown task 'hallwey'; did you mean hallway"),
        ({"env": "hallway", "agent": "gtrlx"}, "agent is gtrlx (from --agent): gtrlx is not an agent; did"),
        ({"env": "hallway", "learner": {"n_steps": 3}}, "learner.n_steps is not a setting (from --learner"),
        ({"env": "hallway", "agent": {"agent": "dqn", "seed": 0.5}}, "seed is 0.5 (from --seed): must be an"),
        (
            {"env": 3.5},
            "env is 3.5: it must be a name, a class, or a function that makes one anew at each call",
        ),
        ({"env": "hallway", "callbacks": [3]}, "callbacks is 3: it must be a function, or have any of on_st"),
        ({"env": "hallway", "run_dir": "a", "resume": "auto"}, "--run-dir is a: leave it out with --resume"),
        ({"resume": "nowhere"}, "nowhere: holds no run (there is no such folder)"),
    ],
)
def test_a_mistake_is_the_line_of_the_command(cell, settings, line):
    with pytest.raises(dtqn.ConfigError) as refused:
        dtqn.train(**settings)
    assert str(refused.value).startswith(line) and "\n" not in str(refused.value)
    assert list(Path().iterdir()) == []


def test_an_agent_may_be_a_mapping(cell):
    run = train("t-maze-passive-6", {"agent": "drqn", "learner": {"n_step": 2}}, learner={"gamma": 0.5})
    learner = run.config.learner
    assert (run.config.agent, learner.n_step, learner.gamma) == ("drqn", 2, 0.5)


def test_a_fault_of_the_task_is_raised_after_saving(cell):
    class Fails(cell.Walk):
        def step(self, action):
            if getattr(self, "steps", 0) > 60:
                raise RuntimeError("out of order")
            self.steps = getattr(self, "steps", 0) + 1
            return super().step(action)

    with pytest.raises(ValueError, match="out of order"):
        train(Fails, run_dir="run", learner={"gamma": 0.9, "reward_scale": 1.0})  # auto would fail earlier
    assert (Path("run") / "checkpoint" / "latest").exists()


_USES = """
import numpy as np

def helper(x):
    return x + {step}

class Held:
    pass

t, big, held = {t}, np.zeros(5000), Held()
big[2500], held.v = {big}, {v}

class Uses:
    def step(self):
        self.t = sum(helper(x) for x in big) + held.v
"""


def compare(*arguments: Any, **more: Any) -> Any:
    return dtqn.compare(*arguments, **{**_SMALL, "seeds": 1, **more})


def runs_in(folder: str) -> list[dtqn.Run]:
    return [dtqn.Run(path.parent) for path in sorted(Path(folder).glob("*/*/*/metrics.jsonl"))]


def test_objects_are_compared_in_this_process(cell, capsys):
    class Wider(Averages):
        def forward(self, *inputs):
            if len(list(Path("runs/compare").rglob("*"))) == 1:  # in the first comparison, once it trains
                raise RuntimeError("out of order")
            return super().forward(*inputs)

    own = {"agent": "gtrxl", "network": {"core": {"name": Wider, "kwargs": {"a": [1, 1e-5], "b": "2"}}}}
    failed = "FAILED, in no figure: this_process:Walk own seed 1, exit code 1: error: network.core is this_"
    assert failed in str(compare({"own": own}, cell.Walk))
    table = compare({"gtrxl": {}, "own": own}, cell.Walk)
    printed = capsys.readouterr().out
    where = "found in this process alone; its runs are trained here, one after the other"
    assert f"env is this_process:Walk, {where}\n" in printed and str(table) in printed
    assert {row["agent"]: row["finished"] for row in table.rows} == {"gtrxl": 1, "own": 1, "random": 0}
    assert table.to_pandas()["return"].tolist() == [row["return"] for row in table.rows]
    gtrxl, wider = runs_in("runs")
    assert rows_of(gtrxl) == rows_of(train(cell.Walk, run_dir="alone"))
    assert wider.config.network.core.kwargs == {"a": [1, 1e-5], "b": "2"}
    before = [run.metrics for run in runs_in("runs")]
    for name in ("Walk", "Wider"):  # as in another process
        vars(this_process._module).pop(name), this_process._made.pop(name)
    assert compare({"gtrxl": {}, "own": own}, cell.Walk) == table
    assert [run.metrics for run in runs_in("runs")] == before and "WANDB_JOB_TYPE" not in os.environ


def test_a_comparison_in_this_process_goes_on_after_ctrl_c(cell):
    class Pressed(cell.Count):
        def step(self, action, rng):
            if len(runs_in("runs")) == 2 and not Path("pressed").exists():
                Path("pressed").touch()
                os.kill(os.getpid(), signal.SIGINT)
            return super().step(action, rng)

    with pytest.raises(KeyboardInterrupt):
        compare("gtrxl", Pressed, seeds=2)
    assert [run.finished for run in runs_in("runs")] == [True, False]
    assert compare("gtrxl", Pressed, seeds=2).rows[0]["finished"] == 2
    compare("gtrxl", Pressed, seeds=2, runs_dir="others")
    assert list(map(rows_of, runs_in("runs"))) == list(map(rows_of, runs_in("others")))


def test_the_command_and_the_function_make_one_table(cell, capsys):
    words = ["--agents=gtrxl,wide=gtrxl+network.head_width=24", "--env=t-maze-passive-6", "--seeds=1"]
    assert cli.main(["compare", *words, *_typed(_SMALL)]) == 0
    before = tiny.files(Path("runs/compare"))
    wide = {"agent": "gtrxl", "network": {"head_width": 24}}
    table = compare({"gtrxl": {}, "wide": wide}, "t-maze-passive-6")
    assert tiny.files(Path("runs/compare")) == before
    assert capsys.readouterr().out.count(f"\n{table}\ntable and curves in runs/compare/t-maze") == 2


_SWEEP = """{method: grid, metric: {name: mean_return, goal: maximize},
parameters: {learner.n_step: {values: [1, 2]}, seed: {values: [1, 2]}}}"""


@pytest.mark.parametrize("env", ["t-maze-passive-6", None])
def test_the_command_and_the_function_go_on_with_one_sweep(cell, capsys, env):
    Path("sweep.yaml").write_text(_SWEEP)
    words = ["sweep", "sweep.yaml", f"--env={env}", "--run-cap=1", *_typed(_SMALL)]
    assert cli.main(words) == 0 if env else dtqn.sweep("sweep.yaml", cell.Count, trials=1, **_SMALL)
    (before,) = (run.metrics for run in runs_in("runs"))
    best = dtqn.sweep("sweep.yaml", env or cell.Count, **_SMALL)
    assert [run.metrics == before for run in runs_in("runs")].count(True) == 1 and len(runs_in("runs")) == 4
    of_step = {1: 0.0, 2: 0.0}
    for run in runs_in("runs"):
        of_step[run.config.learner.n_step] += float(run.metrics[-1]["mean_return"] or 0) / 2
    step = dtqn.Run(best.run_dir).config.learner.n_step
    assert best.settings == {"learner.n_step": step} and of_step[step] == max(of_step.values())
    assert best.score == pytest.approx(of_step[step])
    assert f"best: mean_return {best.score:.4f} with learner.n_step {step}\n" in capsys.readouterr().out


def test_an_agents_settings_need_a_preset():
    with pytest.raises(ValueError, match="own is not a preset, so its settings need one, like 'agent'"):
        dtqn.compare({"own": {"network": {"core": "lstm"}}}, "hallway")


@pytest.mark.parametrize(
    ("agents", "more", "words"),
    [
        ("gtrxl", {"learner": {"n_step": 0}}, "--learner.n_step=0"),
        ("gtrxl", {"seeds": 0}, "--seeds=0"),
        ("gtrxl", {"tasks": ["a", "b"], "jobs": None, "records_only": True}, "--tasks=a,b --records-only"),
        ({"a": {"agent": "dqn", "network": {"wdth": None}}}, {}, "--agents=a=dqn+network.wdth=none"),
        ({"dqn": {"learner": {"n_step": 1}}}, {}, "--agents=dqn=dqn+learner.n_step=1"),
    ],
)
def test_a_mistake_of_a_comparison_is_the_line_of_the_command(cell, capsys, agents, more, words):
    with pytest.raises(dtqn.ConfigError) as refused:
        dtqn.compare(agents, **more)
    assert tiny.refused(capsys, "compare", "--agents=gtrxl", *words.split()) == str(refused.value)
    assert list(Path().iterdir()) == []
    with pytest.raises(dtqn.ConfigError, match=r"^learner.n_steps is not a setting .* mean learner.n_step"):
        dtqn.compare("gtrxl", learner={"n_steps": 3})


def test_an_object_is_not_sent_to_other_processes(cell):
    Path("sweep.yaml").write_text(_SWEEP)
    find = "other processes cannot find this_process:Walk; put it in a file, or try"
    with pytest.raises(dtqn.ConfigError, match=f"^--jobs is 2: {find} 1$"):
        dtqn.compare("dqn", cell.Walk, jobs=2)
    with pytest.raises(dtqn.ConfigError, match=f"^--jobs is 2: {find} 1$"):
        dtqn.sweep("sweep.yaml", cell.Walk, jobs=2)
    assert not Path("runs").exists()


def test_an_object_that_is_made_again_has_its_name_again(cell):
    """By its code and by what that uses, in this process and in others."""

    def walks(limit: int, log: Any = None) -> Any:
        return lambda: (log, gymnasium.wrappers.TimeLimit(cell.Walk(), limit))

    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, scope)
    things = [cell.Walk, scope["Walk"], walks(2), walks(4), walks(2)]
    things += [walks(2, log := threading.Lock()), walks(2, threading.Lock()), walks(2, log)]
    exec(CELL.replace("self.t >= 5, False", "self.t >= 4, False"), scope)
    names = [this_process.name_of(thing).removeprefix("this_process:") for thing in [*things, scope["Walk"]]]
    lambdas = ["lambda", "lambda_2", "lambda", "lambda_3", "lambda_4", "lambda_3"]
    assert names == ["Walk", "Walk", *lambdas, "Walk_2"]
    for changed in ({"step": 5}, {"big": 1}, {"v": 2}, {"t": 3}, {}):
        exec(_USES.format(**{"step": 1, "big": 0, "v": 1, "t": 0, **changed}), scope)
        names.append(this_process.name_of(scope["Uses"]).removeprefix("this_process:"))
    assert names[-5:] == ["Uses", "Uses_2", "Uses_3", "Uses_4", "Uses_4"], "t is an attribute, no global"
    told = {name: this_process.content(f"this_process:{name}") for name in names}
    assert told["lambda"] != told["lambda_2"] and told["lambda_3"] == told["lambda_4"], "of no address"
