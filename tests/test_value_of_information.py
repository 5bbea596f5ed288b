"""The value of information, beside hand-made networks whose values and returns are known."""

from __future__ import annotations

import json
from collections import Counter, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import envs
from benchmarks import value_of_information as voi
from benchmarks.optimum import Optimum
from benchmarks.value_places import CorridorWatch, GridWatch, watch_of
from dtqn.acting.rows import VectorRows
from dtqn.learning import returns
from dtqn.settings.presets import resolve
from dtqn.training.trainer import Trainer
from dtqn.types import QOutput, StepInputs
from envs import registry
from envs.gridverse import codes
from envs.vector import NativeVectorEnv

TASK, GAMMA = "gridverse-memory-7x7", 0.9
MAP = ("#######", "#E...E#", "###.###", "###S###", "###.###", "#B...B#", "#######")
SMALL = {
    "agent": "mingru",
    "network.width": "8",
    "total_env_steps": "600",
    "warmup_env_steps": "100",
    "evaluation.period": "300",
    "evaluation.episodes": "4",
    "evaluation.num_envs": "4",
    "learner.batch_size": "4",
    "metrics_every": "100",
    "wandb": "disabled",
}


@pytest.fixture(scope="module")
def optimum() -> Optimum:
    return Optimum(registry.task(TASK), GAMMA, 1.0)


def _discounted(steps: int, gamma: float = GAMMA) -> float:
    """The return of a way of so many steps to the right exit."""
    return sum(-0.05 * gamma**k for k in range(steps)) + 5 * gamma ** (steps - 1)


def _distances(cell: tuple[int, int]) -> dict[tuple[int, int], int]:
    """Steps from a cell of the map to all others, by breadth-first search."""
    found, waiting = {cell: 0}, deque([cell])
    while waiting:
        y, x = waiting.popleft()
        for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if MAP[near[0]][near[1]] != "#" and near not in found:
                found[near] = found[y, x] + 1
                waiting.append(near)
    return found


def test_the_value_of_the_start_is_that_of_the_shortest_ways(optimum: Optimum) -> None:
    """To where a beacon is beside one, to where an exit is, and into it or, as often, into the other."""
    env = envs.make_vector(TASK, 1, 0)
    observation = env.reset()[0]
    agent = env.get_state()["state"]["agent"]  # type: ignore[attr-defined]
    belief = optimum.updated(optimum.ignorance(1), agent, observation)
    before_exit = _distances((5, 2))[1, 2]
    look = _distances((3, 3))[5, 2] + before_exit
    other = _distances((1, 2))[1, 5]
    assert (look, other) == (9, 3)
    expected = (_discounted(look + 1) + _discounted(look + other)) / 2
    assert optimum.values(agent, belief) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("id", ["gridverse-memory-5x5", TASK])
def test_the_undiscounted_optimum_is_the_published_one(id: str) -> None:
    found, env = Optimum(registry.task(id), 1.0, 1.0), envs.make_vector(id, 1, 0)
    belief = found.updated(found.ignorance(1), found.start[None], env.reset()[0])
    assert found.values(found.start[None], belief) == pytest.approx(envs.spec(id).best_return)


def test_values_beside_an_exit_by_hand(optimum: Optimum) -> None:
    """With all colours known: the right exit is a step away, the other one three."""
    env = envs.make_vector(TASK, 64, 0)
    env.reset()
    grid = env.get_state()["state"]["grid"]  # type: ignore[attr-defined]
    beacon, left, right = grid[:, 5, 1, 2], grid[:, 1, 1, 2], grid[:, 1, 5, 2]
    for layout in range(len(optimum.cue)):
        belief = np.arange(len(optimum.cue))[None] == layout
        value = float(optimum.values(np.array([[1, 2, 0]]), belief)[0])
        assert min(abs(value - _discounted(1)), abs(value - _discounted(3))) < 1e-9
    # Which of the two it is, by what the environment shows on the way.
    belief = optimum.ignorance(64)
    for place in ((5, 2, 0), (1, 4, 0), (1, 2, 2)):
        agent = np.tile(np.array(place, np.uint8), (64, 1))
        state = {"grid": grid, "agent": agent, "item": [0, 0, 0]}
        belief = optimum.updated(belief, agent, env.reset(options={"state": state})[0])
    assert (belief.sum(axis=1) == 1).all()
    assert ((left == beacon) != (right == beacon)).all()
    expected = np.where(left == beacon, _discounted(1), _discounted(3))
    np.testing.assert_allclose(optimum.values(agent, belief), expected, atol=1e-9)


def test_knowing_nothing_is_worth_what_looking_is(optimum: Optimum) -> None:
    """Before an exit without the cue: to the beacons and back, the exits' colours known from here."""
    agent = np.array([[1, 2, 0]])
    grid = registry.task(TASK).make_vector(1, 0)
    grid.reset()
    state = {**grid.get_state()["state"], "agent": agent.astype(np.uint8)}  # type: ignore[attr-defined]
    observation = grid.reset(options={"state": state})[0]
    belief = optimum.updated(optimum.ignorance(1), agent, observation)
    to_cue, to_exit = _distances((1, 2))[5, 2], _distances((5, 2))[1, 1]
    look = _discounted(to_cue + to_exit)
    guess = (_discounted(1) + (-5.05)) / 2
    assert look > guess
    assert optimum.values(agent, belief) == pytest.approx(look, abs=1e-9)


def test_the_optimal_policy_gets_its_value(optimum: Optimum) -> None:
    """Played in every layout of the real environment; their mean is the value of the start."""
    env = envs.make_vector(TASK, 4096, 0)
    observation, gained = env.reset()[0], np.zeros(4096)
    grids = env.get_state()["state"]["grid"]  # type: ignore[attr-defined]
    _, one_each = np.unique(grids, axis=0, return_index=True)
    belief, weight = optimum.ignorance(4096), np.ones(4096)
    first = None
    for _ in range(20):
        agent = env.get_state()["state"]["agent"]  # type: ignore[attr-defined]
        belief = optimum.updated(belief, agent, observation)
        action = np.zeros(4096, int)
        alive = np.flatnonzero(weight)
        if not len(alive):
            break
        first = optimum.values(agent, belief) if first is None else first
        action[alive] = optimum.action_values[optimum.states(agent[alive], belief[alive])].argmax(axis=1)
        observation, reward, terminated, _, _ = env.step(action)
        gained += weight * reward
        weight = np.where(terminated, 0.0, weight * GAMMA)
        belief[weight == 0] = True
    assert first is not None
    assert len(one_each) == 24
    assert gained[one_each].mean() == pytest.approx(first[0], abs=1e-9)
    np.testing.assert_allclose(
        np.unique(gained.round(9)), sorted((_discounted(10), _discounted(12))), atol=1e-8
    )


class Optimal:
    """A stand-in for a network: it forgets nothing, and its Q-values are the optimum's."""

    def __init__(self, optimum: Optimum) -> None:
        self.optimum = optimum

    def parameters(self) -> Any:
        return iter([torch.zeros(1, dtype=torch.float64)])

    def initial_state(self, batch_size: int) -> dict[str, torch.Tensor]:
        agent = torch.from_numpy(self.optimum.start.astype(np.int64)).expand(batch_size, 3)
        return {"agent": agent, "belief": torch.from_numpy(self.optimum.ignorance(batch_size))}

    def cache(self, state: Any) -> Any:
        return state

    def __call__(self, inputs: StepInputs, state: Any) -> tuple[QOutput, Any, None]:
        first, action = inputs.first[:, 0].numpy(), inputs.prev_action[:, 0].numpy()
        agent, belief = state["agent"].numpy().copy(), state["belief"].numpy().copy()
        for copy, (y, x, heading) in enumerate(agent):
            if first[copy]:
                agent[copy], belief[copy] = self.optimum.start, True
            elif action[copy] < codes.NUM_MOVES:
                dy, dx = codes.MOVE[heading, action[copy]]
                if MAP[y + dy][x + dx] != "#":
                    agent[copy] = y + dy, x + dx, heading
            else:
                turns = (codes.TURN_LEFT, codes.TURN_RIGHT)[action[copy] - codes.NUM_MOVES]
                agent[copy, 2] = turns[heading]
        belief = self.optimum.updated(belief, agent, inputs.observation[:, 0].numpy())  # type: ignore[index]
        over = np.array([MAP[y][x] == "E" for y, x, _ in agent])
        q = np.zeros((len(agent), 6))
        q[~over] = self.optimum.action_values[self.optimum.states(agent[~over], belief[~over])]
        after = {"agent": torch.from_numpy(agent), "belief": torch.from_numpy(belief)}
        return QOutput(torch.from_numpy(q)[:, None]), after, None


def _native(id: str) -> Any:
    def make(copies: int, time_limit: int | None) -> NativeVectorEnv:
        env = envs.make_vector(id, copies, 3, time_limit=time_limit)
        assert isinstance(env, NativeVectorEnv)
        return env

    return make


def test_an_optimal_network_gets_what_it_promises(optimum: Optimum) -> None:
    """V is the optimum at every point, and the return differs only by which exit is met first."""
    watch = GridWatch(optimum)
    watch.ticks = 120
    network: Any = Optimal(optimum)
    points = voi.measure(network, _native(TASK), watch, 260, GAMMA, np.random.default_rng(0))
    assert len(points.place) > 150
    np.testing.assert_allclose(points.value, points.optimum, atol=1e-9)
    luck = (_discounted(1) - _discounted(3)) / 2
    off = points.greedy_return - points.optimum
    assert (abs(off) <= luck + 1e-9).all()
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off))
    seen = points.cue_age >= 0
    assert (points.optimum[seen & (points.place == 1 * 7 + 3)] > _discounted(5)).all()
    means = voi.summary(points, watch)
    before = (points.place == 7 + 2) | (points.place == 7 + 4)
    assert means["places"]["before an exit"]["seen"]["samples"] == (before & seen).sum() > 0
    assert means["cells"]["1,3"]["unseen"]["value"] == pytest.approx(
        points.value[~seen & (points.place == 7 + 3)].mean()
    )
    assert {cell for cell, both in means["cells"].items() if both["seen"]["samples"]} <= {
        f"{y},{x}" for y in range(7) for x in range(7) if MAP[y][x] in ".SB"
    }


def test_episodes_that_teach_are_counted(optimum: Optimum) -> None:
    """Copies 0 to 9 play optimally and see the cue; the others walk to the left exit without it."""
    network, copies = Optimal(optimum), 20
    env = envs.make_vector(TASK, copies, 3)
    rows, experience = VectorRows(env), voi.Experience(GridWatch(optimum))
    state = network.initial_state(copies)
    ended = np.zeros(2, int)
    for _ in range(60):
        experience.look(rows)
        output, state, _ = network(rows.inputs(torch.device("cpu"), torch.float64), state)
        action = output.q[:, 0].argmax(dim=-1).numpy()
        y, _, heading = env.get_state()["state"]["agent"].astype(int).T  # type: ignore[attr-defined]
        wanted = np.where((y > 1)[:, None], [-1, 0], [0, -1])
        moves = np.array(codes.MOVE)[heading]
        action[10:] = (moves == wanted[:, None]).all(axis=2).argmax(axis=1)[10:]
        rows.step(action)
        experience.count(rows)
        ended += rows.last[:10].sum(), rows.last[10:].sum()
    counted = experience.taken(env_steps=1000)
    assert (ended > 30).all()
    assert counted == {
        "terminated": pytest.approx(10 * ended.sum()),
        "with_cue": pytest.approx(10 * ended[0]),
        "rewarded_with_cue": 1.0,
    }
    assert experience.taken(env_steps=2000) == {"terminated": 0, "with_cue": 0, "rewarded_with_cue": None}


class Turner(Optimal):
    """A stand-in that turns for ever."""

    def __call__(self, inputs: StepInputs, state: Any) -> tuple[QOutput, Any, None]:
        q = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
        return QOutput(q.expand(len(inputs.first), 1, 6)), state, None


def test_a_clone_has_the_whole_time_limit_before_it(optimum: Optimum) -> None:
    watch, make = GridWatch(optimum), _native(TASK)
    watch.ticks = 40
    network: Any = Turner(optimum)
    points = voi.measure(
        network, lambda copies, limit: make(copies, limit or 100), watch, 100, 1.0, np.random.default_rng(0)
    )
    np.testing.assert_allclose(points.greedy_return, 100 * -0.05)
    assert (points.value == 1).all()


class Walker:
    """A stand-in that walks to the end of a T-Maze of length 4 and turns as it remembers."""

    V = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5], dtype=torch.float64)

    def parameters(self) -> Any:
        return iter([torch.zeros(1, dtype=torch.float64)])

    def initial_state(self, batch_size: int) -> torch.Tensor:
        return torch.zeros(batch_size, 2)  # the goal's side and the step

    def cache(self, state: Any) -> Any:
        return state

    def __call__(self, inputs: StepInputs, state: torch.Tensor) -> tuple[QOutput, torch.Tensor, None]:
        assert isinstance(inputs.observation, torch.Tensor)
        side = torch.where(inputs.first[:, 0], inputs.observation[:, 0, 1], state[:, 0])
        step = torch.where(inputs.first[:, 0], 0, state[:, 1])
        turn = torch.where(side > 0, 1, 3)
        action = torch.where(step == 4, turn, 0)
        q = torch.full((len(side), 1, 4), -1.0, dtype=torch.float64)
        q[torch.arange(len(side)), 0, action] = self.V[step.long().clamp(max=4)]
        return QOutput(q), torch.stack([side, step + 1], dim=1), None


def test_points_of_a_t_maze_by_hand() -> None:
    """The cue is seen in the first row, and the goal is reached at the fifth step."""
    watch = CorridorWatch(active=False, length=4, horizon=6)
    watch.random_steps, watch.epsilon = 0, 0.0
    network: Any = Walker()
    points = voi.measure(network, _native("t-maze-passive-4"), watch, 240, GAMMA, np.random.default_rng(0))
    assert Counter(points.place.tolist()) == {0: 20, 1: 20, 2: 20, 3: 20, 5: 20}
    step = np.where(points.place == 5, 4, points.place)
    np.testing.assert_array_equal(points.cue_age, step)
    np.testing.assert_allclose(points.value, 0.1 * (step + 1))
    np.testing.assert_allclose(points.greedy_return, GAMMA ** (4 - step))
    assert np.isnan(points.optimum).all()


def test_the_cue_of_the_active_t_maze_is_behind_the_start() -> None:
    watch = CorridorWatch(active=True, length=4, horizon=8)
    watch.random_steps, watch.epsilon = 6, 1.0
    network: Any = Walker()
    points = voi.measure(network, _native("t-maze-active-4"), watch, 600, GAMMA, np.random.default_rng(0))
    seen = points.cue_age >= 0
    assert seen.any()
    assert (~seen).any()
    assert points.cue_age.max() <= 5  # an episode has seven steps, and the first one leads to the cue
    assert set(points.place[points.cue_age == 0].tolist()) == {0}
    assert (points.cue_age[points.place == 5] >= 5)[seen[points.place == 5]].all()


def test_a_run_goes_on_as_if_nothing_had_been_measured() -> None:
    config = resolve(None, {"env": "t-maze-passive-4", **SMALL}, {})
    rows: list[list[Any]] = []
    for measured in (False, True):
        trainer, watch = Trainer(config), watch_of(config)
        rows.append([])
        while not trainer.finished:
            row = trainer.advance()
            over = trainer.evaluator.evaluated()
            rows[-1] += [row] * (row is not None) + ([over.metrics] if over else [])
            if measured and row is not None:
                assert len(voi.measure_run(trainer, watch, 60).place) > 10
    assert len(rows[0]) >= 6
    assert rows[0] == rows[1]


@pytest.mark.parametrize(("goal", "points"), [("-100", 1), ("100", 2)])
def test_it_ends_where_a_run_ends_early(goal: str, points: int) -> None:
    config = resolve(None, {"env": "t-maze-passive-4", **SMALL, "stop_at_return": goal}, {})
    assert len(voi.run(config, 300, 10, lambda points: None)) == points


def test_v_and_returns_are_on_the_learners_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {"env": "t-maze-passive-4", **SMALL, "learner.value_rescaling": "true"}
    trainer = Trainer(resolve(None, {**flags, "learner.reward_scale": "0.5"}, {}))
    q = returns.signed_hyperbolic(torch.tensor([2.0, -3.0], dtype=torch.float64)).numpy()
    none = np.zeros(2)
    found = voi.Points(none.astype(np.intp), none.astype(np.intp), q, np.array([4.0, -6.0]), none)
    monkeypatch.setattr(voi, "measure", lambda *_: found)
    points = voi.measure_run(trainer, watch_of(trainer.config), 2)
    np.testing.assert_allclose(points.value, [2.0, -3.0])
    np.testing.assert_allclose(points.greedy_return, [2.0, -3.0])


def test_a_reservoir_is_a_uniform_sample_of_each_kind() -> None:
    kept: Counter[int] = Counter()
    for seed in range(3000):
        drawn = voi.Reservoirs(2, np.random.default_rng(seed))
        for item in range(5):
            if (slot := drawn.slot("many")) is not None:
                drawn.kept["many", slot] = item
        assert drawn.slot("one") == 0
        assert len(drawn.kept) == 2
        kept.update(drawn.kept.values())
    assert all(abs(count - 1200) < 5 * np.sqrt(3000 * 0.4 * 0.6) for count in kept.values())
    assert len(kept) == 5


def test_the_command_writes_figures_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, picture = tmp_path / "new" / "voi.json", tmp_path / "voi.png"
    settings = [part for name, value in SMALL.items() if name != "wandb" for part in (f"--{name}", value)]
    command = [
        "--every",
        "300",
        "--points",
        "60",
        "--json",
        str(figures),
        "--picture",
        str(picture),
        *settings,
    ]
    assert voi.main([*command, "--task.time-limit=20"]) == 0
    result = json.loads(figures.read_text())
    assert [point["env_steps"] // 300 for point in result["points"]] == [1, 2]
    assert all(point["success"] is not None for point in result["points"])
    assert all(point["training"]["terminated"] >= point["training"]["with_cue"] for point in result["points"])
    junction = result["points"][0]["places"]["junction"]["unseen"]
    assert junction["samples"] > 0
    assert junction["cue_age"] is None
    assert junction["optimum"] > 0.2
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "before an exit" in printed
    assert "episodes terminated for 10,000 env steps" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "heavenhell"], "env is heavenhell; it must be gridverse-memory-7x7 or"),
        (["--env", "t-maze-active-20", "--task.frame-stack", "2"], "options that change what is observed"),
        (["--learner.gama", "1"], "did you mean learner.gamma"),
        (["--learner.gamma"], "--learner.gamma has no value"),
        (["--every", "0"], "--every is 0; it must be at least 1"),
        (["--picture", "x.txt"], "must end in .png or .svg"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert voi.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
