"""Workers that are Ray's actors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from dtqn.settings.config import ConfigError
from dtqn.training import checkpoint
from dtqn.training.pool import WorkerPool
from envs import TaskError
from tests.training import pools
from tests.training.pools import Here, assert_same, train, trainer_of

here = pools.here


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head without CPUs and two nodes of one CPU each, by name."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    bytes_ = 80 << 20
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": bytes_}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    cluster.named = {
        name: cluster.add_node(num_cpus=1, object_store_memory=bytes_, node_name=name) for name in "ab"
    }
    before = signal.getsignal(signal.SIGTERM)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def address(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)


def test_without_ray_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "dtqn.training.ray_workers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match="not installed: python -m pip install ray"):
        trainer_of(**{"actor.pool": "ray"})


@pytest.mark.parametrize(
    ("address", "problem"),
    [(None, "unset: must be HOST:PORT, as"), ("127.0.0.1:1", "127.0.0.1:1: no Ray answers there")],
)
def test_without_a_cluster_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, address: str | None, problem: str
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address or "")
    with pytest.raises(ConfigError, match=f"^actor.pool is ray: RAY_ADDRESS is {problem}"):
        trainer_of(**{"actor.pool": "ray"})


@pytest.mark.slow
@pytest.mark.usefixtures("address")
def test_rays_actors_are_the_workers_of_the_other_pool(here: type[Here], tmp_path: Path) -> None:
    """In every row; also after a resume, and where an actor is killed."""
    import ray

    flags = {"actor.pool": "ray"}
    theirs, ours = trainer_of(), trainer_of(**flags)
    try:
        rows = train(theirs, 240)
        assert train(ours, 240) == rows
        assert_same(ours, theirs)
        checkpoint.save(tmp_path, 1, {}, ours.get_state(), {})
        assert isinstance(ours.actor, WorkerPool)
        work: Any = ours.actor._members[1].work
        ray.kill(work._actor)
        train(ours, 300)
        (news,) = ours.news()
        assert "the actor that steps environments 3 to 4 has ended" in news and "restarted, and" in news
    finally:
        ours.close()
    assert not ray.is_initialized()
    resumed = trainer_of(**flags)
    try:
        resumed.set_state(checkpoint.load_state(tmp_path))
        rows = train(theirs)
        assert train(resumed) == rows
        assert_same(resumed, theirs)
    finally:
        resumed.close()


@pytest.mark.slow
@pytest.mark.usefixtures("address")
def test_a_task_that_no_ray_actor_can_make_is_one_line() -> None:
    gymnasium.register("OnlyHere-v0", entry_point="gymnasium.envs.classic_control.cartpole:CartPoleEnv")
    try:
        with pytest.raises(TaskError, match=r"another process, as actor\.pool ray asks for: .*OnlyHere-v0"):
            trainer_of(**{"actor.pool": "ray", "env": "OnlyHere-v0", "network.recall_weight": 0})
    finally:
        del gymnasium.registry["OnlyHere-v0"]
