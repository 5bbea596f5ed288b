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
Train, compare and tune memory agents on partially observable tasks.

commands:
  train           train an agent (the default command)
  runs [DIR]      list runs: their state, last evaluation, and how to continue
  eval RUN_DIR    evaluate a trained agent
  debug RUN_DIR   show which past steps a trained agent's decisions depend on
  maps RUN ...    draw which past steps several agents' decisions depend on
  report RUN ...  write an HTML page about runs, with episodes to step through
  export RUN_DIR  package a trained agent, with model card and certificate
  verify DIR      check an exported agent against its certificate
  watch RUN_DIR   show a trained agent's episodes in the terminal, or as a GIF
  compare         compare agents trained on the same tasks and seeds
  records FILE    sort a file of run records and drop duplicates
  sweep FILE      search for settings as a W&B sweep file says; needs no account
  envs [WORD]     list the tasks, or describe one
  settings [WORD] explain settings
"""
_RESUME = """continue the run in this folder; auto: continue the run with exactly these settings, in
<runs-dir>/<env>/<agent>/seed<k>-<hash of the settings>, or start it"""
_ACCEPT = """with --resume RUN_DIR: continue even if the code or files of the task, or of a network of your
own, have changed since the run began"""
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
    more = f"`{program()} COMMAND --help` explains COMMAND."
    more += " `horizon or 80`: the longest episode's length if fixed, else 80."
    parser = Parser("", arguments, "[COMMAND]", _DESCRIPTION, more)
    run = parser.add_argument_group("run")
    run.add_argument("--version", action="version", version=dtqn.__version__)
    option(run, "--config FILE", "YAML file of settings, which override the presets", argtypes.path)
    option(run, "--print-config", "print every setting as YAML and exit")
    option(run, "--run-dir DIR", "the run's folder; default <runs-dir>/<env>/<agent>/seed<k>", argtypes.path)
    option(run, "--runs-dir DIR", "folder for all runs; default runs", argtypes.path)
    option(run, "--resume RUN_DIR", _RESUME, argtypes.path)
    option(run, "--accept-changed-code", _ACCEPT)
    parser.add_settings(lambda _: True, run)
    return parser
