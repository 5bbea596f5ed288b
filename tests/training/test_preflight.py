"""The needs of a run, the refusal of one that does not fit, and the imports that its start does without."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import envs
from dtqn.acting.episode_intervals import wilson_interval
from dtqn.acting.untried import Untried
from dtqn.settings import presets
from dtqn.settings.config import Config, MisfitError
from dtqn.training import machine, preflight, setup
from dtqn.training.trainer import Trainer
from tests.cases import PRESETS
from tests.training import fake

ROOT = Path(__file__).resolve().parents[2]


def config_of(agent: str, **flags: str) -> Config:
    return presets.resolve(None, {"agent": agent, "env": "gridverse-memory-7x7", **flags}, {})


ONE_A_CORE = {config_of(agent).network.core.name: agent for agent in PRESETS}.values()


@pytest.mark.parametrize("agent", [*ONE_A_CORE, "darqn", "dtqn-paper"])
def test_planned_bytes_are_those_of_the_network(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six times its parameters, whether it is made to be counted or is only a shape."""
    config = config_of(agent)
    parameters = sum(p.numel() * p.element_size() for p in setup.make_network(config).parameters())
    made = preflight.plan_bytes(config)
    monkeypatch.setattr(preflight, "_SMALL", 0)
    shape = preflight.plan_bytes(config)
    assert made == shape
    assert made["networks"] == 8 * parameters


def test_environments_count_with_what_they_carry() -> None:
    """A GTrXL carries the memory of each layer, its keys and its values; thrice, as a step makes new ones."""
    flags = {
        "actor.untried_share": "0",
        "actor.num_envs": "12",
        "evaluation.num_envs": "200",
        "evaluation.episodes": "150",
    }
    config = config_of("gtrxl", **flags)
    network, plan = config.network, preflight.plan_bytes(config)
    floats = 3 * network.core.num_layers * network.width * network.core.memory_length
    counts = 16  # how many timesteps are held, and nothing else
    assert plan["an evaluation"] * 12 == plan["environments"] * 150
    assert 3 * 12 * 4 * floats <= plan["environments"] <= 3 * 12 * (4 * floats + counts)


def test_the_tables_of_what_was_tried_are_the_actors() -> None:
    def plan(share: str) -> dict[str, int]:
        return preflight.plan_bytes(
            config_of("gtrxl", **{"actor.num_envs": "12", "actor.untried_share": share})
        )

    tables = sum(table.nbytes for table in Untried(np.ones(6, bool), 6).get_state().values())
    without = plan("0")
    assert plan("0.5") == without | {"environments": without["environments"] + tables}


def test_a_network_that_fits_nowhere_is_counted() -> None:
    plan = preflight.plan_bytes(
        config_of("gtrxl", **{"network.width": "300000", "network.core.num_heads": "2"})
    )
    assert plan["networks"] > 8 * 4 * 2 * 12 * 300_000**2  # two layers of GRU gates: 12 matrices each


def test_so_is_one_that_reads_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = dataclasses.replace(envs.spec("hallway"), observation_space=spaces.Discrete(10**9))
    for module in (preflight, setup):
        monkeypatch.setattr(module, "task_spec", lambda config: spec)
    assert preflight.plan_bytes(config_of("lstm"))["networks"] > 8 * 10**9


def test_a_start_does_not_import_the_compiler_of_torch() -> None:
    """It takes longer to import than a short run to train; so does scipy.stats."""
    script = (
        "import sys; from dtqn.settings import presets;"
        "from dtqn.training import preflight, session, trainer;"
        "config = presets.resolve(None, {'total_env_steps': '200', 'evaluation.episodes': '2',"
        " 'actor.num_envs': '4', 'replay.capacity': '4000', 'task.time_limit': '10'}, {});"
        "preflight.plan_bytes(config); run = trainer.Trainer(config);"
        "[run.advance() for _ in range(3)]; run.finish();"
        "assert not {'torch._dynamo', 'scipy.stats', 'wandb'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_few_returns_end_no_run() -> None:
    """Equal returns have an interval without a width, however few they are."""
    flags = {"stop_at_return": "0.98", "evaluation.first_episodes": "1"}
    with pytest.raises(MisfitError, match=r"evaluation.episodes is 9 with stop_at_return 0.98: .*; try 10$"):
        preflight.check(config_of("gtrxl", **flags, **{"evaluation.episodes": "9"}))
    preflight.check(config_of("gtrxl", **flags, **{"evaluation.episodes": "10"}))


GB = 10**9


@pytest.mark.parametrize(
    ("flags", "plan", "process", "refused"),
    [
        # Replay may have 10 - 4 - 1 GB, and four fifths of that are 4 GB: 400 of its 500 000 steps.
        (
            {"replay.capacity": "500000"},
            {"replay": 5000 * GB, "networks": GB},
            4 * GB,
            "replay.capacity is 500000: the run would take 5 TB (replay 5 TB, networks 1 GB, the process "
            "itself 4 GB) and the machine has 10 GB; try 400",
        ),
        # The others leave 6 of 10 GB, and four fifths of that are 240 environments' of the 8 GB.
        (
            {"evaluation.num_envs": "400", "evaluation.episodes": "500"},
            {"replay": GB, "networks": GB, "environments": GB, "an evaluation": 8 * GB},
            GB,
            "evaluation.num_envs is 400: the run would take 12 GB (replay 1 GB, networks 1 GB, environments "
            "1 GB, an evaluation 8 GB, the process itself 1 GB) and the machine has 10 GB; try 240",
        ),
        (
            {"actor.num_envs": "600", "actor.untried_share": "1"},
            {"replay": GB, "networks": GB, "environments": 15 * GB},
            GB,
            r"actor.num_envs is 600: the run would take 18 GB .*; try 224",
        ),
        ({}, {"replay": GB, "networks": 5 * GB}, 5 * GB, "network.width is .*; try a smaller network"),
        ({}, {"replay": 7 * GB, "networks": GB}, 2 * GB + 1, "replay.capacity is .*"),
        ({}, {"replay": 7 * GB, "networks": GB}, 2 * GB, None),
    ],
)
def test_a_run_that_cannot_fit_is_refused_with_the_figure(
    monkeypatch: pytest.MonkeyPatch,
    flags: dict[str, str],
    plan: dict[str, int],
    process: int,
    refused: str | None,
) -> None:
    monkeypatch.setattr(preflight, "plan_bytes", lambda config: plan)
    monkeypatch.setattr(machine, "resident_bytes", lambda: process)
    monkeypatch.setattr(machine, "available_bytes", lambda: 10 * GB)
    if refused is None:
        preflight.check(config_of("gtrxl", **flags))
        return
    with pytest.raises(MisfitError) as error:
        preflight.check(config_of("gtrxl", **flags))
    assert re.fullmatch(refused.replace("(", r"\(").replace(")", r"\)"), str(error.value))


def test_the_process_is_measured() -> None:
    before = machine.resident_bytes()
    if before is None:
        pytest.skip("cannot be told here")
    with mmap.mmap(-1, 64 << 20) as block:  # numpy may be given memory that the process has kept
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1
        grown = machine.resident_bytes() - before
    assert 60 << 20 < grown < 70 << 20


def test_the_memory_of_this_machine_is_known() -> None:
    available = machine.available_bytes()
    assert available is None or 10**8 < available < 10**14


@pytest.mark.parametrize(
    ("threshold", "episodes", "right"),
    [
        (0.95, 72, "72 episodes without a failure begins at 0.9493; try 0.949, or evaluation.episodes 73"),
        (0.95, 73, None),
        (0.99, 500, None),
        (1.0, 500, "500 episodes without a failure begins at 0.9924; try 0.992"),
    ],
)
def test_a_success_that_no_evaluation_shows_is_refused(
    threshold: float, episodes: int, right: str | None
) -> None:
    """It would never end the run, and keep evaluations from a process of their own."""
    flags = {"stop_at_success": str(threshold), "evaluation.episodes": str(episodes)}
    assert (wilson_interval(episodes, episodes)[0] >= threshold) == (right is None)
    if right is None:
        preflight.check(config_of("dqn", **flags))
        return
    with pytest.raises(MisfitError) as refused:
        preflight.check(config_of("dqn", **flags))
    assert str(refused.value) == f"stop_at_success is {threshold}, but the 95 % interval of {right}"


def test_updates_of_a_run() -> None:
    per_update = {"learner.batches.env_steps_per_update": 32}
    config = fake.config_of(total_env_steps=1000, warmup_env_steps=200, **per_update)
    assert preflight.planned_updates(config) == 800 // 32
    assert preflight.planned_updates(fake.config_of(total_env_steps=10)) == 1


@pytest.mark.parametrize("settings", [{}, {"replay.learn_length": "40", "replay.sequence_period": None}])
def test_updates_wait_for_the_first_sequence(settings: dict[str, Any]) -> None:
    """Where an episode, or what is learned of it at once, is longer than the warm-up."""
    small = {"network.width": 4, "network.head_width": 4, "learner.batches.size": 2, "actor.num_envs": 4}
    small |= {"learner.batches.env_steps_per_update": 48}
    flags = small | {"env": "t-maze-passive-100", "agent": "dqn", "warmup_env_steps": 100} | settings
    config = fake.config_of(total_env_steps=1_000, **flags)
    with contextlib.closing(Trainer(config)) as trainer:
        while not trainer.finished:
            trainer.advance()
        assert trainer.learner_steps == preflight.planned_updates(config)


@pytest.mark.parametrize(
    ("threads", "evaluator", "processes"), [(1, "inline", 0), (2, "inline", 1), (2, "process", 2)]
)
def test_the_processes_beside_a_run_are_counted(threads: int, evaluator: str, processes: int) -> None:
    config = config_of("gtrxl", threads=str(threads), evaluator=evaluator)
    assert preflight.memory(config, 7).get("the other processes", 0) == processes * 7
    assert "the other processes" not in preflight.memory(config, None)
