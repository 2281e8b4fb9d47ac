"""Evaluate the controllers of `docs/evaluation.md` and write the table of what they fail: `make evaluations`.

Each gets its page, `runs/evaluate/NAME-quick/index.html`. `--full` asks all questions instead of the quick ones, and
leaves the table as it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/evaluation.md"
CONTROLLERS = ["pcp", "cubic", "newreno", "bbr", "bbr1", "copa", "vcp", "prague", "stable", "ledbat"]


def evaluate(rampmeter: Path, controller: str, *, full: bool) -> dict[str, Any]:
    """Return the evaluation of one controller beside CUBIC, or of CUBIC beside NewReno."""
    rival = "newreno" if controller == "cubic" else "cubic"
    command = [str(rampmeter), "evaluate", "--controller", controller, "--against", rival, "--json"]
    command += [] if full else ["--quick"]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}")
    evaluation: dict[str, Any] = json.loads(result.stdout)["evaluation"]
    return evaluation


def number(value: float | None) -> str:
    """Three digits."""
    return "no value" if value is None else f"{value:.3g}"


def row(evaluation: dict[str, Any]) -> str:
    """Format what the evaluated controller passes and fails."""
    asked, fails = 0, []
    for section in evaluation["sections"]:
        for question in section["questions"]:
            answer = question["answers"][0]
            asked += answer["verdict"] != "skipped"
            if answer["verdict"] == "fails":
                unit = question["unit"]
                unit = f" {unit}" if unit and unit not in ("fraction", "ratio") else ""
                fails.append(f"`{question['id']}` {number(answer['worst'])}{unit} ({question['expect']})")
    return f"| `{evaluation['scheme']}` | {asked - len(fails)} of {asked} | {', '.join(fails) or 'none'} |\n"


def main() -> None:
    """Evaluate all, print where the pages are, and rewrite the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rampmeter", type=Path)
    parser.add_argument("--full", action="store_true", help="all questions")
    args = parser.parse_args()
    rows = []
    for controller in CONTROLLERS:
        start = time.monotonic()
        evaluation = evaluate(args.rampmeter.resolve(), controller, full=args.full)
        rows.append(row(evaluation))
        directory = f"runs/evaluate/{evaluation['scheme']}{'' if args.full else '-quick'}"
        print(f"{directory}/index.html: {time.monotonic() - start:.0f} s", flush=True)
        print(rows[-1], end="", flush=True)
    if args.full:
        return
    start_mark, end_mark = "<!-- evaluations -->\n", "<!-- end -->"
    before, found, rest = PAGE.read_text().partition(start_mark)
    if not found:
        sys.exit(f"docs/evaluation.md has no place for the table: {start_mark.strip()}")
    head = "| controller | passes | fails: the value that decides, and its bound |\n|---|---|---|\n"
    PAGE.write_text(f"{before}{start_mark}\n{head}{''.join(rows)}\n{end_mark}{rest.partition(end_mark)[2]}")


if __name__ == "__main__":
    main()
