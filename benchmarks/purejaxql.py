"""PQN's public code on a memory chain of length 100, to hold our `pqn` beside it.

    PYTHON -m benchmarks.purejaxql CHECKOUT [--seeds N] --json FILE

PYTHON is that of an environment with jax, flax, optax, gymnax 0.0.8, hydra-core and wandb; it needs nothing
of ours. CHECKOUT is a clone of github.com/mttga/purejaxql. Settings are those of its own
`pqn_rnn_memory_chain.yaml`: 10^5 env steps, and after each update 128 greedy copies for 1 000 steps.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

PACKAGES = ("jax", "flax", "optax", "gymnax")


def settings(checkout: Path) -> dict[str, Any]:
    """Those of the memory chain; YAML 1.1 reads 1e5 as a word."""
    text = (checkout / "purejaxql/config/alg/pqn_rnn_memory_chain.yaml").read_text()
    found = yaml.safe_load(text)
    for name in ("TOTAL_TIMESTEPS", "TOTAL_TIMESTEPS_DECAY"):
        found[name] = float(found[name])
    return {**found, "WANDB_MODE": "disabled"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    sys.path.insert(0, str(given.checkout))
    jax: Any = importlib.import_module("jax")
    jax.tree_map = jax.tree_util.tree_map  # its code calls it by a name that jax has dropped since
    code = importlib.import_module("purejaxql.pqn_rnn_gymnax")
    train = jax.jit(jax.vmap(code.make_train(settings(given.checkout))))
    commit = subprocess.check_output(
        ["git", "-C", str(given.checkout), "rev-parse", "--short", "HEAD"], text=True
    )
    figures: dict[str, Any] = {
        "purejaxql": commit.strip(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "greedy_return": {},
    }
    for seed in range(given.seeds):
        keys = jax.random.split(jax.random.PRNGKey(seed), 1)
        metrics = jax.block_until_ready(train(keys))["metrics"]
        figures["env_steps"] = [int(steps) for steps in metrics["env_step"][0]]
        returns = [round(float(value), 4) for value in metrics["test/returned_episode_returns"][0]]
        figures["greedy_return"][str(seed)] = returns
        print(f"seed {seed}: {returns}", flush=True)
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
