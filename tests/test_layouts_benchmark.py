"""Greedy episodes by layout, beside a plain loop, `run.py eval` and numbers by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import layouts
from dtqn import cli
from dtqn.acting.rows import VectorRows
from dtqn.settings.presets import resolve
from dtqn.training import setup
from dtqn.types import reset_rows
from envs.gridverse.state import from_arrays
from envs.gridverse.world import Engine
from envs.gridverse.worlds import world

ROOMS = "gridverse-memory-four-rooms-7x7"
SMALL = {"env": ROOMS, "task.time_limit": 12, "network.width": 8, "wandb": "disabled", "threads": 1}


@torch.no_grad()
def plain_play(network: Any, env: Any, engine: Engine, episodes: int) -> list[tuple[Any, ...]]:
    """(chance, success, terminated, length) of each episode, copy i playing every N-th of them."""
    rows, copies, found = VectorRows(env), env.num_envs, []
    state, begun = network.initial_state(copies), [0.0] * copies
    played = [0] * copies
    while sum(played) < episodes:
        world_state = env.get_state()["state"]
        for copy in np.flatnonzero(rows.first):
            (begun[copy],) = layouts.chance(
                engine, from_arrays(*(world_state[x][copy : copy + 1] for x in ("grid", "agent", "item")))
            )
        state = reset_rows(state, network.initial_state(1), torch.from_numpy(rows.first))
        output, state, _ = network(rows.inputs(torch.device("cpu"), torch.float32), state)
        _, _, terminated, truncated, infos = env_step(rows, output.q[:, 0].argmax(dim=1).numpy())
        for copy in np.flatnonzero(terminated | truncated):
            if played[copy] < len(range(copy, episodes, copies)):
                played[copy] += 1
                success = infos["is_success"][copy]
                found.append((begun[copy], success, terminated[copy], rows.length[copy]))
    return found


def env_step(rows: VectorRows, action: np.ndarray) -> Any:
    """All that the environment says of a step that `rows` take."""
    told: list[Any] = []
    step = rows.env.step
    rows.env.step = lambda action: told.append(step(action)) or told[-1]  # type: ignore[method-assign, func-returns-value]
    rows.step(action)
    rows.env.step = step  # type: ignore[method-assign]
    return told[0]


def test_outcomes_are_those_of_a_plain_loop() -> None:
    """Of 5 copies three play 13 episodes and two 12; a weak agent times out, and leaves by any exit."""
    config = resolve(None, SMALL, {})
    network, engine = setup.make_network(config), Engine(world(ROOMS))
    make = lambda: setup.make_env(config, 5, np.random.SeedSequence(3))  # noqa: E731
    expected = plain_play(network, make(), engine, 63)
    told = layouts.play(network, make(), engine, 63)
    assert sorted(zip(*(part.tolist() for part in told), strict=True)) == sorted(expected)
    assert len(expected) == 63
    assert {x[0] for x in expected} == {0.5, 1.0} and {bool(x[2]) for x in expected} == {False, True}


def test_rows_by_hand() -> None:
    told = layouts.by_layout(
        layouts.Outcomes(
            chance=np.array([1.0, 0.5, 1.0, 0.5, 1.0]),
            success=np.array([True, False, True, False, False]),
            terminated=np.array([True, True, True, False, True]),
            length=np.array([10, 20, 12, 100, 5]),
        )
    )
    names = ("layouts", "episodes", "best", "success", "other exits", "time limit", "length")
    assert [tuple(row[name] for name in names) for row in told] == [
        ("can be won", 3, 1.0, 2 / 3, 1 / 3, 0.0, 9.0),
        ("a guess", 2, 0.5, 0.0, 0.5, 0.5, 60.0),
        ("all", 5, 0.8, 0.4, 0.4, pytest.approx(0.2), 29.4),
    ]
    low, high = told[0]["success low"], told[0]["success high"]
    assert 0.15 < low < 2 / 3 < high < 0.95  # Wilson's, of two among three: 0.208 and 0.939


def trained(run: Path, **more: Any) -> Path:
    flags = SMALL | {"agent": "mingru", "total-env-steps": 300, "warmup-env-steps": 100, "run-dir": run}
    flags |= {"evaluation.episodes": 4, "evaluation.num-envs": 4, "evaluator": "inline"} | more
    assert cli.main([x for name, value in flags.items() for x in (f"--{name}", str(value))]) == 0
    return run


def test_the_command_plays_the_episodes_of_eval(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run, file = trained(tmp_path / "run"), tmp_path / "x.json"
    capsys.readouterr()
    assert cli.main(["eval", str(run), "--episodes", "41", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert layouts.main([str(run), "--episodes", "41", "--json", str(file)]) == 0
    printed, told = capsys.readouterr().out.splitlines(), json.loads(file.read_text())
    assert told["env_steps"] >= 300
    *_, every = told["layouts"]
    assert (every["layouts"], every["episodes"]) == ("all", 41)
    assert every["success"] == pytest.approx(evaluated["success"])
    assert every["length"] == pytest.approx(evaluated["length"])
    assert printed[-1].split()[:2] == ["all", "41"] and f"{every['success']:.1%}" in printed[-1]


@pytest.mark.parametrize(
    "settings, flags, says",
    [
        ({}, ["--episodes", "0"], "--episodes is 0; it must be at least 1"),
        ({}, ["--seed", "-1"], "--seed is -1; it must be at least 0"),
        (None, [], "missing"),
        ({"env": "hallway"}, [], "env is hallway; it must be a gridverse memory task"),
    ],
)
def test_what_is_wrong_is_one_line(
    settings: dict[str, Any] | None,
    flags: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    run = tmp_path / "missing" if settings is None or flags else trained(tmp_path / "run", **settings)
    capsys.readouterr()
    assert layouts.main([str(run), *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
