"""What all groups of settings have in common, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

from dtqn.settings import values

Rule: TypeAlias = Callable[[Any], str | None]
"""Looks at a group or at the whole run; in one line what is wrong and what to try, or None."""


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

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: ValidationInfo) -> Any:
        return values.read(value, cls.model_fields[info.field_name or ""])

    @model_validator(mode="after")
    def _fits_together(self) -> Group:
        for rule in self.rules_of_group:
            if text := rule(self):
                raise ValueError(text)
        return self
