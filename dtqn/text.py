"""Numbers, tables and errors as people read them."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Sequence
from typing import TextIO

_NARROWEST = 24
"""Characters to which a column is wrapped at most, unless its words are shorter."""
HARD_SPACE = "\N{NO-BREAK SPACE}"


def number(value: float) -> str:
    """`250 000`."""
    return f"{value:,.0f}".replace(",", " ")


def counted(count: int, noun: str) -> str:
    """`1 run` or `250 000 runs`."""
    return f"{number(count)} {noun}{'s' * (count != 1)}"


def clock(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def size(count: float) -> str:
    """A number of bytes: `1.21 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def one_line(error: object, longest: int = 200) -> str:
    """An error's type and message without line breaks; any other object's text, even a stranger's.

    What cannot be printed, such as the escape sequences by which text repaints a terminal, becomes its code.
    """
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    words = " ".join(text.split())[:longest]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def gpu_is_full(error: BaseException) -> str:
    """What torch's OutOfMemoryError says at length, in its first two sentences."""
    return f"the GPU has no memory left: {'. '.join(one_line(str(error)).split('. ')[:2])}"


def terminal_width(out: TextIO) -> int | None:
    """The columns of the terminal; None where the output goes to a file or a program, which gets all."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def shortened(text: str, room: int) -> str:
    """At most so many letters, at least three: the middle gives way, as names differ at their ends."""
    end = (room - 1) // 2
    return text if len(text) <= room else f"{text[: room - 1 - end]}…{text[-end:]}"


def columns(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Lines in which the cells of `rows`, all of one length, stand below each other.

    Args:
        width: where lines would be longer, the widest columns but the first are wrapped; None never wraps.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = [max(map(len, " ".join(column).split(" "))) for column in zip(*rows, strict=True)]
    least = [*widths[:1], *(min(word, _NARROWEST) for word in words[1:])]
    while width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        if not (can_give := [n for n in range(len(widths)) if widths[n] > least[n]]):
            break
        widths[max(can_give, key=widths.__getitem__)] -= 1
    lines = []
    for row in rows:
        cells = [
            [cell] if len(cell) <= room else textwrap.wrap(cell, room, break_on_hyphens=False)
            for cell, room in zip(row, widths, strict=True)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            lines.append("  ".join(map(str.ljust, parts, widths)).rstrip().replace(HARD_SPACE, " "))
    return lines
