"""Damaged files of every kind, and odd command lines: a table of what came of them, by kind of file.

    python -m tests.fuzz [--inputs 10000] [--seed 1] [--out FILE]
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
from pathlib import Path

from tests.fuzz import kinds, outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table there")
    args = parser.parse_args()
    counts: dict[str, collections.Counter[str]] = {}
    out = args.out and args.out.resolve()
    outcome.bound_memory()
    with tempfile.TemporaryDirectory() as folder, outcome.alone(Path(folder)):
        samples = kinds.Samples(Path(folder))
        names = [name for name, kind in samples.kinds.items() for _ in range(kind.share)]
        for number in range(args.inputs):
            kind = names[number % len(names)]
            found = samples.tried(kind, f"{args.seed}/{number}")
            counts.setdefault(kind, collections.Counter())[found.verdict] += 1
            if found.verdict in outcome.FAULTS:
                print(f"{found.verdict}: {kind} {args.seed}/{number}: {found.argv}\n{found.told}", file=sys.stderr)
    return outcome.write_table({"seed": args.seed}, counts, out)


if __name__ == "__main__":
    sys.exit(main())
