"""`rampmeter figure pcp.4 --quick`, or `python -m rampmeter.figures` with the same; `--help` lists the options.

`rampmeter figure vcp` draws all figures of a paper, and goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rampmeter import ScenarioError, WorldError
from rampmeter.figures import FIGURES, draw, papers


def main() -> int:
    """Draw the figures that the command line names."""
    names = "\n".join(f"  {name}  {figure.title}" for name, figure in FIGURES.items())
    parser = argparse.ArgumentParser(
        prog="rampmeter figure",
        description="Draw a paper's figures from our own runs as PNG and SVG. Runs are kept: an interrupted "
        f"or repeated one continues from them.\n\nfigures:\n{names}\n\nall of a paper: {', '.join(papers())}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "figure", nargs="?", type=_known, metavar="FIGURE", help="name of a figure; without it, all are listed"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/figures"), metavar="DIR", help="output directory (%(default)s)"
    )
    much = parser.add_mutually_exclusive_group()
    much.add_argument("--quick", action="store_true", help="fewer runs, for a preview")
    much.add_argument("--whole", action="store_true", help="all runs of the scenario, if the figure uses fewer")
    parser.add_argument("--seeds", type=_count, metavar="N", help="number of seeds of each point")
    parser.add_argument(
        "--jobs", type=_count, metavar="N", help="concurrent runs (one per core; one with real packets)"
    )
    parser.add_argument("--studies", type=Path, metavar="DIR", help="directory with the papers' directories (studies)")
    given = parser.parse_args()
    if given.figure is None:
        print(names)
        return 0
    asked = {name: getattr(given, name) for name in ["quick", "whole", "seeds", "jobs"]}
    return max(_draw(name, given.out, {**asked, "directory": given.studies}) for name in _all(given.figure))


def _known(name: str) -> str:
    known = [*FIGURES, *papers()]
    if name not in known:
        near = get_close_matches(name, known) or ["none; without a name all are listed"]
        raise argparse.ArgumentTypeError(f"no figure is called {name}; near it: {', '.join(near)}")
    return name


def _all(name: str) -> list[str]:
    return papers().get(name, [name])


def _draw(name: str, out: Path, asked: dict[str, Any]) -> int:
    """Draw one figure, print its paths, and return the exit code. The figures of a paper continue after an error."""
    try:
        for path in draw(name, out, **asked):
            if path.suffix == ".txt":
                print(path.read_text(encoding="utf-8"))
            print(path, flush=True)
    except (ScenarioError, WorldError, OSError) as error:
        print(f"error: {name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ScenarioError) else 1
    return 0


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return count


if __name__ == "__main__":
    sys.exit(main())
