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


def test_one_of_a_kind_is_singular() -> None:
    assert [text.counted(count, "run") for count in (0, 1, 2, 12_000)] == [
        "0 runs",
        "1 run",
        "2 runs",
        "12 000 runs",
    ]


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


def test_durations_have_the_unit_that_people_would_say() -> None:
    minute, hour = 60, 3600
    seconds = [0.2, 89, 90, 12.4 * minute, 89 * minute, 1.5 * hour, 35 * hour, 36 * hour, 50 * hour]
    assert [text.duration(count) for count in seconds] == [
        *("0 s", "89 s", "2 min", "12 min", "89 min", "1.5 h", "35.0 h", "1.5 days", "2.1 days"),
    ]
