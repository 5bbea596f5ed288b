"""argparse in this suite's manner: an option for every setting, generated from `dtqn.settings.config`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, get_args

from dtqn.commands import argtypes
from dtqn.program import program
from dtqn.settings import gone, trust
from dtqn.settings.config import ConfigError, fields_of, having, setting_of, spelled
from dtqn.settings.group import Group
from dtqn.settings.values import legal, nearest

HELPED = {
    *("env", "agent", "seed", "total_env_steps", "threads", "evaluator", "device", "wandb"),
    *("network.core.memory_length", "learner.learning_rate", "learner.batches.env_steps_per_update"),
    *("replay.learn_length", "actor.num_envs"),
}
"""The settings that `--help` shows; `--help-all` shows all."""


class _Formatter(argparse.HelpFormatter):
    """A description keeps its lists; other text fills the lines, and no word is broken at its hyphens."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = (each if "\n  " in each else self._split_lines(each, width) for each in text.split("\n\n"))
        return "\n\n".join(each if isinstance(each, str) else "\n".join(each) for each in parts)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """argparse without guessing: names in full, dash and underscore alike, mistakes as `ConfigError`."""

    def __init__(
        self, command: str, arguments: Sequence[str], takes: str, description: str, epilog: str | None = None
    ) -> None:
        """
        Args:
            arguments: what is to be read; `--help-all` among them makes every setting visible.
            takes: what follows the command, before its options.
        """
        prog = f"{program()} {command}".rstrip()
        super().__init__(
            prog=prog,
            usage=" ".join(f"{prog} {takes} [--option value ...]".split()),
            allow_abbrev=False,
            formatter_class=_Formatter,
            description=description,
            epilog=epilog,
        )
        option(self, trust.OPTION, "run code that a file names, be it a stranger's")  # `dtqn.cli` reads it
        self._given = list(arguments)
        self._shows_all = "help_all" in map(plain, arguments)

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
                    raise ConfigError(f"{name} is no option{hint or '; --help-all lists all'}")
                argument = declared[plain(name)] + equals + value
            elif (
                result
                and result[-1].startswith("--")
                and "=" not in result[-1]
                and argtypes.is_number(argument)
            ):
                result[-1] += "=" + argument
                continue
            result.append(argument)
        return result

    def _declare_within(self, option: str, declared: dict[str, str]) -> None:
        """An option for a name within a mapping, an old one, or one that `--slurm.NAME` stands for."""
        name = spelled(option.lstrip("-"))
        setting, group = setting_of(name), name.partition(".")[0]
        is_old = setting in gone.MOVED and "network.core" in declared
        holds = is_old or setting in declared or f"{group}.NAME" in declared
        if holds and plain(option) not in declared:
            self.add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
            declared[plain(option)] = f"--{name}"

    def add_settings(self, wanted: Callable[[str], bool], top: argparse._ArgumentGroup | None = None) -> None:
        """An option for every setting whose dotted name is wanted; those of no group go to `top`."""
        names = [name for name in fields_of() if wanted(name)]
        hidden = len(set(names) - HELPED)
        (top or self).add_argument("--help-all", action="help", help=f"show {hidden} more settings")
        groups = {"": top}
        for name in names:
            group, _, leaf = name.partition(".")
            group = group if leaf else ""
            if group not in groups:
                groups[group] = self.add_argument_group(group)
            shown = self._shows_all or name in HELPED
            (groups[group] or self).add_argument(
                f"--{name}" if group else f"--{name.replace('_', '-')}",
                dest=name,
                default=argparse.SUPPRESS,
                metavar="X",
                help=_help(fields_of()[name], having(name)) if shown else argparse.SUPPRESS,
            )

    def add_options(self, options: type[Group]) -> None:
        """An option for each of a command's own."""
        group = self.add_argument_group(options.__name__.lower())
        for name, field in options.model_fields.items():
            once = "append" if list[str] in get_args(field.annotation) else "store"
            more = {"nargs": "?", "const": "true"} if field.annotation is bool else {"action": once}
            group.add_argument(
                f"--{name.replace('_', '-')}",
                default=argparse.SUPPRESS,
                metavar="X",
                required=field.is_required(),
                help=_help(field),
                **more,
            )


def _help(field: Any, of: Sequence[str] = ()) -> str:
    """`of`: those that have the setting."""
    usual = getattr(field.default, "name", field.default)
    notes = [legal(field)]
    if not field.is_required():
        notes.append(f"default {'none' if usual is None else str(usual).lower()}")
    if of:
        notes.append(f"of {', '.join(of)}")
    text = (field.description or "").replace("None", "none")  # as it is typed
    return f"{text} [{'; '.join(notes)}]".replace("%", "%%")


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
