"""`python -m dtqn`, and what the console command `dtqn` and `run.py` call."""

from __future__ import annotations

import sys

from dtqn.program import shadowed


def main() -> int:
    """Run the command of the command line; its exit code."""
    if mistake := shadowed():
        print(f"error: {mistake}", file=sys.stderr)
        return 2
    from dtqn import cli  # imports the packages that were looked at

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
