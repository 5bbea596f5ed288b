"""On which parameters a sweep's result depends: known dependences, noise, figures by hand."""

import json

import numpy as np
import pytest

from dtqn.experiments import importance
from dtqn.experiments.importance import Axis, axis_of, dependence
from dtqn.experiments.sweep_space import Parameter
from dtqn.experiments.sweep_study import importances
from tests.experiments.sweep_program import results_of


def _axis(name, positions, kinds=None):
    return Axis(name, list(map(float, positions)), kinds)


@pytest.mark.parametrize("sign", [1, -1])
def test_importance_finds_what_matters(sign):
    generator = np.random.default_rng(0)
    a, b = generator.random(40), generator.random(40)
    kind, constant = generator.integers(3, size=40), np.ones(40)
    values = [sign * float(-3 * x + 2 * (k == 1)) for x, k in zip(a, kind, strict=True)]
    axes = [_axis("b", b), _axis("constant", constant), _axis("kind", kind, 3), _axis("a", a)]
    found = dependence(axes, values, sign)
    assert (found.runs, found.found) == (40, True) and 0.8 < found.r2 < 1
    assert {share.name for share in found.shares[:2]} == {"a", "kind"}
    first, second, third = found.shares
    assert first.importance > second.importance > 0.2 > third.importance
    assert sum(share.importance for share in found.shares) == pytest.approx(1)
    assert all(0 < share.deviation < 0.5 for share in found.shares)
    by_name = {share.name: share for share in found.shares}
    assert by_name["kind"].correlation is None
    ranks = [np.argsort(np.argsort(x)) for x in (a, values)]
    assert by_name["a"].correlation == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert found == dependence(axes, values, sign)
    assert dependence([_axis("a", a[:19])], values[:19]) is None
    assert dependence([_axis("a", a)], [1.0] * 40) is None


def test_noise_depends_on_nothing():
    """PED-ANOVA alone gives some parameter a half of the whole here."""
    found, alone = [], []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        table, values = generator.random((30, 4)), generator.random(30).tolist()
        found.append(dependence([_axis(str(i), column) for i, column in enumerate(table.T)], values))
        alone.append(max(importances({str(i): c.tolist() for i, c in enumerate(table.T)}, {}, values)))
    assert sum(not one.found for one in found) >= 18
    assert all(one.found or one.shares == [] for one in found)
    assert np.mean(alone) > 0.4


def test_held_out_figures_by_hand(monkeypatch):
    """Weights of zero: each fold is predicted by the mean of the others, and nothing is claimed."""
    monkeypatch.setattr(importance, "importances", lambda table, kinds, values: [0.0] * len(table))
    values, lowest = np.arange(20.0) ** 2, np.inf
    for split in range(2):
        order = np.random.default_rng(split).permutation(20)
        folds = [order[fold::5] for fold in range(5)]
        errors = sum(((values[held] - np.delete(values, held).mean()) ** 2).sum() for held in folds)
        lowest = min(lowest, 1 - errors / ((values - values.mean()) ** 2).sum())
    found = dependence([_axis("a", range(20))], values.tolist())
    assert (found.r2, found.shares) == (pytest.approx(lowest), []) and lowest < 0


def test_what_is_held_out_is_not_seen(monkeypatch):
    """Neither weights nor predictions change with the results of the runs that they are for."""
    seen = []
    monkeypatch.setattr(importance, "importances", lambda t, k, values: seen.append(values) or [1.0] * len(t))
    axes, values = [_axis("a", range(25))], np.random.default_rng(0).random(25)
    before = importance._held_out(axes, values, 1, 0)[0]
    held = np.random.default_rng(0).permutation(25)[::5]
    changed = values.copy()
    changed[held] += 100
    after = importance._held_out(axes, changed, 1, 0)[0]
    assert after[held] == pytest.approx(before[held]) and not np.allclose(after, before)
    assert seen[0] == seen[5] and len(seen[0]) == 20


def test_a_sweep_tells_what_its_result_depends_on(tmp_path):
    results = results_of(tmp_path, np.zeros(40))
    trials = [one._replace(value=-float(one.parameters["learner.n_step"])) for one in results.trials]
    (told,) = results._replace(trials=trials).importance()
    written = json.loads((tmp_path / "importance.json").read_text())
    shares = ", ".join(f"{one['name']} {one['importance']:.2f}" for one in written["parameters"])
    assert told == f"importance for best_success: {shares} (held-out R² {written['held_out_r2']:.2f})"
    assert shares.startswith("learner.n_step ")


def test_a_sweep_says_that_it_found_no_dependence(tmp_path):
    """The value is noise; what is told and written says so too."""
    told = results_of(tmp_path, np.random.default_rng(0).random(24)).importance()
    written = json.loads((tmp_path / "importance.json").read_text())
    assert (written["runs"], written["dependence_found"], written["parameters"]) == (24, False, [])
    assert written["held_out_r2"] <= 0
    share = f"(held-out R² {written['held_out_r2']:.2f})"
    assert told == [f"no dependence of best_success on the parameters found {share}"]


@pytest.mark.parametrize(
    ("spec", "values", "axis"),
    [
        ({"min": 1.0, "max": 32.0}, [4.0, 32.0], Axis("x", [4, 32])),
        ({"distribution": "log_uniform_values", "min": 1, "max": 100}, [10.0, 100.0], Axis("x", [1, 2])),
        ({"values": [4, 1, 2]}, [1, 4], Axis("x", [0, 2])),
        ({"values": ["b", "a", None]}, ["a", "b"], Axis("x", [1, 0], 3)),
    ],
)
def test_a_value_has_a_place_on_the_scale_that_is_searched(spec, values, axis):
    assert axis_of("x", Parameter(spec, False), values) == axis
