"""W&B's sweep files: accepted by W&B's own code and run here; forms of a parameter; mistakes."""

import itertools
import json
import re

import pytest
import yaml

from dtqn.experiments.sweep import check
from dtqn.experiments.sweep_file import read_file
from dtqn.experiments.sweep_study import draws
from dtqn.settings.config import ConfigError
from dtqn.settings.layers import Layer, flat
from dtqn.settings.presets import resolve
from dtqn.settings.task import task_of
from tests.experiments import sweep_program
from tests.experiments.sweep_program import SHIPPED, recorded
from tests.tiny import printed

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
        config = flat(yaml.safe_load(printed(capsys, *argv[3:], "--print-config")))
        for name, value in parameters.items():
            assert config[name] == value


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_run_here(run, path):
    code, printed, folder = run(path, "--run-cap", "5", "--total-env-steps", "401")
    assert code == 0, printed
    records = recorded(folder)
    assert len(records) == 5
    assert {record["state"] for record in records} <= {"finished", "stopped"}
    assert len({json.dumps(record["parameters"]) for record in records}) == 5
    names = {"journal.log", "leaderboard.csv", "best.yaml"}
    assert names <= {file.name for file in folder.iterdir()}
    best = resolve(folder / "best.yaml", {}, {})
    assert best.total_env_steps == 401
    assert printed.rstrip().endswith(f"all in {folder}")
    assert re.search(r"\nreport   python -m dtqn report \S+seed\S+\n", printed)


_FILE = {
    "method": "random",
    "metric": {"name": "mean_success"},
    "run_cap": 2,
    "parameters": {"seed": {"values": [1]}},
}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("3", " is 3: must be {value: X}, {values: [X, Y]} or {min: X, max: Y}"),
        ("{}", " is {}: must be {value: X}, {values: [X, Y]} or {min: X, max: Y}"),
        ("{values: 3}", ".values is 3: must be a list"),
        ("{values: []}", ".values is []: must be a list of at least 1 item"),
        ("{value: 1, values: [1]}", ".value is not a key of categorical; did you mean values?"),
        ("{min: 1}", ".max is missing"),
        ("{min: 5, max: 2}", ".min 5 is not less than max 2"),
        ("{min: 1e-5, max: 1.0e-2}", ".min is 1e-5: must be a number; YAML reads 1.0e-5 as one, not 1e-5"),
        ("{min: 1, max: true}", ".max is True: must be an integer"),
        ("{min: 0.1, most: 0.9}", ".most is not a key of uniform; known: max, min"),
        ("{values: [1], probabilities: [1]}", ".probabilities is not a key of categorical; known: values"),
        ("{distribution: log_uniform_values, min: 0, max: 1}", ".min is 0: must be a number above 0"),
        (
            "{distribution: normal, mu: 1}",
            ".distribution is normal: must be one of constant, categorical, int_",
        ),
        ("{distribution: q_uniform, min: 0, max: 1}", "did you mean uniform?"),
        ("{distribution: constant}", ".value is missing"),
        ("{distribution: [1]}", ".distribution is [1]: must be one of constant, categorical, "),
    ],
)
def test_a_malformed_parameter_is_told(tmp_path, spec, message):
    told = _told(tmp_path, "parameters", f"{{seed: {spec}}}")
    assert told.startswith("parameters.seed") and message in told


def _told(folder, key, text):
    """The line about a sweep file with this text under a key."""
    file = folder / "file.yaml"
    file.write_text(yaml.safe_dump(_FILE | {key: yaml.safe_load(text)}))
    with pytest.raises(ConfigError) as error:
        read_file(file)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (
            "parameters",
            "{learner.n_stp: {value: 1}}",
            ".learner.n_stp is not a setting; did you mean learner.n_step?",
        ),
        (
            "parameters",
            "{learner.n_step: {values: [1, 3]}, learner.n-step: {value: 5}}",
            ".learner.n_step is given twice; must be given once",
        ),
        (
            "parameters",
            "{evaluation.epsilon: {values: [0, 0.1]}}",
            ".evaluation.epsilon is searched, which ranks runs by how they are measured; must have one value",
        ),
        ("parameters", "{}", " is {}; must hold settings to search"),
        ("method", "rand", " is rand: must be one of bayes, grid, random; did you mean random?"),
        ("metric", "3", " is 3: must be a mapping"),
        ("metric", "{goal: maximize}", ".name is missing"),
        ("metric", "{name: 3}", ".name is 3: must be text"),
        (
            "metric",
            "{name: mean_sucess}",
            ".name is mean_sucess: there is no such metric; did you mean mean_succ",
        ),
        ("metric", "{name: m}", ".name is m: there is no such metric; try mean_success or mean_return"),
        ("metric", "{name: best/eval_success}", ".name is best/eval_success: there is no such metric"),
        (
            "metric",
            "{name: mean_success, gaol: maximize}",
            ".gaol is not a key of a sweep file; did you mean goal?",
        ),
        ("metric", "{name: mean_success, impute: worst}", ".impute is not a key of a sweep file"),
        ("early_terminate", "{type: hyperband}", ".min_iter is missing"),
        ("early_terminate", "{type: median, min_iter: 3}", ".type is median: must be one of hyperband"),
        (
            "early_terminate",
            "{type: hyperband, min_iter: 0}",
            ".min_iter is 0: must be an integer of at least 1",
        ),
        (
            "early_terminate",
            "{type: hyperband, max_iter: 2, s: 2}",
            ".max_iter is not a key of a sweep file; did",
        ),
        ("command", "3", " is 3: must be a list"),
        (
            "command",
            "[python, run.py, '${args}']",
            " is python run.py ${args}; must end in ${program} ${args} -",
        ),
        (
            "command",
            "['${program}', '${args}', --agent=gru]",
            "; a setting of all runs is a parameter with one ",
        ),
        ("program", "my_run.py", " is my_run.py: must be one of run.py"),
        ("run_cap", "true", " is True: must be an integer of at least 1"),
        ("mode", "x", " is not a key of a sweep file; did you mean method?"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_names_it(tmp_path, key, text, message):
    told = _told(tmp_path, key, text)
    assert told.startswith(key) and message in told


_NO_SUCCESS = "file.yaml: metric.name is mean_success, but CartPole-v1 defines no success; try mean_return"


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, ["--env", "CartPole-v1"], _NO_SUCCESS),
        ({"parameters": {"env": {"value": "CartPole-v1"}}}, [], _NO_SUCCESS),
        ({}, ["--device", "cuda"], "error: device is cuda, but torch finds none; try cpu"),
        ({"run_cap": None}, [], "method random has no end; give --run-cap N"),
        ({}, ["--seed", "4"], "--seed is 4, but .* searches seed; leave it out"),
        (
            {"parameters": {"network.kwargs.heads": {"values": [1, 2]}}},
            ["--network.kwargs", "{size: 3}"],
            "--network.kwargs is {size: 3}, but .* searches network.kwargs.heads; leave it out",
        ),
        ({}, ["--learner.gama", "0.9"], "--learner.gama is not an option; did you mean --learner.gamma?"),
        (
            {},
            ["--learner.gamma", "2"],
            r"learner.gamma is 2 \(from --learner.gamma\): must be auto, or a number",
        ),
        (
            {},
            ["--network.core.num_heads", "3"],
            r"no configuration is valid; in the first one, network.width is 64, not a multiple of "
            r"network.core.num_heads 3; try 66 \(network.core.num_heads from --network.core.num_heads\)",
        ),
        (
            {"parameters": {"seed": {"values": [1]}, "learner.gamma": {"value": 2}}},
            [],
            r"learner.gamma is 2 \(from .*file.yaml\): must be auto, or a number",
        ),
        (
            {"method": "grid", "parameters": {"learner.gamma": {"min": 0.5, "max": 0.9}}},
            [],
            "parameters.learner.gamma is uniform: a grid needs values or int_uniform",
        ),
    ],
)
def test_a_mistake_runs_nothing(run, changes, arguments, message, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, printed, folder = run(yaml.safe_dump(_FILE | changes), *arguments)
    assert code == 2
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert message in printed or re.search(message, printed), printed
    assert not folder.exists()
    assert not (run.folder / "runs").exists()


def test_arguments_that_a_task_needs_may_be_searched(tmp_path, monkeypatch):
    """With the other parameters, each of which alone makes no task."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "needs_size.py").write_text(
        "import gymnasium\n\n\nclass Needy(gymnasium.Env):\n"
        "    observation_space = action_space = gymnasium.spaces.Discrete(2)\n\n"
        "    def __init__(self, length):\n        assert length < 9\n\n"
        "    def reset(self, **_):\n        return 0, {}\n"
    )
    parameters = {"task.kwargs.length": {"values": [9, 4]}, "learner.learning_rate": {"values": [1e-3, 1e-4]}}
    path = tmp_path / "search.yaml"
    metric = {"name": "best_success", "goal": "maximize"}
    path.write_text(yaml.safe_dump({"method": "grid", "metric": metric, "parameters": parameters}))

    def made(chosen, env="needs_size:Needy"):
        config = resolve(None, {"env": env}, {}, below=[Layer("search", flat(chosen))])
        task_of(config)
        return config

    assert check(read_file(path), made).task.kwargs == {"length": 4}
    with pytest.raises(ConfigError, match="needs_size has neither a class nor a registered task 'Nedy'"):
        check(read_file(path), lambda chosen: made(chosen, "needs_size:Nedy"))
