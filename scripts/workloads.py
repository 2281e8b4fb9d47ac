"""Write the results of `studies/workloads` into docs/workloads.md: `make workloads`; or compare them: `--check`.

A row is a point of the scenario, a cell the mean over its seeds; transfers are counted over all seeds.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path
from typing import Any

import command

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/workloads.md"

# A column of the results, its heading, the factor to its unit and its digits. `None`: the sum over the seeds.
Column = tuple[str, str, float | None, int]

# The tables by scenario: the axes that name a row, and the columns.
TABLES: dict[str, tuple[list[str], list[Column]]] = {
    "web": (
        ["condition", "downloads", "scheme"],
        [
            ("fct_or_age_mean_s", "mean s", 1, 2),
            ("fct_p50_s", "median s", 1, 2),
            ("fct_p95_s", "95% s", 1, 2),
            ("completed", "loaded", None, 0),
            ("unfinished", "unfinished", None, 0),
        ],
    ),
    "rpc": (
        ["sizes", "load", "scheme"],
        [
            ("slowdown_small_p50", "small, median", 1, 2),
            ("slowdown_small_p99", "99%", 1, 1),
            ("slowdown_medium_p50", "medium, median", 1, 2),
            ("slowdown_medium_p99", "99%", 1, 1),
            ("slowdown_large_p50", "large, median", 1, 2),
            ("slowdown_large_p99", "99%", 1, 1),
            ("completed", "completed", None, 0),
            ("unfinished", "unfinished", None, 0),
        ],
    ),
    "video": (
        ["rate", "scheme"],
        [
            ("bitrate_mean_bps", "bitrate Mb/s", 1e-6, 2),
            ("startup_mean_s", "startup s", 1, 2),
            ("stalls_mean", "stalls", 1, 0),
            ("stalled_mean_s", "stalled s", 1, 1),
            ("switches_mean", "switches", 1, 0),
        ],
    ),
    "media": (
        ["condition", "downloads", "scheme"],
        [
            ("late_share", "late %", 100, 1),
            ("frame_delay_p50_mean_s", "median ms", 1000, 0),
            ("frame_delay_p99_mean_s", "99% ms", 1000, 0),
        ],
    ),
}


def cell(runs: list[dict[str, Any]], column: Column) -> str:
    """Format one column of the runs of a point."""
    name, _, factor, digits = column
    groups = [run.get("traffic", {}).get("video", run["flows"]) for run in runs]
    values = [group[name] for group in groups if group[name] is not None]
    if not values:
        return "-"
    if factor is None:
        return str(sum(values))
    return f"{factor * sum(values) / len(values):.{digits}f}"


def table(runs: list[dict[str, Any]], axes: list[str], columns: list[Column]) -> str:
    """Format the runs of a scenario as a table of Markdown."""

    def name(run: dict[str, Any]) -> list[str]:
        return [str(run["point"][axis]) for axis in axes]

    rows = [[*axes, *(heading for _, heading, _, _ in columns)], ["---"] * (len(axes) + len(columns))]
    for point, group in groupby(runs, key=name):
        of_point = list(group)
        rows.append([*(f"`{value}`" for value in point), *(cell(of_point, column) for column in columns)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Run the scenarios and rewrite or compare their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rampmeter", type=Path)
    parser.add_argument("workloads", nargs="*", choices=[*TABLES, []], help="these only, for example web")
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if a table is stale")
    args = parser.parse_args()
    stale = []
    for workload in args.workloads or TABLES:
        axes, columns = TABLES[workload]
        runs = command.run(args.rampmeter, ROOT / f"studies/workloads/{workload}.toml")
        start, end = f"<!-- results of {workload} -->\n", "<!-- end -->"
        before, found, rest = PAGE.read_text().partition(start)
        if not found:
            raise SystemExit(f"docs/workloads.md has no place for the results of {workload}: {start.strip()}")
        known, _, after = rest.partition(end)
        new = f"\n{table(runs, axes, columns)}\n"
        if args.check:
            if new != known:
                stale += [f"{workload}:", *(line for line in new.splitlines() if line not in known.splitlines())]
            continue
        PAGE.write_text(f"{before}{start}{new}{end}{after}")
    if stale:
        raise SystemExit(
            "docs/workloads.md is stale: `make workloads` makes it anew. Rows of today:\n" + "\n".join(stale)
        )


if __name__ == "__main__":
    main()
