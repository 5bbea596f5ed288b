"""Reads .pomdp files, the format of A. R. Cassandra's pomdp-solve (http://pomdp.org/code/pomdp-file-spec.html).

    discount: 0.95            # a comment
    values: reward            # or cost: then rewards are the negative numbers
    states: left right        # names, or how many there are
    actions: listen open
    observations: 2
    start: uniform            # or a state, S numbers, "start include: ..." or "start exclude: ..."
    T: listen identity        # or S x S numbers or uniform; T: a : s and S numbers; T: a : s : s' and one
    T: open : * reset
    O: * : left : 0 0.85
    ...
    R: open : left : * : * 10

"*" stands for all, a later line replaces what an earlier one said, line breaks mean no more than spaces.
Beyond the specification, `T: a : s reset` makes that row the distribution `start`, as in pomdp-solve, and
marks (a, s) as ending the episode, as in gym-pomdps.
"""

from __future__ import annotations

import difflib
import math
import re
from array import array
from collections import deque
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from envs.pomdp.model import Model

TOLERANCE: Final = 1e-5
"""How far the sum of a row of probabilities may be from 1."""
MAX_ENTRIES: Final = 50_000_000
"""Numbers that T, O and R may have together: 400 MB."""
MAX_NAMES: Final = 100_000
"""States, actions or observations that a file may have."""
MAX_BYTES: Final = 100_000_000
"""Size that a file may have."""
MAX_WRITTEN: Final = 20 * MAX_ENTRIES
"""Numbers that all lines together may set, those that a later line replaces included: seconds of work."""

_PREAMBLE: Final = ("discount", "values", "states", "actions", "observations")
_SECTIONS: Final = ("T", "O", "R")
_KEYWORDS: Final = (*_PREAMBLE, "start", *_SECTIONS)
_RESERVED: Final = (*_KEYWORDS, "include", "exclude", "uniform", "identity", "reset", "reward", "cost")
_KINDS: Final = {"states": "state", "actions": "action", "observations": "observation"}
# The meaning of a line's indices, and how many of them there must be at least.
_AXES: Final = {
    "T": ("action", "state", "state"),
    "O": ("action", "state", "observation"),
    "R": ("action", "state", "state", "observation"),
}
_FEWEST: Final = {"T": 1, "O": 1, "R": 2}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORD: Final = re.compile(r":|[^\s:]+")
_MOST_COMPARED: Final = 1000  # names among which the nearest is looked for
_NAME: Final = re.compile(r"[A-Za-z_][^\s:*]*")

_Index = int | slice


class _Token(NamedTuple):
    text: str
    line: int


class _Rule(NamedTuple):
    """A line of R."""

    at: tuple[_Index, ...]
    values: NDArray[np.float64]
    line: int


def load(path: str | Path) -> Model:
    """The model of a file.

    Raises:
        ValueError: one line, for a file that cannot be read or is not right; it begins with path and line.
    """
    file, name = Path(path), f"POMDP file {str(path)!r}"
    try:
        about = file.stat()
        if not (file.is_file() or file.is_dir()):  # a device, which has no end
            raise ValueError(f"{name} cannot be read: it is no regular file")
        if about.st_size > MAX_BYTES:
            raise ValueError(f"{name} has {about.st_size} bytes; {MAX_BYTES} are the most")
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from None
    return parse(text, str(path))


def parse(text: str, name: str = "text") -> Model:
    """The model that `text` describes; `name` is what errors call it.

    Raises:
        ValueError: one line, `<name>:<line>: <problem>`.
    """
    return _Reader(text, name).read()


class _Reader:
    """One pass over the words and colons of a file."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        lines = text.splitlines()
        self._tokens = (
            _Token(word, number)
            for number, line in enumerate(lines, start=1)
            for word in _WORD.findall(line.partition("#")[0])
        )
        self._ahead: deque[_Token] = deque()  # those that have been looked at and not taken
        self._end = _Token("the end of the file", max(1, len(lines)))
        self._written = 0
        self._discount = self._sign = math.nan
        self._names: dict[str, dict[str, int]] = {}  # by kind: name -> number
        self._start: NDArray[np.float64] | None = None
        self._tables: dict[str, NDArray[np.float64]] = {}  # T and O
        self._lines: dict[str, NDArray[np.intp]] = {}  # [A, S], the last line that gave a row; 0: none
        self._reset: NDArray[np.bool_]
        self._rules: list[_Rule] = []
        self._seen: set[str] = set()

    # Words.

    def _fail(self, line: int, problem: str) -> NoReturn:
        raise ValueError(f"{self._name}:{line}: {problem}")

    def _peek(self, place: int = 0) -> _Token:
        """The next word, or the one so many places after it."""
        while len(self._ahead) <= place:
            self._ahead.append(next(self._tokens, self._end))
        return self._ahead[place]

    def _take(self) -> _Token:
        self._peek()
        return self._ahead.popleft()

    def _at(self, *texts: str) -> bool:
        return self._peek() is not self._end and self._peek().text in texts

    def _expect_colon(self, before: str) -> None:
        token = self._take()
        if token.text != ":":
            self._fail(token.line, f"expected ':' after {before}, found {_quoted(token)}")

    def _at_number(self) -> bool:
        return _NUMBER.fullmatch(self._peek().text) is not None

    def _number(self, what: str) -> float:
        token = self._take()
        if not _NUMBER.fullmatch(token.text):
            self._fail(token.line, f"expected {what}, found {_quoted(token)}")
        value = float(token.text)
        if not math.isfinite(value):
            self._fail(token.line, f"{_short(token.text)} is too large")
        return value

    def _numbers(self, shape: tuple[int, ...], what: str, *, probabilities: bool) -> NDArray[np.float64]:
        """The next numbers, as many as `shape` has; a single one where it is ()."""
        num = math.prod(shape)
        values = array("d")  # grows with what the file holds, however much it has promised
        for i in range(num):
            line = self._peek().line
            value = self._number(f"{what} {i + 1} of {num}" if num > 1 else f"a {what}")
            if probabilities and not 0 <= value <= 1:
                self._fail(line, f"probability {value:g} must be from 0 to 1")
            values.append(value)
        return np.array(values).reshape(shape)

    def _reference(self, kind: str) -> _Index:
        """The number of a state, action or observation; all of them for '*'."""
        token = self._take()
        if token.text == "*":
            return slice(None)
        names = self._names[kind]
        if token.text in names:
            return names[token.text]
        number = _whole(token.text)
        if number is not None:
            if number < len(names):
                return number
            self._fail(token.line, f"{kind} {_short(token.text)} must be from 0 to {len(names) - 1}")
        near = difflib.get_close_matches(token.text, names, n=1) if len(names) <= _MOST_COMPARED else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        self._fail(token.line, f"unknown {kind} {_quoted(token)}{hint}")

    # Sections.

    def read(self) -> Model:
        while self._peek() is not self._end:
            token = self._take()
            if token.text not in _KEYWORDS:
                many = " (too many numbers before it?)" if _NUMBER.fullmatch(token.text) else ""
                known = ", ".join(f"{word}:" for word in _KEYWORDS)
                self._fail(token.line, f"expected one of {known}; found {_quoted(token)}{many}")
            if token.text in self._seen and token.text not in _SECTIONS:
                self._fail(token.line, f"{token.text}: is given twice")
            self._seen.add(token.text)
            if token.text == "start":
                self._read_start(token.line)
                continue
            self._expect_colon(token.text)
            if token.text in _KINDS:
                self._read_names(_KINDS[token.text])
            elif token.text == "discount":
                self._read_discount()
            elif token.text == "values":
                self._read_values()
            else:
                self._need(token, *dict.fromkeys(_AXES[token.text]))
                self._read_entry(token.text, token.line)
        for word in (*_PREAMBLE, *_SECTIONS):
            if word not in self._seen:
                self._fail(self._end.line, f"the file has no {word}:")
        return self._model()

    def _need(self, token: _Token, *kinds: str) -> None:
        for kind in kinds:
            if kind not in self._names:
                self._fail(token.line, f"{token.text}: must come after {kind}s:")

    def _read_discount(self) -> None:
        line = self._peek().line
        self._discount = self._number("a discount")
        if not 0 <= self._discount <= 1:
            self._fail(line, f"discount {self._discount:g} must be from 0 to 1")

    def _read_values(self) -> None:
        token = self._take()
        signs = {"reward": 1.0, "rewards": 1.0, "cost": -1.0, "costs": -1.0}
        if token.text not in signs:
            self._fail(token.line, f"values: must be reward or cost, found {_quoted(token)}")
        self._sign = signs[token.text]

    def _read_names(self, kind: str) -> None:
        first = self._peek()
        count = _whole(first.text)
        if count is not None:
            self._take()
            self._check_count(kind, count, first)
            self._names[kind] = {str(number): number for number in range(count)}
            return
        names: dict[str, int] = {}
        while self._peek() is not self._end and self._peek().text not in _RESERVED:
            token = self._take()
            if not _NAME.fullmatch(token.text):
                self._fail(token.line, f"{_quoted(token)} is no name of a {kind}; names begin with a letter")
            if token.text in names:
                self._fail(token.line, f"{kind} {_quoted(token)} is named twice")
            names[token.text] = len(names)
            self._check_count(kind, len(names), token)
        if not names:
            self._fail(first.line, f"expected a number of {kind}s or their names, found {_quoted(first)}")
        self._names[kind] = names

    def _check_count(self, kind: str, count: int, token: _Token) -> None:
        if not 1 <= count <= MAX_NAMES:
            given = _short(token.text) if _whole(token.text) is not None else f"{count} or more"
            right = f"it must be at least 1 and at most {MAX_NAMES}"
            self._fail(token.line, f"the number of {kind}s is {given}; {right}")

    def _read_start(self, line: int) -> None:
        self._need(_Token("start", line), "state")
        choice = self._take().text if self._at("include", "exclude") else ""
        self._expect_colon(f"start {choice}".strip())
        num = len(self._names["state"])
        if choice:
            self._start = self._start_list(choice, line)
        elif self._at("uniform"):
            self._take()
            self._start = np.full(num, 1.0 / num)
        elif self._at_number() and (num == 1 or self._number_follows()):
            self._start = self._numbers((num,), "probability", probabilities=True)
            if abs(self._start.sum() - 1.0) > TOLERANCE:
                self._fail(line, f"start sums to {self._start.sum():.9g}; it must be 1 within {TOLERANCE:g}")
        else:
            self._start = np.zeros(num)
            self._start[self._reference("state")] = 1.0
            self._start /= self._start.sum()

    def _number_follows(self) -> bool:
        """Whether the word after the next is a number too: then this is a vector, and no state's number."""
        return _NUMBER.fullmatch(self._peek(1).text) is not None

    def _start_list(self, choice: str, line: int) -> NDArray[np.float64]:
        """Uniform over the states that are listed (include) or over the others (exclude)."""
        listed = np.zeros(len(self._names["state"]), np.bool_)
        while self._peek() is not self._end and self._peek().text not in _RESERVED:
            listed[self._reference("state")] = True
        chosen = listed if choice == "include" else ~listed
        if not chosen.any():
            self._fail(line, f"start {choice}: leaves no state to start in")
        return chosen / chosen.sum()

    def _read_entry(self, section: str, line: int) -> None:
        """Read what follows `T:`, `O:` or `R:`: indices, then a word or the numbers of the others."""
        axes = _AXES[section]
        index = [self._reference(axes[0])]
        while len(index) < len(axes) and self._at(":"):
            self._take()
            index.append(self._reference(axes[len(index)]))
        if len(index) < _FEWEST[section]:
            self._fail(line, f"{section}: must name at least {' and '.join(axes[: _FEWEST[section]])}")
        shape = tuple(len(self._names[kind]) for kind in axes[len(index) :])
        if section == "R":
            values = self._sign_of(line) * self._numbers(shape, "number", probabilities=False)
            self._rules.append(_Rule(tuple(index), values, line))
            return
        if section not in self._tables:
            self._allocate(section, line)
        self._fill(section, tuple(index), shape, line)

    def _sign_of(self, line: int) -> float:
        if "values" not in self._seen:
            self._fail(line, "R: must come after values:")
        return self._sign

    def _allocate(self, section: str, line: int) -> None:
        shape = tuple(len(self._names[kind]) for kind in _AXES[section])
        self._check_size(section, shape, line)
        self._tables[section] = np.zeros(shape)
        self._lines[section] = np.zeros(shape[:2], np.intp)
        if section == "T":
            self._reset = np.zeros(shape[:2], np.bool_)

    def _check_size(self, section: str, shape: tuple[int, ...], line: int) -> None:
        """Fails, before there is a table of this shape, where all tables would be too large together."""
        taken = sum(table.size for table in self._tables.values())
        if taken + math.prod(shape) > MAX_ENTRIES:
            sizes = " x ".join(map(str, shape))
            others = f", and other tables have {taken} of them" if taken else ""
            self._fail(line, f"{section} would be {sizes} numbers; {MAX_ENTRIES} are the most{others}")

    def _write(self, table: NDArray[Any], index: tuple[_Index, ...], values: Any, line: int) -> None:
        part = table[index]
        self._written += part.size
        if self._written > MAX_WRITTEN:
            self._fail(line, f"up to here all lines set more than {MAX_WRITTEN} numbers, which is the most")
        table[index] = values

    def _fill(self, section: str, index: tuple[_Index, ...], shape: tuple[int, ...], line: int) -> None:
        table = self._tables[section]
        values: Any
        reset = identity = False
        if shape and self._at("uniform"):
            self._take()
            values = 1.0 / shape[-1]
        elif section == "T" and len(shape) == 2 and self._at("identity"):
            self._take()
            values, identity = 0.0, True
        elif section == "T" and len(shape) == 1 and self._at("reset"):
            self._take()
            values, reset = 0.0, True  # the row of `start` comes in the end: it may be given later
        elif self._at("identity", "reset", "uniform"):
            word = self._peek()
            places = {"identity": "T: <action>", "reset": "T: <action> : <state>"}
            self._fail(word.line, f"{word.text!r} is for {places.get(word.text, 'rows of T and O')} only")
        else:
            values = self._numbers(shape, "probability", probabilities=True)
        self._write(table, index, values, line)
        if identity:
            np.einsum("...ii->...i", table[index])[...] = 1.0
        self._lines[section][index[:2]] = line
        if section == "T":
            self._reset[index[:2]] = reset

    # The whole.

    def _model(self) -> Model:
        num_states = len(self._names["state"])
        start = np.full(num_states, 1.0 / num_states) if self._start is None else self._start
        transition = self._tables["T"]
        transition[self._reset] = start
        for section in self._tables:
            self._check_sums(section)
        return Model(
            states=tuple(self._names["state"]),
            actions=tuple(self._names["action"]),
            observations=tuple(self._names["observation"]),
            discount=self._discount,
            start=start,
            transition=transition,
            observation=self._tables["O"],
            reward=self._reward(),
            reset=self._reset,
        )

    def _check_sums(self, section: str) -> None:
        """Fails unless every row sums to 1, naming the first that does not and the last line that gave it."""
        sums = self._tables[section].sum(axis=-1)
        for action, state in np.argwhere(np.abs(sums - 1.0) > TOLERANCE)[:1]:
            names = [list(self._names[kind]) for kind in ("action", "state")]
            row = f"{section}: {names[0][action]} : {names[1][state]}"
            line = int(self._lines[section][action, state])
            if line == 0:
                self._fail(self._end.line, f"no line gives the row {row}")
            self._fail(
                line, f"the row {row} sums to {sums[action, state]:.9g}; it must be 1 within {TOLERANCE:g}"
            )

    def _reward(self) -> NDArray[np.float64]:
        """R, with length 1 along the axes where every line has '*'."""
        sizes = [len(self._names[kind]) for kind in _AXES["R"]]
        used = [
            any(axis >= len(rule.at) or isinstance(rule.at[axis], int) for rule in self._rules)
            for axis in range(len(sizes))
        ]
        shape = tuple(size if use else 1 for size, use in zip(sizes, used, strict=True))
        self._check_size("R", shape, self._rules[-1].line)
        reward = np.zeros(shape)
        for rule in self._rules:
            self._write(reward, rule.at, rule.values, rule.line)
        return reward


def _quoted(token: _Token) -> str:
    return token.text if token.text == "the end of the file" else repr(_short(token.text))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _whole(text: str) -> int | None:
    """The number that a word of digits is, at most 10^18; None for another word."""
    if not re.fullmatch(r"[0-9]+", text):
        return None
    return int(text) if len(text) <= 18 else 10**18
