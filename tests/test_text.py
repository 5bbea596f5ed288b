"""Text for people."""

from __future__ import annotations

from typing import Any

import pytest

from dtqn import text


def test_columns_stand_below_each_other() -> None:
    assert text.columns([["a", "long", "x"], ["wide", "b", ""]]) == ["a     long  x", "wide  b"]


def test_wide_columns_are_wrapped_to_the_width() -> None:
    rows = [["a-long-name-that-stays", "some words that are wrapped here", "x"], ["b", "short", "y"]]
    assert text.columns(rows, 42) == [
        "a-long-name-that-stays  some words that  x",
        "                        are wrapped",
        "                        here",
        "b                       short            y",
    ]
    assert text.columns(rows, 59) == text.columns(rows) == text.columns(rows, 1000)
    assert max(map(len, text.columns(rows, 58))) <= 58
    assert text.columns([["a" * 30]], 10) == ["a" * 30], "nothing but the first column"


def test_words_of_columns_stay_whole_and_names_keep_their_ends() -> None:
    rows = [["a", "learner.learning_rate", "0.5 of"], ["b", "x" * 30, f"3{text.HARD_SPACE}of 4"]]
    assert text.columns(rows, 10) == [
        *("a  learner.learning_rate     0.5", "                             of"),
        *(f"b  {'x' * 24}  3 of", "   xxxxxx                    4"),
    ]
    assert [text.shortened("abcdefgh", room) for room in (8, 7, 4, 3)] == [
        "abcdefgh",
        "abc…fgh",
        "ab…h",
        "a…h",
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (lambda n: text.counted(n, "run"), {0: "0 runs", 1: "1 run", 2: "2 runs", 12_000: "12 000 runs"}),
        (text.size, {999: "999 bytes", 1000: "1 kB", 12345678: "12.3 MB", 2e13: "20 TB"}),
        (text.one_line, {ValueError("a\n  b"): "ValueError: a b", " plain\ttext ": "plain text"}),
        (text.one_line, {"x" * 1000: "x" * 200}),
    ],
)
def test_a_value_is_written_as_people_would_say(written: Any, expected: dict[Any, str]) -> None:
    assert {value: written(value) for value in expected} == expected
