"""A Ray of nodes that are processes of this machine, for tests of the launcher and of the pool."""

import signal

import pytest


@pytest.fixture
def cluster():
    """A head without CPUs and two nodes of one CPU each, by name."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    bytes_ = 80 << 20
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": bytes_}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.named = {
        name: cluster.add_node(num_cpus=1, object_store_memory=bytes_, node_name=name) for name in "ab"
    }
    before = signal.getsignal(signal.SIGTERM)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    signal.signal(signal.SIGTERM, before)
