"""Our `pqn` beside PQN's public code on bsuite's memory chain of length 100: seconds of a run on one core.

    python -m benchmarks.purejaxql CHECKOUT --rival PYTHON [--seeds N] [--json FILE]

CHECKOUT is a clone of github.com/mttga/purejaxql; PYTHON is that of an environment with what it imports and
gymnax 0.0.8. Its settings are those of its own `pqn_rnn_memory_chain.yaml`, without evaluations.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ENV_STEPS = 98_304
"""24 rollouts of 32 environments and 128 steps."""
RIVAL = "PQN's public code"


def serve(checkout: Path, seeds: int) -> None:
    """The rival's process: seconds to compile a run, then those of each run, a line each."""
    sys.path.insert(0, str(checkout))
    jax: Any = importlib.import_module("jax")
    yaml: Any = importlib.import_module("yaml")
    jax.tree_map = jax.tree_util.tree_map  # its code calls it by a name that jax has dropped since
    code = importlib.import_module("purejaxql.pqn_rnn_gymnax")
    settings = yaml.safe_load((checkout / "purejaxql/config/alg/pqn_rnn_memory_chain.yaml").read_text())
    settings |= {"TOTAL_TIMESTEPS": 1e5, "TOTAL_TIMESTEPS_DECAY": 1e5, "WANDB_MODE": "disabled"}
    keys = [jax.random.split(jax.random.PRNGKey(seed), 1) for seed in range(seeds)]
    train = jax.jit(jax.vmap(code.make_train(settings | {"TEST_DURING_TRAINING": False})))
    began = time.monotonic()
    train = train.lower(keys[0]).compile()
    print(time.monotonic() - began, flush=True)
    for key in keys:
        began = time.monotonic()
        metrics = jax.block_until_ready(train(key))["metrics"]
        assert int(metrics["env_step"][0][-1]) == ENV_STEPS
        print(time.monotonic() - began, flush=True)


def own(agent: str, seed: int) -> float:
    """Seconds of a run of ours, with ten episodes at its end."""
    from benchmarks.options import run_alone  # only here, as the rival's environment has nothing of ours

    settings = {"env": "bsuite-memory-len-100", "agent": agent, "seed": seed, "total_env_steps": ENV_STEPS}
    settings |= {"evaluation.period": ENV_STEPS, "evaluation.episodes": 10}
    with run_alone(settings) as run:
        return float(json.loads((run / "result.json").read_text())["seconds"])


def main() -> None:
    from benchmarks.options import parser_of, write
    from dtqn.training import machine

    parser = parser_of(__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--rival", type=Path, required=True, help="the Python of the rival's environment")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    words = [given.rival, "-P", __file__, "--serve", given.checkout.resolve(), str(given.seeds)]
    one_thread = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "OMP_NUM_THREADS": "1"}
    told = subprocess.run(words, check=True, env=os.environ | one_thread, capture_output=True, text=True)
    compiled, *seconds = map(float, told.stdout.split())
    head = ["git", "-C", str(given.checkout), "rev-parse", "--short", "HEAD"]
    result: dict[str, Any] = {
        "machine": machine.name(),
        "purejaxql": subprocess.check_output(head, text=True).strip(),
        "env_steps": ENV_STEPS,
        "seconds_to_compile": compiled,
        "seconds": {RIVAL: seconds, "pqn": [own("pqn", seed) for seed in range(given.seeds)]},
    }
    print(json.dumps(result, indent=2))
    write(given.json, result)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
