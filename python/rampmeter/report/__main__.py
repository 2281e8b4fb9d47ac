"""`python -m rampmeter.report RUN_DIR`, or `rampmeter report` with the same arguments."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rampmeter.report import UnknownNameError, write


def main(arguments: list[str] | None = None) -> int:
    """Write the report of the run directory on the command line."""
    parser = argparse.ArgumentParser(
        prog="rampmeter report",
        description="Write a run's tables and charts as one self-contained HTML page.",
    )
    parser.add_argument("directory", type=Path, metavar="RUN_DIR", help="a directory of `rampmeter run`, under runs/")
    parser.add_argument("--out", type=Path, metavar="FILE", help="output file (RUN_DIR/report.html)")
    parser.add_argument("--x", metavar="AXIS", help="axis to draw along (the first one of quantities)")
    parser.add_argument(
        "--y", metavar="VALUE", action="append", default=[], help="what to draw, for example goodput(bbr)"
    )
    parser.add_argument(
        "--lines", metavar="AXIS", action="append", help="axis whose values have a line each (all others)"
    )
    given = parser.parse_args(arguments)
    try:
        print(write(given.directory, given.out, x=given.x, y=given.y, lines=given.lines))
    except (FileNotFoundError, UnknownNameError) as error:
        print(f"rampmeter: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"rampmeter: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
