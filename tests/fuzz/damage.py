"""What can be wrong with a file: bytes, words, values, keys, nesting, encodings."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import yaml

SCALARS = [
    *("1", "-1", "0.5", "1e3", "2020-01-01", "2020-99-99", "!!int x", "!!float x", "!!bool 3", "!!null x"),
    *("!!timestamp x", "!!python/name:os.system ''", "!!python/object/apply:os.system ['touch ran']"),
    *("!!set {a}", "~", "true", "*a", "&a 1", "&a [*a]", "<<", "'", "[1, 2]", "{a: 1}", "[[[[1]]]]", "{}"),
    *("[" * 60 + "]" * 60, "9" * 5000, "0x" + "f" * 900, "?", "-", "|", "1:30:45", ".inf", "-.inf", ".nan"),
    *("none", "horizon", "grid", "bayes", "maximize", "'\\udc80'", "é", "\x07", "\t", '"\\0"'),
    "!!binary aGk=",
    *('"\\e[2J\\e[31merror: x"', '"a\\nok: b"', "'`touch ran`'", "'$(touch ran)'", "'](x) | <b>'", "../x"),
    "/",
    *("subprocess:getoutput", "os:system", "a" * 3000, "'{c.env}'", "'%s'", "1e400", "1e308", "-0.0"),
    "{1: 2}",
]
"""In YAML."""
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2.5, 1e308, 10**18, 10**40, -(10**400), float("nan"), float("inf"), ""),
    " ",
    *("x", "none", "1", "é", "\ud800", "\0", "\x1b[2J\x1b[1A", "a\nerror: b", "a" * 3000, "../../x"),
    "/etc/passwd",
    *([], {}, [1], [[]], {"a": 1}, {"": {}}, [None], ["x"] * 3, {"$array": "x"}, {"$tuple": 1}),
    {"$items": [[[], 1]]},
    *("subprocess:getoutput", "`x`", "$(touch ran)", "gtrxl", "t-maze-passive-3", "latest", "400", 1 << 63),
    -1e-320,
]


def spoiled(rng: random.Random, data: bytes) -> bytes:
    """The content of a file with one to three things wrong."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        data = rng.choice([_of_bytes, _of_words, _of_lines, _of_values, _of_values])(rng, data)
    return data


def _of_bytes(rng: random.Random, data: bytes) -> bytes:
    at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    piece = data[at:end][:2000]
    junk = rng.choice(
        [rng.randbytes(8), b"\x1b[2J", b"\0", b"\xff\xfe", b"\r\n", b"\xe2\x80\xa8", b"{" * 3000]
    )
    match rng.randrange(9):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:at] + junk + data[at:]
        case 3:
            return data[:end] + piece + data[end:]
        case 4 | 5:
            flipped = bytearray(data)
            for _ in range(rng.choice([1, 20]) if data else 0):
                flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case 6:
            return rng.choice(
                [b"", b"\xef\xbb\xbf" + data, data.decode("latin-1").encode("utf-16"), rng.randbytes(99)]
            )
        case 7:
            return data + piece * rng.choice([1, 200])
    return data[:at] + junk * rng.choice([1, 30_000]) + data[end:]


def _of_words(rng: random.Random, data: bytes) -> bytes:
    """Some word or number becomes another one."""
    words = list(re.finditer(rb"[\w.+-]+", data))
    if not words:
        return data
    word, new = rng.choice(words), rng.choice([*SCALARS, *map(str, VALUES[:8])])
    return data[: word.start()] + new.encode("utf-8", "surrogateescape") + data[word.end() :]


def _of_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at, line = rng.randrange(len(lines)), rng.choice(lines)
    match rng.randrange(5):
        case 0:
            lines.insert(at, line)
        case 1:
            del lines[at]
        case 2:
            head, colon, _ = line.partition(b":")
            lines[at] = head + colon + b" " + rng.choice(SCALARS).encode("utf-8", "surrogateescape")
        case 3:
            place = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + rng.choice("{}[]:,&*!|>'\"%@`#-? \t").encode() + lines[at][place:]
        case 4:
            lines[at] = b"  " + lines[at]
    return b"\n".join(lines)


def _of_values(rng: random.Random, data: bytes) -> bytes:
    """A value or key in JSON, in a line of JSON, or in YAML."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    for text, write in ((data, _as_json), (lines[at], _as_json), (data, _as_yaml)):
        try:
            read = json.loads if write is _as_json else yaml.safe_load
            changed = write(changed_value(rng, read(text)))
        except (ValueError, yaml.YAMLError, RecursionError, TypeError, AttributeError, OverflowError):
            continue
        return changed if text is data else b"\n".join([*lines[:at], changed, *lines[at + 1 :]])
    return _of_bytes(rng, data)


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _as_yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogateescape")


def changed_value(rng: random.Random, value: Any) -> Any:
    """A tree of dicts and lists in which one place holds something else."""
    goes_on = isinstance(value, dict | list) and value and rng.random() < 0.9
    if not goes_on:
        return _other(rng, value)
    key = rng.choice([*value] if isinstance(value, dict) else range(len(value)))
    changed = value.copy()
    match rng.randrange(12):
        case 0:
            del changed[key]
        case 1 if isinstance(value, dict):
            changed[rng.choice([x for x in VALUES if isinstance(x, str)])] = changed.pop(key)
        case 1:
            changed.append(changed[key])
        case _:
            changed[key] = changed_value(rng, value[key])
    return changed


def _other(rng: random.Random, value: Any) -> Any:
    """Something in the place of a value, often of its own type."""
    if isinstance(value, int | float) and rng.random() < 0.4:
        return rng.choice([-value, value + 1, value * 1000, float(value), str(value), value * 10**18])
    if isinstance(value, str) and rng.random() < 0.3:
        return rng.choice(
            [value + "\x1b[31m\n", value[:-1], value * 50, [value], "../" + value, value.upper()]
        )
    if rng.random() < 0.05:
        for _ in range(rng.choice([40, 900])):
            value = [value]
        return value
    return rng.choice(VALUES)
