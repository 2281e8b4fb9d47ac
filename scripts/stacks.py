"""Judge every controller of every stack beside ours, and write docs/stack-verdicts.md: `make stacks`.

Each scheme answers the quick questions of RFC 9743 beside CUBIC, CUBIC beside NewReno, and those of the suite of its
algorithm. The page gets the tables, docs/images/stacks.png the figure. Finished runs stay in runs/stacks, so the same
command resumes; the pages of each scheme are there, too, for example runs/stacks/rfc9743/quinn_cubic.html.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from PIL import Image

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/stack-verdicts.md"
FIGURE = ROOT / "docs/images/stacks.png"
RUNS = ROOT / "runs/stacks"

OURS = ["newreno", "cubic", "bbr"]
# The suite of an algorithm, and its title.
SUITES = {"rfc9743": "RFC 9743", "cubic": "CUBIC", "bbr": "BBR"}
# Colors that color-blind readers distinguish.
COLORS = {"passes": "#8fcfb8", "fails": "#d55e00", "skipped": "#e4e4e4"}

REPORTS = "../studies/stacks/reports"
FLOW_CONTROL = HYSTART = "stacks.md#judge-a-stack"
NOQ_REORDERING = f"{REPORTS}/noq-bbr3.md#3-packets-that-overtake-each-other-count-as-lost-for-every-controller"
NOQ_MAXIMUM = f"{REPORTS}/noq-bbr3.md#1-the-maximum-bandwidth-expires-in-every-round-trip"
QUINN_PACING = f"{REPORTS}/quinn-bbr.md#1-the-pacing-rate-is-not-used"
QUINN_MAXIMUM = f"{REPORTS}/quinn-bbr.md#3-the-maximum-never-expires"
QUINN_REORDERING = f"{REPORTS}/quinn-reordering.md"
S2N_SAMPLES = f"{REPORTS}/s2n-quic-bbr.md#1-a-rate-sample-has-the-bytes-of-two-acks-and-the-time-of-the-first"
S2N_CHANGES = f"{REPORTS}/s2n-quic-bbr.md#what-else-changes"
S2N_REORDERING = f"{REPORTS}/s2n-quic-reordering.md"

# Where the cause of a failure is described, by suite, question and scheme. Only what is confirmed there.
CAUSES: dict[tuple[str, str], dict[str, str]] = {
    ("rfc9743", "standing-queue"): {"quinn:bbr": QUINN_PACING},
    ("rfc9743", "queueing-delay"): {"quinn:bbr": QUINN_PACING, "s2n-quic:bbr": S2N_CHANGES},
    ("rfc9743", "delay-jump"): {"quinn:newreno": FLOW_CONTROL, "quinn:cubic": FLOW_CONTROL},
    ("rfc9743", "reordering"): {
        **dict.fromkeys(["noq:newreno", "noq:cubic", "noq:bbr3"], NOQ_REORDERING),
        **dict.fromkeys(["quinn:newreno", "quinn:cubic"], QUINN_REORDERING),
        **dict.fromkeys(["s2n-quic:cubic", "s2n-quic:bbr"], S2N_REORDERING),
    },
    ("cubic", "start-losses"): {"quinn:cubic": HYSTART},
    ("bbr", "utilization"): {"noq:bbr3": NOQ_MAXIMUM},
    ("bbr", "queue-of-one"): {"quinn:bbr": QUINN_PACING, "s2n-quic:bbr": S2N_SAMPLES},
    ("bbr", "queue-of-four"): {"s2n-quic:bbr": S2N_CHANGES},
    ("bbr", "tenth-deep"): {"quinn:bbr": QUINN_MAXIMUM, "s2n-quic:bbr": S2N_CHANGES},
    ("bbr", "reordered"): {"noq:bbr3": NOQ_REORDERING, "s2n-quic:bbr": S2N_REORDERING},
    ("bbr", "latecomer"): {"s2n-quic:bbr": S2N_CHANGES},
}

Question = dict[str, Any]


@dataclass(frozen=True)
class Answers:
    """What a scheme answers to one suite."""

    scheme: str
    suite: str
    stack: str
    """What runs, with its version; empty for ours."""
    questions: dict[str, Question]

    def verdict(self, name: str) -> str:
        """Return `passes`, `fails` or `skipped`."""
        return str(self.questions[name]["answers"][0]["verdict"])

    def passed(self) -> str:
        """Count the questions that are passed, of those that are not skipped."""
        verdicts = [self.verdict(name) for name in self.questions]
        return f"{verdicts.count('passes')} of {len(verdicts) - verdicts.count('skipped')}"


def algorithm(scheme: str) -> str:
    """Return the algorithm of a scheme.

    >>> [algorithm(scheme) for scheme in ("noq:bbr3", "s2n-quic:cubic", "newreno")]
    ['bbr', 'cubic', 'newreno']
    """
    return scheme.rpartition(":")[2].rstrip("0123456789")


def schemes(rampmeter: Path) -> list[str]:
    """Return the stacks' own controllers and ours, those of an algorithm together, ours last."""
    lines = subprocess.check_output([rampmeter, "stacks"], text=True).splitlines()[2:]
    theirs = [line.split()[0] for line in lines if ":" in line and ":rampmeter-" not in line]
    known = [scheme for scheme in theirs if algorithm(scheme) in OURS]
    if other := sorted(set(theirs) - set(known)):
        sys.exit(f"{', '.join(other)}: add what to compare with to OURS in scripts/stacks.py")
    return [scheme for own in OURS for scheme in [*(it for it in known if algorithm(it) == own), own]]


def evaluate(rampmeter: Path, scheme: str, suite: str, more: list[str]) -> Answers:
    """Return the answers of one scheme. All schemes share a directory, so that a rival runs once for all of them."""
    own = "--stack" if ":" in scheme else "--controller"
    rival = "newreno" if scheme == "cubic" else "cubic"
    out = RUNS / suite
    command = [str(rampmeter), "evaluate", own, scheme, "--against", rival if suite == "rfc9743" else "none"]
    command += ["--suite", suite, "--quick", "--out", str(out), "--json", *more]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}; the same command resumes")
    shutil.copyfile(out / "index.html", out / f"{scheme.replace(':', '_')}.html")
    evaluation = json.loads(result.stdout)["evaluation"]
    questions = {question["id"]: question for part in evaluation["sections"] for question in part["questions"]}
    return Answers(scheme, suite, evaluation.get("stacks", {}).get(scheme, ""), questions)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Format a table of Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *rows])


def counts(answers: list[Answers]) -> str:
    """Format how many questions each scheme passes."""
    rows = []
    for of_rfc in (it for it in answers if it.suite == "rfc9743"):
        suites = [it for it in answers if it.scheme == of_rfc.scheme and it.suite != "rfc9743"]
        own = ", ".join(f"{it.passed()} ({SUITES[it.suite]})" for it in suites)
        rows.append([f"`{of_rfc.scheme}`", of_rfc.stack or "Rampmeter", of_rfc.passed(), own or "no suite"])
    return table(["scheme", "what runs", "passes of RFC 9743", "passes of its suite"], rows)


def number(value: float | None) -> str:
    """Three digits.

    >>> number(0.04081), number(None)
    ('0.0408', 'no value')
    """
    return "no value" if value is None else f"{value:.3g}"


def cell(it: Answers, name: str) -> str:
    """Format a failure: the scheme and its value, with a link to the cause where it is known."""
    value = number(it.questions[name]["answers"][0]["worst"])
    cause = CAUSES.get((it.suite, name), {}).get(it.scheme)
    return f"`{it.scheme}` " + (f"[{value}]({cause})" if cause else value)


def bound(question: Question) -> str:
    """Format the bound with its unit.

    >>> bound({"expect": "at most 10", "unit": "packets"}), bound({"expect": "at most 0.1 s", "unit": "s"})
    ('at most 10 packets', 'at most 0.1 s')
    """
    expect, unit = str(question["expect"]), str(question["unit"])
    return expect if unit in ("", "fraction", "ratio") or expect.endswith(unit) else f"{expect} {unit}"


def failures(answers: list[Answers]) -> str:
    """Format the questions that a scheme fails, with bound and values."""
    rows = []
    for name, question in answers[0].questions.items():
        fails = [cell(it, name) for it in answers if it.verdict(name) == "fails"]
        if fails:
            rows.append([f"`{name}`", bound(question), ", ".join(fails)])
    return table(["question", "bound", "fails: the value that decides"], rows)


def draw_matrix(axes: Any, answers: list[Answers]) -> None:
    """Draw a row for each question, a column for each scheme."""
    names, order = list(answers[0].questions), list(COLORS)
    cells = [[order.index(it.verdict(name)) for it in answers] for name in names]
    axes.imshow(cells, cmap=ListedColormap(list(COLORS.values())), vmin=0, vmax=len(order) - 1, aspect="auto")
    for row, name in enumerate(names):
        for column, it in enumerate(answers):
            if it.verdict(name) == "fails":
                axes.text(column, row, "x", color="white", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(answers)), [it.scheme for it in answers], rotation=45, ha="left", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=6.5)
    axes.xaxis.tick_top()
    axes.set_xticks([n - 0.5 for n in range(1, len(answers))], minor=True)
    axes.set_yticks([n - 0.5 for n in range(1, len(names))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"Questions of {SUITES[answers[0].suite]}", fontsize=8, loc="left")


def draw(answers: list[Answers]) -> None:
    """Draw all suites: RFC 9743 on the left, those of the algorithms on the right."""
    by_suite = {suite: [it for it in answers if it.suite == suite] for suite in SUITES}
    rows = {suite: len(own[0].questions) for suite, own in by_suite.items()}
    mpl.use("Agg")
    figure = plt.figure(figsize=(8.6, 8.4), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.25, 1])
    left, right = halves
    draw_matrix(left.subplots(), by_suite["rfc9743"])
    others = [suite for suite in SUITES if suite != "rfc9743"]
    parts = right.subplots(len(others), 1, height_ratios=[rows[suite] for suite in others])
    for axes, suite in zip(parts, others, strict=True):
        draw_matrix(axes, by_suite[suite])
    patches = [Patch(color=color, label=word) for word, color in COLORS.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=120)
    plt.close(figure)
    with Image.open(FIGURE) as image:
        small = image.convert("RGB").quantize(32)
    small.save(FIGURE, optimize=True)


def write(name: str, text: str) -> None:
    """Replace what is called `name` in the page."""
    before, start, rest = PAGE.read_text().partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not (start and end):
        sys.exit(f"{PAGE.relative_to(ROOT)} has no place for {name}: <!-- {name} -->, then <!-- end -->")
    PAGE.write_text(f"{before}{start}\n{text}\n{end}{after}")


def main() -> None:
    """Evaluate all, then write the page and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rampmeter", type=Path)
    parser.add_argument(
        "--seeds", help="these seeds for all questions, for a quick look: changes neither page nor figure"
    )
    arguments = parser.parse_args()
    rampmeter = arguments.rampmeter.resolve()
    all_schemes = schemes(rampmeter)
    asked = [(scheme, "rfc9743") for scheme in all_schemes]
    asked += [(scheme, algorithm(scheme)) for scheme in all_schemes if algorithm(scheme) in SUITES]
    answers, start = [], time.monotonic()
    for done, (scheme, suite) in enumerate(asked, 1):
        began = time.monotonic()
        seeds = ["--seeds", arguments.seeds] if arguments.seeds else []
        answers.append(evaluate(rampmeter, scheme, suite, seeds))
        now = time.monotonic()
        place = f"{done} of {len(asked)}: {scheme} passes {answers[-1].passed()} of {SUITES[suite]}"
        print(f"{place}; {now - began:.0f} s, {now - start:.0f} s in all", file=sys.stderr, flush=True)
    if arguments.seeds:
        return
    write("counts", counts(answers))
    for suite in SUITES:
        write(suite, failures([it for it in answers if it.suite == suite]))
    draw(answers)


if __name__ == "__main__":
    main()
