import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import dtqn
import envs
from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.commands import argtypes, parser
from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, LearnerConfig, fields_of
from dtqn.settings.presets import resolve, resolve_task
from dtqn.settings.run import EvaluationConfig
from dtqn.training import plan
from dtqn.training import trained as playing
from dtqn.training.directory import RunDir, config_hash
from tests.tiny import printed, refused

_ROOT = Path(__file__).parents[1]


_WITHOUT_TORCH = """
import sys
from dtqn.cli import main
for line in ("--version", "--help", "eval --help", "envs", "runs .", "--print-config", "--seed x", "evl"):
    argv = line.split()
    try:
        main(argv)
    except SystemExit as end:
        assert end.code == 0, argv
    loaded = {name.partition(".")[0] for name in sys.modules}
    heavy = loaded & {"torch", "wandb", "matplotlib", "scipy", "safetensors"}
    assert not heavy, (argv, heavy)
print("light")
"""


def test_text_is_answered_without_torch():
    done = subprocess.run([sys.executable, "-c", _WITHOUT_TORCH], cwd=_ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["light"], done.stderr


def test_run_py_hands_over_arguments_and_exit_code():
    done = subprocess.run(
        [sys.executable, "run.py", "--seed", "x"], cwd=_ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: seed is x (from --seed): must be an integer of at least 0\n"


def _help(capsys, *argv):
    with pytest.raises(SystemExit) as end:
        cli.main(list(argv))
    assert end.value.code == 0
    return capsys.readouterr().out


def _shown(text):
    """The settings that a help shows."""
    return {name for name in fields_of() if f"--{name if '.' in name else name.replace('_', '-')} " in text}


def test_version_and_help(capsys):
    assert _help(capsys, "--version") == dtqn.__version__ + "\n"


@pytest.mark.parametrize("command", [[], ["compare"], ["envs"], ["settings"]])
def test_all_settings_are_listed_a_line_each(capsys, command):
    is_listed = command == ["settings"]
    text = printed(capsys, *command) if is_listed else _help(capsys, *command, "--help-all")
    *lines, last = text.splitlines()
    assert len(lines) < 150 and max(map(len, [*lines, last])) <= 80
    assert last.endswith("dtqn settings WORD")
    listed, group = [], ""
    for line in lines:
        if line.startswith("--"):
            group = line.removeprefix("--").removesuffix("NAME")
            continue
        indent, leaf, default, *words = re.split(r"\s{2,}", line)
        assert not indent and len(words) == 1
        listed.append(group + leaf.replace("-", "_"))
        usual = presets.usual(listed[-1])
        assert default == str("none" if usual is None else getattr(usual, "name", usual)).lower()
    left_out = {"compare": lambda x: x in ("agent", "seed"), "envs": lambda x: x[:5] != "task."}
    is_left_out = left_out.get("".join(command), lambda name: False)
    assert sorted(listed) == sorted(name for name in fields_of() if not is_left_out(name))
    if not command:
        assert any(re.search(r"^  size +\d+ +B, sequences in a batch$", line) for line in lines), "a clause"
        assert any(line.endswith(" Layers (linear map, LayerNorm, ReLU) before the…") for line in lines)


def test_settings_with_a_word_are_told_in_full(capsys):
    assert printed(capsys, "settings", "core.gate").splitlines() == [
        "network.core.gate",
        "    Gate that joins a sub-module's output to its input (GTrXL, section 3.2);",
        "    `residual` is a plain sum. [one of gru, output, input, highway, sigtanh,",
        "    residual; default gru; for gtrxl, coberl, dtqn]",
        "network.core.gate_bias",
        "    Initial gate bias b_g; a larger one is closer to the identity map. none: 2",
        "    for gru, 1 for others. [a number, or none; default none; for gtrxl, coberl,",
        "    dtqn]",
    ]
    told = printed(capsys, "settings", "learning-rate")
    assert told.startswith("learner.learning_rate\n    Adam's step size at the start. [a number above 0; ")
    assert "\nlearner.final_learning_rate_share\n" in told


@pytest.mark.parametrize("command", [[], ["compare"], ["sweep"]])
def test_help_shows_the_settings_that_matter(capsys, command):
    text = _help(capsys, *command, "--help")
    assert _shown(text) == parser.HELPED - ({"agent", "seed"} if command == ["compare"] else set())
    assert len(text.splitlines()) < 100
    assert "--help-all" in text


@pytest.mark.parametrize("command", cli._COMMANDS)
def test_every_help_fits_a_terminal(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    lines = _help(capsys, command, "--help").splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("-")], "no word is broken"
    listed = {line.split()[0] for line in _help(capsys, "--help").splitlines() if line.startswith("  ")}
    assert command in listed


def test_the_list_of_tasks_fits_a_terminal(capsys, monkeypatch):
    whole = [line.split()[0] for line in printed(capsys, "envs").splitlines()[1:]]
    assert whole == list(envs.ids())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for word in ([], ["Memory"]):
        monkeypatch.setenv("COLUMNS", "80")
        lines = printed(capsys, "envs", *word).splitlines()
        assert max(map(len, lines)) <= 80
        assert [line.split()[0] for line in lines[1:]] == [
            name for name in whole if not word or "memory" in name.lower()
        ]
        assert [*map(str.split, lines)][2][:3] == ["gridverse-memory-7x7", "250", "Discrete(6)"]


def test_envs_shows_one_task(capsys, tmp_path):
    file = tmp_path / "a.png"
    argv = ["envs", "--env", "gridverse-memory-7x7", "--task.time-limit", 30, "--render", file]
    told = dict(line.split(maxsplit=1) for line in printed(capsys, *argv).splitlines())
    assert told["id"] == "gridverse-memory-7x7"
    assert told["time"] == "limit   30 steps"
    assert told["picture"] == f"{file} (1 frames)"
    assert file.exists()


def test_envs_shows_a_task_that_no_agents_settings_suit(capsys, monkeypatch):
    """It is described all the same, with what its preset makes of the task itself."""
    assert "network.core.memory_length is 100000001" in refused(capsys, "--env", "t-maze-passive-99999999")
    monkeypatch.setenv("WANDB_MODE", "absurd")
    assert "corridor of 99999999" in printed(capsys, "envs", "--env", "t-maze-passive-99999999")
    for name in ("ALE/Pong-v5", "t-maze-passive-6", "CartPole-v1"):
        options = {"task.frame_stack": "2"}
        assert resolve_task(name, options).task == resolve(None, {"env": name, **options}, {}).task
    assert resolve_task("ALE/Pong-v5", {"task.resize": "42"}).task.model_dump()["resize"] == 42


@pytest.mark.parametrize(
    "argv",
    [
        ["--learner.learning_rate", "3e-4", "--total-env-steps", "1e6", "--network.core.gate_bias", "-1e-1"],
        ["--learner.learning-rate=3e-4", "--total_env_steps=1e6", "--network.core.gate_bias=-1e-1"],
        [
            "train",
            "--learner.learning_rate=3e-4",
            "--total-env-steps=1000000",
            "--network.core.gate_bias",
            "-0.1",
        ],
    ],
)
def test_spellings_of_an_option(capsys, tmp_path, argv):
    text = printed(capsys, *argv, "--print-config")
    file = tmp_path / "printed.yaml"
    file.write_text(text)
    config = resolve(file, {}, {})
    assert (config.learner.learning_rate, config.total_env_steps) == (3e-4, 10**6)
    assert config.network.core.gate_bias == -0.1
    assert printed(capsys, "--config", file, "--print-config") == text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--env", "gridverse-memory-7x8"],
            "env is gridverse-memory-7x8: unknown task .*did you mean gridverse-memory-7x7 .*",
        ),
        (
            ["--learner.learning_rte", "1"],
            "--learner.learning_rte is not an option; did you mean --learner.learning_rate?",
        ),
        (["--n-step", "1"], "--n-step is not an option; did you mean --learner.n_step?"),
        (["--total-env", "1"], "--total-env is not an option; did you mean --total-env-steps?"),
        (["--xyzzy"], "--xyzzy is not an option; --help-all lists all"),
        (["--learner.lr", "1"], "--learner.lr is not an option; did you mean --learner.learning_rate?"),
        (["--agent", ""], "agent is '' .*: '' is not an agent; known: adrqn, .*"),
        (["--run-dir", ""], "argument --run-dir: the name is empty; must be a path"),
        (["--seed"], "argument --seed: expected one argument"),
        (["--seed", "1", "7"], "unrecognized arguments: 7"),
        (
            ["--env", "CartPole-v1", "--stop-at-success", "0.9"],
            "stop_at_success is 0.9, but CartPole-v1 defines no success; try none",
        ),
        (["trian"], "trian is not a command; did you mean train?"),
        (["--config", "."], "config is .: cannot be read: Is a directory"),
        (["--run-dir", __file__], f"run_dir {__file__} cannot be written: File exists"),
        (["--run-dir", "a" * 300], "run_dir a{300} cannot be written: File name too long"),
        (["--resume", "absent"], "absent: holds no run .there is no such folder."),
        (["--resume", "r", "--config", "c.yaml"], "--config is c.yaml: leave it out with --resume, .*"),
        (["--resume", "auto", "--run-dir", "x"], "--run-dir is x: leave it out with --resume"),
        (["--runs-dir", "y", "--run-dir", "x"], "--run-dir is x: leave it out with --runs-dir"),
        (["eval"], "the following arguments are required: RUN_DIR"),
        (["eval", "absent"], "absent: holds no run .there is no such folder."),
        (["eval", "x", "--episodes", "0"], "argument --episodes: 0 must be an integer of at least 1"),
        (["eval", "x", "--seed", "-1"], "argument --seed: -1 must be an integer of at least 0"),
        (["eval", "x", "--checkpoint", "first"], "argument --checkpoint: invalid choice: 'first' .*"),
        (["envs", "--json"], "--json is not an option.*"),
        (["envs", "--render", "a.gif"], "--render needs --env"),
        (["envs", "nosuch"], "WORD is nosuch: no task has it; without it all are listed"),
        (["envs", "maze", "--env", "hallway"], "WORD is maze: it is for the list; .*"),
        (["settings", "gaet"], "WORD is gaet: no setting has it in its name.*"),
        (["runs", "nowhere"], "DIR is nowhere: there is no such folder; must be a folder of runs"),
        (["envs", "--task.time_limit", "9"], "--task.time_limit needs --env"),
        (
            ["envs", "--env", "gridverse-memory-5x5", "--render", "a.txt"],
            "--render is a.txt: its name must .*",
        ),
        (["envs", "--env", "gridverse-memory-5x5", "--render", f"{__file__}/a.png"], "--render is .*"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(capsys, argv, message):
    assert re.fullmatch(message.replace("?", r"\?"), refused(capsys, *argv))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--env", "car-flag-continuous"], "env is car-flag-continuous: its actions are Box"),
        (
            ["--env", "CartPole-v1", "--learner.novelty_weight", "0.1"],
            "learner.novelty_weight is 0.1, but observations of CartPole-v1 have real numbers, which hardly "
            "ever repeat; try 0",
        ),
        (["--env", "car-flag", "--learner.repeat_cost", "1"], "learner.repeat_cost is 1.0, but observations"),
        (
            ["--network.encoder", "dtqn", "--network.width", "8"],
            "env is gridverse-memory-7x7: network.encoder.embedding_width is 8, not below network.width 8",
        ),
        (
            ["--agent", "dtqn-paper", "--env", "tests.toy:DictTask"],
            "env is tests.toy:DictTask: network.encoder is dtqn, which cannot read a Dict; try default",
        ),
        (
            ["--network.width", "1000000", "--network.core.num_heads", "1"],
            "network.width is 1000000: the run would take",
        ),
        (["--replay.capacity", "1e13"], "replay.capacity is 10000000000000: the run would take"),
        (["--device", "cuda"], "device is cuda, but torch finds none; try cpu"),
        (["--cuda_graphs", "true"], "cuda_graphs is true, but torch finds no cuda; try false"),
    ],
)
@pytest.mark.parametrize("command", ["train", "compare"])
def test_what_cannot_run_is_refused_before_there_is_a_folder(
    capsys, tmp_path, monkeypatch, command, argv, message
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    if command == "compare":
        argv = argv if "--agent" in argv else ["--agent", "gtrxl", *argv]
        argv = [argument.replace("--agent", "--agents") for argument in argv]
    assert refused(capsys, command, *argv).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_ceiling_of_success_is_told(capsys):
    told = printed(capsys, "envs", "--env", "gridverse-memory-four-rooms-7x7")
    assert "(no agent can exceed 94.3%)" in told


def test_a_gpu_that_is_full_is_one_line_for_any_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(arguments: object) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr("dtqn.commands.trained.evaluate", full)
    assert refused(capsys, "eval", "run") == (
        "the GPU has no memory left: CUDA out of memory. Tried to allocate 2.00 GiB.; "
        "set CUDA_VISIBLE_DEVICES= to use the CPU"
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--seed", "2"], "seed is 2, but the run in {} has 1; leave it out"),
        (["--learner.n-step", "5"], "learner.n_step is 5, but the run in {} has 3; leave it out"),
        (
            ["--env", "gridverse-memory-5x5"],
            "env is gridverse-memory-5x5, but the run in {} has gridverse-memory-7x7",
        ),
        (
            ["--total-env-steps", "900"],
            "total_env_steps is 900, but the run in {} has 1000; a resumed run can only",
        ),
        (
            ["--total-env-steps", "1e2"],  # fewer than its random steps
            "total_env_steps is 100, but the run in {} has 1000; a resumed run can only",
        ),
        (["--warmup-env-steps", "300"], "warmup_env_steps is 300, but the run in {} has 200; leave it out"),
        (["--run-dir", "x"], "--run-dir is x: leave it out with --resume, which reads {}"),
    ],
)
def test_what_contradicts_a_resumed_run_is_named(capsys, tmp_path, argv, message):
    directory = RunDir(tmp_path)
    directory.write_config(resolve(None, {"total_env_steps": "1000"}, {}))
    assert refused(capsys, "--resume", tmp_path, *argv).startswith(message.format(tmp_path))


def test_what_a_resumed_run_may_be_given(tmp_path):
    directory = RunDir(tmp_path)
    directory.write_config(resolve(None, {"total_env_steps": "1000"}, {}))
    same = {"seed": "1", "learner.n-step": "3", "env": "gridverse-memory-7x7"}
    config = directory.resumed_config(
        same | {"total-env-steps": "1e5", "device": "cpu"}, {"WANDB_MODE": "offline"}
    )
    assert (config.total_env_steps, config.device, config.wandb) == (100_000, "cpu", "offline")
    assert config.warmup == 200, "the random steps are those the run was started with"


def test_names_of_run_directories():
    config = resolve(None, {"env": "a:b/../c d.yaml", "seed": "4"}, {})
    assert RunDir.default(config).path == Path("runs/a-b-..-c-d.yaml/gtrxl/seed4")
    directory = RunDir(Path("my runs/a"))
    assert directory.command("--resume") == "python -m dtqn --resume 'my runs/a'"


@pytest.mark.parametrize(
    ("setting", "same"),
    [
        ({"threads": "2"}, True),
        ({"evaluator": "process", "device": "cpu", "wandb": "offline"}, True),
        ({"checkpoint_every": "7", "warmup_env_steps": "200", "learner.n_step": "3"}, True),
        *(({name: "0.5"}, False) for name in ("stop_at_success", "learner.gamma", "network.recall_weight")),
        *(({name: value}, False) for name, value in [("seed", "2"), ("agent", "r2d2")]),
        ({"total_env_steps": "2000", "warmup_env_steps": "200"}, False),
    ],
)
def test_what_a_run_is_found_by(setting, same):
    path = RunDir.of_config(resolve(None, {"total_env_steps": "1000"}, {}), Path("r")).path
    assert path.parent == Path("r/gridverse-memory-7x7/gtrxl")
    assert path.name == f"seed1-{path.name[-8:]}"
    other = RunDir.of_config(resolve(None, {"total_env_steps": "1000"} | setting, {}), Path("r")).path
    assert (other == path) == same


def test_a_later_version_with_more_settings_finds_the_run():
    period = EvaluationConfig(period=25_000)  # what it always was
    config = Config(seed=2, total_env_steps=1000, learner=LearnerConfig(n_step=5), evaluation=period)
    assert config_hash(config) == "86680927", "recorded: of what differs from the defaults"


def test_a_run_with_other_settings_is_not_gone_on_with(tmp_path):
    directory = RunDir(tmp_path / "run")
    config = resolve(None, {"total_env_steps": "1000"}, {})
    directory.prepare(config)
    directory.prepare(resolve(None, {"total_env_steps": "1000", "threads": "2"}, {}))
    assert directory.read_config().threads == 2
    directory.write_config(resolve(None, {"total_env_steps": "2000", "warmup_env_steps": "200"}, {}))
    with pytest.raises(ConfigError, match=r"total_env_steps is 1000, but .* has 2000; move the run"):
        directory.prepare(config)


def test_ctrl_c_before_the_start_is_no_traceback(capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "task_of", interrupted)
    assert cli.main([]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
    """A run on `hallway` with a share of random actions; what is asked of its evaluation."""
    RunDir(tmp_path).write_config(resolve(None, {"env": "hallway", "evaluation.epsilon": 0.05}, {}))
    asked = []

    def evaluate_run(directory, episodes, seed, weights, epsilon, other_task):
        asked.append((directory.path, episodes, seed, weights, epsilon, other_task))
        return EvaluationResult(None, None, None, 1.5, 20.0, episodes)

    monkeypatch.setattr(playing, "evaluate_run", evaluate_run)
    return asked


def test_eval_prints_a_line_or_one_object(capsys, tmp_path, evaluated):
    """Without `--epsilon` the share of random actions is the run's own."""
    options = ["--episodes", "9", "--seed", "3", "--checkpoint", "best", "--epsilon", "0", "--json"]
    found = json.loads(printed(capsys, "eval", tmp_path, *options))
    figures = {"success": None, "success_low": None, "success_high": None, "return": 1.5, "length": 20.0}
    assert found.items() >= (figures | {"episodes": 9, "epsilon": 0}).items()
    told = "last weights, 0.05 of its actions at random, 500 episodes: return 1.500, length 20.0\n"
    assert printed(capsys, "eval", tmp_path).endswith(told)
    assert evaluated == [(tmp_path, 9, 3, "best", 0.0, {}), (tmp_path, 500, 7, "last", 0.05, {})]


def test_eval_plays_another_task_and_says_what_is_out_of_reach(capsys, tmp_path, evaluated):
    """DTQN reads a window; episodes of `t-maze-passive-100` last 102 timesteps."""
    given = {"env": "t-maze-passive-10", "agent": "dtqn"}
    RunDir(tmp_path).write_config(resolve(None, given, {}))
    assert cli.main(["eval", str(tmp_path), "--env", "t-maze-passive-100", "--task.time-limit", "90"]) == 0
    assert evaluated[0][5] == {"env": "t-maze-passive-100", "task.time_limit": "90"}
    out, error = capsys.readouterr()
    assert out.startswith("t-maze-passive-100+time_limit=90, dtqn")
    assert " trained on t-maze-passive-10, last weights, 500 episodes: " in out
    far = "dtqn sees 11 timesteps back, and episodes of t-maze-passive-100 last up to 91 timesteps"
    assert error == f"warning: {far}\n"


@pytest.mark.parametrize(
    ("kind", "text", "right"),
    [
        *(
            (argtypes.probability, text, "a number of at least 0 and at most 1")
            for text in ("1.5", "-0.1", "nan", "some")
        ),
        (argtypes.natural, "1.5", "an integer of at least 0"),
        (argtypes.natural, "-1", "an integer of at least 0"),
    ],
)
def test_a_number_of_another_kind_is_told(kind, text, right):
    with pytest.raises(argparse.ArgumentTypeError) as error:
        kind(text)
    assert str(error.value) == f"{text} must be {right}"


def test_a_long_integer_is_exact():
    """A float has 53 bits."""
    assert argtypes.natural("9007199254740993") == 9007199254740993
    assert argtypes.natural("1e3") == 1000
