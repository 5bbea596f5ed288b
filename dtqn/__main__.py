"""`python -m dtqn`, and what the console command `dtqn` and `run.py` call."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command of the command line; its exit code."""
    try:  # imports take a second, in which people press Ctrl-C too
        from dtqn.program import shadowed

        if mistake := shadowed():
            print(f"error: {mistake}", file=sys.stderr)
            return 2
        from dtqn import cli  # imports the packages that were looked at
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
