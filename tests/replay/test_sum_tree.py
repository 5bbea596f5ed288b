from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.sum_tree import FAN_OUT, SumTree, sum_tree_bytes


def check_sums(tree: SumTree, leaves: np.ndarray) -> None:
    """Every parent equals the sum of its children, recomputed, not merely close to it."""
    nodes = tree._nodes.reshape(-1, FAN_OUT)
    np.testing.assert_array_equal(tree.leaves[: len(leaves)], leaves)
    np.testing.assert_array_equal(
        tree._nodes, [timestep.sum() for timestep in tree.leaves.reshape(-1, FAN_OUT)]
    )
    np.testing.assert_array_equal(tree._top, [timestep.sum() for timestep in nodes])
    np.testing.assert_allclose(tree.total, leaves.sum(), rtol=1e-13, atol=0)


@settings(max_examples=40, deadline=None)
@given(size=st.sampled_from([1, 63, 64, 65, 4096, 4097, 9000]), seed=st.integers(0, 2**32 - 1))
def test_root_is_the_sum_after_any_updates(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    tree, leaves = SumTree(size), np.zeros(size)
    for _ in range(30):
        indices = random.integers(size, size=random.integers(1, 40))
        values = 10.0 ** random.uniform(-6, 6, len(indices)) * (random.random(len(indices)) < 0.7)
        tree.set(indices, values)
        for index, value in zip(indices, values, strict=True):  # the last of equal indices counts
            leaves[index] = value
    check_sums(tree, leaves)
    rebuilt = SumTree(size)
    rebuilt.leaves[:] = tree.leaves
    rebuilt.rebuild()
    rebuilt.rebuild()  # what was there before does not count
    check_sums(rebuilt, leaves)
    np.testing.assert_array_equal(rebuilt._top, tree._top)


@settings(max_examples=60, deadline=None)
@given(size=st.sampled_from([1, 64, 5000]), seed=st.integers(0, 2**32 - 1), wide=st.booleans())
def test_find_is_the_inverse_of_the_running_sum(size: int, seed: int, wide: bool) -> None:
    random = np.random.default_rng(seed)
    tree = SumTree(size)
    leaves = random.random(size) * (random.random(size) < 0.05)
    leaves[random.integers(size)] = 1.0
    if wide:  # twelve orders of magnitude: where rounding bites
        leaves *= 10.0 ** random.uniform(-6, 6, size)
    tree.set(np.arange(size), leaves)
    mass = random.random(200) * tree.total
    edges = np.cumsum(leaves)
    found = tree.find(mass)
    assert (leaves[found] > 0).all()
    slack = 1e-12 * tree.total
    assert (edges[found] - leaves[found] <= mass + slack).all()
    assert (mass <= edges[found] + slack).all()


@pytest.mark.parametrize("leaf", [0, 63, 64, 4095, 4096, 8191])
def test_a_zero_leaf_is_never_found(leaf: int) -> None:
    """Not even for masses at, next to and (by rounding) past the edges of everything."""
    tree = SumTree(8192)
    tree.set(np.array([leaf]), [0.1])
    edge = tree.total
    masses = np.array([0.0, 5e-324, np.nextafter(edge, 0), edge, np.nextafter(edge, 1), edge * 1.001])
    np.testing.assert_array_equal(tree.find(masses), leaf)
    neighbours = np.array([leaf, (leaf + 4096) % 8192, leaf ^ 1])
    tree.set(neighbours, [0.1, 0.2, 0.3])
    edges = np.cumsum(tree.leaves)[np.sort(neighbours)]
    masses = np.concatenate([[0.0], edges, np.nextafter(edges, 0), np.nextafter(edges, 1), edges + 1e-15])
    assert (tree.leaves[tree.find(masses)] > 0).all()


def test_a_node_whose_sum_exceeds_its_running_sum() -> None:
    """The two round differently, so a mass below the one may lie past the other: past all children."""
    random, cases = np.random.default_rng(0), 0
    for _ in range(200):
        leaves = random.random(64)
        leaves[0] = leaves[-1] = 0.0
        tree = SumTree(64)
        tree.set(np.arange(64), leaves)
        mass = np.nextafter(tree.total, 0)
        cases += mass >= np.cumsum(leaves)[-1]
        assert tree.find(np.array([mass])) == 62
    assert cases > 10  # the case is a real one


def test_sums_do_not_drift() -> None:
    """Large values come and go; what is left is exact. (With differences added to parents it is not.)"""
    tree = SumTree(100)
    tree.set(np.array([3]), [1e-6])
    for value in np.random.default_rng(0).uniform(1e8, 1e9, 300):
        tree.set(np.array([4]), [value])
    tree.set(np.array([4]), [0.0])
    assert tree.total == 1e-6
    np.testing.assert_array_equal(tree.find(np.array([0.0, 0.99e-6])), 3)


@pytest.mark.parametrize("size", [1, 4096, 4097, 500_000])
def test_bytes(size: int) -> None:
    tree = SumTree(size)
    assert sum_tree_bytes(size) == tree.leaves.nbytes + tree._nodes.nbytes + tree._top.nbytes
    assert len(tree.leaves) >= size
