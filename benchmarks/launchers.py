"""The overhead of `--launcher ray`, on a Ray of two nodes on this machine, against `--launcher local`.

    python -m benchmarks.launchers [--env-steps 20000] [--json FILE]

Two trainings of so many env steps, side by side on two cores or nodes, by one launcher, then by the other.
A launcher's time goes from joining the cluster to the end of both trainings; that of starting the cluster is
told apart. The trainings are the same ones, bit for bit, which is checked.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.options import parser_of, write
from dtqn.experiments.jobs import Job, RunQueue
from dtqn.experiments.launchers import Asked, opened
from dtqn.settings import presets
from dtqn.training.directory import RunDir

SEEDS = (1, 2)


def seconds_of(asked: Asked, flags: dict[str, str], folder: Path) -> float:
    """From opening the launcher to the end of the last training."""
    each = [presets.resolve(None, {**flags, "seed": str(seed)}, {}) for seed in SEEDS]
    configs = [config.settled(free_cores=1) for config in each]
    directories = [RunDir.of_config(config, folder) for config in configs]
    began = time.monotonic()
    with opened(asked, folder) as launcher, RunQueue(len(SEEDS), launcher=launcher) as pool:
        for config, directory in zip(configs, directories, strict=True):
            directory.prepare(config)
            pool.add(Job(f"seed {config.seed}", directory))
        for _ in pool.changes():
            pass
        ended = time.monotonic()
    failed = [job.error for job in pool.jobs if job.state != "finished"]
    if failed:
        raise RuntimeError(failed[0])
    return ended - began


def weights(folder: Path) -> dict[str, bytes]:
    found = folder.glob("*/*/*/checkpoint/[0-9]*/network.safetensors")
    return {path.parents[2].name: path.read_bytes() for path in found}


def measure(env_steps: int = 20_000) -> dict[str, Any]:
    from ray.cluster_utils import Cluster

    flags = {"env": "gridverse-memory-7x7", "agent": "gtrxl", "wandb": "disabled", "threads": "1"}
    flags["total_env_steps"] = str(env_steps)
    began = time.monotonic()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for name in "ab":
        cluster.add_node(num_cpus=1, node_name=name, object_store_memory=100 << 20)
    start = time.monotonic() - began
    launchers = {"local": Asked(), "ray": Asked("ray", cluster.address)}
    seconds, made = {}, {}
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.shutdown)
        for name, asked in launchers.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            seconds[name] = seconds_of(asked, flags, folder)
            made[name] = weights(folder)
    if made["local"] != made["ray"]:
        raise RuntimeError("the launchers' trainings differ")
    return {
        "settings": flags,
        "trainings": len(SEEDS),
        "seconds": seconds,
        "ratio": seconds["ray"] / seconds["local"],
        "seconds_to_start_two_nodes": start,
    }


def table(result: dict[str, Any]) -> str:
    times = ", ".join(f"{name} {taken:.1f} s" for name, taken in result["seconds"].items())
    start = result["seconds_to_start_two_nodes"]
    return f"{times}: ratio {result['ratio']:.3f}; two nodes started in {start:.1f} s"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--env-steps", type=int, default=20_000, help="of a training; default %(default)s")
    args = parser.parse_args()
    result = measure(args.env_steps)
    print(table(result))
    write(args.json, result)


if __name__ == "__main__":
    main()
