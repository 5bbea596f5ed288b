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

import math
import re
from array import array
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from envs.errors import check_is_file, meant
from envs.pomdp.dynamics import Model

TOLERANCE: Final = 1e-5
"""How far the sum of a row of probabilities may be from 1."""
MAX_ENTRIES: Final = 50_000_000
"""Numbers that T, O and R may have together: 400 MB."""
MAX_NAMES: Final = 100_000
"""States, actions or observations that a file may have."""

_PREAMBLE: Final = ("discount", "values", "states", "actions", "observations")
# The meaning of a line's indices, and how many of them there must be at least.
_AXES: Final = {
    "T": ("action", "state", "state"),
    "O": ("action", "state", "observation"),
    "R": ("action", "state", "state", "observation"),
}
_FEWEST: Final = {"T": 1, "O": 1, "R": 2}
_KEYWORDS: Final = (*_PREAMBLE, "start", *_AXES)
# Words in the place of numbers, and where they may stand.
_WORDS: Final = {
    "uniform": "rows of T and O",
    "identity": "T: <action>",
    "reset": "T: <action> : <state>",
}
_RESERVED: Final = (*_KEYWORDS, *_WORDS, "include", "exclude", "reward", "cost")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORD: Final = re.compile(r":|[^\s:]+")
_NAME: Final = re.compile(r"[A-Za-z_][^\s:*]*")

_Index = int | slice


class _Token(NamedTuple):
    text: str
    line: int


class _Rule(NamedTuple):
    """A line of T, O or R."""

    at: tuple[_Index, ...]
    values: NDArray[np.float64] | float
    word: str
    """What stands in the place of numbers, if there is such."""
    line: int

    def gives(self, *place: int) -> bool:
        """Whether it says anything of a row."""
        return all(isinstance(at, slice) or at == number for at, number in zip(self.at, place, strict=False))


def load(path: str | Path) -> Model:
    """The model of a file.

    Raises:
        ValueError: one line, for a file that cannot be read or is not right; it begins with path and line.
    """
    try:
        check_is_file(Path(path))
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ValueError(f"POMDP file {str(path)!r} cannot be read: {error.strerror}") from None
    return parse(text, str(path))


def parse(text: str, name: str = "text") -> Model:
    """The model that `text` describes; `name` is what errors call it.

    Raises:
        ValueError: one line, `<name>:<line>: <problem>`.
    """
    return _Reader(text, name).read()


class _Reader:
    """One pass over the words and colons of a file, which gathers its lines; then the tables are made."""

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
        self._sign = math.nan
        self._names: dict[str, dict[str, int]] = {}  # by kind: name -> number
        self._start: NDArray[np.float64] | None = None
        self._rules: dict[str, list[_Rule]] = {section: [] for section in _AXES}
        self._seen: set[str] = set()
        self._entries = 0  # of the tables made so far

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

    def _in_list(self) -> bool:
        """Whether another name, or number, follows in a list of such."""
        return self._peek() is not self._end and self._peek().text not in _RESERVED

    def _at_number(self, place: int = 0) -> bool:
        return _NUMBER.fullmatch(self._peek(place).text) is not None

    def _take_colon(self, before: str) -> None:
        token = self._take()
        if token.text != ":":
            self._fail(token.line, f"expected ':' after {before}, found {_quoted(token)}")

    def _number(self, what: str) -> float:
        token = self._take()
        if not _NUMBER.fullmatch(token.text):
            self._fail(token.line, f"expected {what}, found {_quoted(token)}")
        value = float(token.text)
        if not math.isfinite(value):
            self._fail(token.line, f"{_short(token.text)} is too large")
        return value

    def _numbers(self, shape: tuple[int, ...], what: str) -> NDArray[np.float64]:
        """The next numbers, as many as `shape` has; a single one where it is ()."""
        num = math.prod(shape)
        values = array("d")  # grows with what the file holds, however much it has promised
        for i in range(num):
            line = self._peek().line
            value = self._number(f"{what} {i + 1} of {num}" if num > 1 else f"a {what}")
            if what != "number" and not 0 <= value <= 1:
                self._fail(line, f"{what} {value:g} must be from 0 to 1")
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
        self._fail(token.line, f"unknown {kind} {_quoted(token)}{meant(token.text, names)}")

    # Sections.

    def read(self) -> Model:
        while self._peek() is not self._end:
            token = self._take()
            if token.text not in _KEYWORDS:
                many = " (too many numbers before it?)" if _NUMBER.fullmatch(token.text) else ""
                known = ", ".join(f"{word}:" for word in _KEYWORDS)
                self._fail(token.line, f"expected one of {known}; found {_quoted(token)}{many}")
            if token.text in self._seen and token.text not in _AXES:
                self._fail(token.line, f"{token.text}: is given twice")
            self._seen.add(token.text)
            if token.text != "start":
                self._take_colon(token.text)
            self._read_section(*token)
        for word in (*_PREAMBLE, *_AXES):
            if word not in self._seen:
                self._fail(self._end.line, f"the file has no {word}:")
        return self._model()

    def _read_section(self, word: str, line: int) -> None:
        match word:
            case "discount":
                self._numbers((), "discount")  # learning has its own
            case "values":
                token = self._take()
                self._sign = {"reward": 1.0, "rewards": 1.0, "cost": -1.0, "costs": -1.0}.get(token.text, 0.0)
                if not self._sign:
                    self._fail(token.line, f"values: must be reward or cost, found {_quoted(token)}")
            case "states" | "actions" | "observations":
                self._read_names(word.removesuffix("s"))
            case "start":
                self._need(word, line, "states")
                self._read_start(line)
            case _:
                self._need(word, line, *(f"{kind}s" for kind in _AXES[word]))
                self._read_entry(word, line)

    def _need(self, word: str, line: int, *before: str) -> None:
        for needed in before:
            if needed not in self._seen:
                self._fail(line, f"{word}: must come after {needed}:")

    def _read_names(self, kind: str) -> None:
        first = self._peek()
        count = _whole(first.text)
        if count is not None:
            self._take()
            self._check_count(kind, count, first)
            self._names[kind] = {str(number): number for number in range(count)}
            return
        names: dict[str, int] = {}
        while self._in_list():
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
        choice = self._take().text if self._at("include", "exclude") else ""
        self._take_colon(f"start {choice}".strip())
        num = len(self._names["state"])
        if not choice and self._at_number() and (num == 1 or self._at_number(1)):
            # Two numbers are a vector, one is a state's.
            self._start = self._numbers((num,), "probability")
            if abs(self._start.sum() - 1.0) > TOLERANCE:
                self._fail(line, f"start sums to {self._start.sum():.9g}; it must be 1 within {TOLERANCE:g}")
            return
        chosen = np.zeros(num, np.bool_)
        if not choice:
            chosen[slice(None) if self._at("uniform") and self._take() else self._reference("state")] = True
        while choice and self._in_list():
            chosen[self._reference("state")] = True
        chosen ^= choice == "exclude"
        if not chosen.any():
            self._fail(line, f"start {choice}: leaves no state to start in")
        self._start = chosen / chosen.sum()

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
        values: NDArray[np.float64] | float = 0.0
        word = ""
        if section == "R":
            self._need(section, line, "values")
            values = self._sign * self._numbers(shape, "number")
        elif self._at(*_WORDS):
            word = self._take_word(section, len(shape))
            values = 1.0 / shape[-1] if word == "uniform" else 0.0
        else:
            values = self._numbers(shape, "probability")
        self._rules[section].append(_Rule(tuple(index), values, word, line))

    def _take_word(self, section: str, num_axes: int) -> str:
        """The word in the place of the numbers of so many axes."""
        word, line = self._take()
        fitting = {"uniform": num_axes > 0, "identity": num_axes == 2, "reset": num_axes == 1}
        if not fitting[word] or (section == "O" and word != "uniform"):
            self._fail(line, f"{word!r} is for {_WORDS[word]} only")
        return word

    # The whole.

    def _model(self) -> Model:
        states, actions, observations = (tuple(self._names[k]) for k in ("state", "action", "observation"))
        start = np.full(len(states), 1.0 / len(states)) if self._start is None else self._start
        reset = np.zeros((len(actions), len(states)), np.bool_)
        for rule in self._rules["T"]:
            reset[rule.at[:2]] = rule.word == "reset"
        transition = self._table("T")
        transition[reset] = start
        observation = self._table("O")
        self._check_sums("T", transition)
        self._check_sums("O", observation)
        return Model(
            states=states,
            actions=actions,
            observations=observations,
            start=start,
            transition=transition,
            observation=observation,
            reward=self._table("R"),
            reset=reset,
        )

    def _table(self, section: str) -> NDArray[np.float64]:
        """T, O or R; R with length 1 along the axes where every line has '*'."""
        rules = self._rules[section]
        shape = [len(self._names[kind]) for kind in _AXES[section]]
        if section == "R":
            for axis in range(len(shape)):
                if all(axis < len(rule.at) and isinstance(rule.at[axis], slice) for rule in rules):
                    shape[axis] = 1
        line = rules[-1].line if section == "R" else rules[0].line
        if self._entries + math.prod(shape) > MAX_ENTRIES:
            sizes = " x ".join(map(str, shape))
            others = f", and other tables have {self._entries} of them" if self._entries else ""
            self._fail(line, f"{section} would be {sizes} numbers; {MAX_ENTRIES} are the most{others}")
        table = np.zeros(shape)
        self._entries += table.size
        for rule in rules:
            table[rule.at] = rule.values
            if rule.word == "identity":
                np.einsum("...ii->...i", table[rule.at])[...] = 1.0
        return table

    def _check_sums(self, section: str, table: NDArray[np.float64]) -> None:
        """Fails unless every row sums to 1, naming the first that does not and the last line that gave it."""
        sums = table.sum(axis=-1)
        for action, state in np.argwhere(np.abs(sums - 1.0) > TOLERANCE)[:1]:
            row = f"{section}: {[*self._names['action']][action]} : {[*self._names['state']][state]}"
            lines = [rule.line for rule in self._rules[section] if rule.gives(action, state)]
            if not lines:
                self._fail(self._end.line, f"no line gives the row {row}")
            wrong = f"{sums[action, state]:.9g}; it must be 1 within {TOLERANCE:g}"
            self._fail(lines[-1], f"the row {row} sums to {wrong}")


def _quoted(token: _Token) -> str:
    return token.text if token.text == "the end of the file" else repr(_short(token.text))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _whole(text: str) -> int | None:
    """The number that a word of digits is, at most 10^18; None for another word."""
    if not re.fullmatch(r"[0-9]+", text):
        return None
    return int(text) if len(text) <= 18 else 10**18
