"""`rampmeter figure pcp.4 --quick`, or `python -m rampmeter.figures` with the same; `--help` lists the options."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rampmeter import ScenarioError, WorldError
from rampmeter.figures import FIGURES, draw


def main() -> int:
    """Draw the figure that the command line names."""
    names = "\n".join(f"  {name}  {figure.title}" for name, figure in FIGURES.items())
    parser = argparse.ArgumentParser(
        prog="rampmeter figure",
        description=f"Draw a paper's figure from our own runs, as PNG and SVG.\n\nfigures:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", choices=FIGURES, metavar="FIGURE", help="which one; none lists them")
    parser.add_argument("--out", type=Path, default=Path("runs/figures"), metavar="DIR", help="where to (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer runs, for a first look")
    parser.add_argument("--seeds", type=_count, metavar="N", help="runs of each point")
    parser.add_argument("--jobs", type=_count, metavar="N", help="runs at once (one a core; of real packets, one)")
    parser.add_argument("--studies", type=Path, metavar="DIR", help="where the papers' folders are (studies)")
    given = parser.parse_args()
    if given.figure is None:
        print(names)
        return 0
    try:
        asked = {"quick": given.quick, "seeds": given.seeds, "folder": given.studies, "jobs": given.jobs}
        for path in draw(given.figure, given.out, **asked):
            print(path)
    except (ScenarioError, WorldError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ScenarioError) else 1
    return 0


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("1 or more")
    return count


if __name__ == "__main__":
    sys.exit(main())
