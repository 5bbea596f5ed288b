"""Damaged files of every kind, and odd command lines: a table of what came of them, by kind of file.

python -m tests.fuzz [--inputs 10000] [--seed 1] [--jobs 2] [--out FILE]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from pathlib import Path

from tests.fuzz import kinds, outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table there")
    args = parser.parse_args()
    parts = [(args.seed, range(first, args.inputs, args.jobs)) for first in range(args.jobs)]
    table = outcome.Table()
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for part in pool.starmap(kinds.counted, parts):
            for kind, counts in part.items():
                table[kind] += counts
    return table.write({"seed": args.seed}, args.out)


if __name__ == "__main__":
    sys.exit(main())
