"""W&B's sweep files: accepted by W&B's own code and run here; forms of a parameter; mistakes."""

import itertools
import json
import re

import pytest
import yaml

from dtqn import cli
from dtqn.experiments.sweep import check
from dtqn.experiments.sweep_file import read_file
from dtqn.experiments.sweep_study import draws
from dtqn.settings.config import ConfigError
from dtqn.settings.layers import Layer, nested
from dtqn.settings.presets import resolve
from dtqn.settings.task import task_of
from tests.experiments import sweep_program
from tests.experiments.sweep_program import SHIPPED, recorded

run = sweep_program.run


def _argv(path, parameters):
    """The command of W&B's agent for a configuration: `Agent._command_run`, without a server."""
    from wandb.sdk.launch.sweeps import utils

    content = utils.load_sweep_config(str(path))
    command = {"args": {name: {"value": value} for name, value in parameters.items()}}
    macros = utils.create_sweep_command_args(command)
    macros |= {"interpreter": ["python"], "program": [content["program"]], "env": ["/usr/bin/env"]}
    parts = map(str, utils.create_sweep_command(content["command"]))
    return [
        word
        for part in parts
        for word in (macros[part[2:-1]] if part.startswith("${") and part.endswith("}") else [part])
    ]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_command_of_wandbs_agent_is_accepted(path, capsys):
    for draw in itertools.islice(draws(read_file(path), 0), 8):
        parameters = draw.parameters
        argv = _argv(path, parameters)
        assert argv[:3] == ["/usr/bin/env", "python", "run.py"]
        assert "--resume=auto" in argv
        assert cli.main([*argv[3:], "--print-config"]) == 0
        config = yaml.safe_load(capsys.readouterr().out)
        for name, value in parameters.items():
            group, _, leaf = name.rpartition(".")
            assert (config[group] if group else config)[leaf] == value


def test_shipped_files_are_those_that_are_promised():
    methods = {path.stem: yaml.safe_load(path.read_text()) for path in SHIPPED}
    assert {name: content["method"] for name, content in methods.items()} == {
        "learning-rate": "bayes",
        "memory-length": "grid",
        "everything": "random",
    }
    assert methods["everything"]["early_terminate"]["type"] == "hyperband"
    assert all(("run_cap" in content) == (content["method"] != "grid") for content in methods.values())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_run_here(run, path):
    code, printed, folder = run(path, "--run-cap", "5", "--total-env-steps", "401")
    assert code == 0, printed
    records = recorded(folder)
    assert len(records) == 5
    assert {record["state"] for record in records} <= {"finished", "stopped"}
    assert len({json.dumps(record["parameters"]) for record in records}) == 5
    names = {"journal.log", "leaderboard.csv", "best.yaml", "by_parameter.png"}
    assert names <= {file.name for file in folder.iterdir()}
    best = resolve(folder / "best.yaml", {}, {})
    assert best.total_env_steps == 401
    assert printed.rstrip().endswith(f"all in {folder}")
    assert re.search(r"\nreport   python -m dtqn report \S+seed\S+\n", printed)


_SEARCH = "method: random\nmetric: {name: mean_success}\nrun_cap: 2\n"
_ONE = _SEARCH + "parameters: {seed: {values: [1]}}"


def _one(key, text):
    """A sweep file with this text under a key."""
    return yaml.safe_dump(yaml.safe_load(_ONE) | {key: yaml.safe_load(text)})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("3", " is 3: must be {value: X}, {values: [X, Y]} or {min: X, max: Y}"),
        ("{}", " is {}: must be {value: X}, {values: [X, Y]} or {min: X, max: Y}"),
        ("{values: 3}", ".values is 3: must be a list"),
        ("{values: []}", ".values is []: must be a list of at least 1 item"),
        ("{value: 1, values: [1]}", ".value is no key of categorical; did you mean values?"),
        ("{min: 1}", ".max is missing"),
        ("{min: 5, max: 2}", ".min 5 is not less than max 2"),
        ("{min: 1, max: many}", ".max is many: must be a number; YAML reads 1.0e-5 as one, not 1e-5"),
        ("{min: 1, max: true}", ".max is True: must be an integer"),
        (
            "{values: [1], probabilities: [-1]}",
            ".probabilities is [-1]: must be a list of numbers of at least 0",
        ),
        ("{values: [1, 2], probabilities: [1]}", ".probabilities is [1]: must hold one for each value"),
        (
            "{values: [1], probabilities: [0.9]}",
            ".probabilities is [0.9]: must hold one for each value, which sum to 1",
        ),
        ("{distribution: log_uniform_values, min: 0, max: 1}", ".min is 0: must be a number above 0"),
        ("{distribution: normal, sigma: -1}", ".sigma is -1: must be a number of at least 0"),
        ("{distribution: constant}", ".value is missing"),
        ("{distribution: int_unifrm, min: 0, max: 1}", "did you mean int_uniform?"),
        ("{distribution: [1]}", ".distribution is [1]: must be one of constant, categorical, "),
    ],
)
def test_a_malformed_parameter_is_told(tmp_path, spec, message):
    file = tmp_path / "file.yaml"
    file.write_text(_SEARCH + f"parameters: {{seed: {spec}}}")
    with pytest.raises(ConfigError) as error:
        read_file(file)
    told = str(error.value)
    assert told.startswith(f"{file}: parameters.seed") and message in told and "\n" not in told


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("method: grid\nmetric: {name: mean_success}", [], "file.yaml: parameters is missing"),
        (
            _SEARCH + "parameters: {learner.n_stp: {values: [1]}}",
            [],
            "parameters.learner.n_stp is no setting; did you mean learner.n_step?",
        ),
        (
            _SEARCH + "parameters: {learner.learning_rate: {min: 1e-5, max: 1.0e-2}}",
            [],
            "parameters.learner.learning_rate.min is 1e-5: must be a number; YAML reads 1.0e-5 as one",
        ),
        (_SEARCH + "parameters: {learner.n_step: {min: 5, max: 2}}", [], "min 5 is not less than max 2"),
        (
            _SEARCH + "parameters: {learner.gamma: {min: 0.1, most: 0.9}}",
            [],
            "parameters.learner.gamma.most is no key of uniform; known: max, min\n",
        ),
        (
            _SEARCH + "parameters: {evaluation.epsilon: {values: [0, 0.1]}}",
            [],
            "parameters.evaluation.epsilon is searched, which ranks runs by how they are measured; "
            "must have one value\n",
        ),
        ("method: grid\nparameters: {seed: {values: [1]}}", [], "file.yaml: metric is missing"),
        (
            _one("method", "rand"),
            [],
            "method is rand: must be one of bayes, grid, random; did you mean random?",
        ),
        (_one("method", "custom"), [], "method is custom: must be one of bayes, grid, random"),
        (
            "parameters: {seed: {values: [1]}}\nmetric: {name: mean_success}",
            [],
            "file.yaml: method is missing",
        ),
        (
            _one("metric", "{name: mean_success, goal: maximise}"),
            [],
            "metric.goal is maximise: must be one of minimize, maximize; did you mean maximize?",
        ),
        (
            _one("metric", "{name: mean_success, gaol: maximize}"),
            [],
            "metric.gaol is no key of metric; did you mean goal?",
        ),
        (_one("metric", "{name: 3}"), [], "metric.name is 3: must be text"),
        (
            _one("parameters", "{learner.n_step: {values: [1, 3]}, learner.n-step: {value: 5}}"),
            [],
            "parameters.learner.n_step is there twice",
        ),
        (
            _one("metric", "{name: mean_sucess}"),
            [],
            "metric.name is mean_sucess: there is no such metric; did you mean mean_success?",
        ),
        (
            _one("metric", "{name: m}"),
            [],
            "metric.name is m: there is no such metric; try mean_success or mean_return",
        ),
        (
            _one("metric", "{name: best/eval_success}"),
            [],
            "metric.name is best/eval_success: there is no such",
        ),
        (
            _ONE,
            ["--env", "CartPole-v1"],
            "file.yaml: metric.name is mean_success, but CartPole-v1 defines no success; try mean_return",
        ),
        (
            _one("metric", "{name: eval/success_low}"),
            ["--env", "CartPole-v1"],
            "metric.name is eval/success_low, but CartPole-v1 defines no success; try eval/return",
        ),
        (
            _one("parameters", "{env: {values: [gridverse-memory-5x5, CartPole-v1]}}"),
            [],
            "metric.name is mean_success, but CartPole-v1 defines no success; try mean_return",
        ),
        (
            _one("parameters", "{env: {value: CartPole-v1}}"),
            [],
            "file.yaml: metric.name is mean_success, but CartPole-v1 defines no success; try mean_return",
        ),
        (_ONE, ["--device", "cuda"], "error: device is cuda, but torch finds none; try cpu"),
        (
            _one("parameters", "{device: {values: [cpu, cuda]}}"),
            [],
            "error: device is cuda, but torch finds none; try cpu",
        ),
        (_one("early_terminate", "3"), [], "early_terminate is 3: must be a mapping"),
        (_one("early_terminate", "{type: hyperband}"), [], "early_terminate.min_iter is missing"),
        (
            _one("early_terminate", "{type: median, min_iter: 3}"),
            [],
            "early_terminate.type is median: must be one of hyperband",
        ),
        (
            _one("early_terminate", "{type: hyperband, min_iter: 0}"),
            [],
            "early_terminate.min_iter is 0: must be an integer of at least 1",
        ),
        (
            _one("early_terminate", "{type: hyperband, max_iter: 2, s: 2}"),
            [],
            "early_terminate.max_iter is no key of early_terminate; did you mean min_iter?",
        ),
        (
            _one("early_terminate", "{type: hyperband, min_iter: 1, eta: 1.5}"),
            [],
            "eta is 1.5: must be an int",
        ),
        (_one("metric", "{name: mean_success, impute: worst}"), [], "metric.impute is no key of metric"),
        ("parameters: {}\n" + _SEARCH, [], "parameters is {}; must hold settings to search"),
        (_one("command", "3"), [], "command is 3: must be a list"),
        (
            _one("command", "[python, run.py, '${args}']"),
            [],
            "command is python run.py ${args}; must hold ${program}, and ${args} and the program's",
        ),
        (
            _one("command", "['${program}', eval, '${args}']"),
            [],
            "file.yaml: command: unrecognized arguments: eval",
        ),
        (
            _one("command", "[python, '${program}', --agent=gru]"),
            [],
            "command is python ${program} --agent=gru; must hold ${program}, and ${args} and the program's",
        ),
        (
            _one("program", "train.py"),
            [],
            "file.yaml: program is train.py: W&B would run that; must be run.py",
        ),
        (_one("program", "my_run.py"), [], "program is my_run.py: W&B would run that; must be run.py"),
        (_one("name", "3"), [], "file.yaml: name is 3: must be text"),
        (
            _SEARCH.replace("2", "0") + "parameters: {seed: {values: [1]}}",
            [],
            "run_cap is 0: must be an integer of at least 1",
        ),
        (
            _SEARCH.replace("2", "true") + "parameters: {seed: {values: [1]}}",
            [],
            "run_cap is True: must be an integer",
        ),
        (_one("mode", "x"), [], "mode is no key of a sweep file; did you mean method?"),
        (_one("run_cp", "3"), [], "run_cp is no key of a sweep file; did you mean run_cap?"),
        (
            _SEARCH.replace("run_cap: 2", "") + "parameters: {seed: {values: [1]}}",
            [],
            "method random has no end; give --run-cap N",
        ),
        (_ONE, ["--seed", "4"], "--seed is 4, but .* searches it"),
        (
            _SEARCH + "parameters: {network.kwargs.heads: {values: [1, 2]}}",
            ["--network.kwargs", "{size: 3}"],
            "--network.kwargs is {size: 3}, but .* searches network.kwargs.heads; leave it out",
        ),
        (
            _SEARCH + "parameters: {network.kwarg.heads: {values: [1, 2]}}",
            [],
            "parameters.network.kwarg.heads is no setting; did you mean network.kwargs",
        ),
        (
            _ONE,
            ["--network.kwarg.heads=3"],
            "--network.kwarg.heads is no option; did you mean --network.kwargs",
        ),
        (_one("command", "['${program}', '${args}', --lr=3]"), [], "file.yaml: command: --lr is no option"),
        ("[1", [], "is not a YAML file"),
        (_ONE, ["--learner.gama", "0.9"], "--learner.gama is no option; did you mean --learner.gamma?"),
        (
            _ONE,
            ["--learner.gamma", "2"],
            r"learner.gamma is 2 \(from --learner.gamma\): must be a number .* at most 1",
        ),
        (_ONE, ["--env", "car-flat"], "env is car-flat: unknown task 'car-flat'; did you mean car-flag"),
        (_ONE, ["--env", "car-flag-continuous"], "env is car-flag-continuous: its actions are"),
        (
            _ONE,
            ["--agent", "gtrx"],
            "agent is gtrx (from --agent): gtrx is no agent; did you mean gtrxl?",
        ),
        (
            _ONE,
            ["--network.num_heads", "3"],
            r"no configuration fits, the first one as network.width is 64, not a multiple of "
            r"network.num_heads 3; try 66 \(network.num_heads from --network.num_heads\)",
        ),
        (
            _SEARCH + "parameters: {network.num_heads: {values: [3]}, learner.gamma: {value: 2}}",
            [],
            r"learner.gamma is 2 \(from .*file.yaml\): must be a number",
        ),
        (
            _SEARCH + "parameters: {seed: {values: [1]}, learner.gamma: {values: [0.9, 2]}}",
            [],
            r"learner.gamma is 2 \(from .*file.yaml\): must be a number",
        ),
        (
            _SEARCH + "parameters: {learner.gamma: {min: 0.5, max: 2.0}}",
            [],
            r"learner.gamma is 1.9985 \(from .*file.yaml\): must be a number",
        ),
        (
            "{method: grid, metric: {name: mean_success}, parameters: {learner.gamma: {min: 0.5, max: 0.9}}}",
            [],
            "parameters.learner.gamma is uniform: a grid needs values, int_uniform or q_uniform",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_it(run, content, arguments, message, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, printed, folder = run(content, *arguments)
    assert code == 2
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert message in printed or re.search(message, printed), printed
    assert not folder.exists()
    assert not (run.folder / "runs").exists()


def test_arguments_that_a_task_needs_may_be_searched(tmp_path, monkeypatch):
    """With the other parameters, each of which alone makes no task."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "needy.py").write_text(
        "import gymnasium\n\n\nclass Needy(gymnasium.Env):\n"
        "    observation_space = action_space = gymnasium.spaces.Discrete(2)\n\n"
        "    def __init__(self, length):\n        assert length < 9\n\n"
        "    def reset(self, **_):\n        return 0, {}\n"
    )
    parameters = {"task.kwargs.length": {"values": [9, 4]}, "learner.learning_rate": {"values": [1e-3, 1e-4]}}
    path = tmp_path / "search.yaml"
    metric = {"name": "best_success", "goal": "maximize"}
    path.write_text(yaml.safe_dump({"method": "grid", "metric": metric, "parameters": parameters}))

    def made(chosen, env="needy:Needy"):
        config = resolve(None, {"env": env}, {}, below=[Layer("search", nested(chosen))])
        task_of(config)
        return config

    assert check(read_file(path), made).task.kwargs == {"length": 4}
    with pytest.raises(ConfigError, match="needy has neither a class nor a registered task 'Nedy'"):
        check(read_file(path), lambda chosen: made(chosen, "needy:Nedy"))
