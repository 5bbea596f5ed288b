"""Every benchmark in one command: tables on the terminal, figures as JSON, one file each.

python -m benchmarks [--json FOLDER]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks import agent, envs, replay

BENCHMARKS = {"envs": envs, "replay": replay, "agent": agent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="write the figures there")
    args = parser.parse_args()
    for name, benchmark in BENCHMARKS.items():
        result = benchmark.measure()
        print(f"\n{name}\n{benchmark.table(result)}", flush=True)
        if args.json is not None:
            args.json.mkdir(parents=True, exist_ok=True)
            (args.json / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
