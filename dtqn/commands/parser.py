"""argparse in this suite's manner: an option for every setting, generated from `dtqn.settings.config`."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, get_args

from pydantic.fields import FieldInfo

from dtqn.program import program
from dtqn.settings import gone, presets, trust
from dtqn.settings.config import ConfigError, fields_of, flag, having, setting_of, spelled
from dtqn.settings.group import Group
from dtqn.settings.values import legal, nearest, typed
from dtqn.text import columns

HELPED = {
    *("env", "agent", "seed", "total_env_steps", "threads", "evaluator", "device", "wandb"),
    *("network.core.memory_length", "learner.learning_rate", "learner.batches.env_steps_per_update"),
    *("replay.learn_length", "actor.num_envs"),
}
"""The settings that `--help` shows; `--help-all` lists all."""
_WIDTH = 80
"""Columns of the list of all settings."""


class _Formatter(argparse.HelpFormatter):
    """A description keeps its lists; other text fills the lines, and no word is broken at its hyphens."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = (each if "\n  " in each else self._split_lines(each, width) for each in text.split("\n\n"))
        return "\n\n".join(each if isinstance(each, str) else "\n".join(each) for each in parts)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class _List(argparse.Action):
    """`--help-all`: its constant are the names of settings."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("\n".join(listing(self.const)))
        parser.exit()


class Parser(argparse.ArgumentParser):
    """argparse without guessing: names in full, dash and underscore alike, mistakes as `ConfigError`."""

    def __init__(
        self, command: str, arguments: Sequence[str], takes: str, about: str | None, epilog: str | None = None
    ) -> None:
        """
        Args:
            arguments: what is to be read.
            takes: what follows the command, before its options.
            about: the docstring of the function that runs it.
        """
        prog = f"{program()} {command}".rstrip()
        super().__init__(
            prog=prog,
            usage=" ".join(f"{prog} {takes} [--option value ...]".split()),
            allow_abbrev=False,
            formatter_class=_Formatter,
            description=inspect.cleandoc(about or ""),
            epilog=epilog,
        )
        # `dtqn.cli` reads it.
        option(self, trust.OPTION, "run Python code that files of runs or settings name")
        self._given = list(arguments)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)

    def read(self) -> dict[str, Any]:
        """All arguments of the command by name, and the settings that were given."""
        given = vars(self.parse_args(self._spelled()))
        del given["trust_code"]
        return given

    def _spelled(self) -> list[str]:
        """The arguments with every option in its declared spelling, and negative numbers tied to theirs."""
        declared = {plain(option): option for action in self._actions for option in action.option_strings}
        result: list[str] = []
        for argument in self._given:
            if argument.startswith("--"):
                name, equals, value = argument.partition("=")
                self._declare_within(name, declared)
                if plain(name) not in declared:
                    known = [option.lstrip("-") for option in declared.values()]
                    near = nearest(plain(name), known).replace("mean ", "mean --")
                    hint = gone.hint(name.lstrip("-")) or near
                    raise ConfigError(f"{name} is not an option{hint or '; --help-all lists all'}")
                argument = declared[plain(name)] + equals + value
            elif result and re.match("--[^=]+$", result[-1]) and re.match(r"-(\.?\d|inf)", argument):
                result[-1] += "=" + argument
                continue
            result.append(argument)
        return result

    def _declare_within(self, option: str, declared: dict[str, str]) -> None:
        """An option for a name within a mapping, an old one, or another spelling."""
        name = spelled(option.lstrip("-"))
        is_old = setting_of(name) in gone.MOVED and "network.core" in declared
        if plain(option) in declared:
            return
        if name in declared:  # `network.core.name`
            declared[plain(option)] = declared[name]
        elif is_old or setting_of(name) in declared:
            self.add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
            declared[plain(option)] = f"--{name}"

    def add_settings(self, wanted: Callable[[str], bool], top: argparse._ArgumentGroup | None = None) -> None:
        """Add an option for each setting whose dotted name is wanted; one outside of groups goes to `top`."""
        names = [name for name in fields_of() if wanted(name)]
        text = f"list all {len(names)} settings, a line each"
        listed: dict[str, Any] = {"nargs": 0, "const": names, "default": argparse.SUPPRESS}
        (top or self).add_argument("--help-all", action=_List, help=text, **listed)
        groups = {"": top}
        for name in names:
            group = name.partition(".")[0] if "." in name else ""
            if group not in groups:
                groups[group] = self.add_argument_group(group)
            (groups[group] or self).add_argument(
                flag(name),
                dest=name,
                default=argparse.SUPPRESS,
                metavar="X",
                help=told(name).replace("%", "%%") if name in HELPED else argparse.SUPPRESS,
            )

    def add_options(self, options: type[Group]) -> None:
        """An option for each of a command's own."""
        group = self.add_argument_group(options.__name__.lower())
        for name, field in options.model_fields.items():
            once = "append" if list[str] in get_args(field.annotation) else "store"
            more = {"nargs": "?", "const": "true"} if field.annotation is bool else {"action": once}
            group.add_argument(
                flag(name),
                default=argparse.SUPPRESS,
                metavar="X",
                required=field.is_required(),
                help=_told(field, field.default).replace("%", "%%"),
                **more,
            )


def told(name: str) -> str:
    """All about a setting: what it does, its legal values, its default, and what has it."""
    return _told(fields_of()[name], presets.usual(name), having(name))


def _told(field: FieldInfo, usual: Any, of: Sequence[str] = ()) -> str:
    notes = [legal(field), *([] if field.is_required() else [f"default {typed(usual)}"])]
    notes += [f"for {', '.join(of)}"] if of else []
    return f"{_description(field)} [{'; '.join(notes)}]"


def _description(field: FieldInfo) -> str:
    return (field.description or "").replace("None", "none")  # as it is typed


def listing(names: Sequence[str]) -> list[str]:
    """A line for each setting, below the beginning of its name; the last one says how to see all about it."""
    groups: dict[str, list[list[str]]] = {}
    for name in names:
        group, dot, leaf = name.rpartition(".")
        field = fields_of()[name]
        place = f"  {leaf}" if dot else f"  {leaf.replace('_', '-')}"
        row = [place, typed(presets.usual(name)), _description(field)]
        groups.setdefault(f"--{group}{dot}NAME", []).append(row)
    lines = []
    for group, rows in groups.items():
        room = _WIDTH - sum(max(len(row[column]) for row in rows) + 2 for column in (0, 1))
        lines += [group, *columns([[*row[:2], _first_clause(row[2], room)] for row in rows])]
    return [*lines, f"For help on settings whose names contain WORD: {program()} settings WORD"]


def _first_clause(text: str, room: int) -> str:
    clause = re.split(r"(?<!et al)[;.](?:\s|$)", " ".join(text.split()))[0]
    return textwrap.shorten(clause, room, placeholder="…").replace(",…", "…")


def plain(word: str) -> str:
    return word.partition("=")[0].lstrip("-").replace("-", "_")


def option(
    place: argparse._ActionsContainer,
    form: str,
    text: str = "",
    kind: Callable[[str], Any] = str,
    default: Any = None,
    **more: Any,
) -> None:
    """Declare an option, or an argument without dashes.

    Args:
        form: as it is typed, such as `--seed N`; what has no value is a switch.
        text: its help, which ends in the default that is given here.
        kind: one of `argtypes`.
    """
    name, _, metavar = form.partition(" ")
    if metavar:
        more |= {"metavar": metavar, "type": kind, "default": default}
    else:
        more["action"] = "store_true"
    if default is not None:
        text = f"{text}; default %(default)s".removeprefix("; ")
    place.add_argument(name, help=text, **more)
