"""Comparisons of a small program that behaves like a training, and one of real runs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dtqn import cli
from dtqn.acting.episode_intervals import wilson_interval
from dtqn.experiments import compare, comparison_pictures, options
from dtqn.experiments.records import Outcome
from dtqn.experiments.scores import SUCCESS, Score
from dtqn.experiments.suites import Published
from dtqn.settings.config import ConfigError
from dtqn.settings.layers import to_yaml
from dtqn.settings.presets import resolve
from dtqn.training import chance_level
from dtqn.training.directory import RunDir, resolved
from dtqn.training.metrics import read_rows
from tests.experiments import comparison_program
from tests.experiments.comparison_program import CHANCE, SCORES, TASK, config_of, table_of
from tests.reference import statistics_twin as twin
from tests.tiny import files, refused

_ROOT = Path(__file__).parents[2]

run = comparison_program.run


def _kill_amid(tmp_path, agent, seed, number):
    """Let this run wait after its second evaluation, and send ourselves a signal when it is there."""
    (tmp_path / "held").write_text(f"{TASK} {agent} {seed}")
    sent = []

    def at_change(runs):
        finished = sum(run.state == "finished" for run in runs)
        for run in runs:
            if (
                run.name == f"{TASK} {agent} seed {seed}"
                and len(run.rows) == 4
                and not sent
                and finished >= 2
            ):
                sent.append(os.kill(os.getpid(), number))

    return at_change


def test_killed_twice_it_ends_with_the_right_table(run, tmp_path):
    scores = {TASK: SCORES}
    amid = _kill_amid(tmp_path, "gtrxl", 3, signal.SIGINT)
    code, printed = run(scores, baseline="drqn", at_change=amid)
    assert code == 130
    assert re.fullmatch(r"interrupted, [2-9] of 9 runs finished; the same command continues\n", printed)
    assert list((tmp_path / "out").iterdir()) == []
    amid = _kill_amid(tmp_path, "drqn", 2, signal.SIGTERM)
    assert run(scores, baseline="drqn", at_change=amid)[0] == 143
    assert run(scores, baseline="drqn")[0] == 0
    begun = (tmp_path / "begun").read_text().splitlines()
    for agent in SCORES:
        for seed in (1, 2, 3):
            saved = RunDir.of_config(config_of(agent, seed), tmp_path / "runs").path / "saved"
            assert begun.count(f"{TASK} {agent} {seed}") == 1 + saved.exists(), "once, but for what was saved"
            assert saved.exists() or (agent, seed) not in [("gtrxl", 3), ("drqn", 2)]
    _check_table_by_hand(tmp_path)
    before = files(tmp_path / "out")
    assert run(scores, baseline="drqn")[0] == 0
    assert len((tmp_path / "begun").read_text().splitlines()) == len(begun)
    assert files(tmp_path / "out") == before
    names = {f"table.{kind}" for kind in ("md", "json")}
    pictures = {f"curves-{clock}.{kind}" for clock in ("env-steps", "minutes") for kind in ("png", "svg")}
    assert set(before) == names | pictures | {"random.json"}


def _check_table_by_hand(tmp_path):
    """Every number of the table once more, from the metrics files alone."""
    table = table_of(tmp_path)
    final, whole = {}, {}
    for path in (tmp_path / "runs").glob("*/*/*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [row for row in rows if "eval/return" in row]
        agent = path.parents[1].name
        whole.setdefault(agent, []).append(rows)
        final.setdefault(agent, []).append(rows[-1])
    *lines, floor = table["table"]
    assert [line["agent"] for line in lines] == list(SCORES)
    assert (floor["agent"], floor["success"], floor["return"]) == ("random", 0.125, -3.25)
    for line in lines:
        rows = final[line["agent"]]
        successes = [row["eval/success"] for row in rows]
        assert sorted(successes) == sorted(scores[-1] for scores in SCORES[line["agent"]])
        assert (line["env"], line["finished"], line["runs"], line["score"]) == (TASK, 3, 3, "success")
        assert line["success"] == pytest.approx(sum(successes) / 3)
        assert line["return"] == pytest.approx(sum(row["eval/return"] for row in rows) / 3)
        assert (line["minimum"], line["maximum"]) == (min(successes), max(successes))
        assert (line["iqm"], line["improvement"]) == (None, None), "three runs"
        steps, minutes = [], []
        for run_rows in whole[line["agent"]]:
            shown = [wilson_interval(round(row["eval/success"] * 500), 500)[0] >= 0.9 for row in run_rows]
            solved = [row for row, now, then in zip(run_rows, shown, shown[1:], strict=False) if now and then]
            steps.append(solved[0]["env_steps"] if solved else float("inf"))
            minutes.append(solved[0]["seconds"] / 60 if solved else float("inf"))
        reached = sum(value < float("inf") for value in steps)
        assert line["solved"] == reached
        expected = (sorted(steps)[1], sorted(minutes)[1]) if reached > 1 else (None, None)
        assert (line["env_steps_to_solved"], line["minutes_to_solved"]) == expected
        assert line["parameters"] == 100 + len(line["agent"])
        for name in ("env_steps", "learner_steps"):
            assert line[name] == sorted(row[name] for row in rows)[1]
        assert line["minutes"] == pytest.approx(sorted(row["seconds"] for row in rows)[1] / 60)
        rates = [row["learner_steps"] / row["seconds"] for row in rows]
        assert line["updates_per_second"] == pytest.approx(sum(rates) / 3)


def test_random_actions_are_played_once(tmp_path, monkeypatch):
    """On the seeds of a first evaluation, the number of episodes that one has, counted by hand."""
    from dtqn.training import setup
    from dtqn.training.trainer import Trainer

    flags = {"env": "t-maze-passive-10", "agent": "dqn", "evaluation.episodes": "9"}
    flags |= {"evaluation.num_envs": "4", "actor.num_envs": "2", "replay.capacity": "2000"}
    config, again = (resolve(None, flags | {"seed": seed}, {}) for seed in ("5", "6"))
    seeds, make = [], setup.make_env

    def make_env(config, num_envs, seed):
        seeds.append((num_envs, seed.entropy, seed.spawn_key))
        return make(config, num_envs, seed)

    monkeypatch.setattr(chance_level, "make_env", make_env)
    found = chance_level.measured([config, again], tmp_path / "random.json")
    assert list(found) == ["t-maze-passive-10"]
    assert chance_level.measured([config, again], tmp_path / "random.json") == found and len(seeds) == 1
    other = resolve(None, flags | {"seed": "5", "evaluation.epsilon": "0.3"}, {})
    assert chance_level.measured([other], tmp_path / "random.json") == found and len(seeds) == 1
    monkeypatch.setattr(setup, "make_env", make_env)
    trainer = Trainer(config)
    trainer.evaluator.ask(trainer.network, 0, None, at_end=True)
    assert trainer.evaluator.evaluated() is not None
    assert seeds[0] == seeds[-1]
    # Once more with plain loops: environment i plays every 4th episode.
    env, draws = make(config, 4, setup.seed_of(config, setup.Stream.EVALUATION, 0)), np.random.default_rng(5)
    env.reset()
    returns, current, begins = [[], [], [], []], np.zeros(4), np.zeros(4, bool)
    while any(len(played) < quota for played, quota in zip(returns, (3, 2, 2, 2), strict=True)):
        _, reward, terminated, truncated, _ = env.step(draws.integers(env.single_action_space.n, size=4))
        for i in range(4):
            current[i] = 0 if begins[i] else current[i] + reward[i]
            begins[i] = terminated[i] or truncated[i]
            if begins[i]:
                returns[i].append(current[i])
    counted = [*returns[0][:3], *(value for played in returns[1:] for value in played[:2])]
    result = found["t-maze-passive-10"]
    assert (result.episodes, result.episode_return) == (9, pytest.approx(sum(counted) / 9))
    longer = resolve(None, flags | {"seed": "5", "evaluation.episodes": "11"}, {})
    assert chance_level.measured([longer], tmp_path / "random.json")["t-maze-passive-10"].episodes == 11
    (tmp_path / "random.json").write_text("[{")
    assert chance_level.measured([config], tmp_path / "random.json") == found, (
        "what cannot be read is measured"
    )


def test_an_evaluation_has_the_same_seeds_for_every_agent(monkeypatch):
    from dtqn.training import setup
    from dtqn.training.trainer import Trainer

    seen, make = {}, setup.make_env
    tiny = {"actor.num_envs": "2", "replay.capacity": "2000", "evaluation.episodes": "3"}
    for agent in ("dqn", "gru"):

        def make_env(config, num_envs, seed):
            seen.setdefault(config.agent, []).append((num_envs, seed.entropy, seed.spawn_key))
            return make(config, num_envs, seed)

        monkeypatch.setattr(setup, "make_env", make_env)
        trainer = Trainer(resolve(None, tiny | {"agent": agent, "task.time_limit": "5"}, {}))
        for _ in range(2):
            trainer.evaluator.ask(trainer.network, 0, None, at_end=False)
            assert trainer.evaluator.evaluated() is not None
    assert seen["dqn"] == seen["gru"]
    assert len(set(seen["dqn"])) == 3, "training and either evaluation have seeds of their own"


def test_a_file_that_makes_two_agents_one_is_refused(tmp_path):
    """Such as the configuration of a run, or the best one of a sweep: it holds every setting."""
    file = tmp_path / "full.yaml"
    file.write_text(to_yaml(resolved(config_of("gtrxl", 1))))
    for agents in (["gtrxl", "dqn"], ["dqn"], ["gtrxl", "my=dqn+network.width=8"], ["my=dqn"]):
        with pytest.raises(ConfigError, match=r"^agent is .*full.yaml holds every setting of gtrxl"):
            compare.plan(agents, [1, 2], file, {})
    assert len(compare.plan(["gtrxl"], [1, 2], file, {})) == 2
    mine = compare.plan(["gtrxl", "my=gtrxl+network.width=16"], [1, 2], file, {})
    assert [config.network.width for config in mine] == [64, 64, 16, 16]
    file.write_text("network: {width: 16}")
    assert len(compare.plan(["gtrxl", "dqn"], [1, 2], file, {"env": TASK})) == 4


def test_a_failed_run_is_named_and_the_table_is_of_the_others(run, tmp_path):
    scores = {TASK: {"gtrxl": [[0.5], "fails", [0.7]], "dtqn": ["fails"], "drqn": [[0.3], [0.6]]}}
    code, printed = run(scores, baseline="drqn")
    assert code == 1
    first, second, third, _ = table_of(tmp_path)["table"]
    assert (first["finished"], first["runs"], first["success"]) == (2, 3, pytest.approx(0.6))
    assert (second["finished"], second["success"], second["iqm"], second["improvement"]) == (
        0,
        None,
        None,
        None,
    )
    assert third["success"] == pytest.approx(0.45)
    failed = [line for line in printed.splitlines() if line.startswith("FAILED")]
    where = RunDir.of_config(config_of("gtrxl", 2), tmp_path / "runs").path
    why = "exit code 1: error: the loss is not finite"
    assert failed[0] == f"FAILED, in no figure: {TASK} gtrxl seed 2, {why} ({where})"
    assert f"{TASK} dtqn seed 1" in failed[1] and len(failed) == 2
    assert "2 of 3" in printed
    scores[TASK]["gtrxl"][1], scores[TASK]["dtqn"][0] = [0.8], [0.1]
    assert run(scores, baseline="drqn")[0] == 0, "what failed is tried again"
    assert table_of(tmp_path)["table"][0]["success"] == pytest.approx(2 / 3)


def test_the_curves_are_means_over_runs_at_every_evaluation():
    def job(seed, *points):
        config = resolve(None, {"seed": str(seed)}, {})
        rows = [{"env_steps": x, "seconds": 60.0 * x / seed, "eval/success": y} for x, y in points]
        record = SimpleNamespace(rows=[{"env_steps": 1}, *rows])
        return Outcome(config, "finished", "", record=record)

    ends_twice = job(1, (100, 0.0), (200, 0.3), (200, 1.0))
    runs = [ends_twice, job(2, (100, 0.5), (200, 0.5)), job(3, (150, 0.4), (300, 0.7))]
    steps, minutes = comparison_pictures._CLOCKS.values()
    scores = [Score(of="mmer"), SUCCESS.model_copy(update={"observation_alone": 0.25})]
    theirs = Published(
        task=TASK, label="DTQN", source="a paper", env_steps=2_000_000, figure=0.752, unit="success"
    )
    others = {"unit": "return"}, {"task": "hallway"}
    published = [theirs, *(theirs.model_copy(update=update) for update in others)]

    def panel_of(runs, clock):
        return comparison_pictures._over_time(TASK, runs, clock, CHANCE, scores, published)

    panel = panel_of(runs, steps)
    (curve,) = panel.curves
    assert (panel.title, panel.name, panel.ceiling, panel.chance) == (TASK, "success", 1.0, 0.125)
    assert panel.observation_alone == 0.25
    assert panel.published == {"DTQN (published), 2 000 000 env steps": 0.752}
    assert curve.x == [150.0, 200.0, 300.0], "from where every run has been evaluated"
    at_150, at_200, at_300 = [0.5, 0.5, 0.4], [1.0, 0.5, 0.5], [1.0, 0.5, 0.7]
    assert curve.y == pytest.approx([sum(at) / 3 for at in (at_150, at_200, at_300)]), "three runs: the mean"
    assert (curve.low, curve.high) == (pytest.approx([0.4, 0.5, 0.5]), pytest.approx([0.5, 1.0, 1.0]))
    panel = panel_of(runs[:1], minutes)
    assert (panel.curves[0].x, panel.curves[0].low, panel.curves[0].runs) == ([100.0, 200.0], None, [1])
    failed = [*runs[:1], Outcome(runs[1].config, "failed", "")]
    assert panel_of(failed, steps).curves[0].y == [0.0, 1.0]
    five = [job(seed, (100, score)) for seed, score in enumerate([0.2, 0.95, 0.4, 0.9, 0.7], 1)]
    (curve,) = panel_of(five, steps).curves
    assert curve.y == [pytest.approx(twin.iqm([0.2, 0.95, 0.4, 0.9, 0.7]))]
    assert (curve.low, curve.high) == ([0.2], [0.95]), "the least and the greatest"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: --agents"),
        (["--agents", "gtrxl,drqm"], "--agents is gtrxl,drqm: drqm is not an agent; did you mean drqn.*"),
        (["--agents", "gtrxl", "--out", __file__], f"--out {__file__} cannot be written: File exists"),
        (["--agents", "gtrxl,,drqn"], "--agents is gtrxl,,drqn: a name is empty; must be names .*"),
        (["--agents", "gtrxl,gtrxl"], "--agents is gtrxl,gtrxl: gtrxl is given twice; .*"),
        (["--agents", "gtrxl,dqn", "--baseline", "drqn"], "--baseline is drqn: it is not one of --agents.*"),
        (
            ["--agents", "gtrxl", "--metrics", "learner/los"],
            "--metrics is learner/los: learner/los is no such metric; did you mean learner/loss?; must be .*",
        ),
        (
            ["--agents", "gtrxl", "--metrics", "eval/success"],
            "--metrics is eval/success: eval/success is no such metric; must be metrics that begin with .*",
        ),
        (["--agents", "absent.yaml"], "--agents is absent.yaml: absent.yaml: there is no such file"),
        (["--agents", "gtrxl,a/b=dqn"], "--agents is gtrxl,a/b=dqn: a/b is not a name; .*: NAME=dqn"),
        (
            ["--agents", "a=gtrxl,a=dqn"],
            "--agents is a=gtrxl,a=dqn: a is the name of two agents; give another",
        ),
        (["--agents", "gtrxl,a=gtrxl+network.wdth=3"], "network.wdth is not a setting .from agent a.; .*"),
        (
            ["--agents", "gtrxl", "--seeds", "99999"],
            "--seeds is 99999: must be an integer of at least 1 and at most 10000",
        ),
        (["--agents", "gtrxl", "--seed", "2"], "--seed is not an option; did you mean --seeds.*"),
        (["--agents", "gtrxl", "--env", "x"], "env is x: unknown task .*"),
        (["--agents", "gtrxl", "--learner.n_step", "0"], "learner.n_step is 0 .*: must be an integer .*"),
        (["--agents", "gtrxl", "--env", "car-flag-continuous"], "env is car-flag-continuous: its actions .*"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(capsys, tmp_path, argv, message):
    told = refused(capsys, "compare", *argv, "--runs-dir", tmp_path / "runs")
    assert re.fullmatch(message.replace("?", r"\?"), told)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_is_to_be_run(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(compare, "compare", lambda given: asked.append(given) or 0)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    argv = "compare --env gridverse-memory-5x5,gridverse-memory-7x7 --agents gtrxl,dqn --seeds 2 --jobs 3"
    argv += f" --first-seed 7 --baseline dqn --runs-dir {tmp_path} --total-env-steps 1e4 --learner.n-step 5"
    assert cli.main(argv.split()) == 0
    own, folder, configs, given, own_agents, *_ = asked[0]
    assert [(config.env[-3:], config.agent, config.seed) for config in configs] == [
        (env, agent, seed) for env in ("5x5", "7x7") for agent in ("gtrxl", "dqn") for seed in (7, 8)
    ]
    assert {(config.total_env_steps, config.learner.n_step) for config in configs} == {(10_000, 5)}
    assert (own.jobs, own.runs_dir, own.baseline) == (3, tmp_path, "dqn")
    assert (given, own_agents) == ({"total_env_steps": "1e4", "learner.n_step": "5"}, [])
    assert re.fullmatch(r"2-tasks-[0-9a-f]{8}", folder.name) and folder.parent == tmp_path / "compare"


def test_a_folder_of_runs_that_is_a_file_is_one_line_by_the_name_of_its_option(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for more in ((), ("--out", str(tmp_path / "out"))):
        told = refused(capsys, "compare", "--agents", "dqn", "--runs-dir", tmp_path / "file", *more)
        assert told == f"--runs-dir {tmp_path / 'file'} cannot be written: File exists"


def test_agents_from_files_and_by_variants(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(compare, "compare", lambda given: asked.append(given) or 0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text("network: {core: lru}")
    agents = "gtrxl,my.yaml,long=gtrxl+network.core.memory_length=80,wide=my.yaml+network.width=128"
    argv = f"compare --env {TASK} --agents {agents} --seeds 1 --network.core.memory_length 7 --baseline long"
    assert cli.main(argv.split()) == 0
    configs = asked[0].configs
    assert asked[0].own_agents == agents.split(",")[1:]
    found = [
        (c.agent, c.network.core.name, getattr(c.network.core, "memory_length", None), c.network.width)
        for c in configs
    ]
    assert found == [
        ("gtrxl", "gtrxl", 7, 64),
        ("my", "lru", None, 64),
        ("long", "gtrxl", 80, 64),
        ("wide", "lru", None, 128),
    ]
    directory = RunDir.of_config(configs[2], tmp_path / "runs")
    assert directory.path.parent.name == "long"
    directory.prepare(configs[2])
    (tmp_path / "my.yaml").unlink()
    assert directory.read_config() == resolved(configs[2]), "a resume reads the variant's settings"


_TINY = (
    "--env gridverse-memory-5x5 --agents dqn --seeds 1 --total-env-steps 4000 --warmup-env-steps 100 "
    "--metrics-every 50 --actor.num-envs 4 --replay.capacity 5000 --evaluation.episodes 4 "
    "--evaluation.num-envs 4 --evaluation.period 1000 --task.time-limit 20 --wandb disabled "
    "--network.width 8 --network.head-width 8"
)


def test_a_real_training_whose_comparison_is_killed(tmp_path, capsys):
    """By SIGKILL, which leaves the training without its parent: it saves and ends too, and goes on later."""
    argv = ["compare", *_TINY.split(), "--runs-dir", str(tmp_path / "runs")]
    command = [sys.executable, "run.py", *argv]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as program:
        while not any(read_rows(file) for file in tmp_path.glob("runs/*/*/*/metrics.jsonl")):
            assert program.poll() is None
            time.sleep(0.02)
        program.kill()
        assert "interrupted" not in program.communicate(timeout=120)[0]
    (metrics,) = tmp_path.glob("runs/*/*/*/metrics.jsonl")
    directory = RunDir(metrics.parent)
    until = time.monotonic() + 120
    while directory.in_use:  # an orphan that trained on would end by itself, but without saying this:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert directory.log.read_text().count("interrupted and saved") == 1
    assert cli.main(argv) == 0, "".join(capsys.readouterr())
    (path,) = tmp_path.glob("runs/compare/*/table.json")
    (run,) = json.loads(path.read_text())["runs"]
    last = [row for row in read_rows(metrics) if "eval/return" in row][-1]
    assert run["env_steps"] == last["env_steps"] >= 4000
    assert (run["success"], run["return"]) == (last["eval/success"], last["eval/return"])
    steps = [row["env_steps"] for row in read_rows(metrics)]
    assert steps == sorted(set(steps)) and run["evaluations"] == 4
    assert directory.log.read_text().count("done in") == 1


@pytest.mark.parametrize("agents", [("dqn", "lstm"), ("lstm", "dqn")])
def test_runs_with_and_without_a_success_are_refused_before_any_is_trained(tmp_path, agents):
    """They have no score in common, in whatever order they are given."""
    flags = {"env": "CartPole-v1", "total_env_steps": "400", "wandb": "disabled"}
    own = {"dqn": {"task.success": "return>=20"}, "lstm": {}}
    configs = [resolve(None, flags | {"agent": agent} | own[agent], {}) for agent in agents]
    own = options.Comparison(agents="dqn", jobs=1, **comparison_program.folders(tmp_path))
    with pytest.raises(ConfigError, match="dqn seed 1 has a success on CartPole-v1, lstm seed 1 has none"):
        compare.compare(compare.Comparison(own, own.out, configs, {}))
    assert not list(tmp_path.rglob("config.yaml"))
