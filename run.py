"""`python run.py --env gridverse-memory-7x7` trains; `python run.py --help` says what else there is."""

import sys

from dtqn.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
