"""What a parameter of a W&B sweep file is drawn from: a table of distributions by W&B's names for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from dtqn.settings.faults import first_fault
from dtqn.settings.values import meant

Spec = Mapping[str, Any]
Number = Annotated[float, Field(description="a number; YAML reads 1.0e-5 as one, not 1e-5")]


class Part(BaseModel):
    """What a sweep file may say in one place."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


_P = TypeVar("_P", bound=Part)


def read_part(kind: type[_P], content: Mapping[Any, Any], what: str, inside: str = "") -> _P:
    """The part that a mapping holds.

    Args:
        what: the mapping is.
        inside: the key that it stands under, with a point.

    Raises:
        ValueError: the first mistake, in words.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{inside}{first_fault(error, kind, what)}") from None


class Distribution(NamedTuple):
    """A row of the table."""

    keys: Mapping[str, Any]
    """By name, the type and the default, as pydantic takes them."""
    value: Callable[[Spec, Any], Any]
    """The value at a quantile, as at W&B; of a list at a place."""


def _uniform(spec: Spec, share: float) -> float:
    return float(spec["min"] + share * (spec["max"] - spec["min"]))


def _log_uniform_values(spec: Spec, share: float) -> float:
    return float(spec["min"] * (spec["max"] / spec["min"]) ** share)


def _int_uniform(spec: Spec, share: float) -> int:
    return min(math.floor(spec["min"] + share * (spec["max"] + 1 - spec["min"])), int(spec["max"]))


_LIST = Annotated[list[Any], Field(min_length=1, description="a list of at least 1 item")]
_ENDS = {"min": (Number, ...), "max": (Number, ...)}
_POSITIVE = Distribution({**_ENDS, "min": (Annotated[float, Field(gt=0)], ...)}, _log_uniform_values)
DISTRIBUTIONS: Mapping[str, Distribution] = {
    "constant": Distribution({"value": (Any, ...)}, lambda spec, _: spec["value"]),
    "categorical": Distribution({"values": (_LIST, ...)}, lambda spec, place: spec["values"][place]),
    "int_uniform": Distribution({"min": (int, ...), "max": (int, ...)}, _int_uniform),
    "uniform": Distribution(_ENDS, _uniform),
    "log_uniform": Distribution(_ENDS, lambda spec, share: math.exp(_uniform(spec, share))),
    "log_uniform_values": _POSITIVE,
    "inv_log_uniform": Distribution(_ENDS, lambda spec, share: math.exp(-_uniform(spec, 1 - share))),
    "inv_log_uniform_values": _POSITIVE,  # inverses are spread alike
}
"""Those that are drawn here. `log_uniform` has exponents of e as its ends, `..._values` the values."""


class Parameter:
    """A parameter of a sweep file, which Optuna draws as a quantile, or as a place in a list."""

    def __init__(self, spec: Any, is_grid: bool) -> None:
        """Raises: ValueError: what is wrong, as it goes on after the parameter's name."""
        self.distribution = _named(spec) if isinstance(spec, Mapping) else ""
        if not self.distribution:
            raise ValueError(f" is {spec}: must be {{value: X}}, {{values: [X, Y]}} or {{min: X, max: Y}}")
        if self.distribution not in DISTRIBUTIONS:
            right = f"one of {', '.join(DISTRIBUTIONS)}{meant(self.distribution, DISTRIBUTIONS)}"
            raise ValueError(f".distribution is {self.distribution}: must be {right}")
        row = DISTRIBUTIONS[self.distribution]
        self.spec = {key: value for key, value in spec.items() if key != "distribution"}
        read_part(create_model("Spec", __base__=Part, **row.keys), self.spec, self.distribution, ".")
        if "min" in spec and spec["min"] >= spec["max"]:
            raise ValueError(f".min {spec['min']} is not less than max {spec['max']}")
        self._value = row.value
        self.listed = self._all_values() if is_grid or "values" in spec else None
        """The values of which Optuna draws the place; None: it draws a quantile."""
        if is_grid and self.is_searched and self.listed is None:
            raise ValueError(f" is {self.distribution}: a grid needs values or int_uniform")

    def _all_values(self) -> list[Any] | None:
        """The points of a grid; None where there is no end of them."""
        if self.distribution == "int_uniform":
            return list(range(self.spec["min"], self.spec["max"] + 1))
        return list(self.spec["values"]) if "values" in self.spec else None

    @property
    def is_searched(self) -> bool:
        return self.distribution != "constant"

    def value(self, drawn: Any) -> Any:
        """The setting's value for what was drawn."""
        return self._value(self.spec, drawn) if self.listed is None else self.listed[drawn]


def _named(spec: Spec) -> str:
    """The distribution that is named, or that keys alone stand for; empty for none."""
    if "distribution" in spec:
        return str(spec["distribution"])
    if "values" in spec:
        return "categorical"
    if "value" in spec:
        return "constant"
    ends = [spec[key] for key in ("min", "max") if key in spec]
    return ("int_uniform" if all(isinstance(end, int) for end in ends) else "uniform") if ends else ""
