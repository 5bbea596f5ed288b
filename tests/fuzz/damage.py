"""What can be wrong with a file: bytes, words, values, keys, nesting, encodings."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import yaml


def _long(value: Any) -> Any:
    """A tree in which texts like `a*3000` are as long as they say."""
    if isinstance(value, dict):
        return {_long(key): _long(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_long(inner) for inner in value]
    found = re.fullmatch(r"(.)\*(\d+)", value) if isinstance(value, str) else None
    return found[1] * int(found[2]) if found else value


CASES: dict[str, Any] = _long(yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text()))
_SCALARS = [*CASES["scalars"], "[" * 60 + "]" * 60, "0x" + "f" * 900]
_VALUES = [*CASES["values"], -(10**400)]


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
    changes = (
        lambda: data[:at],
        lambda: data[:at] + data[end:],
        lambda: data[:at] + junk + data[at:],
        lambda: data[:end] + piece + data[end:],
        lambda: _flipped(rng, data, 1),
        lambda: _flipped(rng, data, 20),
        lambda: rng.choice([b"", rng.randbytes(99)]),
        lambda: rng.choice([b"\xef\xbb\xbf" + data, data.decode("latin-1").encode("utf-16")]),
        lambda: data + piece * rng.choice([1, 200]),
        lambda: data[:at] + junk * rng.choice([1, 30_000]) + data[end:],
    )
    return rng.choice(changes)()


def _flipped(rng: random.Random, data: bytes, bits: int) -> bytes:
    changed = bytearray(data)
    for _ in range(bits if data else 0):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _of_words(rng: random.Random, data: bytes) -> bytes:
    """Some word or number becomes another one."""
    words = list(re.finditer(rb"[\w.+-]+", data))
    if not words:
        return data
    word, new = rng.choice(words), rng.choice([*_SCALARS, *map(str, _VALUES[:8])])
    return data[: word.start()] + new.encode("utf-8", "surrogateescape") + data[word.end() :]


def _of_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at, line = rng.randrange(len(lines)), rng.choice(lines)
    head, colon, _ = line.partition(b":")
    scalar = rng.choice(_SCALARS).encode("utf-8", "surrogateescape")
    place, mark = rng.randrange(len(lines[at]) + 1), rng.choice("{}[]:,&*!|>'\"%@`#-? \t").encode()
    marked = lines[at][:place] + mark + lines[at][place:]
    new = rng.choice([[line, lines[at]], [], [head + colon + b" " + scalar], [marked], [b"  " + lines[at]]])
    return b"\n".join([*lines[:at], *new, *lines[at + 1 :]])


def _of_values(rng: random.Random, data: bytes) -> bytes:
    """A value or key in JSON, in a line of JSON, or in YAML."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    for text, write in ((data, _as_json), (lines[at], _as_json), (data, _as_yaml)):
        try:
            read = json.loads if write is _as_json else yaml.safe_load
            changed = write(changed_value(rng, read(text)))
        except Exception:  # cannot be read, or be written once changed
            continue
        return changed if text is data else b"\n".join([*lines[:at], changed, *lines[at + 1 :]])
    return _of_bytes(rng, data)


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _as_yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogateescape")


def changed_value(rng: random.Random, value: Any) -> Any:
    """A tree of dicts and lists in which one place holds something else."""
    if not (isinstance(value, dict | list) and value and rng.random() < 0.9):
        return _other(rng, value)
    key = rng.choice([*value] if isinstance(value, dict) else range(len(value)))
    changed, way = value.copy(), rng.randrange(12)
    if way == 0:
        del changed[key]
    elif way == 1 and isinstance(value, dict):
        changed[rng.choice([x for x in _VALUES if isinstance(x, str)])] = changed.pop(key)
    elif way == 1:
        changed.append(changed[key])
    else:
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
    return rng.choice(_VALUES)
