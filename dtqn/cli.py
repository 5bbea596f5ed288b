"""The command line: one option for every setting, generated from `dtqn.settings.config`.

A call that only reads text (`--help`, `--version`, `envs`, `--print-config`, mistakes) never imports torch.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import dtqn
import envs
from dtqn.program import launch, program
from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, fields_of, wrong
from dtqn.settings.task import task_of
from dtqn.settings.values import Cores, legal, mark_of, nearest
from dtqn.signals import end_with_parent
from dtqn.text import columns, gpu_is_full
from dtqn.training.directory import RunDir
from envs.errors import TaskError

if TYPE_CHECKING:
    from dtqn.experiments.launchers import Asked

_DESCRIPTION = """\
Train memory agents on partially observable tasks, compare them and search their settings.

commands:
  train           train an agent; a command line without a command does this
  eval RUN_DIR    evaluate the weights of a run
  debug RUN_DIR   say what the decisions of a trained agent hang on
  report RUN ...  write one page about runs, or about a comparison, with episodes to step through
  export RUN_DIR  write a trained agent for others, with a model card and a certificate
  verify DIR      say whether an exported agent is what its certificate claims
  watch RUN_DIR   show episodes of a trained agent in the terminal, or as a film
  compare         compare agents on the same tasks and seeds
  sweep FILE      search settings as a W&B sweep file says, with or without an account
  envs            list the tasks, or show one
"""
_HELPED = {
    *("env", "agent", "seed", "total_env_steps", "threads", "evaluator", "device", "tracker", "wandb"),
    *("network.memory_length", "learner.learning_rate", "learner.env_steps_per_update"),
    *("replay.learn_length", "actor.num_envs"),
}
"""The settings that `--help` shows; `--help-all` shows all."""
_TRAIN_ONLY = ("config", "print_config", "resume", "run_dir", "runs_dir")
_AUTO = Path("auto")
_REPLACEMENTS = 16
"""Episodes whose steps `debug` puts in place of those of another."""
_SHOWN = 6
"""Episodes that the page about a run shows."""
_RECORDS = Path("docs/results/runs")
"""The records that a checkout holds, from its root."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0, 2 for a mistake of the user's, 128 + n for signal n."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        command = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "train"
        if command not in _COMMANDS:
            raise ConfigError(f"{command} is no command{nearest(command, _COMMANDS)}")
        if command != "train" and launch().ranks > 1:
            raise ConfigError(f"{command} is one process; torchrun is for training")
        return _COMMANDS[command](arguments)
    except (ConfigError, TaskError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # a name that is too long, say
        if error.filename is None:
            raise
        print(f"error: {str(error.filename)[:60]}: {error.strerror}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which is not imported for every command
            raise
        print(f"error: {gpu_is_full(error)}; with CUDA_VISIBLE_DEVICES= the CPU is used", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """argparse without guessing: names in full, dash and underscore alike, mistakes as `ConfigError`."""

    def __init__(
        self, command: str, arguments: Sequence[str], usage: str | None = None, **texts: Any
    ) -> None:
        """
        Args:
            arguments: what is to be read; `--help-all` among them makes every setting visible.
            usage: what follows the command.
        """
        prog = f"{program()} {command}".rstrip()
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}" if usage else None,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **texts,
        )
        self._given = list(arguments)
        self._shows_all = "help_all" in map(_plain, arguments)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)

    def read(self) -> dict[str, Any]:
        """All arguments of the command by name, and the settings that were given."""
        return vars(self.parse_args(self._spelled()))

    def _spelled(self) -> list[str]:
        """The arguments with every option in its declared spelling, and negative numbers tied to theirs."""
        declared = {_plain(option): option for action in self._actions for option in action.option_strings}
        result: list[str] = []
        for argument in self._given:
            if argument.startswith("--"):
                name, equals, value = argument.partition("=")
                if _plain(name) not in declared:
                    known = [option.lstrip("-") for option in declared.values()]
                    hint = nearest(_plain(name), known).replace("mean ", "mean --")
                    raise ConfigError(f"{name} is no option{hint or '; --help-all lists all'}")
                argument = declared[_plain(name)] + equals + value
            elif result and result[-1].startswith("--") and "=" not in result[-1] and _is_number(argument):
                result[-1] += "=" + argument
                continue
            result.append(argument)
        return result

    def add_settings(self, wanted: Callable[[str], bool], top: argparse._ArgumentGroup | None = None) -> None:
        """An option for every setting whose dotted name is wanted; those of no group go to `top`."""
        names = [name for name in fields_of() if wanted(name)]
        hidden = len(set(names) - _HELPED)
        (top or self).add_argument("--help-all", action="help", help=f"show {hidden} more settings")
        groups = {"": top}
        for name in names:
            group, _, leaf = name.rpartition(".")
            if group not in groups:
                groups[group] = self.add_argument_group(group)
            shown = self._shows_all or name in _HELPED
            (groups[group] or self).add_argument(
                f"--{name}" if group else f"--{leaf.replace('_', '-')}",
                dest=name,
                default=argparse.SUPPRESS,
                metavar="X",
                help=_help(name) if shown else argparse.SUPPRESS,
            )


def _help(name: str) -> str:
    field = fields_of()[name]
    default = "none" if field.default is None else str(field.default).lower()
    cores = mark_of(field, Cores)
    of = f"; cores: {', '.join(cores.names)}" if cores else ""
    text = (field.description or "").replace("None", "none")  # as it is typed
    return f"{text} [{legal(field)}; default {default}{of}]".replace("%", "%%")


def _plain(option: str) -> str:
    return option.partition("=")[0].lstrip("-").replace("-", "_")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _train_parser(arguments: Sequence[str]) -> _Parser:
    parser = _Parser(
        "",
        arguments,
        usage="[COMMAND] [--option value ...]",
        description=_DESCRIPTION,
        epilog=f"`{program()} COMMAND --help` explains a command.",
    )
    run = parser.add_argument_group("run")
    run.add_argument("--version", action="version", version=dtqn.__version__)
    _add_config(run)
    run.add_argument("--print-config", action="store_true", help="print every setting as YAML and end")
    run.add_argument("--run-dir", metavar="DIR", type=_path, help="default <runs-dir>/<env>/<agent>/seed<k>")
    run.add_argument("--runs-dir", metavar="DIR", type=_path, help="folder of run directories; default runs")
    run.add_argument(
        "--resume",
        metavar="RUN_DIR",
        type=_path,
        help="go on with the run in this directory; auto: go on with the run of these very settings, in "
        "<runs-dir>/<env>/<agent>/seed<k>-<hash of the settings>, or start it",
    )
    parser.add_settings(lambda _: True, run)
    return parser


def _add_config(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--config", metavar="FILE", type=_path, help="YAML file of settings, laid over the presets"
    )


def _train(arguments: Sequence[str]) -> int:
    if launch().rank:
        return _follow(arguments)
    given = _train_parser(arguments).read()
    file, print_config, resume, run_dir, runs_dir = (given.pop(name) for name in _TRAIN_ONLY)
    if resume not in (None, _AUTO):
        for name, value in (("--config", file), ("--run-dir", run_dir), ("--runs-dir", runs_dir)):
            if value is not None:
                raise wrong(name, value, f"leave it out with --resume, which reads {resume}/config.yaml")
        directory = RunDir(resume)
        config = directory.resumed_config(given, os.environ)
    else:
        config = presets.resolve(file, given, os.environ)
    task_of(config)
    if resume in (None, _AUTO):
        directory = _directory_for(config, run_dir, runs_dir, resume)
    if print_config:
        print(presets.to_yaml(config), end="")
        return 0
    from dtqn.training import leader, machine, preflight, session

    config = machine.settled(directory.settled(config) if resume == _AUTO else config)
    leader.check(config)
    preflight.check(config)  # before there is a folder
    if resume is None:
        directory.claim()
    end_with_parent()
    with directory.lock():
        if resume is None:
            return session.start(config, directory)
        if resume == _AUTO:
            directory.prepare(config)
        return session.resume(config, directory)


_ANSWERED = {"help", "h", "help_all", "version", "print_config"}
"""Options of `train` that are answered without a run."""


def _follow(arguments: Sequence[str]) -> int:
    """The part in a run of a process that `torchrun` started beside the first."""
    if _ANSWERED & set(map(_plain, arguments)):
        return 0
    from dtqn.training import leader

    return leader.follow()


def _directory_for(
    config: Config, run_dir: Path | None, runs_dir: Path | None, resume: Path | None
) -> RunDir:
    """The directory of a run that `--resume RUN_DIR` does not name."""
    if run_dir is None:
        make = RunDir.default if resume is None else RunDir.of_config
        return make(config, runs_dir or Path("runs"))
    for name, value in (("--runs-dir", runs_dir), ("--resume", resume)):
        if value is not None:
            raise wrong("--run-dir", run_dir, f"leave it out with {name}")
    return RunDir(run_dir)


def _eval(arguments: Sequence[str]) -> int:
    parser = _Parser("eval", arguments, description="Evaluate the weights of a run with greedy episodes.")
    parser.add_argument("run_dir", metavar="RUN_DIR", type=_path)
    parser.add_argument("--episodes", type=_positive, default=500, metavar="N", help="default %(default)s")
    _add_played(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.read()
    directory, weights, seed = RunDir(given["run_dir"]), given["checkpoint"], given["seed"]
    config = directory.read_config()
    task = task_of(config)
    from dtqn.training import trained
    from dtqn.training.display import evaluation_figures, evaluation_line

    _warn_of_change(directory, config)
    result = trained.evaluate_run(directory, given["episodes"], seed, weights)
    if given["json"]:
        which = {"env": config.env, "agent": config.agent, "checkpoint": weights, "seed": seed}
        print(json.dumps(which | evaluation_figures(result, task)))
    else:
        print(f"{config.env}, {config.agent}, {weights} weights, {evaluation_line(result, task)}")
    return 0


def _add_played(parser: _Parser) -> None:
    """Which episodes are played, and by which weights."""
    parser.add_argument(
        "--seed", type=_natural, default=7, metavar="N", help="seed of the tasks; default %(default)s"
    )
    parser.add_argument(
        "--checkpoint", choices=["last", "best"], default="last", help="which weights; default %(default)s"
    )


def _warn_of_change(directory: RunDir, config: Config) -> None:
    if warning := directory.task_warning(config):
        print(f"warning: {warning}", file=sys.stderr)


def _debug(arguments: Sequence[str]) -> int:
    parser = _Parser(
        "debug",
        arguments,
        usage="RUN_DIR [--option value ...]",
        description="Say what the decisions of a trained agent hang on, and whether it uses its memory. The "
        "exit code is 1 where a contract between acting and learning is broken.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=_path)
    parser.add_argument(
        "--episodes", type=_positive, default=100, metavar="N", help="greedy episodes; default %(default)s"
    )
    parser.add_argument(
        "--replacements",
        type=_positive,
        metavar="M",
        help=f"other episodes that give what is shown in place of a step; default {_REPLACEMENTS}",
    )
    _add_played(parser)
    parser.add_argument(
        "--memoryless",
        metavar="A,B",
        default="",
        help="runs of agents without memory on the same task, such as dqn's, without and with frame stacks: "
        "does the task need a memory, and of how many steps?",
    )
    parser.add_argument("--out", metavar="DIR", type=_path, help="folder of the files; default RUN_DIR/debug")
    parser.add_argument("--json", action="store_true", help="print debug.json")
    given = parser.read()
    directory, episodes = RunDir(given["run_dir"]), given["episodes"]
    others = given["replacements"] or max(min(_REPLACEMENTS, episodes - 1), 1)
    if episodes <= others:
        least = f"above --replacements {others}" if given["replacements"] else "at least 2"
        raise wrong("--episodes", episodes, f"it must be {least}")
    task_of(directory.read_config())
    from dtqn.debugging import debug, lines, trials

    out = given["out"] or directory.path / "debug"
    rivals = [Path(path) for path in given["memoryless"].split(",") if path]
    found = debug.debug(
        directory, trials.Asked(episodes, others, given["seed"], given["checkpoint"], rivals), out
    )
    for one in (directory, *map(RunDir, rivals)):
        _warn_of_change(one, one.read_config())
    if given["json"]:
        print((out / "debug.json").read_text(), end="")
    else:
        print("\n".join(lines.lines(found, out, _terminal_width())))
    return int(not all(check.holds for check in found["contracts"]))


def _report(arguments: Sequence[str]) -> int:
    parser = _Parser(
        "report",
        arguments,
        usage="RUN_DIR ... | COMPARISON_DIR [--option value ...]",
        description="Write one HTML file about trained runs, or about a comparison: results, curves, "
        "settings, episodes to step through and what each decision hangs on. It needs no network.",
    )
    parser.add_argument("paths", metavar="DIR", nargs="+", type=_path, help="runs, or one comparison")
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=_path,
        help="the page; default report.html in DIR, or beside several runs",
    )
    parser.add_argument(
        "--figures",
        metavar="DIR",
        type=_path,
        help="write pictures of an episode of the first run there too, as PDF for print",
    )
    parser.add_argument(
        "--episodes", type=_several, default=100, metavar="N", help="episodes to play; default %(default)s"
    )
    parser.add_argument(
        "--shown",
        type=_positive,
        metavar="N",
        help=f"episodes of a run that are shown, failures and successes; default {_SHOWN}",
    )
    _add_played(parser)
    parser.add_argument(
        "--wandb",
        metavar="X",
        help="how W&B gets the page of runs that it has, as an artifact; default WANDB_MODE, or as the run "
        f"[{legal(fields_of()['wandb'])}]",
    )
    given = parser.read()
    shown = given["shown"] or min(_SHOWN, given["episodes"])
    if shown > given["episodes"]:
        raise wrong("--shown", shown, f"only {given['episodes']} are played (--episodes)")
    layers = presets.environment_layer(os.environ)
    layers += [presets.Layer(None, {"wandb": given["wandb"]})] if given["wandb"] else []
    mode = presets.build(layers).wandb if layers else None
    if importlib.util.find_spec("bokeh") is None:
        raise ConfigError('report needs bokeh, which is not installed; pip install "dtqn[report]"')
    from dtqn.report import played, report

    asked = played.Asked(given["episodes"], shown, given["seed"], given["checkpoint"])
    made = report.report(given["paths"], asked, given["out"], given["figures"], mode, print)
    for problem in made.problems:
        print(f"warning: {problem}", file=sys.stderr)
    print("\n".join(report.told(made)))
    return 0


def _export(arguments: Sequence[str]) -> int:
    parser = _Parser(
        "export",
        arguments,
        usage="RUN_DIR --to DIR [--option value ...]",
        description="Write a trained agent for others: weights, settings, a model card and a certificate.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=_path)
    parser.add_argument(
        "--to", metavar="DIR", type=_path, required=True, help="a new folder, or an empty one"
    )
    parser.add_argument(
        "--episodes", type=_positive, default=500, metavar="N", help="for its score; default %(default)s"
    )
    parser.add_argument(
        "--seed", type=_natural, default=7, metavar="N", help="seed of these; default %(default)s"
    )
    parser.add_argument(
        "--push", metavar="ORG/NAME", help="send it to this model repository of the Hugging Face Hub as well"
    )
    given = parser.read()
    directory, to, repository = RunDir(given["run_dir"]), given["to"], given["push"]
    config = directory.read_config()
    task_of(config)
    from dtqn.sharing import export, hub

    _warn_of_change(directory, config)
    if repository is not None:
        hub.check(repository)
    made = export.export(directory, to, given["episodes"], given["seed"], repository)
    print("\n".join(export.lines(made, to)))
    if repository is not None:
        print(f"sent to {hub.push(to, repository)}")
    return 0


def _verify(arguments: Sequence[str]) -> int:
    parser = _Parser(
        "verify",
        arguments,
        usage="DIR [--option value ...]",
        description="Say whether an exported agent is what its certificate claims: its files, the metrics of "
        "its first updates, which are trained again, and its score. The exit code is 1 where one differs.",
    )
    parser.add_argument("run_dir", metavar="DIR", type=_path)
    parser.add_argument(
        "--updates", type=_natural, metavar="N", help="train so many, 0 for none; default a few, as certified"
    )
    parser.add_argument(
        "--episodes", type=_natural, metavar="N", help="play so many, 0 for none; default the certificate's"
    )
    parser.add_argument(
        "--seed", type=_natural, metavar="N", help="seed of these; default the certificate's plus 1"
    )
    given = parser.read()
    directory = RunDir(given["run_dir"])
    task_of(directory.read_config())
    from dtqn.sharing import verify

    differs = False
    for found in verify.verify(directory, given["updates"], given["episodes"], given["seed"]):
        print(f"{found.what:<18}  {found.answer:<11}  {found.because}", flush=True)
        differs |= found.answer == verify.DIFFERS
    return int(differs)


def _watch(arguments: Sequence[str]) -> int:
    parser = _Parser(
        "watch",
        arguments,
        usage="RUN_DIR [--option value ...]",
        description="Show greedy episodes of a trained agent step by step: the task's picture, Q-values, "
        "action, reward, and how much each decision hangs on past steps; a line a step without a terminal.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=_path)
    parser.add_argument("--episodes", type=_positive, default=1, metavar="N", help="default %(default)s")
    _add_played(parser)
    parser.add_argument(
        "--delay",
        type=_seconds,
        default=0.4,
        metavar="S",
        help="seconds that a step is shown; default %(default)s",
    )
    for name in ("gif", "mp4"):
        parser.add_argument(
            f"--{name}", metavar="FILE", type=_path, help=f"keep the first episode as FILE.{name}"
        )
    given = parser.read()
    directory = RunDir(given["run_dir"])
    config = directory.read_config()
    task_of(config)
    from dtqn.watching import film, watch

    films = {f"--{name}": given[name] for name in ("gif", "mp4") if given[name] is not None}
    for option, file in films.items():
        film.check(option, file)
    _warn_of_change(directory, config)
    asked = watch.Asked(given["episodes"], given["seed"], given["checkpoint"], given["delay"], films)
    watch.watch(directory, asked, sys.stdout)
    return 0


def _compare(arguments: Sequence[str]) -> int:
    arguments, slurm = _split_slurm(arguments)
    parser = _Parser(
        "compare",
        arguments,
        usage="--agents A,B,... [--option value ...]",
        description="Compare agents on the same tasks and seeds; what has been trained is not trained again.",
    )
    own = parser.add_argument_group("comparison")
    own.add_argument(
        "--agents",
        metavar="A,B",
        required=True,
        help="presets, YAML files of your own and variants such as long=gtrxl+network.memory_length=80, with "
        "commas between",
    )
    own.add_argument(
        "--seeds", type=_positive, default=5, metavar="N", help="how many seeds; default %(default)s"
    )
    own.add_argument(
        "--first-seed",
        type=_natural,
        default=1,
        metavar="S",
        help="the first seed; take seeds that no setting was chosen on; default %(default)s",
    )
    own.add_argument("--baseline", metavar="A", help="compare the others with this agent; default none")
    _add_jobs(own)
    own.add_argument(
        "--suite",
        metavar="NAME",
        help="the tasks, budgets and scores of a suite, or of a YAML file of your own",
    )
    own.add_argument(
        "--tasks",
        metavar="A,B",
        help="these tasks of the suite alone, such as 'bsuite-*,t-maze-passive-50'; default all",
    )
    own.add_argument(
        "--budget-share",
        type=_share,
        default=1.0,
        metavar="X",
        help="run this share of the suite's env steps, for a first look; default all",
    )
    own.add_argument(
        "--budget-minutes",
        type=_minutes,
        metavar="M",
        help="estimate beforehand what every run will take, and train only those that fit into M minutes",
    )
    own.add_argument(
        "--records",
        metavar="DIR",
        type=_path,
        help=f"folder where finished runs are found and leave their records; default none, with --suite and "
        f"its full budget {_RECORDS} if that is there",
    )
    own.add_argument(
        "--metrics",
        metavar="A,B",
        default="",
        help="metrics that get a column in the tables, such as replay/stale_action_share: the mean over the "
        "second half of a run; default none",
    )
    own.add_argument(
        "--runs-dir", metavar="DIR", type=_path, default=Path("runs"), help="default %(default)s"
    )
    own.add_argument(
        "--out",
        metavar="DIR",
        type=_path,
        help="folder of table and curves; default <runs-dir>/compare/<task or suite>-<hash>",
    )
    run = parser.add_argument_group("settings of all runs (--env: one task, or several with commas between)")
    _add_config(run)
    parser.add_settings(lambda name: name not in ("agent", "seed"), run)
    given = parser.read()
    names = ("config", "agents", "seeds", "first_seed", "baseline", "jobs", "runs_dir", "out")
    file, text, seeds, first, baseline, jobs, runs_dir, out = (given.pop(name) for name in names)
    suite_name, tasks, share = (given.pop(name) for name in ("suite", "tasks", "budget_share"))
    minutes, records, columns = (given.pop(name) for name in ("budget_minutes", "records", "metrics"))
    places = _launcher(given, slurm)
    from dtqn.experiments import compare, launchers, suites
    from dtqn.experiments import jobs as workers

    suite = None
    if suite_name is not None:
        for name in ("env", "total_env_steps"):
            if name in given:
                raise wrong(
                    f"--{name.replace('_', '-')}", given[name], "leave it out with --suite, which sets it"
                )
        suite = suites.read(suite_name, share)
        suite = suite if tasks is None else suite.only(tasks)
        if records is None and share == 1 and _RECORDS.is_dir():
            records = _RECORDS
    elif share != 1:
        raise wrong("--budget-share", share, "it scales the budgets of a suite; give --suite")
    elif tasks is not None:
        raise wrong("--tasks", tasks, "it chooses among the tasks of a suite; without --suite give --env")

    if minutes is not None and jobs is None and not places.is_local:
        raise wrong("--budget-minutes", minutes, f"needs --jobs with --launcher {places.name}")
    metrics = compare.read_metrics(columns) if columns else []
    agents = compare.read_agents(text)
    if baseline is not None and baseline not in agents:
        raise wrong("--baseline", baseline, f"it is none of --agents{nearest(baseline, agents)}")
    here = places.is_here or minutes is not None  # estimates are made on this machine
    configs = compare.plan(list(agents.values()), range(first, first + seeds), file, given, suite, here)
    told = {name: value for name, value in given.items() if name != "env"}
    if file is not None:
        told = {"config": str(file)} | told
    os.environ.setdefault("WANDB_JOB_TYPE", "compare")  # what the trainings tell W&B
    out = out or compare.default_folder(configs, runs_dir, suite)
    own_agents = [item for name, item in agents.items() if name != item]
    if jobs is None and places.is_local:
        jobs = workers.fitting(configs[0])
    with launchers.opened(places, runs_dir) as launcher:
        return compare.compare(
            configs,
            jobs,
            runs_dir,
            out,
            baseline,
            told,
            own_agents,
            suite=suite,
            records_dir=records,
            budget_minutes=minutes,
            launcher=launcher,
            metrics=metrics,
        )


def _sweep(arguments: Sequence[str]) -> int:
    arguments, slurm = _split_slurm(arguments)
    parser = _Parser(
        "sweep",
        arguments,
        usage="FILE [--jobs N] [--option value ...]",
        description="Search settings as a W&B sweep file says; the same command goes on after a kill.",
    )
    own = parser.add_argument_group("sweep")
    own.add_argument("file", metavar="FILE", type=_path, help="such as configs/sweeps/learning-rate.yaml")
    _add_jobs(own)
    own.add_argument("--run-cap", type=_positive, metavar="N", help="runs in all; default the file's run_cap")
    own.add_argument(
        "--search-seed",
        type=_natural,
        default=0,
        metavar="N",
        help="seed of the choices; default %(default)s",
    )
    own.add_argument("--runs-dir", metavar="DIR", type=_path, help="default the file's, or runs")
    own.add_argument(
        "--out", metavar="DIR", type=_path, help="folder of results; default <runs-dir>/sweeps/<name>-<hash>"
    )
    run = parser.add_argument_group("settings of all runs")
    _add_config(run)
    parser.add_settings(lambda _: True, run)
    given = parser.read()
    path = given.pop("file")
    own_options = {
        name: given.pop(name) for name in ("config", "runs_dir", "out", "run_cap", "jobs", "search_seed")
    }
    places = _launcher(given, slurm)
    from dtqn.experiments import sweep

    asked = sweep.Asked(given, places, **own_options)
    return sweep.command(path, asked, lambda flags: _train_parser(flags).read())


def _add_jobs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        help="trainings at a time; default CPUs / threads, at most one a GPU; elsewhere the launcher's room",
    )
    group.add_argument(
        "--launcher",
        metavar="X",
        default="local",
        help="where trainings run: local, ray or slurm (docs/launchers.md); default %(default)s",
    )
    group.add_argument(
        "--ray-address", metavar="ADDR", help="join this Ray cluster; default: start a Ray on this machine"
    )
    group.add_argument(
        "--ray-gpus", type=_gpus, metavar="X", help="GPUs of a training; default 1 with --device cuda, else 0"
    )
    group.add_argument(
        f"{_SLURM}NAME", metavar="X", help="sbatch's option NAME of each training, such as --slurm.partition"
    )


_SLURM = "--slurm."


def _split_slurm(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments without `--slurm.NAME X`, and these by name."""
    left, found = list[str](), dict[str, str]()
    words = iter(arguments)
    for word in words:
        if not word.startswith(_SLURM):
            left.append(word)
            continue
        name, equals, value = word.removeprefix(_SLURM).partition("=")
        if not equals:
            value = next(words, "")
        if not name or not value or (not equals and value.startswith("--")):
            raise ConfigError(f"{word} has no value; must be {_SLURM}NAME X")
        found[_plain(name)] = value
    return left, found


def _launcher(given: dict[str, Any], slurm: dict[str, str]) -> Asked:
    """Where trainings are to run; its options are taken out of `given`."""
    from dtqn.experiments.launchers import Asked

    del given["slurm.NAME"]
    asked = Asked(given.pop("launcher"), given.pop("ray_address"), given.pop("ray_gpus"), slurm)
    asked.check()
    return asked


def _path(text: str) -> Path:
    if not text:  # an unset variable of the shell; Path would take it for the present folder
        raise argparse.ArgumentTypeError("the name is empty; must be a path")
    return Path(text)


def _positive(text: str) -> int:
    return _at_least(text, 1)


def _several(text: str) -> int:
    return _at_least(text, 2)


def _natural(text: str) -> int:
    return _at_least(text, 0)


def _at_least(text: str, low: int) -> int:
    number = float(text) if _is_number(text) else float("nan")
    if not number.is_integer() or number < low:
        raise argparse.ArgumentTypeError(f"{text} must be an integer of at least {low}")
    return int(number)


def _gpus(text: str) -> float:
    number = float(text) if _is_number(text) else float("nan")
    if not 0 <= number < float("inf") or (number > 1 and not number.is_integer()):
        raise argparse.ArgumentTypeError(f"{text} must be a whole number, or a share between 0 and 1")
    return number


def _share(text: str) -> float:
    return _number(text, 1.0)


def _seconds(text: str) -> float:
    number = float(text) if _is_number(text) else float("nan")
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be a number of at least 0")
    return number


def _minutes(text: str) -> float:
    return _number(text, None)


def _number(text: str, most: float | None) -> float:
    number = float(text) if _is_number(text) else float("nan")
    if not 0 < number < float("inf") or (most is not None and number > most):
        end = "" if most is None else f" and at most {most:g}"
        raise argparse.ArgumentTypeError(f"{text} must be a number above 0{end}")
    return number


def _envs(arguments: Sequence[str]) -> int:
    parser = _Parser("envs", arguments, description="List the tasks, or show one.")
    parser.add_argument("--env", metavar="X", help="show this task")
    parser.add_argument(
        "--render",
        metavar="FILE",
        type=_path,
        help="write a picture of it; .png: the first state, .gif: a random episode",
    )
    parser.add_argument("--seed", type=_natural, default=1, metavar="N", help="default %(default)s")
    parser.add_settings(lambda name: name.startswith("task."))
    given = parser.read()
    id, file, seed = (given.pop(name) for name in ("env", "render", "seed"))
    if id is None:
        for name in ["render", *given] if file is not None else given:
            raise ConfigError(f"--{name} needs --env")
        rows = envs.rows()
        header = [name.replace("_", " ") for name in rows[0]._fields]
        print("\n".join(columns([header, *rows], _terminal_width())))
        return 0
    config = presets.resolve(None, {"env": id, **given}, os.environ)
    task_of(config)
    options = config.task.model_dump()
    lines = envs.facts(id, **options)
    if file is not None:
        from envs import pictures

        try:
            env = envs.make_vector(id, 1, seed, render_mode="rgb_array", **options)
            lines["picture"] = f"{file} ({pictures.save(env, file, seed)} frames)"
        except (ValueError, OSError) as error:
            raise wrong("--render", file, str(error)) from None
    print("\n".join(columns(list(lines.items()), _terminal_width())))
    return 0


def _terminal_width() -> int | None:
    """The columns of the terminal; None where the output goes to a file or a program, which gets all."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "train": _train,
    "eval": _eval,
    "debug": _debug,
    "report": _report,
    "export": _export,
    "verify": _verify,
    "watch": _watch,
    "compare": _compare,
    "sweep": _sweep,
    "envs": _envs,
}
