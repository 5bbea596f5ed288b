"""`eval`, `debug`, `watch`, `report`, `export` and `verify`: commands about a trained run."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, terminal_width
from dtqn.program import program
from dtqn.settings.config import Config, fields_of, wrong
from dtqn.settings.layers import Layer, build, environment_layer
from dtqn.settings.task import task_of
from dtqn.settings.values import legal
from dtqn.training.directory import RunDir

_REPLACEMENTS = 16
"""Episodes whose steps `debug` puts in place of those of another."""
_SHOWN = 6
"""Episodes that the page about a run shows."""
_LONG_SECONDS = 60.0
"""For so long a command plays before it says that an episode may have no end."""


def evaluate(arguments: Sequence[str]) -> int:
    """Evaluate the weights of a run."""
    parser = Parser("eval", arguments, description="Evaluate the weights of a run.")
    parser.add_argument("run_dir", metavar="RUN_DIR", type=argtypes.path)
    parser.add_argument(
        "--episodes", type=argtypes.positive, default=500, metavar="N", help="default %(default)s"
    )
    _add_played(parser)
    parser.add_argument(
        "--epsilon",
        type=argtypes.probability,
        metavar="E",
        help="share of random actions; default that of the run's evaluations, mostly 0: greedy",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.read()
    directory, weights, seed = RunDir(given["run_dir"]), given["checkpoint"], given["seed"]
    config = directory.read_config()
    task = task_of(config)
    epsilon = config.evaluation.epsilon if given["epsilon"] is None else given["epsilon"]
    from dtqn.training import trained

    _warn_of_change(directory, config)
    with _told_of_endless(config):
        result = trained.evaluate_run(directory, given["episodes"], seed, weights, epsilon)
    if given["json"]:
        which = {"env": config.env, "agent": config.agent, "checkpoint": weights, "seed": seed}
        print(json.dumps(which | {"epsilon": epsilon} | trained.evaluation_figures(result, task)))
    else:
        in_words = trained.evaluation_line(result, task)
        random = f"{epsilon:g} of its actions at random, " if epsilon else ""
        print(f"{config.env}, {config.agent}, {weights} weights, {random}{in_words}")
    return 0


def debug(arguments: Sequence[str]) -> int:
    """Say what the decisions of a trained agent hang on; 1 where a contract is broken."""
    parser = Parser(
        "debug",
        arguments,
        usage="RUN_DIR [--option value ...]",
        description="Say what the decisions of a trained agent hang on, and whether it uses its memory. The "
        "exit code is 1 where a contract between acting and learning is broken.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=argtypes.path)
    parser.add_argument(
        "--episodes",
        type=argtypes.positive,
        default=100,
        metavar="N",
        help="greedy episodes; default %(default)s",
    )
    parser.add_argument(
        "--replacements",
        type=argtypes.positive,
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
    parser.add_argument(
        "--out", metavar="DIR", type=argtypes.path, help="folder of the files; default RUN_DIR/debug"
    )
    parser.add_argument("--json", action="store_true", help="print debug.json")
    given = parser.read()
    directory, episodes = RunDir(given["run_dir"]), given["episodes"]
    others = given["replacements"] or max(min(_REPLACEMENTS, episodes - 1), 1)
    if episodes <= others:
        least = f"above --replacements {others}" if given["replacements"] else "at least 2"
        raise wrong("--episodes", episodes, f"it must be {least}")
    task_of(directory.read_config())
    from dtqn.inspection import debug, debug_text, trials

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
        print("\n".join(debug_text.lines(found, out, terminal_width())))
    return int(not all(check.holds for check in found["contracts"]))


def watch(arguments: Sequence[str]) -> int:
    """Show episodes of a trained agent."""
    parser = Parser(
        "watch",
        arguments,
        usage="RUN_DIR [--option value ...]",
        description="Show greedy episodes of a trained agent step by step: the task's picture, Q-values, "
        "action, reward, and how much each decision hangs on past steps; a line a step without a terminal.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=argtypes.path)
    parser.add_argument(
        "--episodes", type=argtypes.positive, default=1, metavar="N", help="default %(default)s"
    )
    _add_played(parser)
    parser.add_argument(
        "--delay",
        type=argtypes.seconds,
        default=0.4,
        metavar="S",
        help="seconds that a step is shown; default %(default)s",
    )
    for name in ("gif", "mp4"):
        parser.add_argument(
            f"--{name}", metavar="FILE", type=argtypes.path, help=f"keep the first episode as FILE.{name}"
        )
    given = parser.read()
    directory = RunDir(given["run_dir"])
    config = directory.read_config()
    task_of(config)
    from dtqn.inspection import film, watch

    films = {f"--{name}": given[name] for name in ("gif", "mp4") if given[name] is not None}
    for option, file in films.items():
        film.check(option, file)
    _warn_of_change(directory, config)
    asked = watch.Asked(given["episodes"], given["seed"], given["checkpoint"], given["delay"], films)
    watch.watch(directory, asked, sys.stdout)
    return 0


def report(arguments: Sequence[str]) -> int:
    """Write a page about runs, or about a comparison."""
    parser = Parser(
        "report",
        arguments,
        usage="RUN_DIR ... | COMPARISON_DIR [--option value ...]",
        description="Write one HTML file about trained runs, or about those of a comparison: episodes to "
        "step through, what each decision hangs on, a table and a curve. It needs no network.",
    )
    parser.add_argument("paths", metavar="DIR", nargs="+", type=argtypes.path, help="runs, or one comparison")
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=argtypes.path,
        help="the page; default report.html in DIR, or beside several runs",
    )
    parser.add_argument(
        "--episodes",
        type=argtypes.several,
        default=100,
        metavar="N",
        help="episodes to play; default %(default)s",
    )
    parser.add_argument(
        "--shown",
        type=argtypes.positive,
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
    layers = environment_layer(os.environ)
    layers += [Layer(None, {"wandb": given["wandb"]})] if given["wandb"] else []
    mode = build(layers).wandb if layers else None
    from dtqn.inspection import report

    asked = report.Asked(given["episodes"], shown, given["seed"], given["checkpoint"])
    made = report.report(given["paths"], asked, given["out"], mode, print)
    for problem in made.problems:
        print(f"warning: {problem}", file=sys.stderr)
    print(report.told(made))
    return 0


def export(arguments: Sequence[str]) -> int:
    """Write a trained agent for others."""
    parser = Parser(
        "export",
        arguments,
        usage="RUN_DIR --to DIR [--option value ...]",
        description="Write a trained agent for others: weights, settings, a model card and a certificate.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=argtypes.path)
    parser.add_argument(
        "--to", metavar="DIR", type=argtypes.path, required=True, help="a new folder, or an empty one"
    )
    parser.add_argument(
        "--episodes",
        type=argtypes.positive,
        default=500,
        metavar="N",
        help="for its score; default %(default)s",
    )
    parser.add_argument(
        "--seed", type=argtypes.natural, default=7, metavar="N", help="seed of these; default %(default)s"
    )
    parser.add_argument(
        "--push", metavar="ORG/NAME", help="send it to this model repository of the Hugging Face Hub as well"
    )
    given = parser.read()
    directory, to, repository = RunDir(given["run_dir"]), given["to"], given["push"]
    config = directory.read_config()
    task_of(config)
    from dtqn.export import card, folder, hub

    _warn_of_change(directory, config)
    if repository is not None:
        hub.check(repository)
    with _told_of_endless(config):
        scores = folder.export(directory, to, given["episodes"], given["seed"])
    for weights, result in scores.items():
        print(f"{weights} weights: {card.score(result)}")
    print(f"exported to {to}; next: {program()} verify {shlex.quote(str(to))}")
    if repository is not None:
        print(f"sent to {hub.push(to, repository)}")
    return 0


def verify(arguments: Sequence[str]) -> int:
    """Say whether an exported agent is what its certificate claims; 1 where it is not."""
    parser = Parser(
        "verify",
        arguments,
        usage="DIR [--option value ...]",
        description="Say whether an exported agent is what its certificate claims: its files, and its score, "
        "for which its episodes are played again. The exit code is 1 where one differs.",
    )
    parser.add_argument("run_dir", metavar="DIR", type=argtypes.path)
    parser.add_argument(
        "--episodes",
        type=argtypes.natural,
        metavar="N",
        help="play so many, 0 for none; default the certificate's",
    )
    parser.add_argument(
        "--seed", type=argtypes.natural, metavar="N", help="seed of these; default the certificate's"
    )
    given = parser.read()
    directory = RunDir(given["run_dir"])
    task_of(directory.read_config())
    from dtqn.export import verify

    differs = False
    for found in verify.verify(directory, given["episodes"], given["seed"]):
        print(f"{found.what:<18}  {found.answer:<11}  {found.because}", flush=True)
        differs |= found.answer == verify.DIFFERS
    return int(differs)


def _add_played(parser: Parser) -> None:
    """Which episodes are played, and by which weights."""
    parser.add_argument(
        "--seed", type=argtypes.natural, default=7, metavar="N", help="seed of the tasks; default %(default)s"
    )
    parser.add_argument(
        "--checkpoint", choices=["last", "best"], default="last", help="which weights; default %(default)s"
    )


@contextlib.contextmanager
def _told_of_endless(config: Config) -> Iterator[None]:
    """A line where what is done takes long, as the episodes of a task without a limit of steps may."""
    task = task_of(config)
    text = f"this takes long: {config.env} has no time limit, so an episode may never end; Ctrl-C ends it"
    timer = threading.Timer(_LONG_SECONDS, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    if task.time_limit is None and task.horizon is None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _warn_of_change(directory: RunDir, config: Config) -> None:
    if warning := directory.task_warning(config):
        print(f"warning: {warning}", file=sys.stderr)
