"""Values as people and YAML write them, and what a setting takes in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.fields import FieldInfo

from envs import yaml_file
from envs.errors import meant
from envs.options import is_plain

_LONGEST = 1000
"""Digits of an integer; Python refuses to print more than some thousands."""
_LARGEST = 10**18
"""Counts beyond fit in no array."""
_OWN = "module:name"


class Choice:
    """One of several things, each with settings of its own: `Annotated[Core, Choice(GTrXL, LSTM, own=Own)]`.

    The name chooses among the members, classes of settings: `network.core` is the name, and
    `network.core.memory_length` a setting of those that have it.
    """

    def __init__(self, *members: type[BaseModel], own: type[BaseModel] | None = None) -> None:
        """`own`: the class of what a user has written, whose name is `module:name`."""
        self.by_name = {str(member.model_fields["name"].default): member for member in members}
        self.by_name |= {_OWN: own} if own else {}

    def member(self, name: Any) -> type[BaseModel] | None:
        """The class of that name; None where there is none."""
        return self.by_name.get(_OWN if is_own(name) else name) if isinstance(name, str) else None

    def read(self, value: Any, usual: str) -> Any:
        """A member from its name, or from its settings with the name among them, `usual` where it is not."""
        if isinstance(value, tuple(self.by_name.values())):
            return value
        given = value if isinstance(value, Mapping) else {"name": value}
        member = self.member(given.get("name", usual))
        if member is None:
            raise ValueError("no member has this name")
        return member.model_validate({"name": usual, **given})


class Number:
    """A number within limits, read as settings are."""

    def __init__(self, kind: type[int] | type[float], **limits: Any) -> None:
        """`limits`: as pydantic's `Field` has them."""
        annotated: Any = Annotated[kind, Field(**limits, allow_inf_nan=False)]
        self.field, self._adapter = FieldInfo.from_annotation(annotated), TypeAdapter[Any](annotated)

    def read(self, value: Any) -> Any:
        return self._adapter.validate_python(read(value, self.field))


class AutoOr(Number):
    """A number, or `auto` for one that is settled when a run starts."""

    def read(self, value: Any) -> Any:
        return value if value == "auto" else super().read(value)


def is_own(name: str) -> bool:
    """Whether a name is `module:name`, which a user has written."""
    return re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name) is not None


def mark_of(field: FieldInfo, kind: type[Any]) -> Any:
    """The mark of this kind that a setting has; None without one."""
    return next((mark for mark in field.metadata if isinstance(mark, kind)), None)


def read(value: Any, field: FieldInfo) -> Any:
    """Read values as people and YAML write them: `1e6` is an integer, `none` is None, 1 is no boolean."""
    if choice := mark_of(field, Choice):
        return choice.read(value, field.default.name)
    if mark := mark_of(field, AutoOr):
        return mark.read(value)
    kinds = _kinds(field)
    if isinstance(value, str) and type(None) in kinds and value.lower() in ("none", "null", "~"):
        return None
    if _holds(Mapping, kinds):
        return mapping(value)
    if _holds(tuple, kinds) and value is not None:  # `1,3`, `[1, 3]` or 1
        items = value.split(",") if isinstance(value, str) else value
        return tuple(int(str(item)) for item in (items if isinstance(items, list | tuple) else [items]))
    is_flag = any(kind is bool or kind is True for kind in kinds)
    return _flag(value, kinds) if is_flag else _number(value, kinds)


def _flag(value: Any, kinds: set[Any]) -> Any:
    """A boolean, or another of the values that the setting lists."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool) and not (isinstance(value, str) and value in kinds):
        raise ValueError("no boolean")
    return value


def _number(value: Any, kinds: set[Any]) -> Any:
    """An integer where the setting is one; other values as they are, for pydantic to read."""
    if kinds & {int, float} and isinstance(value, bool):
        raise ValueError("no number")
    if int in kinds and isinstance(value, str):
        value = _integer(value)
    if int in kinds and isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError("too large")
    return value


def mapping(value: Any) -> Any:
    """A mapping of names, also from text in YAML or JSON, such as `{length: 20}`; anything else unchanged.

    Raises:
        ValueError: the text cannot be read, a key is no name, or YAML has no such value.
    """
    if isinstance(value, str):
        value = yaml_file.parse(value)
    if not isinstance(value, Mapping):
        return value
    if not is_plain(value := dict(value)):
        raise ValueError("not of names, numbers and text")
    return value


def _kinds(field: FieldInfo) -> set[Any]:
    """The types of a setting's value, or the values that it lists."""
    alone = {field.annotation}
    return alone if _holds(Mapping, alone) else set(get_args(field.annotation)) or alone


def is_mapping(field: FieldInfo) -> bool:
    """Whether the setting holds names of a user's own with values, as `network.kwargs` does."""
    return _holds(Mapping, _kinds(field))


def has_own(field: FieldInfo) -> bool:
    """Whether a user can write one of the things that the setting can be."""
    choice = mark_of(field, Choice)
    return choice is not None and _OWN in choice.by_name


def _holds(origin: type, kinds: Iterable[Any]) -> bool:
    return any(get_origin(kind) is origin for kind in kinds)


def _integer(text: str) -> int | str:
    """The integer that `text` writes as `1000000`, `1_000_000` or `1e6`; otherwise `text` itself."""
    if len(text) > _LONGEST:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if math.isfinite(number) and number.is_integer() else text


def choices(field: FieldInfo) -> tuple[Any, ...]:
    """The names that a setting lets be chosen, None aside; empty for numbers and free text."""
    if choice := mark_of(field, Choice):
        return tuple(name for name in choice.by_name if name != _OWN)
    kinds = [field.annotation, *get_args(field.annotation)]
    named = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())
    return tuple(str(name).lower() if isinstance(name, bool) else name for name in named)


def legal(field: FieldInfo, value: Any = None) -> str:
    """The legal values of a setting in words: `a number above 0`, `an integer of at least 1, or none`.

    Args:
        value: one that was refused. The limit of all integers is told where it is beyond that, and not
            elsewhere, as hardly anybody meets it.
    """
    kinds = _kinds(field)
    optional = ", or none" if type(None) in kinds else ""
    if auto := mark_of(field, AutoOr):
        return f"auto, or {legal(auto.field, value)}"
    if names := choices(field):
        own = ", or module:name of your own" if has_own(field) else ""
        return f"one of {', '.join(map(str, names))}{own}{optional}"
    if bool in kinds:
        return "true or false"
    if _holds(Mapping, kinds):
        held = "finite numbers, text, true, false, none, and lists and mappings of these"
        return f"a mapping such as {{length: 20}}, from names to {held}{optional}"
    if _holds(tuple, kinds):
        return f"integers with commas between{optional}"
    if int in kinds or float in kinds:
        noun = "an integer" if int in kinds else "a number"
        return f"{noun}{_bounds(field, value)}{optional}"
    return "text"


def _bounds(field: FieldInfo, value: Any) -> str:
    low, high = list[str](), list[str]()
    for limit in field.metadata:
        low += [f"of at least {limit.ge}"] if hasattr(limit, "ge") else []
        low += [f"above {limit.gt}"] if hasattr(limit, "gt") else []
        high += [f"at most {limit.le}"] if hasattr(limit, "le") else []
        high += [f"below {limit.lt}"] if hasattr(limit, "lt") else []
    number = value if isinstance(value, int) else _integer(str(value))
    if not high and int in _kinds(field) and isinstance(number, int) and number > _LARGEST:
        high = ["at most 1e18"]  # the limit of all integers, told where a value is beyond it
    bounds = " and ".join(low + high)
    return f" {bounds}" if bounds else ""


def shown(value: Any) -> str:
    """A user's value in an error: quoted where it is no plain word, cut where it is long."""
    try:
        plain = not isinstance(value, str) or re.fullmatch(r"[\w.,+:/=-]+", value)
        text = str(value) if plain else repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "a very long number"
    return text if len(text) <= 60 else text[:57] + "..."


def typed(value: Any) -> str:
    """A value as people type it: `none`, `true`, `1,3`."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` for the closest known name, or all known names where they are few."""
    names = sorted(known)
    return meant(name, names) or (f"; known: {', '.join(names)}" if len(names) <= 30 else "")
