"""What all groups of settings have in common, and their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from dtqn.settings import values


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

    def parts(self, prefix: str = "") -> Iterator[tuple[str, Group]]:
        """The group, and those in it, each with the beginning of the names of its settings."""
        yield prefix, self
        for name, value in self:
            if isinstance(value, Group):
                yield from value.parts(f"{prefix}{name}.")

    def replaced(self, name: str, value: Any) -> Self:
        """The group with this value for a setting, which may be a part's: `learner.reward_scale`."""
        first, _, rest = name.partition(".")
        new = getattr(self, first).replaced(rest, value) if rest else value
        return self.model_copy(update={first: new})

    def misfits(self, run: Any) -> Iterator[str]:
        """What does not go together in the group, or with other groups of the run: a line each, with what is
        wrong and what to try."""
        yield from ()

    def unread_in(self, run: Any) -> Iterator[str]:
        """The fields that nothing reads, given the others and the run."""
        yield from ()

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: ValidationInfo) -> Any:
        return values.read(value, cls.model_fields[info.field_name or ""])


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
        """Its settings other than its name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "name"}


class Own(Member):
    """What a user has written, called `module:name`."""

    kwargs: Mapping[str, Any] = {}
    """Keyword arguments of your own module:name."""
