"""Trees and their leaves by path."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from dtqn.types import from_leaves, leaves, map_tree


class Pair(NamedTuple):
    left: Any
    right: Any = None


TREES = {
    "nested tuples": (Pair(Pair(1, 2), 3), {"left/left": 1, "left/right": 2, "right": 3}),
    "a dict in a tuple": (
        Pair({"a": 1, "b/c": Pair(2, 3)}),
        {"left/a": 1, "left/b/c/left": 2, "left/b/c/right": 3},
    ),
    "an empty place": (Pair(None, 1), {"right": 1}),
    "no leaf": (Pair({}), {}),
}


@pytest.mark.parametrize("name", TREES)
def test_leaves_are_named_by_their_path_and_make_up_the_tree_again(name: str) -> None:
    tree, named = TREES[name]
    assert leaves(tree) == named
    again = from_leaves(map_tree(lambda _: "a template", tree), named | {"other": 9})
    assert again == tree and type(again) is type(tree)
    assert leaves(tree, "memory") == {f"memory/{path}": leaf for path, leaf in named.items()}


def test_an_empty_place_is_filled_where_its_path_is_there() -> None:
    assert from_leaves(Pair(0, None), {"left": 1, "right": 2}) == Pair(1, 2)
    assert from_leaves(Pair(0, None), {"left": 1}) == Pair(1, None)


def test_a_missing_leaf_is_an_error() -> None:
    with pytest.raises(KeyError, match="left/right"):
        from_leaves(Pair(Pair(0, 0)), {"left/left": 1})
