"""The counting behind published figures; speed itself is never tested."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import envs
from benchmarks import (
    areas,
    checkouts,
    cost,
    gpu,
    online,
    parameters,
    pool,
    random_play,
    recurrent_ppo,
    rivals,
)
from benchmarks.agent import flop_per_update
from dtqn.experiments.scores import Score
from dtqn.training.trainer import Trainer
from tests.tiny import train

DOCS = Path(parameters.__file__).parents[1] / "docs"


@pytest.mark.parametrize("id", ["gridverse-memory-5x5", "memory-cards-2", "heavenhell"])
def test_random_play_counts_the_first_episodes_of_every_environment(id: str) -> None:
    """Beside plain lists: step by step, environment by environment."""
    num_envs, each = 3, 2
    env = envs.make_vector(id, num_envs, seed=1)
    env.reset()
    env.action_space.seed(1)
    episodes: list[list[list[float]]] = [[[]] for _ in range(num_envs)]
    successes: list[list[bool]] = [[] for _ in range(num_envs)]
    begins = [False] * num_envs
    while min(len(s) for s in successes) < each:
        _, reward, terminated, truncated, infos = env.step(env.action_space.sample())
        for env_id in range(num_envs):
            if begins[env_id]:
                episodes[env_id].append([])
            else:
                episodes[env_id][-1].append(float(reward[env_id]))
            begins[env_id] = bool(terminated[env_id] or truncated[env_id])
            if begins[env_id]:
                successes[env_id].append(bool(infos["is_success"][env_id]))
    counted = [episode for of_env in episodes for episode in of_env[:each]]
    result = random_play.play(id, num_envs, each)
    returns = [sum(episode) for episode in counted]
    assert result["episodes"] == 6
    assert result["return"] == pytest.approx(np.mean(returns))
    assert result["return_standard_error"] == pytest.approx(np.std(returns, ddof=1) / np.sqrt(6))
    assert result["length"] == np.mean([len(episode) for episode in counted])
    assert result["success"] == np.mean([s for of_env in successes for s in of_env[:each]])


def test_parameters_are_those_of_the_file() -> None:
    recorded = json.loads((DOCS / "benchmarks" / "parameters.json").read_text())
    assert parameters.measure() == recorded, "python -m benchmarks parameters --json docs/benchmarks"


def test_the_page_of_parameters_is_that_of_the_file() -> None:
    recorded = json.loads((DOCS / "benchmarks" / "parameters.json").read_text())
    page = (DOCS / "parameters.md").read_text(encoding="utf-8")
    rows = {}
    for name, cells in re.findall(r"^\| `([\w-]+)` \|(.*)\|$", page, re.MULTILINE):
        rows[name] = [float(cell.replace(" ", "")) for cell in cells.split("|")]
    dtqn, gtrxl = recorded["dtqn_table_3"], recorded["gtrxl_table_2"]
    expected = {
        name: [row["paper"], row["public_code"]["trainable"], row["here"]] for name, row in dtqn.items()
    } | {
        name: [row["paper_millions"], row["paper_added_millions"], row["added"]]
        for name, row in gtrxl.items()
    }
    assert rows == expected
    parts = [dtqn[agent]["parts"] for agent in ("dtqn-paper", "drqn-paper", "dqn-paper")]
    for part, names in (
        ("encoder", ["encoder"]),
        ("what remembers", ["decoder", "core"]),
        ("head", ["head"]),
    ):
        (cells,) = re.findall(rf"^\| {part} \|(.*)\|$", page, re.MULTILINE)
        counted = [sum(row.get(name, 0) for name in names) for row in parts]
        assert [int(cell.replace(" ", "") or 0) for cell in cells.split("|")] == counted
    assert f"{dtqn['dtqn-paper']['here_as_on_branch_main']:,}".replace(",", " ") in page


def test_flop_are_counted_of_what_torch_fuses() -> None:
    """By hand, forward and backward: an LSTM, which a CPU runs in one operator, and attention."""
    size, steps, width = 4, 10, 32
    lstm, features = nn.LSTM(width, width, batch_first=True), torch.randn(size, steps, width)
    query = torch.randn(size, 2, steps, 8, requires_grad=True)

    def learn(x: torch.Tensor) -> None:
        lstm(x)[0].sum().backward()
        nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()

    turns = SimpleNamespace(batches=[features, features], learner=SimpleNamespace(update=learn))
    product = (
        2 * size * steps * 4 * width * width
    )  # of all gates with the inputs, or with the hidden features
    # The inputs need no gradient, nor does the hidden state before the first step.
    of_lstm = 2 * product + 2 * (2 * product) - product - product // steps
    of_attention = 3 * 2 * (2 * size * 2 * steps * steps * 8)
    assert flop_per_update(turns) == of_lstm + of_attention  # type: ignore[arg-type]
    assert torch._C._get_mkldnn_enabled() == torch.backends.mkldnn.is_available()


def test_the_plain_rivals_have_the_published_size() -> None:
    """Esslinger et al.'s public code, without its masks, which it counts."""
    sizes = [sum(p.numel() for p in rival.parameters()) for rival in (rivals.PlainDTQN(), rivals.PlainDRQN())]
    assert sizes == [426_942, 155_838]


def test_each_side_is_the_learner_of_its_checkout(tmp_path: Path) -> None:
    """A checkout whose `benchmarks.agent` answers with its setting and the seconds that it is asked for."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "agent.py").write_text(
        "from types import SimpleNamespace\n"
        "machine = SimpleNamespace(prepare=lambda: None)\n"
        "trainer_of = lambda steps, **flags: float(flags['learner.gamma']) * steps\n"
        "class Turns:\n"
        "    def __init__(self, trainer): self.update = trainer\n"
        "rate = lambda update, seconds: (None, update + seconds)\n"
    )
    side = checkouts.Side(tmp_path, {"learner.gamma": "0.5"})
    assert side.rate(3.0) == 0.5 * checkouts.FILL_ENV_STEPS + 3.0
    side.close()


def test_a_checkout_without_the_benchmark_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["checkouts", str(tmp_path)])
    with pytest.raises(SystemExit, match="is no checkout of this repository"):
        checkouts.main()


def test_a_task_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert pool.main(["--env", "hallway", "--env", "hallways"]) == 2
    assert capsys.readouterr().err.startswith("error: env is hallways: unknown task 'hallways'")


def test_a_run_without_workers_is_timed_too() -> None:
    trainer = Trainer(pool.config_of("hallway", "inline"))
    assert pool.rate(trainer, trainer._act, 0.01) > 0
    trainer.close()


def test_the_batches_of_a_long_memory_have_full_ones() -> None:
    small = dict.fromkeys(("num_layers", "num_heads"), "1") | dict.fromkeys(("width", "mlp_width"), "8")
    flags = {f"network.{name}": value for name, value in small.items()}
    task = {"env": "t-maze-passive-100", "agent": "gtrxl", "network.core.memory_length": "60"}
    sizes = {"replay.learn_length": "20", "learner.batches.size": "8"}
    (batch,) = gpu.batches_of({**flags, **task, **sizes}, {"device": "cpu"})
    assert batch.memory_valid.shape == (8, 60) and batch.memory_valid.all()


def test_what_a_gpu_benchmark_cannot_do_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for arguments, message in (
        ([], "device is cuda, but torch finds none; this benchmark needs a GPU"),
        (["--networks", "gtrxl,lstn"], f"--networks is lstn; there are {', '.join(gpu.NETWORKS)}"),
    ):
        assert gpu.main(arguments) == 2
        assert capsys.readouterr().err == f"error: {message}\n"


def test_the_figure_of_costs_has_a_panel_for_each_setting(tmp_path: Path) -> None:
    costs = {"ms": 30.0, "floor_ms": 10.0}
    few = {name: {str(value): costs for value in values} for name, values in cost.VALUES.items()}
    result = {"machine": "a machine", "gtrxl": few, "lstm": {"network.width": few["network.width"]}}
    cost.draw(result, tmp_path / "cost.svg")
    text = (tmp_path / "cost.svg").read_text(encoding="utf-8")
    assert all(
        f"<!-- {name} -->" in text for name in (*cost.VALUES, "ms of an update", "lstm, products alone")
    )
    assert cost.table(result).count("network.width") == 8


def test_the_rival_ends_at_the_bar_of_compare() -> None:
    """112 episodes: 0.9 is shown by the lower end of an interval, by 108 successes and not by 107."""
    row = {"eval/episodes": 112, "eval/success": 107 / 112, "env_steps": 1000, "seconds": 60.0}
    assert not recurrent_ppo.is_solved("t-maze-passive-50", row)
    solved = row | {"eval/success": 108 / 112}
    assert recurrent_ppo.is_solved("t-maze-passive-50", solved)
    of_return = {"eval/episodes": 112, "eval/return": 0.95, "eval/return_error": 0.02}
    assert recurrent_ppo.is_solved("popgym-repeat-previous-easy", of_return)
    assert not recurrent_ppo.is_solved("popgym-repeat-previous-easy", of_return | {"eval/return_error": 0.03})
    line = recurrent_ppo.figures("t-maze-passive-50", "lstm", [[row], [row, solved]])
    assert (line["solved"], line["runs"], line["minutes_to_solved"]) == (1, 2, [1.0])


def test_areas_and_their_differences_by_hand() -> None:
    score = Score(of="return", random=-1.0, optimal=1.0)
    curve = {"env_steps": [0, 100, 400], "eval/return": [-1.0, 0.0, 1.0]}
    assert areas.area(curve, score) == pytest.approx((100 * 0.25 + 300 * 0.75) / 400)
    values = {
        ("a", "new"): (0.5, 0.7),
        ("b", "new"): (0.3, 0.3),
        ("a", "old"): (0.4, 0.4),
        ("b", "old"): (0.2, 0.4),
    }
    found = {(*key, seed): x for key, pair in values.items() for seed, x in enumerate(pair)}
    # Differences 0.1 and 0.3 in a, 0.1 and -0.1 in b: a pooled deviation of sqrt(0.04 / 2).
    difference = areas.Difference.of(found, "new", "old")
    assert difference.by_task == pytest.approx({"a": 0.2, "b": 0.0}) and difference.mean == pytest.approx(0.1)
    assert difference.error_of_task == pytest.approx(0.1) and difference.error == pytest.approx(0.1 / 2**0.5)
    assert difference.verdict == "more seeds"
    assert difference._replace(error=0.01).verdict == "stays"
    assert difference._replace(mean=0.05).verdict == "goes"
    assert difference._replace(by_task={"a": 1.0, "b": -0.21}).verdict == "goes: b falls"
    assert difference._replace(by_task={"b": -1.0}, error=math.nan).verdict == "one seed tells nothing"
    special = {("a", "new", 0): 11.0, ("b", "new", 0): 13.0, ("b", "old", 1): 4.0}
    seconds = dict.fromkeys(found, 10.0) | special
    *_, new, _ = areas.table(found, seconds, "old").splitlines()
    assert new.split()[-3:] == ["1.20", "more", "seeds"]  # of shares of 1.1, 1, 1.3 and 2.5
    assert "no run in common" in areas.table(found | {("c", "other", 0): 0.5}, seconds, "old")


@pytest.mark.parametrize(("epsilon", "gamma"), [("0", "0.5"), ("1", "1")])
def test_online_returns_are_those_of_the_actor_as_the_run_left_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], epsilon: str, gamma: str
) -> None:
    """Without exploration they are the greedy ones; with it alone, those of random actions."""
    explores = ("--actor.exploration", "annealed", "--actor.epsilon-final", epsilon)
    quiet = (
        "--actor.burst-share",
        "0",
        "--actor.untried-share",
        "0",
        "--actor.epsilon-anneal-env-steps",
        "0",
    )
    run = train(tmp_path / "run", "lstm", "--env", "bsuite-memory-len-3", *explores, *quiet)
    found = tmp_path / "found.json"
    assert online.main([str(run), "--gamma", gamma, "--episodes", "400", "--json", str(found)]) == 0
    (row,) = json.loads(found.read_text())["runs"]
    if epsilon == "0":
        assert row["online"] == row["greedy"]
    else:
        assert abs(row["online"]) < 3 * row["online_error"]
    # Every episode earns 1 or -1 at its last step, the fourth.
    assert row["online"] ** 2 + 399 * row["online_error"] ** 2 == pytest.approx(float(gamma) ** 6)
    assert online.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
