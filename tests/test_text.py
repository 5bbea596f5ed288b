"""Text for people."""

from __future__ import annotations

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


def test_sizes_have_three_digits() -> None:
    assert [text.size(count) for count in (999, 1000, 12345678, 2e13)] == [
        "999 bytes",
        "1 kB",
        "12.3 MB",
        "20 TB",
    ]


def test_an_error_is_one_line_of_bounded_length() -> None:
    assert text.one_line(ValueError("a\n  b")) == "ValueError: a b"
    assert text.one_line(" plain\ttext ") == "plain text"
    assert len(text.one_line("x" * 1000)) == 200
