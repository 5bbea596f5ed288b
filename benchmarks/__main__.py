"""The benchmarks: tables on the terminal, figures as JSON, one file each.

    python -m benchmarks [NAME ...] [--json FOLDER]    # by default all

From the root of the repository; on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks.options import write

NAMES = ("envs", "replay", "agent", "cost", "rivals", "parameters", "random_play", "popgym", "pool")
BENCHMARKS = {name: importlib.import_module(f"benchmarks.{name}") for name in (*NAMES, "interval_coverage")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "names", nargs="*", choices=[*BENCHMARKS, []], metavar="NAME", help=", ".join(BENCHMARKS)
    )
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="write the figures there")
    args = parser.parse_args()
    for name in args.names or BENCHMARKS:
        result = BENCHMARKS[name].measure()
        print(f"\n{name}\n{BENCHMARKS[name].table(result)}", flush=True)
        write(args.json and args.json / f"{name}.json", result)


if __name__ == "__main__":
    main()
