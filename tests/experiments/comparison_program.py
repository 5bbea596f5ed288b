"""Comparisons of a small program that behaves like a training, and a run that has finished."""

import contextlib
import functools
import io
import json
import sys

import pytest

from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments import compare, comparison_pictures, comparison_table, jobs, options
from dtqn.experiments.comparison_table import agent_lines
from dtqn.experiments.records import of_finished
from dtqn.settings.presets import resolve
from dtqn.training import chance_level

TASK = "gridverse-memory-7x7"
_STAND_IN = """
import json, pathlib, signal, sys, time
folder, here = pathlib.Path(sys.argv[2]), pathlib.Path(__file__).parent
config = dict(line.split(": ", 1) for line in (folder / "config.yaml").open() if ": " in line)
config = {name: value.strip() for name, value in config.items()}  # the names without a group are these
env, agent, seed, total = config["env"], config["agent"], int(config["seed"]), int(config["total_env_steps"])
scores = json.loads((here / "scores.json").read_text())[env][agent][seed - 1]
caught = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: caught.append(number))
with (here / "begun").open("a") as file:
    file.write(f"{env} {agent} {seed}\\n")
if scores == "fails":
    sys.exit("error: the loss is not finite")

def row_of(i):
    row = {"learner_steps": 10 * i, "seconds": 6.0 * i * seed, "eval/length": 7.0, "eval/episodes": 50}
    if isinstance(scores, list):
        success = scores[i - 1] if env.startswith("gridverse") else None
        row |= {"env_steps": 100 * i + seed, "eval/success": success, "eval/return": 10 * scores[i - 1] - 5}
        return row
    training, greedy = scores["training"], scores["greedy"]
    row |= {"train/episodes": 50 * i, "train/total_success": 50 * i * training}
    row |= {"env_steps": i * total // 2, "train/total_return": 50 * i * (2 * training - 1)}
    return row | {"eval/success": greedy * i / 2, "eval/return": 2 * greedy - 1}

saved, count = folder / "saved", len(scores)
for i in range(int(saved.read_text()) if saved.exists() else 0, count):
    row = row_of(i + 1)
    row |= {f"eval/success_{end}": row["eval/success"] for end in ("low", "high")}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row | {"learner/loss": 0.1}) + "\\n")
        if isinstance(scores, list):
            file.write(json.dumps({"env_steps": row["env_steps"] + 1, "seconds": row["seconds"]}) + "\\n")
    time.sleep(0.01)
    held = (here / "held").exists() and (here / "held").read_text() == f"{env} {agent} {seed}"
    while held and i + 1 == count // 2 and not caught:
        time.sleep(0.01)
    if caught and i + 1 < count:
        saved.write_text(str(i + 1))
        sys.exit(128 + caught[0])
ends_at = [json.loads(config[name]) for name in ("total_env_steps", "stop_at_success", "stop_at_return")]
result = {"ends_at": ends_at[: 2 if ends_at[2] is None else 3], "seconds": 6.0 * count * seed}
result |= {"parameters": 100 + len(agent), "env_steps": row["env_steps"], "learner_steps": 10 * count}
result |= {"threads": int(config["threads"]), "device": "cpu", "program": {"dtqn": "1.2", "torch": "3.4"}}
code = here / "code"
result |= {"code": [code.read_text()]} if code.exists() else {}
(folder / "result.json").write_text(json.dumps(result))
"""
CHANCE = EvaluationResult(0.125, 0.1, 0.15, -3.25, 9.0, 50)
SCORES = {
    "gtrxl": [[0.1, 0.5, 0.92, 0.96], [0.2, 0.91, 0.85, 1.0], [0.1, 0.2, 0.3, 0.4]],
    "dtqn": [[0.0, 0.1, 0.8, 0.9], [0.0, 0.95, 1.0, 1.0], [0.1, 0.2, 0.9, 0.96]],
    "drqn": [[0.0, 0.1, 0.1, 0.4], [0.0, 0.3, 0.4, 0.4], [0.2, 0.6, 0.7, 0.8]],
}


class View:
    """Looks at every change, in place of the terminal."""

    def __init__(self, runs, at_change):
        self.runs, self._at_change = runs, at_change

    def update(self, changed):
        self._at_change(self.runs)

    def say(self, text):
        pass

    def close(self):
        pass


def stand_in(tmp_path, monkeypatch):
    """Let comparisons run the small program, which finds the scores of its runs in `scores.json`."""
    (tmp_path / "program.py").write_text(_STAND_IN)
    program = [sys.executable, "-I", "-S", str(tmp_path / "program.py")]
    monkeypatch.setattr(compare, "RunQueue", functools.partial(jobs.RunQueue, program=program))
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(chance_level, "play", lambda config, episodes: CHANCE)


def folders(path):
    return {"runs_dir": path / "runs", "out": path / "out"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that compares by the small program, and returns the exit code and what was printed."""
    stand_in(tmp_path, monkeypatch)
    draw = comparison_pictures.plots.comparison

    def run(scores, *, baseline=None, at_change=lambda runs: None, parallel=2, settings=None, pictures=False):
        monkeypatch.setattr(comparison_pictures.plots, "comparison", draw if pictures else draw_nothing)
        (tmp_path / "scores.json").write_text(json.dumps(scores))
        monkeypatch.setattr(compare, "RunsView", lambda out, runs: View(runs, at_change))
        given = {"total_env_steps": "400"} | (settings or {})
        configs = [
            resolve(None, given | {"env": env, "agent": agent, "seed": str(seed)}, {}).settled(1, False)
            for env, agents in scores.items()
            for agent, seeds in agents.items()
            for seed in range(1, len(seeds) + 1)
        ]
        out = io.StringIO()
        own = options.Comparison(agents="dqn", jobs=parallel, baseline=baseline, **folders(tmp_path))
        with contextlib.redirect_stdout(out):
            code = compare.compare(compare.Comparison(own, own.out, configs, given))
        return code, out.getvalue()

    return run


def draw_nothing(panels, path, clock, note, log=False):
    """Pictures take most of the time that a comparison takes."""
    path.write_bytes(b"a picture")


def config_of(agent, seed):
    return resolve(None, {"total_env_steps": "400", "seed": str(seed), "env": TASK, "agent": agent}, {})


def table_of(tmp_path):
    return json.loads((tmp_path / "out/table.json").read_text())


def text_of(tmp_path):
    """The table as it is printed."""
    return str(comparison_table.read(tmp_path / "out/table.json"))


def lines_of(runs, floors, scores):
    """The lines of tasks alone and, of several, of all."""
    groups = {env: [env] for env in scores} | ({"all tasks": list(scores)} if len(scores) > 1 else {})
    return agent_lines(runs, None, floors, scores, groups)


def finished_run(episodes, **flags):
    """A run whose only row, at 9 env steps, has 40 training episodes and so many of an evaluation."""
    config = resolve(None, {"env": TASK, "agent": "dqn"} | flags, {})
    figures = {"eval/success": 0.5, "eval/return": 0.5, "eval/length": 3.0, "eval/episodes": episodes}
    row = {"env_steps": 9, "learner_steps": 1, "seconds": 1.0, "train/episodes": 40, "train/total_return": 9}
    return of_finished(config, result_of(row), [row | figures], "run")


def result_of(last):
    """The `result.json` of a run with this last row."""
    clocks = {name: last[name] for name in ("env_steps", "learner_steps", "seconds")}
    return clocks | {"parameters": 5, "threads": 1, "device": "cpu", "program": {}}
