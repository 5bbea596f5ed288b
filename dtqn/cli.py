"""The command line: one option for every setting, generated from `dtqn.config`.

What only reads text (`--help`, `--version`, `envs`, `--print-config`, mistakes) never imports torch.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import dtqn
from dtqn import layers
from dtqn.config import Config, ConfigError, MisfitError, fields_of, legal, nearest
from dtqn.rundir import RunDir
from envs.errors import TaskError

if TYPE_CHECKING:
    from envs import TaskSpec

_DESCRIPTION = """\
Train a memory agent on a partially observable task, and more.

commands:
  train                  train an agent (what is done where no command is named)
  eval RUN_DIR           evaluate the weights of a run
  compare                agents side by side (compare --env X --agents gtrxl,drqn --seeds 5)
  sweep FILE             search settings as a W&B sweep file says, here and without an account
  envs                   list the tasks, or show one (envs --env X --render FILE.gif)
"""
_TRAIN_ONLY = ("config", "print_config", "resume", "run_dir", "runs_dir")
_AUTO = Path("auto")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0, 2 for a mistake of the user's, 128 + n for signal n."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        command = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "train"
        if command not in _COMMANDS:
            raise ConfigError(f"{command} is no command{nearest(command, _COMMANDS)}")
        return _COMMANDS[command](arguments)
    except (ConfigError, TaskError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """argparse without guessing: names in full, dash and underscore alike, mistakes as `ConfigError`."""

    def __init__(self, command: str = "", **settings: Any) -> None:
        super().__init__(
            prog=f"python run.py {command}".rstrip(),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **settings,
        )

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        return self.parse_args(self._spelled(arguments))

    def _spelled(self, arguments: Sequence[str]) -> list[str]:
        """The arguments with every option in its declared spelling, and negative numbers tied to theirs."""
        declared = {_plain(option): option for action in self._actions for option in action.option_strings}
        result: list[str] = []
        for argument in arguments:
            if argument.startswith("--"):
                name, equals, value = argument.partition("=")
                if _plain(name) not in declared:
                    known = [option.lstrip("-") for option in declared.values()]
                    hint = nearest(_plain(name), known).replace("mean ", "mean --")
                    raise ConfigError(f"{name} is no option{hint or '; --help lists all'}")
                argument = declared[_plain(name)] + equals + value
            elif result and result[-1].startswith("--") and "=" not in result[-1] and _is_number(argument):
                result[-1] += "=" + argument
                continue
            result.append(argument)
        return result


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _train_parser() -> _Parser:
    parser = _Parser(usage="python run.py [command] [--option value ...]", description=_DESCRIPTION)
    run = parser.add_argument_group("run")
    run.add_argument("--version", action="version", version=dtqn.__version__)
    run.add_argument(
        "--config", metavar="FILE", type=_path, help="YAML file of settings, laid over the presets"
    )
    run.add_argument("--print-config", action="store_true", help="print every setting as YAML and end")
    run.add_argument("--run-dir", metavar="DIR", type=_path, help="default <runs-dir>/<env>/<agent>/seed<k>")
    run.add_argument("--runs-dir", metavar="DIR", type=_path, help="folder of run directories; default runs")
    run.add_argument(
        "--resume",
        metavar="RUN_DIR",
        type=_path,
        help="go on with the run in this directory; auto: with the run that has these very settings, in "
        "<runs-dir>/<env>/<agent>/seed<k>-<hash of the settings>, where there is none start it",
    )
    _add_settings(parser, lambda _: True, run)
    return parser


def _add_settings(
    parser: _Parser, wanted: Callable[[str], bool], top: argparse._ArgumentGroup | None = None
) -> None:
    """An option for every setting whose dotted name is wanted; those of no group go to `top`."""
    groups = {"": top}
    for name, field in fields_of().items():
        if not wanted(name):
            continue
        group, _, leaf = name.rpartition(".")
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        default = "none" if field.default is None else str(field.default).lower()
        text = f"{field.description} [{legal(field)}; default {default}]"
        option = f"--{name}" if group else f"--{leaf.replace('_', '-')}"
        (groups[group] or parser).add_argument(
            option, dest=name, default=argparse.SUPPRESS, metavar="X", help=text.replace("%", "%%")
        )


def _train(arguments: Sequence[str]) -> int:
    given = vars(_train_parser().read(arguments))
    flags = {name: value for name, value in given.items() if name not in _TRAIN_ONLY}
    file, print_config, resume, run_dir, runs_dir = (given[name] for name in _TRAIN_ONLY)
    if resume not in (None, _AUTO):
        for name, value in (("--config", file), ("--run-dir", run_dir), ("--runs-dir", runs_dir)):
            if value is not None:
                raise ConfigError(
                    f"{name} is {value}: leave it out with --resume, which reads {resume}/config.yaml"
                )
        directory = RunDir(resume)
        config = directory.resumed_config(flags, os.environ)
    else:
        config = layers.resolve(file, flags, os.environ)
        directory = _directory_for(config, run_dir, runs_dir, resume)
    _check_task(config)
    if print_config:
        print(layers.to_yaml(config), end="")
        return 0
    from dtqn import runs

    runs.check(config)  # before there is a folder
    if resume is None:
        directory.claim()
    with directory.lock():
        if resume is None:
            return runs.start(config, directory)
        if resume == _AUTO:
            directory.prepare(config)
        return runs.resume(config, directory)


def _directory_for(
    config: Config, run_dir: Path | None, runs_dir: Path | None, resume: Path | None
) -> RunDir:
    """Where a run goes that is not named by its directory."""
    if run_dir is None:
        make = RunDir.default if resume is None else RunDir.of_config
        return make(config, runs_dir or Path("runs"))
    for name, value in (("--runs-dir", runs_dir), ("--resume", resume)):
        if value is not None:
            raise ConfigError(f"--run-dir is {run_dir}: leave it out with {name}")
    return RunDir(run_dir)


def _check_task(config: Config) -> TaskSpec:
    """The run's task; a ConfigError where there is no such or where it does not fit the settings."""
    import envs

    kind = ConfigError
    try:
        envs.spec(config.env)
        kind = MisfitError  # a task that there is, with options that are not its own
        spec = envs.spec(config.env, **config.task.model_dump())
    except ValueError as error:
        raise kind(f"env is {config.env}: {error}") from None
    if config.stop_at_success is not None and not spec.has_success:
        raise MisfitError(
            f"stop_at_success is {config.stop_at_success}, but {config.env} defines no success; try none"
        )
    return spec


def _eval(arguments: Sequence[str]) -> int:
    parser = _Parser("eval", description="Evaluate the weights of a run with greedy episodes.")
    parser.add_argument("run_dir", metavar="RUN_DIR", type=_path)
    parser.add_argument("--episodes", type=_positive, default=500, metavar="N", help="default %(default)s")
    parser.add_argument(
        "--seed", type=_natural, default=7, metavar="N", help="of the tasks; default %(default)s"
    )
    parser.add_argument(
        "--checkpoint", choices=["last", "best"], default="last", help="which weights; default %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.read(arguments)
    directory = RunDir(given.run_dir)
    config = directory.read_config()
    task = _check_task(config)
    from dtqn import runs
    from dtqn.live import interval

    result = runs.evaluate_run(directory, given.episodes, given.seed, given.checkpoint)
    figures = {
        "success": result.success,
        "success_low": result.success_low,
        "success_high": result.success_high,
        "success_ceiling": task.success_ceiling if task.has_success else None,
        "return": result.episode_return,
        "length": result.length,
        "episodes": result.episodes,
    }
    if given.json:
        which = {
            "env": config.env,
            "agent": config.agent,
            "checkpoint": given.checkpoint,
            "seed": given.seed,
        }
        print(json.dumps(which | figures))
        return 0
    rate = "" if result.success is None else f"{interval(*result[:3])}{task.ceiling_note}, "
    print(
        f"{config.env}, {config.agent}, {given.checkpoint} weights, {result.episodes} episodes: "
        f"{rate}return {result.episode_return:.3f}, length {result.length:.1f}"
    )
    return 0


def _compare(arguments: Sequence[str]) -> int:
    parser = _Parser(
        "compare",
        description="Compare agents on the same tasks and seeds; what has been trained is not trained again.",
        usage="python run.py compare --agents A,B,... [--option value ...]",
    )
    own = parser.add_argument_group("comparison")
    own.add_argument("--agents", metavar="A,B", required=True, help="presets, with commas between")
    own.add_argument(
        "--seeds", type=_positive, default=5, metavar="N", help="how many seeds; default %(default)s"
    )
    own.add_argument(
        "--first-seed",
        type=_natural,
        default=1,
        metavar="S",
        help="the first of them: seeds that no setting was chosen on; default %(default)s",
    )
    own.add_argument("--baseline", metavar="A", help="the agent that others are compared with; default none")
    own.add_argument(
        "--jobs", type=_positive, metavar="N", help="trainings at a time; default CPUs / threads"
    )
    own.add_argument(
        "--runs-dir", metavar="DIR", type=_path, default=Path("runs"), help="default %(default)s"
    )
    own.add_argument(
        "--out",
        metavar="DIR",
        type=_path,
        help="of table and curves; default <runs-dir>/compare/<task>-<hash>",
    )
    run = parser.add_argument_group("settings of all runs (--env: one task, or several with commas between)")
    run.add_argument(
        "--config", metavar="FILE", type=_path, help="YAML file of settings, laid over the presets"
    )
    _add_settings(parser, lambda name: name not in ("agent", "seed"), run)
    given = vars(parser.read(arguments))
    names = ("config", "agents", "seeds", "first_seed", "baseline", "jobs", "runs_dir", "out")
    file, agents, seeds, first_seed, baseline, jobs, runs_dir, out = (given.pop(name) for name in names)
    agents, known = _names("--agents", agents), layers.agents()
    for agent in agents:
        if agent not in known:
            raise ConfigError(f"--agents is {','.join(agents)}: {agent} is no agent{nearest(agent, known)}")
    if baseline is not None and baseline not in agents:
        raise ConfigError(f"--baseline is {baseline}: it is none of --agents{nearest(baseline, agents)}")
    env = given.pop("env", None) or layers.resolve(file, {**given, "agent": agents[0]}, os.environ).env
    configs = [
        layers.resolve(file, {**given, "env": task, "agent": agent, "seed": seed}, os.environ)
        for task in _names("--env", env)
        for agent in agents
        for seed in range(first_seed, first_seed + seeds)
    ]
    from dtqn import compare, runs

    for config in configs[::seeds]:
        _check_task(config)
        runs.check(config)
    told = ({} if file is None else {"config": str(file)}) | given
    jobs = jobs or _parallel(configs[0])
    os.environ.setdefault("WANDB_JOB_TYPE", "compare")  # what the trainings tell W&B
    out = out or compare.default_folder(configs, runs_dir)
    return compare.compare(configs, jobs, runs_dir, out, baseline, told)


def _sweep(arguments: Sequence[str]) -> int:
    parser = _Parser(
        "sweep",
        description="Search settings as a W&B sweep file says; the same command goes on after a kill.",
        usage="python run.py sweep FILE [--jobs N] [--option value ...]",
    )
    own = parser.add_argument_group("sweep")
    own.add_argument("file", metavar="FILE", type=_path, help="such as configs/sweeps/learning-rate.yaml")
    own.add_argument(
        "--jobs", type=_positive, metavar="N", help="trainings at a time; default CPUs / threads"
    )
    own.add_argument("--run-cap", type=_positive, metavar="N", help="runs in all; default the file's run_cap")
    own.add_argument(
        "--search-seed", type=_natural, default=0, metavar="N", help="of the choices; default %(default)s"
    )
    own.add_argument("--runs-dir", metavar="DIR", type=_path, help="default the file's, or runs")
    own.add_argument(
        "--out", metavar="DIR", type=_path, help="of the results; default <runs-dir>/sweeps/<name>-<hash>"
    )
    run = parser.add_argument_group("settings of all runs")
    run.add_argument(
        "--config", metavar="FILE", type=_path, help="YAML file of settings, laid over the presets"
    )
    _add_settings(parser, lambda _: True, run)
    given = vars(parser.read(arguments))
    names = ("file", "jobs", "run_cap", "search_seed", "runs_dir", "out", "config")
    path, jobs, run_cap, seed, runs_dir, out, config_file = (given.pop(name) for name in names)
    from dtqn import sweep

    file = sweep.read_file(path)
    try:
        command = vars(_train_parser().read(file.flags))
    except ConfigError as error:
        raise ConfigError(f"{path}: command: {error}") from None
    own_flags = {name: command.pop(name) for name in _TRAIN_ONLY}  # of them the sweep itself finds the runs
    config_file, runs_dir = (
        config_file or own_flags["config"],
        runs_dir or own_flags["runs_dir"] or Path("runs"),
    )
    given = {name: value for name, value in command.items() if name not in given} | given
    for name in given:
        if name in file.searched:
            raise ConfigError(f"--{name} is {given[name]}, but {path} searches it; leave it out")
    file = file.without(given)
    run_cap = run_cap or file.run_cap
    if run_cap is None and file.engine["method"] != "grid":
        raise ConfigError(f"{path}: method {file.engine['method']} has no end; give --run-cap N")

    from dtqn import runs

    def resolve(parameters: Mapping[str, Any]) -> Config:
        choice = layers.Layer(str(path), layers.nested(parameters))
        config = layers.resolve(config_file, given, os.environ, below=[choice])
        file.check_metric(config.env, _check_task(config).has_success)
        runs.check(config)
        return config

    fitting = sweep.check(file, resolve)  # before anything is there
    jobs = jobs or _parallel(fitting)
    os.environ.setdefault("WANDB_RUN_GROUP", file.name)  # what the trainings tell W&B
    os.environ.setdefault("WANDB_JOB_TYPE", "sweep")
    folder = out or sweep.default_folder(file, given | {"config": config_file}, seed, runs_dir)
    return sweep.run(sweep.Sweep(file, folder, runs_dir, resolve, run_cap, seed), jobs)


def _names(option: str, text: str) -> list[str]:
    """Names with commas between, each once."""
    names = text.split(",")
    for name in names:
        if not name or names.count(name) > 1:
            what = "is empty" if not name else "is there twice"
            raise ConfigError(
                f"{option} is {text}: {name or 'a name'} {what}; must be names with commas between"
            )
    return names


def _parallel(config: Config) -> int:
    """Trainings at a time, so that each has a CPU of this process for every thread of its own."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cpus // config.threads)


def _path(text: str) -> Path:
    if not text:  # an unset variable of the shell; Path would take it for the present folder
        raise argparse.ArgumentTypeError("the name is empty; must be a path")
    return Path(text)


def _positive(text: str) -> int:
    return _at_least(text, 1)


def _natural(text: str) -> int:
    return _at_least(text, 0)


def _at_least(text: str, low: int) -> int:
    number = float(text) if _is_number(text) else float("nan")
    if not number.is_integer() or number < low:
        raise argparse.ArgumentTypeError(f"{text} must be an integer of at least {low}")
    return int(number)


def _envs(arguments: Sequence[str]) -> int:
    parser = _Parser("envs", description="List the tasks, or show one.")
    parser.add_argument("--env", metavar="X", help="show what this task is")
    parser.add_argument(
        "--render",
        metavar="FILE",
        type=_path,
        help=".png: its first state; .gif: a random episode",
    )
    parser.add_argument("--seed", type=_natural, default=1, metavar="N", help="default %(default)s")
    _add_settings(parser, lambda name: name.startswith("task."))
    given = vars(parser.read(arguments))
    id, file, seed = (given.pop(name) for name in ("env", "render", "seed"))
    if id is None:
        for name in ["render", *given] if file is not None else given:
            raise ConfigError(f"--{name} needs --env")
        return _list_envs()
    config = layers.resolve(None, {"env": id, **given}, os.environ)
    _check_task(config)
    import envs

    options = config.task.model_dump()
    lines = envs.facts(id, **options)
    if file is not None:
        from envs import pictures

        try:
            env = envs.make_vector(id, 1, seed, render_mode="rgb_array", **options)
            lines["picture"] = f"{file} ({pictures.save(env, file, seed)} frames)"
        except (ValueError, OSError) as error:
            raise ConfigError(f"--render is {file}: {error}") from None
    for name, text in lines.items():
        print(f"{name:<12} {text}")
    return 0


def _list_envs() -> int:
    import envs

    rows = envs.rows()
    header = {name: name.replace("_", " ") for name in rows[0]._fields}
    lines = [header, *(row._asdict() for row in rows)]
    widths = {name: max(len(line[name]) for line in lines) for name in header}
    for line in lines:
        print("  ".join(line[name].ljust(width) for name, width in widths.items()).rstrip())
    return 0


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "train": _train,
    "eval": _eval,
    "compare": _compare,
    "sweep": _sweep,
    "envs": _envs,
}
