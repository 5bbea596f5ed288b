"""Damaged files of every kind, and odd command lines: a table of what came of them, by kind of file.

python -m tests.fuzz [--inputs 10000] [--seed 1] [--jobs 2] [--out FILE]
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
import tempfile
from pathlib import Path

from tests.fuzz import kinds, outcome

Counts = dict[str, collections.Counter[str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table there")
    args = parser.parse_args()
    parts = [(args.seed, range(first, args.inputs, args.jobs)) for first in range(args.jobs)]
    counts: Counts = collections.defaultdict(collections.Counter)
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for part in pool.starmap(tried, parts):
            for kind, found in part.items():
                counts[kind] += found
    return outcome.write_table({"seed": args.seed}, counts, args.out)


def tried(seed: int, numbers: range) -> Counts:
    """What came of the inputs of these numbers."""
    counts: Counts = {}
    outcome.bound_memory()
    with tempfile.TemporaryDirectory() as folder, outcome.alone(Path(folder)):
        samples = kinds.Samples(Path(folder))
        names = [name for name, kind in samples.kinds.items() for _ in range(kind.share)]
        for number in numbers:
            kind = names[number % len(names)]
            found = samples.tried(kind, f"{seed}/{number}")
            counts.setdefault(kind, collections.Counter())[found.verdict] += 1
            if found.verdict in outcome.FAULTS:
                print(
                    f"{found.verdict}: {kind}: {seed}/{number}: {found.argv}\n{found.told}", file=sys.stderr
                )
    return counts


if __name__ == "__main__":
    sys.exit(main())
