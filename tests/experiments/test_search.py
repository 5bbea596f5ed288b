"""An equal search: what is trained, what is chosen and what is refused."""

import json
import re

import pytest

from dtqn.experiments import compare, comparison_pictures, search
from dtqn.settings import layers, presets
from dtqn.settings.config import ConfigError
from tests.experiments import comparison_program
from tests.experiments.comparison_program import TASK
from tests.experiments.suite_program import suite_of
from tests.tiny import printed, refused

run = comparison_program.run
VALUES = ("0.0003", "0.001", "0.003")
_GAME = "popgym-repeat-first-easy"
SEARCH = "learner.learning_rate=0.0003,0.001,0.003"


def _figures(agent, value, seed, score, last=None, env=TASK):
    """Those of a run; its env steps to solved, or others, are `last`."""
    run = {"env": env, "agent": f"{agent}-{value}", "seed": seed, "score": score, "env_steps": None}
    run |= {"success": None, "score_name": "return"} if env.startswith("popgym") else {"success": score}
    steps = last if isinstance(last, dict) else {"env_steps_to_solved": last, "solved": last is not None}
    return {"score_name": "success", "solved": None, "failed": (score or 0) < 0.9} | run | steps


def _config(env=TASK, **flags):
    """Of runs of 1000 env steps with an evaluation every 100."""
    settings = {"total_env_steps": "1000", "evaluation.period": "100", "evaluation.episodes": "20"}
    return presets.resolve(None, settings | flags | {"env": env, "agent": "lstm"}, {})


def _findings(own, by_value, envs=(TASK,), **flags):
    """Of one agent, from (score, env steps to solved or others) by value, task by task and seed by seed."""
    own = {("lstm", env): own for env in envs} if isinstance(own, str) else own
    asked = search.Search("learner.learning_rate", tuple(by_value), ("lstm",), own=own)
    runs = [
        _figures("lstm", value, seed, *result, env=env)
        for value, by_env in by_value.items()
        for env, seeds in zip(envs, by_env, strict=True)
        for seed, result in enumerate(seeds)
    ]
    return asked, asked.findings([_config(run["env"], **flags) for run in runs], runs)


def _chosen(own, by_value, envs=(TASK,), **flags):
    """What that agent gets."""
    _, [found] = _findings(own, by_value, envs, **flags)
    return found.chosen


_SOON, _LATER, _WHOLE = ({"env_steps": steps} for steps in (210, 510, 1000))


@pytest.mark.parametrize(
    "own, by_value, chosen",
    [
        # Fewer env steps with both seeds.
        ("0.1", {"0.1": [(0.99, 200), (0.98, 300)], "0.3": [(0.95, 107), (0.96, 299)]}, "0.3"),
        # Some env steps sooner at the same evaluation: a tie.
        ("0.1", {"0.1": [(0.95, 207), (0.95, 331)], "0.3": [(1.0, 200), (1.0, 300)]}, None),
        # With one seed alone, and as soon with the other: a tie is not better, whatever the score.
        ("0.1", {"0.1": [(0.95, 200), (0.95, 300)], "0.3": [(1.0, 150), (1.0, 300)]}, None),
        # Whoever got there is above whoever did not, and whoever got there and fell again did not.
        ("0.1", {"0.1": [(0.89, None), (0.5, 100)], "0.3": [(0.9, 400), (0.91, 400)]}, "0.3"),
        ("0.3", {"0.1": [(0.89, None), (0.5, 100)], "0.3": [(0.9, 400), (0.91, 400)]}, None),
        # Nobody did: the higher score.
        ("0.1", {"0.1": [(0.2, None), (0.3, None)], "0.3": [(0.3, None), (0.31, None)]}, "0.3"),
        ("0.1", {"0.1": [(0.2, None), (0.3, None)], "0.3": [(0.8, None), (0.29, None)]}, None),
        # Two are better than its own; ranks among these two are 1, 2, 1 and 2, 1, 2.
        (
            "0.1",
            {
                "0.1": [(0.1, None)] * 3,
                "0.3": [(0.4, None), (0.3, None), (0.4, None)],
                "1": [(0.3, None), (0.8, None), (0.3, None)],
            },
            "0.3",
        ),
        # Ranks tie: the one that was given first.
        ("0.1", {"0.1": [(0.1, None)], "1": [(0.4, None)], "0.3": [(0.4, None)]}, "1"),
        # What has no result yet decides nothing.
        ("0.1", {"0.1": [(0.2, None), (None, None)], "0.3": [(0.3, None), (0.31, None)]}, None),
    ],
)
def test_what_is_chosen_by_hand(own, by_value, chosen):
    assert _chosen(own, {value: [seeds] for value, seeds in by_value.items()}) == chosen


@pytest.mark.parametrize("total, last, before", [(1000, 1000, 901), (950, 950, 901), (950, 953, 912)])
def test_the_evaluation_at_the_end_is_later_than_the_one_before_it(total, last, before):
    """Whether or not the end is that of a period."""
    seeds = {"0.1": [[(1.0, last)] * 2], "0.3": [[(1.0, before)] * 2]}
    assert _chosen("0.1", seeds, total_env_steps=str(total)) == "0.3"


@pytest.mark.parametrize(
    "env, own, other, chosen",
    [
        # Who ends early at a lower success got there.
        (TASK, (0.885, _LATER), (0.88, _SOON), "0.3"),
        (TASK, (0.88, _SOON), (0.885, _LATER), None),
        (TASK, (0.89, _WHOLE), (0.85, _LATER), "0.3"),
        # So it is where the return counts; below that the higher return is better.
        (_GAME, (0.2, _WHOLE), (0.3, _WHOLE), "0.3"),
        (_GAME, (0.99, _LATER), (0.985, _SOON), "0.3"),
        (_GAME, (0.985, _SOON), (0.99, _LATER), None),
        (_GAME, (0.99, _WHOLE), (0.985, _LATER), "0.3"),
    ],
)
def test_a_run_that_ended_early_got_there(env, own, other, chosen):
    assert _chosen("0.1", {"0.1": [[own]], "0.3": [[other]]}, (env,)) == chosen


@pytest.mark.parametrize(
    "env, own, other, cells",
    [
        (_GAME, [(0.985, _SOON)], [(0.25, _WHOLE)], "210 | 0.25 | its own, 0.1"),
        (  # One that fell again is shown by its score.
            TASK,
            [(0.5, 100), (0.95, 207)],
            [(0.4, None), (None, None)],
            "50.0%, 207 | 40.0%, - | not yet, without a result of 1 of its runs",
        ),
    ],
)
def test_a_cell_has_the_env_steps_of_a_run_or_its_score(env, own, other, cells):
    asked, findings = _findings("0.1", {"0.1": [own], "0.3": [other]}, (env,))
    assert f"| lstm | {cells} |" in search.to_markdown(asked, findings).splitlines()


def test_on_several_tasks_a_value_has_to_be_better_on_all_where_it_is_not_the_agents_own():
    low, high = [(0.2, None), (0.2, None)], [(0.3, None), (0.3, None)]
    envs = (TASK, "t-maze-passive-5")
    assert _chosen("0.1", {"0.1": [low, low], "0.3": [high, high]}, envs) == "0.3"
    assert _chosen("0.1", {"0.1": [low, high], "0.3": [high, low]}, envs) is None
    own = {("lstm", TASK): "0.3", ("lstm", "t-maze-passive-5"): "0.1"}
    assert _chosen(own, {"0.1": [low, low], "0.3": [high, high]}, envs) == "0.3"
    assert _chosen(own, {"0.1": [high, low], "0.3": [low, low]}, envs) == "0.1"
    assert _chosen(own, {"0.1": [low, low], "0.3": [low, low]}, envs) is None


@pytest.mark.parametrize(
    "text, line",
    [
        ("learner.learning_rate", "must be SETTING=A,B"),
        ("learner.learning_rate=0.001", "must be SETTING=A,B"),
        ("learner.learning_rate=0.001,", "must be SETTING=A,B"),
        ("learner.learning_rate=0.001, 0.003", "' 0.003' cannot be searched: a value must have letters"),
        ("network.core=gtrxl,my:make_core", "my:make_core cannot be searched: a value must have letters"),
        (
            "learner.learning_rat=1,2",
            "learner.learning_rat is not an agent's setting; did you mean learner.learning_rate",
        ),
        ("seed=1,2", "seed is not an agent's setting"),
        ("learner.gamma=0.9,0.99", "learner.gamma is given for all runs; leave that out"),
        ("evaluation.period=500,2000", "evaluation.period is not an agent's setting"),
        ("threads=1,2", "threads is not an agent's setting"),
        ("network.width=4,8", "the suite sets network.width for all agents"),
    ],
)
def test_what_cannot_be_searched_is_refused(tmp_path, text, line):
    agents = {"lstm": "lstm", "gtrxl": "gtrxl"}
    with pytest.raises(ConfigError) as error:
        search.read(text, agents, {"learner.gamma": "0.9"}, suite_of(tmp_path))
    assert re.match(rf"--search is '?{re.escape(text)}'?: ", str(error.value)) and line in str(error.value)
    assert "\n" not in str(error.value)


_OWN = "{learner: {learning_rate: 0.001}, agents: {drqn: {learner: {learning_rate: 0.003}}}}"


def _settled(tmp_path, text, agents):
    file = tmp_path / "own.yaml"
    file.write_text(_OWN)
    asked = search.read(text, agents, {}, None)
    plan = (compare.plan(list(each.values()), [1], file, {"env": TASK}) for each in (agents, asked.items()))
    return asked.settled(*plan)


def test_values_that_are_one_and_a_list_without_an_agents_own_are_refused(tmp_path):
    agents = {"gtrxl": "gtrxl", "drqn": "drqn"}
    own = _settled(tmp_path, SEARCH, agents).own
    assert own == {("gtrxl", TASK): "0.001", ("drqn", TASK): "0.003"}
    with pytest.raises(ConfigError, match=r"^--search is .*: 0.001 and 1e-3 are one value$"):
        _settled(tmp_path, "learner.learning_rate=0.003,0.001,1e-3", agents)
    with pytest.raises(ConfigError, match=rf"drqn has 0.003 on {TASK}; must have 0.003 too, which"):
        _settled(tmp_path, "learner.learning_rate=0.001,0.01", agents)


def test_what_was_chosen_is_a_file_for_config(tmp_path):
    """For an agent that lies over its task's preset too, on top of all that the given file holds."""
    given = tmp_path / "given.yaml"
    single = "{pqn: {network: {width: 8}}, lstm: {learner.learning-rate: 0.01, learner.n_step: 2}}"
    given.write_text(f"learner: {{gamma: 0.5, learning_rate: 0.001}}\nagents: {single}")
    agents = {"pqn": "pqn", "lstm": "lstm", "gtrxl": "gtrxl"}
    asked = _settled(tmp_path, SEARCH, agents)
    best = {"pqn": "0.0003", "lstm": "0.003", "gtrxl": "0.001"}
    runs = [_figures(agent, value, 1, float(value == best[agent])) for agent in agents for value in VALUES]
    findings = asked.findings([_config()] * len(runs), runs)
    assert [found.chosen for found in findings] == ["0.0003", "0.003", None]
    chosen = tmp_path / "chosen.yaml"
    chosen.write_text(search.chosen_yaml(asked, findings, given))
    configs = compare.plan(list(agents), [1], chosen, {"env": TASK})
    found = {config.agent: config.learner for config in configs}
    assert {agent: learner.learning_rate for agent, learner in found.items()} == {
        agent: float(value) for agent, value in best.items()
    }
    assert {learner.gamma for learner in found.values()} == {0.5}
    assert (found["pqn"].n_step, found["lstm"].n_step) == (3, 2)
    assert [config.network.width for config in configs] == [8, 64, 64]
    chosen.write_text(search.chosen_yaml(asked, findings[2:3], None))
    assert layers.read_yaml(chosen) == {}, "nothing was chosen, and --config takes the file all the same"
    presets.resolve(chosen, {"env": TASK}, {})
    missing = asked.findings([_config()] * len(runs), [run | {"score": None} for run in runs])
    told = "# lstm: not yet, without a result of 3 of its runs."
    assert search.chosen_yaml(asked, missing, None).splitlines()[2] == told


def test_a_share_of_the_budget_leaves_the_values_as_they_are_given(run, tmp_path, monkeypatch, capsys):
    """The runs have a tenth of these steps, and so has a comparison at that share with what was chosen."""
    monkeypatch.setattr(comparison_pictures.plots, "comparison", comparison_program.draw_nothing)
    suite, mine, out = tmp_path / "mine.yaml", tmp_path / "given.yaml", tmp_path / "out"
    score = "{of: success, random: 0.1, optimal: 1}"
    suite.write_text(f"description: a task\ntasks: [{{name: {TASK}, env_steps: 2000, scores: [{score}]}}]")
    mine.write_text("actor: {epsilon_anneal_env_steps: 40}")
    scores = {"dqn-40": [[0.1, 0.4]], "dqn-400": [[0.1, 0.5]]}
    (tmp_path / "scores.json").write_text(json.dumps({TASK: scores}))
    flags = ["compare", "--suite", str(suite), "--budget-share", "0.1", "--seeds", "1", "--jobs", "1"]
    flags += ["--agents", "dqn", "--runs-dir", str(tmp_path / "runs"), "--warmup-env-steps", "100"]
    searched = ["--search", "actor.epsilon_anneal_env_steps=400,40"]
    told = printed(capsys, *flags, *searched, "--config", mine, "--out", out)
    assert "Chosen: dqn: 400 (its own: 40)." in told
    assert f"config {mine}, warmup_env_steps 100, before the share of the budget." in told
    assert layers.read_yaml(out / "chosen.yaml")["agents"]["dqn"] == {
        "actor": {"epsilon_anneal_env_steps": 400}
    }
    configs = [layers.read_yaml(path) for path in (tmp_path / "runs").glob("*/*/*/config.yaml")]
    anneal = {config["agent"]: config["actor"]["epsilon_anneal_env_steps"] for config in configs}
    assert anneal == {"dqn-400": 40, "dqn-40": 4}


def test_agents_of_the_users_own_and_files_that_hold_an_agent_are_refused(tmp_path, capsys):
    """What was chosen for an own agent could stand in no file for `--config`."""
    flags = ["compare", "--env", TASK, "--search", SEARCH, "--agents"]
    right = "my=lstm+network.width=16 is not a shipped agent; search those alone"
    assert refused(capsys, *flags, "lstm,my=lstm+network.width=16") == f"--search is {SEARCH}: {right}"


def test_the_command_trains_every_agent_with_every_value(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(comparison_pictures.plots, "comparison", comparison_program.draw_nothing)
    worse, better = [[0.1, 0.4], [0.2, 0.3]], [[0.1, 0.5], [0.96, 1.0]]
    scores = {"lstm-0.001": worse, "lstm-0.003": better, "dqn-0.001": better, "dqn-0.003": worse}
    (tmp_path / "scores.json").write_text(json.dumps({TASK: scores}))
    flags = ["compare", "--env", TASK, "--agents", "lstm,dqn", "--seeds", "2", "--total-env-steps", "200"]
    flags += ["--runs-dir", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--jobs", "2"]
    own = {"learner": {"learning_rate": 0.003}, "agents": {"dqn": {"learner": {"learning_rate": 0.001}}}}
    (tmp_path / "own.yaml").write_text(json.dumps(own))
    flags += ["--config", str(tmp_path / "own.yaml")]
    text = printed(capsys, *flags, "--search", "learner.learning_rate=0.001,0.003")
    assert len((tmp_path / "begun").read_text().splitlines()) == 8
    out = tmp_path / "out"
    table = (out / "search.md").read_text().splitlines()
    assert table[0] == f"| learner.learning_rate on {TASK} | 0.001 | 0.003 | chosen |"
    assert table[2:4] == [
        "| lstm | 40.0%, 30.0% | 50.0%, 100.0% | its own, 0.003 |",
        "| dqn | 50.0%, 100.0% | 40.0%, 30.0% | its own, 0.001 |",
    ]
    line = next(line for line in text.splitlines() if line.startswith("Search of"))
    assert "2 runs of every agent with each. Chosen: lstm: its own, 0.003; dqn: its own, 0.001." in line
    assert str(out / "chosen.yaml") in line and f"- {line}" in (out / "table.md").read_text().splitlines()
    assert layers.read_yaml(out / "chosen.yaml") == own, "nothing was chosen"
    refused(capsys, *flags, "--search", "learner.learning_rate=0.01,0.03")
    told = refused(capsys, *flags, "--search", SEARCH, "--search", "learner.n_step=1,3")
    assert told.startswith("--search is learner.n_step=1,3: it is given twice")
