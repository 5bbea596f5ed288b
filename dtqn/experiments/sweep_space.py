"""What a parameter of a W&B sweep file is drawn from: a table of distributions by W&B's names for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from dtqn.settings.faults import first_fault
from envs.errors import meant

Spec = Mapping[str, Any]


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


def _between(spec: Spec, share: float) -> float:
    return float(spec["min"] + share * (spec["max"] - spec["min"]))


def _geometric(spec: Spec, share: float) -> float:
    return float(spec["min"] * (spec["max"] / spec["min"]) ** share)


def _integer(spec: Spec, share: float) -> int:
    return min(math.floor(spec["min"] + share * (spec["max"] + 1 - spec["min"])), int(spec["max"]))


_NUMBER = Annotated[float, Field(description="a number; YAML reads 1.0e-5 as one, not 1e-5")]
_LIST = Annotated[list[Any], Field(min_length=1, description="a list of at least 1 item")]
_ENDS = {"min": _NUMBER, "max": _NUMBER}
_POSITIVE_ENDS = {"min": Annotated[float, Field(gt=0)], "max": _NUMBER}
DISTRIBUTIONS: Mapping[str, tuple[Mapping[str, Any], Callable[[Spec, Any], Any]]] = {
    "constant": ({"value": Any}, lambda spec, _: spec["value"]),
    "categorical": ({"values": _LIST}, lambda spec, place: spec["values"][place]),
    "int_uniform": ({"min": int, "max": int}, _integer),
    "uniform": (_ENDS, _between),
    "log_uniform": (_ENDS, lambda spec, share: math.exp(_between(spec, share))),
    "log_uniform_values": (_POSITIVE_ENDS, _geometric),
    "inv_log_uniform": (_ENDS, lambda spec, share: math.exp(-_between(spec, 1 - share))),
    "inv_log_uniform_values": (_POSITIVE_ENDS, _geometric),  # inverses are spread alike
}
"""By W&B's name the keys with their types, and the value at a quantile, or at a place in a list.

`log_uniform` has exponents of e as its ends, `..._values` the values."""


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
        types, self._value = DISTRIBUTIONS[self.distribution]
        self.spec = {key: value for key, value in spec.items() if key != "distribution"}
        keys: Any = {key: (kind, ...) for key, kind in types.items()}
        read_part(create_model("Spec", __base__=Part, **keys), self.spec, self.distribution, ".")
        if "min" in spec and spec["min"] >= spec["max"]:
            raise ValueError(f".min {spec['min']} is not less than max {spec['max']}")
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
