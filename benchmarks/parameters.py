"""The parameter tables of two papers beside the networks of this suite; the same on any machine.

    python -m benchmarks parameters

DTQN's table 3 (Esslinger et al. 2022, arXiv 2206.01078) counts the networks of gridverse memory 5x5. GTrXL's
table 2 (Parisotto et al. 2020, arXiv 1910.06764) counts whole agents of 12 layers of width 512; what a gate
adds to the residual variant does not depend on the rest of the agent.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import envs
from dtqn import networks
from dtqn.networks.gates import LayerSettings
from dtqn.networks.gtrxl import GTrXL
from dtqn.settings import presets

DTQN_TASK = "gridverse-memory-5x5"
DTQN_TABLE = {"dtqn-paper": 435_142, "drqn-paper": 155_838, "dqn-paper": 23_743}
DTQN_CODE = {
    "dtqn-paper": {"trainable": 426_942, "printed": 431_942},
    "drqn-paper": {"trainable": 155_838, "printed": 155_838},
    "dqn-paper": {"trainable": 23_742, "printed": 23_742},
}
"""The public code's branch `paper`, run; it prints its causal masks too, parameters without gradient."""
GTRXL_LAYERS, GTRXL_WIDTH, GTRXL_HEADS = 12, 512, 8
GTRXL_TABLE_MILLIONS = {
    "residual": 28.6, "input": 34.9, "output": 34.9, "highway": 34.9, "sigtanh": 41.2, "gru": 66.4,
}  # fmt: skip


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def dtqn_network(agent: str, **flags: str) -> nn.Module:
    config = presets.resolve(None, {"env": DTQN_TASK, "agent": agent, **flags}, {}).network
    task = envs.spec(DTQN_TASK)
    return networks.build(config, task.observation_space, int(task.action_space.n))


def dtqn_table() -> dict[str, Any]:
    """Each preset of the paper on its task: all parameters, and those of its parts."""
    table: dict[str, Any] = {}
    for agent, published in DTQN_TABLE.items():
        network = dtqn_network(agent)
        table[agent] = {
            "paper": published,
            "public_code": DTQN_CODE[agent],
            "here": count(network),
            "parts": {name: count(part) for name, part in network.named_children() if count(part)},
        }
    main = dtqn_network("dtqn-paper", **{"network.core.final_norm": "false"})
    table["dtqn-paper"]["here_as_on_branch_main"] = count(main)
    return table


def gtrxl_parameters(gate: str) -> int:
    """The parameters of the core alone, on no device."""
    with torch.device("meta"):
        layer = LayerSettings(GTRXL_WIDTH, GTRXL_HEADS, mlp_width=128, gate=gate, gate_bias=None, norm="pre")
        core = GTrXL(layer, num_layers=GTRXL_LAYERS, memory_length=40, span_ramp=None, compression=None)
        return count(core)


def gtrxl_table() -> dict[str, Any]:
    """The parameters that each gate adds to the residual variant."""
    residual = gtrxl_parameters("residual")
    return {
        gate: {
            "paper_millions": millions,
            "paper_added_millions": round(millions - GTRXL_TABLE_MILLIONS["residual"], 1),
            "added": gtrxl_parameters(gate) - residual,
        }
        for gate, millions in GTRXL_TABLE_MILLIONS.items()
    }


def measure() -> dict[str, Any]:
    return {"dtqn_table_3": dtqn_table(), "gtrxl_table_2": gtrxl_table()}


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{DTQN_TASK:<24}{'paper':>12}{'its code':>12}{'here':>12}"]
    for agent, row in result["dtqn_table_3"].items():
        code = row["public_code"]["trainable"]
        lines.append(f"{agent:<24}{row['paper']:>12,}{code:>12,}{row['here']:>12,}")
    lines.append(f"{f'GTrXL {GTRXL_LAYERS} x {GTRXL_WIDTH}, adds':<24}{'paper, M':>12}{'here':>12}")
    for gate, row in result["gtrxl_table_2"].items():
        lines.append(f"{gate:<24}{row['paper_added_millions']:>12.1f}{row['added']:>12,}")
    return "\n".join(lines)
