"""A run is called by what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtqn.settings.names import folder_of, name_of
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir

_OWN = "network.core=tests.own_cores:Averages"


@pytest.mark.parametrize(
    ("settings", "task", "agent"),
    [
        ({"seed": "2", "total_env_steps": "500", "device": "cpu"}, "gridverse-memory-7x7", "gtrxl"),
        ({"env": "CartPole-v1", "task.hide": "1,3"}, "CartPole-v1+hide=1,3", "gtrxl"),
        ({"network.core": "tests.own_cores:Averages"}, "gridverse-memory-7x7", f"gtrxl+{_OWN}"),
        ({"agent": "drqn", "learner.n_step": "2"}, "gridverse-memory-7x7", "drqn+learner.n_step=2"),
        ({"agent": "drqn", "learner.value_rescaling": "true"}, "gridverse-memory-7x7", None),
        # what the task's own number of steps makes of `horizon` is no change
        ({"env": "t-maze-passive-50", "task.time_limit": "70"}, "t-maze-passive-50+time_limit=70", "gtrxl"),
        ({"agent": "wide=gtrxl+network.width=128"}, "gridverse-memory-7x7", "wide"),
    ],
)
def test_a_name_has_what_the_presets_do_not_say(settings, task, agent):
    agent = agent or "drqn+learner.value_rescaling=true"
    config = resolve(None, settings, {})
    assert name_of(config) == (task, agent)
    folder = RunDir.default(config).path
    assert folder.parts[1:3] == (folder_of(task), folder_of(agent))


def test_long_names_are_cut_and_stay_apart():
    names = [folder_of(f"gtrxl+{'x' * 300}={number}") for number in (1, 2)]
    assert names[0] != names[1] and all(len(name) < 120 and Path(name).name == name for name in names)
