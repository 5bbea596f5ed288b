"""The benchmarks: tables on the terminal, figures as JSON, one file each.

    python -m benchmarks [NAME ...] [--json FOLDER]    # by default all

From the root of the repository; on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import (
    agent,
    agents,
    envs,
    interval_coverage,
    parameters,
    pool,
    popgym,
    random_play,
    replay,
    rivals,
)
from benchmarks.options import write

BENCHMARKS = {
    "envs": envs,
    "replay": replay,
    "agent": agent,
    "agents": agents,
    "rivals": rivals,
    "parameters": parameters,
    "random_play": random_play,
    "popgym": popgym,
    "pool": pool,
    "interval_coverage": interval_coverage,
}


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
