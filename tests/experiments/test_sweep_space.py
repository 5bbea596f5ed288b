"""The table of W&B's distributions: what is drawn, against their definitions."""

import collections
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dtqn.experiments.sweep_file import Parameter, SweepFile
from dtqn.experiments.sweep_study import draws

_SHARES = np.linspace(0.0005, 0.9995, 1000)
_SHAPES = {
    "uniform": ({"min": -1.5, "max": 4.0}, stats.uniform(-1.5, 5.5)),
    "log_uniform": ({"min": -3, "max": 2.5}, stats.loguniform(math.exp(-3), math.exp(2.5))),
    "log_uniform_values": ({"min": 0.01, "max": 100}, stats.loguniform(0.01, 100)),
    "inv_log_uniform": ({"min": 1, "max": 2}, stats.loguniform(math.exp(-2), math.exp(-1))),
    "inv_log_uniform_values": ({"min": 0.5, "max": 8}, stats.loguniform(0.5, 8)),
}


def _file(specs, method="random"):
    parameters = {name: Parameter(spec, method == "grid") for name, spec in specs.items()}
    return SweepFile(None, "", method, "m", "maximize", parameters, None, None)


def _drawn(specs, count, method="random"):
    return [draw.parameters for draw in itertools.islice(draws(_file(specs, method), 0), count)]


@pytest.mark.parametrize("name", _SHAPES)
def test_values_are_those_at_the_quantiles(name):
    spec, expected = _SHAPES[name]
    parameter = Parameter({"distribution": name, **spec}, False)
    assert [parameter.value(share) for share in _SHARES] == pytest.approx(expected.ppf(_SHARES))
    values = [one["x"] for one in _drawn({"x": {"distribution": name, **spec}}, 200)]
    low, high = expected.support()
    assert low <= min(values) < max(values) <= high and len(set(values)) == 200
    assert stats.kstest(values, expected.cdf).pvalue > 0.01


def test_integers_are_drawn_alike_with_both_ends():
    parameter = Parameter({"min": 2, "max": 5}, False)
    assert parameter.distribution == "int_uniform"
    counts = collections.Counter(parameter.value(share) for share in _SHARES)
    assert counts == {2: 250, 3: 250, 4: 250, 5: 250}
    assert [parameter.value(share) for share in (0, 1)] == [2, 5]
    assert Parameter({"min": 2, "max": 5.0}, False).distribution == "uniform"


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({"values": [3, "x", None, [1, 2]]}, [3, "x", None, [1, 2]]),
        ({"min": 1, "max": 3}, [1, 2, 3]),
    ],
)
def test_a_grid_has_every_value_once(spec, values):
    found = _drawn({"x": spec, "y": {"values": [0, 1]}, "z": {"value": 7}}, 99, "grid")
    assert len(found) == 2 * len(values) and {one["z"] for one in found} == {7}
    for y in (0, 1):
        assert sorted(str(one["x"]) for one in found if one["y"] == y) == sorted(map(str, values))
