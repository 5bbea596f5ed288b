"""`runs`, and `eval`, `debug`, `watch`, `maps`, `report`, `export` and `verify`: about trained runs."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, option
from dtqn.program import program
from dtqn.settings.config import Config, wrong
from dtqn.settings.names import folder_of, name_of
from dtqn.settings.task import on_task, out_of_reach, task_of
from dtqn.text import one_line, terminal_width
from dtqn.training.directory import RunDir, pages_of

_REPLACEMENTS = 16
"""Episodes whose steps `debug` puts in place of another episode's."""
_SHOWN = 6
"""Episodes that the page about a run shows."""


def list_runs(arguments: Sequence[str]) -> int:
    """List the runs in a folder: state, last evaluation, and how to continue each."""
    parser = Parser("runs", arguments, "[DIR]", list_runs.__doc__)
    option(parser, "folder DIR", "folder to search, at any depth", argtypes.path, Path("runs"), nargs="?")
    option(parser, "--json", "print one JSON object")
    given = parser.read()
    from dtqn.training import listing

    found, broken = listing.runs_in(given["folder"])
    if given["json"]:
        print(json.dumps({"runs": found, "broken": broken}))
    else:
        lines = listing.lines(found, broken, terminal_width(sys.stdout) or 1000)
        print("\n".join(lines or [f"no runs in {given['folder']}"]))
    return 0


def evaluate(arguments: Sequence[str]) -> int:
    """Play episodes with a run's weights and print success and return."""
    parser = Parser("eval", arguments, "RUN_DIR", evaluate.__doc__)
    _add_played(parser, 500)
    chance = "share of random actions, 0: greedy; default the run's `evaluation.epsilon`"
    option(parser, "--epsilon E", chance, argtypes.probability)
    option(parser, "--json", "print one JSON object")
    _add_other_task(parser)
    given = parser.read()
    with _stdout_of(given["json"]):
        directory, config = _run_of(given)
        other, played = _played(given, config)
        weights, seed, task = given["checkpoint"], given["seed"], task_of(played)
        epsilon = config.evaluation.epsilon if given["epsilon"] is None else given["epsilon"]
        from dtqn.training import trained

        _warn(directory, config)
        result = trained.evaluate_run(directory, given["episodes"], seed, weights, epsilon, other)
    if given["json"]:
        which = {"env": played.env, "agent": config.agent, "checkpoint": weights, "seed": seed}
        which |= {"trained_on": config.env} if other else {}
        print(json.dumps(which | {"epsilon": epsilon} | trained.evaluation_figures(result, task)))
    else:
        in_words = trained.evaluation_line(result, task)
        random = f"{epsilon:g} of its actions at random, " if epsilon else ""
        agent = name_of(config).agent + (f" trained on {config.env}" if other else "")
        print(f"{name_of(played).task}, {agent}, {weights} weights, {random}{in_words}")
    return 0


@contextlib.contextmanager
def _stdout_of(json_alone: bool) -> Iterator[None]:
    """A block in which stdout stays empty for JSON: what a task, its C libraries or its children print
    there goes to stderr."""
    if not json_alone:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def debug(arguments: Sequence[str]) -> int:
    """Show which past steps a trained agent's decisions depend on, and whether it uses its memory.
    The exit code is 1 if acting and learning disagree about Q-values, or memory outlives an episode."""
    parser = Parser("debug", arguments, "RUN_DIR", debug.__doc__)
    _add_played(parser, 100)
    replacements = f"number of other episodes whose observations replace a step's; default {_REPLACEMENTS}"
    option(parser, "--replacements M", replacements, argtypes.positive)
    memoryless = """runs of agents without memory on the same task, such as dqn with and without frame
    stacks; they show whether the task needs memory, and of how many steps"""
    option(parser, "--memoryless A,B", memoryless)
    where = "folder for the results; default RUN_DIR/debug, or debug-ID for another task"
    option(parser, "--out DIR", where, argtypes.path)
    option(parser, "--json", "print the results as JSON")
    _add_other_task(parser)
    given = parser.read()
    directory, episodes = RunDir(given["run_dir"]), given["episodes"]
    others = given["replacements"] or max(min(_REPLACEMENTS, episodes - 1), 1)
    if episodes <= others:
        least = f"above --replacements {others}" if given["replacements"] else "at least 2"
        raise wrong("--episodes", episodes, f"it must be {least}")
    with _stdout_of(given["json"]):
        other, played = _played(given, _run_of(given)[1])
        from dtqn.inspection import debug as debugger
        from dtqn.inspection import trials

        page = folder_of(f"debug-{name_of(played).task}") if other else "debug"
        out = given["out"] or pages_of(directory.path) / page
        rivals = [Path(path) for path in (given["memoryless"] or "").split(",") if path]
        asked = trials.Asked(episodes, others, given["seed"], given["checkpoint"], rivals, other)
        found = debugger.debug(directory, asked, out)
        for one in (directory, *map(RunDir, rivals)):
            _warn(one, one.read_config())
    if given["json"]:
        print((out / "debug.json").read_text(), end="")
    else:
        print("\n".join(debugger.lines(found, out, terminal_width(sys.stdout))))
    return int(not all(check.holds for check in found["contracts"]))


def watch(arguments: Sequence[str]) -> int:
    """Show greedy episodes of a trained agent step by step: the task's picture, Q-values, action, reward,
    and how much each decision depends on past steps. Without a terminal, each step is one line."""
    parser = Parser("watch", arguments, "RUN_DIR", watch.__doc__)
    _add_played(parser, 1)
    option(parser, "--delay S", "seconds per step", argtypes.seconds, 0.4)
    option(parser, "--gif FILE", "write the first episode to FILE (.gif)", argtypes.path)
    _add_other_task(parser)
    given = parser.read()
    directory, config = _run_of(given)
    other, _ = _played(given, config)
    if given["gif"] is not None and given["gif"].suffix != ".gif":
        raise wrong("--gif", given["gif"], "its name must end in .gif")
    from dtqn.inspection import recorder
    from dtqn.inspection import watch as player

    _warn(directory, config)
    run = recorder.load(directory, given["checkpoint"], given["episodes"], given["seed"], other)
    player.watch(run, given["delay"], given["gif"], sys.stdout)
    return 0


def report(arguments: Sequence[str]) -> int:
    """Write one HTML file about trained runs: episodes to step through, what each decision depends on, a
    table and a curve. The file works offline."""
    parser = Parser("report", arguments, "RUN_DIR ...", report.__doc__)
    option(parser, "paths RUN_DIR", "folders of runs", argtypes.trained, nargs="+")
    where = "HTML file; default report.html in RUN_DIR, or in the runs' deepest common folder"
    option(parser, "--out FILE", where, argtypes.path)
    option(parser, "--episodes N", "episodes to play per run", argtypes.several, 100)
    shown = f"episodes to show per run, failures and successes; default {_SHOWN}"
    option(parser, "--shown N", shown, argtypes.positive)
    _add_choice(parser)
    given = parser.read()
    shown = given["shown"] or min(_SHOWN, given["episodes"])
    if shown > given["episodes"]:
        raise wrong("--shown", shown, f"only {given['episodes']} are played (--episodes)")
    from dtqn.inspection import report as page

    asked = page.Asked(given["episodes"], shown, given["seed"], given["checkpoint"])
    file, problems = page.report(given["paths"], asked, given["out"], print)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    print(page.told(file))
    return 0


def maps(arguments: Sequence[str]) -> int:
    """Draw which past steps trained agents' decisions depend on, all in one picture. Each agent is shown in
    its longest successful greedy episode, or in its longest one if none succeeds."""
    parser = Parser("maps", arguments, "RUN_DIR ... --out FILE.png", maps.__doc__)
    option(parser, "paths RUN_DIR", "folders of runs", argtypes.trained, nargs="+")
    option(parser, "--out FILE", "picture to write", argtypes.path, required=True)
    option(parser, "--episodes N", "episodes to play per run", argtypes.several, 100)
    option(parser, "--actions", "add a second row of maps: dependence on past actions")
    _add_choice(parser)
    given = parser.read()
    from dtqn.inspection import maps as pictures

    which = given["episodes"], given["seed"], given["checkpoint"]
    pictures.draw([pictures.look(path, *which) for path in given["paths"]], given["actions"], given["out"])
    print(given["out"])
    return 0


def export(arguments: Sequence[str]) -> int:
    """Package a trained agent for others: weights, settings, a model card and a certificate."""
    parser = Parser("export", arguments, "RUN_DIR --to DIR", export.__doc__)
    option(parser, "run_dir RUN_DIR", "folder of a run", argtypes.trained)
    option(parser, "--to DIR", "folder to write, new or empty", argtypes.path, required=True)
    option(parser, "--episodes N", "episodes to play for the certified score", argtypes.positive, 500)
    option(parser, "--seed N", "seed of those episodes", argtypes.natural, 7)
    given = parser.read()
    to: Path = given["to"]
    directory, config = _run_of(given)
    from dtqn.export import folder

    _warn(directory, config)
    scores = folder.export(directory, to, given["episodes"], given["seed"])
    for weights, result in scores.items():
        print(f"{weights} weights: {folder.score(result)}")
    print(f"exported to {to}; next: {program()} verify {shlex.quote(str(to))}")
    return 0


def verify(arguments: Sequence[str]) -> int:
    """Check an exported agent against its certificate: files, task, and score, for which the episodes
    are played again. The exit code is 1 if any of these differs."""
    parser = Parser("verify", arguments, "DIR", verify.__doc__)
    option(parser, "run_dir DIR", "folder of an exported agent", argtypes.trained)
    option(parser, "--episodes N", "episodes to play, 0: none; default the certificate's", argtypes.natural)
    option(parser, "--seed N", "seed of those episodes; default the certificate's", argtypes.natural)
    given = parser.read()
    directory, _ = _run_of(given)
    from dtqn.export import verify as certificate

    differs = False
    for found in certificate.verify(directory, given["episodes"], given["seed"]):
        what, because = one_line(found.what), one_line(found.because, 1000)  # names of a stranger's files
        print(f"{what:<18}  {found.answer:<11}  {because}", flush=True)
        differs |= found.answer == certificate.DIFFERS
    return int(differs)


def _add_played(parser: Parser, episodes: int) -> None:
    """The run whose episodes are played, how many, and which."""
    option(parser, "run_dir RUN_DIR", "folder of a run or exported agent", argtypes.trained)
    option(parser, "--episodes N", "episodes to play", argtypes.positive, episodes)
    _add_choice(parser)


def _add_choice(parser: Parser) -> None:
    """Which episodes are played, and by which weights."""
    option(parser, "--seed N", "seed of the episodes", argtypes.natural, 7)
    option(parser, "--checkpoint X", "weights to use, last or best", default="last", choices=["last", "best"])


def _add_other_task(parser: Parser) -> None:
    """Another task than the run's, for what a memory does beyond its training."""
    option(parser, "--env ID", "play another task with the same observation and action spaces")
    parser.add_settings(lambda name: name.startswith("task."))


def _played(given: Mapping[str, Any], config: Config) -> tuple[dict[str, Any], Config]:
    """The settings of another task that were given, and the run's settings with these."""
    other = {name: value for name, value in given.items() if name.startswith("task.")}
    other |= {"env": given["env"]} if given["env"] else {}
    played = on_task(config, other)
    if other and (warning := out_of_reach(config, played)):
        print(f"warning: {warning}", file=sys.stderr)
    return other, played


def _run_of(given: Mapping[str, Any]) -> tuple[RunDir, Config]:
    """The run that a command is about, and its settings, whose task is there."""
    directory = RunDir(given["run_dir"])
    config = directory.read_config()
    task_of(config)
    return directory, config


def _warn(directory: RunDir, config: Config) -> None:
    """Warn where the run's task has changed, before its episodes are played."""
    if warning := directory.task_warning(config):
        print(f"warning: {warning}", file=sys.stderr)
