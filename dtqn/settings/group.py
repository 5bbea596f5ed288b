"""What all groups of settings have in common, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

from dtqn.settings import values
from envs.options import is_plain

Rule: TypeAlias = Callable[[Any], str | None]
"""Looks at a group or at the whole run; in one line what is wrong and what to try, or None."""


Conditions: TypeAlias = tuple[tuple[str, Callable[[Any, Any], Any]], ...]
"""Fields, with blanks between, and what says whether they are read, by their group and the whole run."""


def misfit(
    found: Callable[[Any], Any], text: str, more: Callable[[Any], Any] = lambda settings: None
) -> Rule:
    """The rule that settings do not go together where `found` is true of them.

    Args:
        text: what is wrong and what to try, with values in braces, such as `{c.returns}`.
        more: gives `{more}` in the text, such as a value that would do.
    """
    return lambda settings: text.format(c=settings, more=more(settings)) if found(settings) else None


class ConfigError(ValueError):
    """A mistake that a user can mend; its text is one line for the terminal."""


class MisfitError(ConfigError):
    """Settings that are legal one by one and not together."""


class BrokenRule(ValueError):
    """The text of a rule, where pydantic asks for it."""


def wrong(name: str, value: object, why: str) -> ConfigError:
    """The error of one setting or option: `--runs-dir is x: leave it out with --run-dir`."""
    return ConfigError(f"{name} is {values.shown(value) if isinstance(value, str) else value}: {why}")


class Group(BaseModel):
    """Settings that belong together; they cannot be changed after."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )
    rules_of_group: ClassVar[Sequence[Rule]] = ()
    """About the group alone."""
    rules_of_run: ClassVar[Sequence[Rule]] = ()
    """About the whole run, where the group is a part of it."""
    read_if: ClassVar[Conditions] = ()
    """All others always have an effect."""

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: ValidationInfo) -> Any:
        return values.read(value, cls.model_fields[info.field_name or ""])

    @model_validator(mode="after")
    def _fits_together(self) -> Group:
        check(self.rules_of_group, self)
        return self


def check(rules: Iterable[Rule], settings: Any) -> None:
    """A `BrokenRule` where one of them is."""
    for rule in rules:
        if text := rule(settings):
            raise BrokenRule(text)


class Member(Group):
    """One of several things that a setting can be, with the settings that it alone has (`values.Choice`)."""

    made_by: ClassVar[str] = ""
    """The function that makes it, `module:name`, which is imported where it is asked for."""
    name: str
    """What it is called."""

    @property
    def is_own(self) -> bool:
        """Whether a user has written it."""
        return values.is_own(self.name)

    def own_settings(self) -> dict[str, Any]:
        """Those of its settings that are not its name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "name"}


class Own(Member):
    """What a user has written, called `module:name`."""

    rules_of_group = (
        misfit(
            lambda c: not is_plain(dict(c.kwargs)),
            "kwargs is {more}; it must be a mapping from names to finite numbers, text, true, false, none, "
            "and lists and mappings of these",
            lambda c: values.shown(dict(c.kwargs)),
        ),
    )

    kwargs: Mapping[str, Any] = {}
    """Settings of its own, for the function that makes it."""
