"""What a parameter of a W&B sweep file is drawn from: a table of W&B's distributions by their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from dtqn.settings.values import choices, legal, meant, nearest, shown

_INNERMOST = 1e-9
"""The least quantile that is drawn, as some distributions have no end."""

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
        # A misspelt key is a missing one too.
        found = min(error.errors(), key=lambda one: one["loc"][0] in kind.model_fields)
    name = str(found["loc"][0])
    if name not in kind.model_fields:
        raise ValueError(f"{inside}{name} is no key of {what}{nearest(name, kind.model_fields)}")
    if found["type"] == "missing":
        raise ValueError(f"{inside}{name} is missing")
    field, value = kind.model_fields[name], content[name]
    right = f"{field.description or legal(field)}{meant(str(value), choices(field))}"
    raise ValueError(f"{inside}{name} is {shown(value)}: must be {right}")


class Distribution(NamedTuple):
    """A row of the table."""

    keys: Mapping[str, Any]
    """By name, the type and the default, as pydantic takes them."""
    value: Callable[[Spec, float], Any]
    """The value at a quantile, as at W&B."""


def _uniform(spec: Spec, share: float) -> float:
    return float(spec["min"] + share * (spec["max"] - spec["min"]))


def _log_uniform_values(spec: Spec, share: float) -> float:
    return float(spec["min"] * (spec["max"] / spec["min"]) ** share)


def _int_uniform(spec: Spec, share: float) -> int:
    return min(math.floor(spec["min"] + share * (spec["max"] + 1 - spec["min"])), int(spec["max"]))


def _normal(spec: Spec, share: float) -> float:
    return float(spec["mu"] + spec["sigma"] * NormalDist().inv_cdf(share))


def _beta(spec: Spec, share: float) -> float:
    from scipy.special import betaincinv

    return float(betaincinv(spec["a"], spec["b"], share))


def _weighted(spec: Spec, share: float) -> Any:
    for value, probability in zip(spec["values"], spec["probabilities"], strict=True):
        share -= probability
        if share <= 0:
            return value
    return spec["values"][-1]


_LIST = Annotated[list[Any], Field(min_length=1, description="a list of at least 1 item")]
_SHARES = Annotated[list[Annotated[float, Field(ge=0)]], Field(description="a list of numbers of at least 0")]
_POSITIVE = Annotated[float, Field(gt=0)]
_ENDS = {"min": (Number, ...), "max": (Number, ...)}
_MOMENTS = {"mu": (Number, 0.0), "sigma": (Annotated[float, Field(ge=0)], 1.0)}
_ONCE = {
    "uniform": Distribution(_ENDS, _uniform),
    "log_uniform": Distribution(_ENDS, lambda spec, share: math.exp(_uniform(spec, share))),
    "log_uniform_values": Distribution({**_ENDS, "min": (_POSITIVE, ...)}, _log_uniform_values),
    "normal": Distribution(_MOMENTS, _normal),
    "log_normal": Distribution(_MOMENTS, lambda spec, share: math.exp(_normal(spec, share))),
    "beta": Distribution({"a": (_POSITIVE, 1), "b": (_POSITIVE, 1)}, _beta),
}
DISTRIBUTIONS: Mapping[str, Distribution] = {
    "constant": Distribution({"value": (Any, ...)}, lambda spec, share: spec["value"]),
    "categorical": Distribution({"values": (_LIST, ...)}, lambda spec, share: spec["values"][share]),
    "categorical_w_probabilities": Distribution(
        {"values": (_LIST, ...), "probabilities": (_SHARES, ...)}, _weighted
    ),
    "int_uniform": Distribution({"min": (int, ...), "max": (int, ...)}, _int_uniform),
    **_ONCE,
    **{f"q_{name}": row._replace(keys={**row.keys, "q": (_POSITIVE, 1.0)}) for name, row in _ONCE.items()},
    "inv_log_uniform": Distribution(_ENDS, lambda spec, share: math.exp(-_uniform(spec, 1 - share))),
    "inv_log_uniform_values": _ONCE["log_uniform_values"],  # inverses are spread alike
}
"""W&B's names. `log_uniform` and its kin have exponents of e as their ends, `..._values` the values; `q_...`
is rounded to a multiple of q, which may lie up to q / 2 beyond the ends."""


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
        given = {key: value for key, value in spec.items() if key != "distribution"}
        part = read_part(create_model("Spec", __base__=Part, **row.keys), given, self.distribution, ".")
        _check(given)
        self.spec = part.model_dump() | given
        self._value = row.value
        self.listed = self._all_values() if is_grid or self.distribution == "categorical" else None
        """The values of which Optuna draws the place; None: it draws a quantile."""
        if is_grid and self.is_searched and self.listed is None:
            raise ValueError(f" is {self.distribution}: a grid needs values, int_uniform or q_uniform")

    def _all_values(self) -> list[Any] | None:
        """The points of a grid; None where W&B lets no grid have the distribution."""
        spec = self.spec
        if self.distribution == "categorical":
            return list(spec["values"])
        if self.distribution == "int_uniform":
            return list(range(spec["min"], spec["max"] + 1))
        if self.distribution == "q_uniform":  # without the upper end
            return [
                spec["min"] + k * spec["q"] for k in range(math.ceil((spec["max"] - spec["min"]) / spec["q"]))
            ]
        return None

    @property
    def is_searched(self) -> bool:
        return self.distribution != "constant"

    @property
    def quantiles(self) -> tuple[float, float]:
        """The least and the largest that are drawn."""
        return (0.0, 1.0) if "min" in self.spec else (_INNERMOST, 1 - _INNERMOST)

    def value(self, drawn: Any) -> Any:
        """The setting's value for what was drawn."""
        return self._at(drawn) if self.listed is None else self.listed[drawn]

    def _at(self, share: float) -> Any:
        value = self._value(self.spec, share)
        return round(value / self.spec["q"]) * self.spec["q"] if "q" in self.spec else value

    def typical_values(self) -> Sequence[Any]:
        """All values of a list; of a range some near its ends, which a setting need not take (`above 0`)."""
        if "values" in self.spec:
            return list(self.spec["values"])
        return [self._at(share) for share in ((0.001, 0.999) if "min" in self.spec else (0.5,))]


def _named(spec: Mapping[str, Any]) -> str:
    """The distribution that is named, or that keys alone stand for; empty for none."""
    if "distribution" in spec:
        return str(spec["distribution"])
    if "values" in spec:
        return "categorical_w_probabilities" if "probabilities" in spec else "categorical"
    if "value" in spec:
        return "constant"
    ends = [spec[key] for key in ("min", "max") if key in spec]
    return ("int_uniform" if all(isinstance(end, int) for end in ends) else "uniform") if ends else ""


def _check(spec: Mapping[str, Any]) -> None:
    """A ValueError where values that are right by themselves are wrong together."""
    if "min" in spec and spec["min"] >= spec["max"]:
        raise ValueError(f".min {spec['min']} is not less than max {spec['max']}")
    parts = spec.get("probabilities")
    if parts is not None and not (len(parts) == len(spec["values"]) and math.isclose(sum(parts), 1)):
        raise ValueError(f".probabilities is {parts}: must hold one for each value, which sum to 1")
