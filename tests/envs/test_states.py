"""States that a user may not give: each is refused in one line that names the field and what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import envs

SUITS = np.arange(52) % 4
GIVEN: dict[str, dict[str, Any]] = {
    "car-flag": {"heaven": 1},
    "t-maze-active-5": {"goal": 1},
    "memory-cards-2": {"cards": [1, 2, 1, 2], "shown": 0},
    "numpad-2x2": {"sequence": [0, 1, 2, 3]},
}
"""The fields that are right, unless the table says otherwise."""
WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "car-flag": [
        ({"position": 1.2}, "'position' holds 1.2; it must hold numbers from -1.1 to 1.1"),
        ({"position": 0.0, "velocity": -0.08}, "'velocity' holds -0.08"),
        ({"position": 0.0, "heaven": 0}, "'heaven' holds 0.0; it must be -1 or 1"),
        ({"position": "left"}, "'position' is 'left'; it must be numbers"),
        ({"position": np.nan}, "'position' holds nan"),
        ({"positon": 0.0}, "unknown key 'positon'; did you mean position"),
        ({}, "has no 'position'"),
    ],
    "t-maze-active-5": [
        (
            {"position": (3, 1)},
            r"'position' holds \(3, 1\); it must be \(0, 0\) to \(6, 0\) or \(6, -1 or 1\)",
        ),
        ({"position": (-1, 0)}, r"'position' holds \(-1, 0\)"),
        ({"position": (7, 0)}, "'position' holds 7; it must hold integers from -1 to 6"),
        ({"position": 3}, r"'position' has shape \(\); it must be \(2,\)"),
        ({"position": (0, 0), "goal": 0}, "'goal' holds 0; it must be -1 or 1"),
        ({"position": (0, 0), "time": 9}, "'time' holds 9; it must hold integers from 0 to 8"),
        ({"position": (0, 0), "visited": 1}, "'visited' is 1; it must be booleans"),
        ({"position": (0, 0), "tme": 1}, "unknown key 'tme'; did you mean time"),
    ],
    "memory-cards-2": [
        ({"cards": [1, 2, 1, 1]}, "'cards' must hold each pair from 1 to 2 twice"),
        ({"cards": [1, 2, 1, 3]}, "'cards' holds 3; it must hold integers from 1 to 2"),
        ({"cards": [1, 2]}, r"'cards' has shape \(2,\); it must be \(4,\)"),
        ({"removed": [True, False, False, False]}, "'removed' holds one card of a pair"),
        ({"removed": [0, 0, 0, 0]}, "'removed' .* must be booleans"),
        (
            {"removed": [True, False, True, False]},
            "'shown' holds 0; it must be a position that is not removed",
        ),
        ({"shown": -1}, "'shown' holds -1"),
        ({"shown": 4}, "'shown' holds 4; it must hold integers from -1 to 3"),
        ({"removed": [True] * 4, "shown": 2}, "'shown' holds 2; .* or -1 where all are"),
        ({"show": 1}, "unknown key 'show'; did you mean shown"),
    ],
    "numpad-2x2": [
        (
            {"sequence": [0, 1, 2, 2]},
            r"'sequence' holds \[0, 1, 2, 2\]; it must hold each pad from 0 to 3 once",
        ),
        ({"sequence": [0, 1, 2]}, r"'sequence' has shape \(3,\); it must be \(4,\) or \(3, 4\)"),
        ({"sequence": [0, 1, 2, 4]}, "'sequence' holds 4; it must hold integers from 0 to 3"),
        ({"position": (0, 1.5)}, "'position' holds 1.5; it must hold numbers from -1.0 to 1.0"),
        ({"velocity": (0, np.nan)}, "'velocity' holds nan"),
        ({"acceleration": (0, -0.6)}, "'acceleration' holds -0.6; it must hold numbers from -0.5 to 0.5"),
        ({"lit": 4}, "'lit' holds 4; it must hold integers from 0 to 3"),
        ({"lit": 2, "paid": 1}, "'paid' holds 1; it must be at least 'lit'"),
        ({"completed": -1}, "'completed' holds -1"),
        ({"seqence": [0, 1, 2, 3]}, "unknown key 'seqence'; did you mean sequence"),
    ],
    "bsuite-memory-len-3": [
        ({"query": 0}, "has no 'context'"),
        ({"context": [2]}, "'context' holds 2; it must hold integers from 0 to 1"),
        ({"context": [1], "time": 5}, "'time' holds 5"),
    ],
    "bsuite-memory-size-3": [
        ({"context": [1, 0, 1], "query": 3}, "'query' holds 3"),
    ],
    "popgym-repeat-first-easy": [
        ({"time": 1}, "has no 'cards'"),
        ({"cards": SUITS // 2}, "'cards' must hold each number from 0 to 3 13 times"),
        ({"cards": SUITS + 1}, "'cards' holds 4; it must hold integers from 0 to 3"),
        ({"cards": SUITS, "time": 52}, "'time' holds 52"),
        ({"cards": SUITS, "queries": SUITS}, "unknown key 'queries'"),
    ],
    "popgym-autoencode-easy": [
        ({"cards": SUITS, "time": 104}, "'time' holds 104; .* from 0 to 103"),
    ],
    "popgym-count-recall-easy": [
        ({"cards": SUITS // 2}, "has no 'queries'"),
    ],
    "popgym-concentration-easy": [
        ({"cards": SUITS // 2, "second": 1}, "'second' holds 1 where 'first' holds -1"),
        ({"cards": SUITS // 2, "face_up": np.arange(52) == 3}, "odd number of cards of kind 1"),
        (
            {"cards": SUITS // 2, "face_up": np.arange(52) < 2, "first": 1},
            "'first' holds 1, which is face up",
        ),
        ({"cards": SUITS // 2, "first": 52}, "'first' holds 52"),
    ],
    "heavenhell": [
        ({}, "^options\\['state'\\] has no 'state'; it needs 'state' \\('observation' optional\\)"),
        ({"state": 28}, "^state 'state' holds 28; it must hold integers from 0 to 27"),
        ({"state": -1}, "^state 'state' holds \\-1; it must hold integers from 0 to 27"),
        ({"state": 0.5}, "^state 'state' is 0\\.5; it must be integers of shape \\(\\)"),
        ({"state": [0, 1]}, "^state 'state' has shape \\(2,\\); it must be \\(\\) or \\(3,\\)"),
        (
            {"state": 0, "observation": 16},
            "^state 'observation' holds 16; it must hold integers from 0 to 15",
        ),
        ({"stat": 0}, "^options\\['state'\\]: unknown key 'stat'; did you mean state\\?"),
    ],
}


@pytest.mark.parametrize(
    ("id", "state", "message"), [(id, *row) for id, rows in WRONG.items() for row in rows]
)
def test_a_wrong_state_is_refused_in_one_line(id: str, state: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        envs.make_vector(id, 3, 1).reset(options={"state": {**GIVEN.get(id, {}), **state}})
    assert "\n" not in str(error.value)
