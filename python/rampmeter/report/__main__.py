"""`python -m rampmeter.report RUN_DIR [--out FILE]`, or `rampmeter report` with the same arguments."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rampmeter.report import write


def main() -> int:
    """Write the report of the run directory on the command line."""
    parser = argparse.ArgumentParser(
        prog="rampmeter report",
        description="Write a run's tables and charts as one self-contained HTML page.",
    )
    parser.add_argument("directory", type=Path, metavar="RUN_DIR", help="a directory of `rampmeter run`, under runs/")
    parser.add_argument("--out", type=Path, metavar="FILE", help="output file (RUN_DIR/report.html)")
    given = parser.parse_args()
    try:
        print(write(given.directory, given.out))
    except FileNotFoundError as error:
        print(f"rampmeter: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"rampmeter: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
