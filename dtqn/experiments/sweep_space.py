"""What a parameter of a W&B sweep file is drawn from: a table of W&B's distributions by their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

from dtqn.settings.values import meant, nearest

REQUIRED = object()
_KINDS: Mapping[str, Any] = {
    "a list": list,
    "a mapping": Mapping,
    "a number": int | float,
    "an integer": int,
    "anything": object,
    "text": str,
}
_NUMBERS = ("a number", "an integer")
_INNERMOST = 1e-9
"""The least quantile that is drawn, as some distributions have no end."""

Spec = Mapping[str, Any]


class Key(NamedTuple):
    """What a sweep file may say under a key."""

    kind: str
    default: Any = REQUIRED
    least: float = -math.inf
    above: float = -math.inf
    among: Sequence[str] = ()

    def right(self, value: Any) -> str:
        """What would be right in place of a value; empty where it is right."""
        if self.among and value not in self.among:
            return f"one of {', '.join(self.among)}{meant(str(value), self.among)}"
        if not isinstance(value, _KINDS[self.kind]) or (isinstance(value, bool) and self.kind in _NUMBERS):
            return self.kind + ("; YAML reads 1.0e-5 as one, not 1e-5" if self.kind == _NUMBERS[0] else "")
        if isinstance(value, int | float) and value < self.least:
            return f"at least {self.least:g}"
        if isinstance(value, int | float) and value <= self.above:
            return f"above {self.above:g}"
        return "a list of at least 1 item" if value == [] else ""


def mistake(content: Mapping[Any, Any], keys: Mapping[str, Key], what: str, inside: str = "") -> str:
    """The first mistake in a mapping, in words; empty where there is none.

    Args:
        what: the mapping is.
        inside: the key that it stands under, with a point.
    """
    for name in content:
        if name not in keys:
            return f"{inside}{name} is no key of {what}{nearest(str(name), keys)}"
    for name, key in keys.items():
        if name not in content and key.default is REQUIRED:
            return f"{inside}{name} is missing"
        if name in content and (right := key.right(content[name])):
            return f"{inside}{name} is {content[name]}: must be {right}"
    return ""


class Distribution(NamedTuple):
    """A row of the table."""

    keys: Mapping[str, Key]
    value: Callable[[Spec, float], Any]
    """The value at a quantile, as at W&B."""
    listed: Callable[[Spec], Sequence[Any]] | None = None
    """All values, of which a grid is made; None where W&B lets no grid have it."""


def _uniform(spec: Spec, share: float) -> float:
    return float(spec["min"] + share * (spec["max"] - spec["min"]))


def _log_uniform_values(spec: Spec, share: float) -> float:
    return float(spec["min"] * (spec["max"] / spec["min"]) ** share)


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


def _place(values: Sequence[Any], share: float) -> Any:
    return values[min(int(share * len(values)), len(values) - 1)]


def _whole(spec: Spec) -> range:
    return range(spec["min"], spec["max"] + 1)


def _steps(spec: Spec) -> list[Any]:
    """From the lower end on, without the upper one."""
    count = math.ceil((spec["max"] - spec["min"]) / spec["q"])
    return [spec["min"] + step * spec["q"] for step in range(count)]


_NUMBER, _POSITIVE = Key("a number"), Key("a number", above=0)
_ENDS = {"min": _NUMBER, "max": _NUMBER}
_MOMENTS = {"mu": Key("a number", 0.0), "sigma": Key("a number", 1.0, least=0)}
_ONCE = {
    "uniform": Distribution(_ENDS, _uniform),
    "log_uniform": Distribution(_ENDS, lambda spec, share: math.exp(_uniform(spec, share))),
    "log_uniform_values": Distribution({"min": _POSITIVE, "max": _NUMBER}, _log_uniform_values),
    "normal": Distribution(_MOMENTS, _normal),
    "log_normal": Distribution(_MOMENTS, lambda spec, share: math.exp(_normal(spec, share))),
    "beta": Distribution({"a": Key("a number", 1, above=0), "b": Key("a number", 1, above=0)}, _beta),
}


def _quantised(name: str) -> Distribution:
    """Rounded to a multiple of q, which may lie up to q / 2 beyond the ends, as at W&B."""
    keys, value, _ = _ONCE[name]

    def rounded(spec: Spec, share: float) -> Any:
        return round(value(spec, share) / spec["q"]) * spec["q"]

    return Distribution(
        {**keys, "q": Key("a number", 1.0, above=0)}, rounded, _steps if name == "uniform" else None
    )


DISTRIBUTIONS: Mapping[str, Distribution] = {
    "constant": Distribution({"value": Key("anything")}, lambda spec, share: spec["value"]),
    "categorical": Distribution(
        {"values": Key("a list")},
        lambda spec, share: _place(spec["values"], share),
        lambda spec: spec["values"],
    ),
    "categorical_w_probabilities": Distribution(
        {"values": Key("a list"), "probabilities": Key("a list")}, _weighted
    ),
    "int_uniform": Distribution(
        {"min": Key("an integer"), "max": Key("an integer")},
        lambda spec, share: _place(_whole(spec), share),
        _whole,
    ),
    **_ONCE,
    **{f"q_{name}": _quantised(name) for name in _ONCE},
    "inv_log_uniform": Distribution(_ENDS, lambda spec, share: math.exp(-_uniform(spec, 1 - share))),
    "inv_log_uniform_values": _ONCE["log_uniform_values"],  # inverses are spread alike
}
"""W&B's names. `log_uniform` and its kin have exponents of e as their ends, `..._values` the values."""


class Parameter:
    """A parameter of a sweep file, which Optuna draws as a quantile, or as a place in a list."""

    def __init__(self, spec: Any, is_grid: bool) -> None:
        """Raises: ValueError: what is wrong, as it goes on after the parameter's name."""
        self.distribution = _named(spec) if isinstance(spec, Mapping) else ""
        if not self.distribution:
            raise ValueError(f" is {spec}: must be {{value: X}}, {{values: [X, Y]}} or {{min: X, max: Y}}")
        if text := Key("text", among=list(DISTRIBUTIONS)).right(self.distribution):
            raise ValueError(f".distribution is {self.distribution}: must be {text}")
        row = DISTRIBUTIONS[self.distribution]
        given = {key: value for key, value in spec.items() if key != "distribution"}
        if text := mistake(given, row.keys, self.distribution) or _odd(given):
            raise ValueError(f".{text}")
        self.spec = {name: key.default for name, key in row.keys.items()} | given
        if is_grid and self.is_searched and row.listed is None:
            raise ValueError(f" is {self.distribution}: a grid needs values, int_uniform or q_uniform")
        self._value = row.value
        self.listed: list[Any] | None = None
        """The values of which Optuna draws the place; None: it draws a quantile."""
        if row.listed is not None and (is_grid or self.distribution == "categorical"):
            self.listed = list(row.listed(self.spec))

    @property
    def is_searched(self) -> bool:
        return self.distribution != "constant"

    @property
    def quantiles(self) -> tuple[float, float]:
        """The least and the largest that are drawn."""
        return (0.0, 1.0) if "min" in self.spec else (_INNERMOST, 1 - _INNERMOST)

    def value(self, drawn: Any) -> Any:
        """The setting's value for what was drawn."""
        return self._value(self.spec, drawn) if self.listed is None else self.listed[drawn]

    def typical_values(self) -> Sequence[Any]:
        """All values of a list; of a range some near its ends, which a setting need not take (`above 0`)."""
        if "values" in self.spec:
            return list(self.spec["values"])
        return [self._value(self.spec, share) for share in ((0.001, 0.999) if "min" in self.spec else (0.5,))]


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


def _odd(spec: Mapping[str, Any]) -> str:
    """What is wrong with values that are right by themselves."""
    if "min" in spec and spec["min"] >= spec["max"]:
        return f"min {spec['min']} is not less than max {spec['max']}"
    parts = spec.get("probabilities", [1])
    if not all(isinstance(part, int | float) and part >= 0 for part in parts) or not math.isclose(
        sum(parts), 1
    ):
        return f"probabilities is {parts}: must hold numbers of at least 0, which sum to 1"
    if len(parts) != len(spec["values"] if "probabilities" in spec else parts):
        return f"probabilities is {parts}: must hold one for each value"
    return ""
