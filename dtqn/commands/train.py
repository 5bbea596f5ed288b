"""`train`: start a run, or go on with one."""

from __future__ import annotations

from collections.abc import Sequence

import dtqn
from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, option
from dtqn.program import program
from dtqn.settings import layers
from dtqn.signals import end_with_parent
from dtqn.training.plan import plan

_DESCRIPTION = """\
Train memory agents on partially observable tasks, compare and tune them.

commands:
  train           train an agent; a command line without a command does this
  runs [DIR]      list runs: their state, last evaluation, and how to go on
  eval RUN_DIR    evaluate the weights of a run
  debug RUN_DIR   say what the decisions of a trained agent depend on
  report RUN ...  write one page about runs, with episodes to step through
  export RUN_DIR  write a trained agent for others, with card and certificate
  verify DIR      say whether an exported agent is what its certificate claims
  watch RUN_DIR   show a trained agent's episodes in the terminal, or as a film
  compare         compare agents on the same tasks and seeds
  records FILE    sort a file of records, as after a merge
  sweep FILE      search settings as a W&B sweep file says; needs no account
  envs [WORD]     list the tasks, or show one
  settings [WORD] tell about settings, or rewrite a file by today's names
"""
_RESUME = """go on with the run in this directory; auto: go on with the run of these very settings, in
<runs-dir>/<env>/<agent>/seed<k>-<hash of the settings>, or start it"""
_ACCEPT = """with --resume RUN_DIR: go on with the task, and with a network of your own, as they are now,
though their code or files have changed since the run began"""
_TRAIN_ONLY = ("config", "print_config", "resume", "accept_changed_code", "run_dir", "runs_dir")


def train(arguments: Sequence[str]) -> int:
    """Start a run, or go on with one."""
    given = parser_of(arguments).read()
    file, print_config, resume, accepts, run_dir, runs_dir = (given.pop(name) for name in _TRAIN_ONLY)
    asked = plan(given, file, run_dir, runs_dir, resume, accepts)
    if print_config:
        print(layers.to_yaml(asked.config), end="")
        return 0
    end_with_parent()
    return asked.train()


def parser_of(arguments: Sequence[str]) -> Parser:
    """What reads the arguments of `train`."""
    more = f"`{program()} COMMAND --help` explains a command."
    parser = Parser("", arguments, "[COMMAND]", _DESCRIPTION, more)
    run = parser.add_argument_group("run")
    run.add_argument("--version", action="version", version=dtqn.__version__)
    option(run, "--config FILE", "YAML file of settings, laid over the presets", argtypes.path)
    option(run, "--print-config", "print every setting as YAML and end")
    option(run, "--run-dir DIR", "default <runs-dir>/<env>/<agent>/seed<k>", argtypes.path)
    option(run, "--runs-dir DIR", "folder of run directories; default runs", argtypes.path)
    option(run, "--resume RUN_DIR", _RESUME, argtypes.path)
    option(run, "--accept-changed-code", _ACCEPT)
    parser.add_settings(lambda _: True, run)
    return parser
