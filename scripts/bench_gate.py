"""Count false alarms of the regression gate, and check that it finds regressions: `make bench-gate`.

One evaluation is the baseline. The same controller with other seeds must show no change for the worse, in any round.
The same controller with a fault must show one: a CUBIC that keeps less than 70% of its window at a loss uses less of a
link with a short queue.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

STUDY = Path(__file__).parents[1] / "studies/rfc9743"


class Gate:
    """Evaluations of one controller, each compared with the first one."""

    def __init__(self, args: argparse.Namespace, directory: Path) -> None:
        """Evaluate the baseline."""
        self.args = args
        self.directory = directory
        self.evaluations = 0
        self.baseline: Path | None = None
        self.questions = self.only(args.only) if args.only else None
        self.evaluate()
        self.baseline = directory / "0" / "evaluation.json"

    def only(self, names: list[str]) -> Path:
        """Copy the study with these questions and their sections alone."""
        questions = shutil.copytree(STUDY, self.directory / "questions")
        file = questions / "questions.toml"
        parts = re.split(r"(?m)^(?=\[\[)", file.read_text())
        kept = [part for part in parts if part.startswith("[[question]]") and value("id", part) in names]
        if len(kept) != len(names):
            sys.exit("--only has a name that is no question of studies/rfc9743/questions.toml")
        sections = {value("section", part) for part in kept}
        heads = [part for part in parts if part.startswith("[[section]]") and value("id", part) in sections]
        file.write_text("".join(heads + kept))
        return questions

    def evaluate(self, settings: str = "") -> dict[str, Any]:
        """Evaluate the controller with seeds of its own, and return what `--json` prints."""
        first = 1 + self.evaluations * self.args.seeds
        out = self.directory / str(self.evaluations)
        schemes = self.directory / "schemes.toml"
        name = self.args.controller
        schemes.write_text(f'[scheme.{name}]\ncontroller = "{name}"\nsettings = {{ {settings} }}\n')
        command = [self.args.rampmeter, "evaluate", "--controller", name, "--quick", "--json"]
        command += ["--against", self.args.against or name, "--schemes", schemes, "--out", out]
        command += ["--seeds", ",".join(str(first + seed) for seed in range(self.args.seeds))]
        command += ["--jobs", str(self.args.jobs)] if self.args.jobs else []
        command += ["--baseline", self.baseline] if self.baseline else []
        command += ["--questions", self.questions] if self.questions else []
        self.evaluations += 1
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if not done.stdout:
            sys.exit(done.returncode)
        result: dict[str, Any] = json.loads(done.stdout)
        is_worse = self.baseline is not None and bool(worse(result))
        if done.returncode != int(is_worse):
            sys.exit(f"exit code {done.returncode}, and {len(worse(result))} values are worse")
        return result


def value(key: str, table: str) -> str:
    """Return the text that a TOML table has for a key, on a line of its own."""
    found = re.search(rf'(?m)^{key} = "(.*)"$', table)
    return found[1] if found else ""


def worse(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the changes for the worse."""
    return [change for change in (result["comparison"] or {"changes": []})["changes"] if change["is_worse"]]


def text(change: dict[str, Any]) -> str:
    """Return a change as a line."""
    places = ", ".join(str(value) for value in change["at"].values())
    return f"  {change['question']} ({places}): {change['before']:.4g} before, {change['now'] or 0:.4g} now"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rampmeter", help="the command")
    parser.add_argument("--controller", default="cubic", help="the controller (default: cubic)")
    parser.add_argument("--against", help="rivals beside it (default: none, and so no questions of section 5.2)")
    parser.add_argument("--only", nargs="*", help="these questions of studies/rfc9743 (default: all quick ones)")
    parser.add_argument("--rounds", type=int, default=20, help="evaluations of the same program (default: 20)")
    parser.add_argument("--seeds", type=int, default=6, help="seeds of each evaluation (default: 6)")
    parser.add_argument("--faults", nargs="*", default=["beta = 0.5"], help="settings that must be found")
    parser.add_argument("--jobs", type=int, help="the number of runs in parallel (default: one per core)")
    args = parser.parse_args()
    with TemporaryDirectory() as directory:
        start = time.monotonic()
        gate = Gate(args, Path(directory))
        print(f"one evaluation takes {time.monotonic() - start:.0f} s", flush=True)
        alarms = compared = 0
        for _ in range(args.rounds):
            result = gate.evaluate()
            compared += result["comparison"]["compared"]
            alarms += bool(worse(result))
            for change in worse(result):
                print(text(change), flush=True)
        print(f"{alarms} false alarms in {args.rounds} evaluations, {compared} compared values", flush=True)
        missed = 0
        for fault in args.faults:
            changes = worse(gate.evaluate(fault))
            missed += not changes
            print(f"{fault}: {len(changes)} values are worse", *map(text, changes), sep="\n", flush=True)
    if alarms or missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
