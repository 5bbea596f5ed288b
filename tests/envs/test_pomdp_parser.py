"""The reader of .pomdp files: hand-computed arrays, forms that mean the same, and errors with their lines."""

from __future__ import annotations

import re
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from envs.pomdp.dynamics import Model
from envs.pomdp.hallway import hallway
from envs.pomdp.heavenhell import heavenhell
from envs.pomdp.parser import MAX_ENTRIES, MAX_NAMES, parse

# Cassandra, Kaelbling, Littman 1994: a tiger behind one of two doors; opening one starts anew.
TIGER = """
# Two doors.
discount: 0.95
values: reward
states: tiger-left tiger-right
actions: listen open-left open-right
observations: growl-left growl-right

start: uniform

T: listen identity
T: open-left : * reset
T: open-right : * reset

O: * uniform
O: listen
0.85 0.15
0.15 0.85

R: * : * : * : * -1      # listening
R: open-left : tiger-left : * : * -100
R: open-left : tiger-right : * : * 10
R: open-right : tiger-left : * : * 10
R: open-right : tiger-right : * : * -100
"""

# Lines 1 to 8; a test adds T, O and R.
HEAD = """discount: 0.5
values: reward
states: a b c
actions: x y
observations: u v

start: a

"""
T_LINE, O_LINE, R_LINE = "T: * identity\n", "O: * uniform\n", "R: * : * : * : * 0\n"


def read(transition: str = T_LINE, observation: str = O_LINE, reward: str = R_LINE) -> Model:
    return parse(HEAD + transition + observation + reward)


def full_reward(model: Model) -> Any:
    """R as [A, S, S', O]."""
    num_states = len(model.states)
    shape = (len(model.actions), num_states, num_states, len(model.observations))
    return np.broadcast_to(model.reward, shape)


def test_tiger_by_hand() -> None:
    model = parse(TIGER)
    assert model.states == ("tiger-left", "tiger-right")
    assert model.actions == ("listen", "open-left", "open-right")
    assert model.observations == ("growl-left", "growl-right")
    half = [[0.5, 0.5], [0.5, 0.5]]
    assert model.start.tolist() == [0.5, 0.5]
    assert model.transition.tolist() == [[[1, 0], [0, 1]], half, half]
    assert model.observation.tolist() == [[[0.85, 0.15], [0.15, 0.85]], half, half]
    assert model.reward[:, :, 0, 0].tolist() == [[-1, -1], [-100, 10], [10, -100]]
    assert model.reward.shape == (3, 2, 1, 1)  # nothing depends on s' and o
    assert model.reset.tolist() == [[False, False], [True, True], [True, True]]


SAME_TRANSITION = [
    ("identity", "T: *\n1 0 0\n0 1 0\n0 0 1"),
    ("identity in numbers of actions", "T: 0 identity\nT: 1 identity"),
    ("identity by entries", "T: * : a : a 1\nT: * : b : b 1.0\nT: * : 2 : 2 1e0"),
    ("identity by rows", "T:* : 0 1 0 0 T:*:b 0 1 0\n T : * : c\n0\n0\n+1.0"),
    ("identity over what was before", "T: * uniform\nT: * : * reset\nT: * identity"),
    ("identity where a zero replaces", "T: * : * : * 0.0\nT: * identity\nT: y : a : c 0.0"),
]


@pytest.mark.parametrize("text", [t for _, t in SAME_TRANSITION], ids=[n for n, _ in SAME_TRANSITION])
def test_forms_of_identity(text: str) -> None:
    model = read(transition=text + "\n")
    np.testing.assert_array_equal(model.transition, [np.eye(3)] * 2)
    assert not model.reset.any()


def test_forms_of_transition_and_observation_rows() -> None:
    model = read(
        "T: x uniform\nT: y : * 0.5 .25 25e-2\nT: y : c uniform\nT: y : b : c 0.5 T: y : 1 : b 0.0\n",
        "O: x : * 0.25 0.75\nO: x : b : u 0.5 O: x : b : v 0.5\nO: y\n1 0 0 1\n1 0\nO: y : c uniform\n",
    )
    third = [1 / 3] * 3
    assert model.transition[0].tolist() == [third] * 3
    assert model.transition[1].tolist() == [[0.5, 0.25, 0.25], [0.5, 0.0, 0.5], third]
    assert model.observation[0].tolist() == [[0.25, 0.75], [0.5, 0.5], [0.25, 0.75]]
    assert model.observation[1].tolist() == [[1, 0], [0, 1], [0.5, 0.5]]


STARTS = [
    ("start: uniform", [1 / 3, 1 / 3, 1 / 3]),
    ("", [1 / 3, 1 / 3, 1 / 3]),
    ("start: b", [0, 1, 0]),
    ("start: 2", [0, 0, 1]),
    ("start: 0.5\n0.25\n0.25", [0.5, 0.25, 0.25]),
    ("start: 0 1 0", [0, 1, 0]),
    ("start:\n1.0 0.0 0.0", [1, 0, 0]),
    ("start include: a c", [0.5, 0, 0.5]),
    ("start include : 1", [0, 1, 0]),
    ("start exclude: 0", [0, 0.5, 0.5]),
    ("start exclude: a b", [0, 0, 1]),
]


@pytest.mark.parametrize(("text", "start"), STARTS)
def test_forms_of_start(text: str, start: list[float]) -> None:
    model = parse(HEAD.replace("start: a", text) + "T: * identity\nT: x : b reset\n" + O_LINE + R_LINE)
    np.testing.assert_allclose(model.start, start, rtol=1e-15)
    np.testing.assert_array_equal(model.transition[0, 1], model.start)
    assert model.reset.tolist() == [[False, True, False], [False] * 3]
    late = HEAD.replace("start: a", "") + "T: * identity\nT: x : b reset\n" + O_LINE + R_LINE + text
    np.testing.assert_array_equal(parse(late).transition, model.transition)


def test_forms_of_reward() -> None:
    def reward(text: str) -> Any:
        return full_reward(read(reward=text))

    by_hand = np.zeros((2, 3, 3, 2))
    by_hand[0, 1, 2] = [3, -4]
    by_hand[1, :, 0, 1] = 5
    by_hand[1, 2] = [[1, 2], [3, 4], [5, 6]]
    text = "R: x : b : c 3 -4\nR: y : * : a : v +5\nR: y : c\n1 2\n3 4\n5 6\n"
    np.testing.assert_array_equal(reward(text), by_hand)
    entries = "".join(
        f"R: {a} : {s} : {t} : {o} {by_hand[a, s, t, o]}\n" for a, s, t, o in np.ndindex(by_hand.shape)
    )
    np.testing.assert_array_equal(reward(entries), by_hand)
    # A later line replaces; "*" covers all.
    np.testing.assert_array_equal(reward("R: * : * : * : * 7\n" + entries), by_hand)
    assert (reward(entries + "R: * : * : * : * 7\n") == 7).all()


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("R: * : * : * : * 1", (1, 1, 1, 1)),
        ("R: * : * : b : * 1", (1, 1, 3, 1)),
        ("R: x : * : * : * 1\nR: * : a : * : * 2", (2, 3, 1, 1)),
        ("R: * : * : * 1 2", (1, 1, 1, 2)),
        ("R: * : * 1 2 3 4 5 6", (1, 1, 3, 2)),
    ],
)
def test_reward_has_length_one_where_nothing_depends_on_the_axis(text: str, shape: tuple[int, ...]) -> None:
    assert read(reward=text).reward.shape == shape


def test_costs_are_negative_rewards() -> None:
    text = (HEAD + T_LINE + O_LINE + "R: x : * : * : * 2\n").replace("values: reward", "values: cost")
    assert full_reward(parse(text))[:, 0, 0, 0].tolist() == [-2, 0]


def test_line_breaks_comments_and_spaces_mean_nothing() -> None:
    lines = [line.partition("#")[0] for line in TIGER.splitlines()]
    variants = [
        " ".join(lines),
        "\r\n".join(lines),
        "\n".join("\t" + line.replace(" :", ":").replace(": ", ":") + " # T: 0 1" for line in lines),
        "\n".join(word for line in lines for word in line.replace(":", " : ").split()),
    ]
    expected = parse(TIGER)
    for text in variants:
        model = parse(text)
        for name in ("start", "transition", "observation", "reward", "reset"):
            np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))


def test_counts_name_by_number() -> None:
    model = parse(
        "actions: 1 states: 12 observations: 2 values: reward discount: 1\n" + T_LINE + O_LINE + R_LINE
    )
    assert model.states == tuple(str(number) for number in range(12))
    assert model.observations == ("0", "1")


def written(model: Model) -> str:
    """A file of single entries that describes `model`."""
    lines = [
        f"discount: 0.95\nvalues: reward\nstates: {len(model.states)}",
        f"actions: {len(model.actions)}\nobservations: {len(model.observations)}",
        f"start: {' '.join(map(repr, model.start.tolist()))}",
    ]
    for letter, table in (("T", model.transition), ("O", model.observation)):
        for a, s, k in np.argwhere(table):
            lines.append(f"{letter}: {a} : {s} : {k} {table[a, s, k].item()!r}")
    lines += [f"T: {a} : {s} reset" for a, s in np.argwhere(model.reset)]
    for entry in np.argwhere(model.reward):
        axes = [n if size > 1 else "*" for n, size in zip(entry, model.reward.shape, strict=True)]
        lines.append(
            f"R: {axes[0]} : {axes[1]} : {axes[2]} : {axes[3]} {model.reward[tuple(entry)].item()!r}"
        )
    return "\n".join(lines)


@pytest.mark.parametrize("model", [hallway(), heavenhell(3)], ids=["hallway", "heavenhell"])
def test_what_is_written_is_read(model: Model) -> None:
    again = parse(written(model))
    for name in ("start", "transition", "observation", "reward", "reset"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))


def test_sums_may_be_off_by_the_tolerance() -> None:
    model = read("T: * : * 0.333333 0.333333 0.333333\n")
    assert model.transition[1, 2].tolist() == [0.333333] * 3


BODY = T_LINE + O_LINE + R_LINE  # lines 9, 10, 11 after HEAD


def new(old: str, text: str, more: str = BODY) -> str:
    """The file with something else in its head, and `more` after it."""
    assert old in HEAD
    return HEAD.replace(old, text) + more


def sized(states: int, observations: int) -> str:
    """A file of so many states and observations."""
    head = HEAD.replace("a b c", str(states)).replace("u v", str(observations))
    return head.replace("start: a", "") + BODY


KNOWN = "expected one of discount:, values:, states:, actions:, observations:, start:, T:, O:, R:"
ERRORS = [
    ("", 1, "the file has no discount:"),
    (HEAD + T_LINE + O_LINE, 10, "the file has no R:"),
    (T_LINE + HEAD + BODY, 1, "T: must come after actions:"),
    ("discount: 1\nstart: 0\n", 2, "start: must come after states:"),
    (new("values: reward", "") + "values: reward", 11, "R: must come after values:"),
    (HEAD + "OO: x\n" + BODY, 9, KNOWN),
    (HEAD + "actions: 3\n" + BODY, 9, "actions: is given twice"),
    ("discount 0.5\n", 1, "expected ':' after discount, found '0.5'"),
    (new("start:", "start"), 7, "expected ':' after start, found 'a'"),
    (new("0.5", "half"), 1, "expected a discount, found 'half'"),
    (new("0.5", "1.5"), 1, "discount 1.5 must be from 0 to 1"),
    (new("reward", "gain"), 2, "values: must be reward or cost, found 'gain'"),
    (new("a b c", "0"), 3, "the number of states is 0; it must be at least 1"),
    (new("a b c", "a 2b c"), 3, "'2b' is no name of a state; names begin with a letter"),
    (new("u v", ""), 7, "expected a number of observations or their names, found 'start'"),
    (new("x y", "x y x"), 4, "action 'x' is named twice"),
    (new("u v", "u reset"), 5, KNOWN),
    (HEAD + T_LINE + "O: x : a : w 1\n", 10, "unknown observation 'w'"),
    (new("x y", "left right", "T: lift identity"), 9, "unknown action 'lift'; did you mean left?"),
    (HEAD + "T: x : 3 : a 1\n", 9, "state 3 must be from 0 to 2"),
    (new("start: a", "start: 0.5 0.5"), 9, "expected probability 3 of 3, found 'T'"),
    (new("start: a", "start: 0.5 0.4 0"), 7, "start sums to 0.9; it must be 1 within 1e-05"),
    (new("start: a", "start exclude: a b c"), 7, "start exclude: leaves no state"),
    (new("start: a", "start include:"), 7, "start include: leaves no state"),
    (HEAD + "T: x : a 1 0 0\n0\n" + BODY, 10, KNOWN),
    (HEAD + "T: x\n1 0 0\n0 1 0\n0 0", 12, "expected probability 9 of 9, found the end of the file"),
    (HEAD + "T: x : a : b\n" + BODY, 10, "expected a probability, found 'T'"),
    (HEAD + "T: x : a\n0 1.5 0\n" + BODY, 10, "probability 1.5 must be from 0 to 1"),
    (HEAD + "O: x : a : u -0.1\n" + BODY, 9, "probability -0.1 must be from 0 to 1"),
    (HEAD + BODY + "\nT: y : b : a 0.25\n", 13, "the row T: y : b sums to 1.25; it must be 1 within 1e-05"),
    (HEAD + "T: *\n1 0 0\n0 0.9 0\n0 0 1\n" + O_LINE + R_LINE, 9, "the row T: x : b sums to 0.9;"),
    (HEAD + BODY + "O: x : c : v 0.4\n", 12, "the row O: x : c sums to 0.9;"),
    (HEAD + "T: x identity\n" + O_LINE + R_LINE, 11, "no line gives the row T: y : a"),
    (HEAD + T_LINE + "O: * : a uniform\n" + R_LINE, 11, "no line gives the row O: x : b"),
    (HEAD + "T: x : a identity\n", 9, "'identity' is for T: <action> only"),
    (HEAD + T_LINE + "O: x identity\n", 10, "'identity' is for T: <action> only"),
    (HEAD + "T: x reset\n", 9, "'reset' is for T: <action> : <state> only"),
    (HEAD + T_LINE + "O: x : a\nreset\n", 11, "'reset' is for T: <action> : <state> only"),
    (HEAD + "T: x : a : b uniform\n", 9, "'uniform' is for rows of T and O only"),
    (HEAD + BODY + "R: x : a uniform\n", 12, "expected number 1 of 6, found 'uniform'"),
    (HEAD + BODY + "R: x 1 2\n", 12, "R: must name at least action and state"),
    (HEAD + BODY + "R: x : a : b : u 1e999\n", 12, "1e999 is too large"),
    (HEAD + "T: x : a : b : c 1\n", 9, "expected a probability, found ':'"),
    (HEAD + "T: x : a 1 0 0 0\n" + BODY, 9, f"{KNOWN}; found '0' (too many numbers before it?)"),
    (sized(1000, 100) + "R: x : 0 : 0 : 0 1\n", 12,
        f"R would be 2 x 1000 x 1000 x 100 numbers; {MAX_ENTRIES} are the most"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "problem"), ERRORS)
def test_errors_name_their_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(text, "some/file.pomdp")
    message = str(error.value)
    assert message.startswith(f"some/file.pomdp:{line}: {problem}")
    assert "\n" not in message


# -- Hostile files -------------------------------------------------------------------------------------------

LIMIT = f"it must be at least 1 and at most {MAX_NAMES}"
HOSTILE = [
    *((new(names, "1000000000"), line, f"the number of {kind} is 1000000000; {LIMIT}")
        for kind, names, line in (("states", "a b c", 3), ("actions", "x y", 4), ("observations", "u v", 5))),
    (new("a b c", "9" * 5000), 3, f"the number of states is {'9' * 57}...; {LIMIT}"),
    (HEAD + f"T: x : {'9' * 5000}", 9, f"state {'9' * 57}... must be from 0 to 2"),
    (HEAD + f"T: x : {'n' * 5000}", 9, f"unknown state '{'n' * 57}...'"),
    (sized(5001, 2), 9, f"T would be 2 x 5001 x 5001 numbers; {MAX_ENTRIES} are the most"),
    (sized(4000, 4000), 10, f"O would be 2 x 4000 x 4000 numbers; {MAX_ENTRIES} are the most, and other "
        "tables have 32000000 of them"),
    (new("a b c", "3000", "T: x\n1 0").replace("start: a", ""), 10,
        "expected probability 3 of 9000000, found the end of the file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "problem"), HOSTILE)
def test_hostile_files_are_refused_before_they_take_memory(text: str, line: int, problem: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError) as error:
            parse(text, "f")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(error.value) == f"f:{line}: {problem}"
    assert peak < 300e6  # T, where it may be made
    if "billion" in problem or "1000000000" in problem:
        assert peak < 1e6


def mutated(text: str, rng: np.random.Generator) -> str:
    """The text of a file after one to three changes such as a slip, a bad disk or an enemy makes."""
    hostile = ["0", "-1", "1e308", "1e999", "nan", "10000", "999999", "1000000000", "9" * 30, "*", ":", "#",
        "\0", "uniform", "identity", "reset", "states:", "T:", "O: * : * : *", "R: *", "start:", "\u0664",
        "\x85"]  # fmt: skip
    for _ in range(rng.integers(1, 4)):
        words = re.split(r"(\s+)", text)
        lines = text.splitlines(keepends=True)
        match rng.integers(6):
            case 0:
                words[rng.integers(len(words))] = hostile[rng.integers(len(hostile))]
                text = "".join(words)
            case 1:
                first, second = rng.integers(len(words), size=2)
                words[first], words[second] = words[second], words[first]
                text = "".join(words)
            case 2:
                del lines[rng.integers(len(lines))]
                text = "".join(lines)
            case 3:
                lines.insert(rng.integers(len(lines)), lines[rng.integers(len(lines))])
                text = "".join(lines)
            case 4:
                place = rng.integers(len(text))
                text = text[:place] + chr(rng.integers(1, 0x250)) + text[place + 1 :]
            case 5:
                text = text[: rng.integers(len(text))] if rng.random() < 0.3 else text
        text = text or " "
    return text


def test_500_damaged_files_are_read_or_refused_in_one_line() -> None:
    """None takes more than a second of computing, nor more than 500 MB."""
    rng = np.random.default_rng(0)
    counted = HEAD.replace("a b c", "3").replace("start: a", "") + BODY
    whole = [TIGER, HEAD + BODY, written(heavenhell(1)), counted]
    read = 0
    for number in range(500):
        text = mutated(whole[number % len(whole)], rng)
        tracemalloc.start()
        started = time.process_time()
        try:
            parse(text, "f")
            read += 1
        except ValueError as error:
            assert re.match(r"f:\d+: ", str(error)), text
            assert len(str(error).splitlines()) == 1, text
            assert len(str(error)) < 400
        finally:
            seconds, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert seconds < 1, text
        assert peak < 500e6, text
    assert 50 < read < 400
