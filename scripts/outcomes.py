"""Simulate the same points with two builds of the command, and list those whose results differ.

    python3 scripts/outcomes.py BEFORE AFTER

A change that only moves code must not change a result. The points pair each controller with each recovery, each router
with several controllers, each workload, and each condition: more than 600, in a few minutes. All numbers of a point's
JSON object are compared, in their order and not by name, so that a column may be renamed. BEFORE is a copy of
`target/release/rampmeter` from before the change.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NETWORK = """
title = "outcomes"
duration = "12 s"
warmup = "1 s"
drain = "5 s"
[axes]
{axes}
[[link]]
name = "bottleneck"
between = ["left", "right"]
rate = "10 Mb/s"
delay = "15 ms"
router = {router}
reverse = {{ router = {{ kind = "drop-tail" }}, changes = [] }}
measure = true
{link}
[[hosts]]
name = "sender"
count = 3
at = "left"
rate = "100 Mb/s"
delay = {{ from = "1 ms", to = "9 ms" }}
[[hosts]]
name = "receiver"
count = 3
at = "right"
rate = "100 Mb/s"
delay = "1 ms"
"""
DROP_TAIL = '{ kind = "drop-tail", packets = 60 }'
BULK = """
[[traffic]]
name = "bulk"
scheme = "it"
from = "sender"
to = "receiver"
arrivals = { count = 2, spread = "1 s" }
"""
TRANSFERS = """
[[traffic]]
name = "transfers"
scheme = "it"
from = "sender"
to = "receiver"
size = { mean = "60 kB", pareto = 1.5 }
arrivals = { load = 0.3, of = "bottleneck" }
"""
WORKLOADS = {
    "transfers": 'size = "250 kB"\narrivals = { per_second = 2 }',
    "sizes": 'size = { distribution = "hadoop" }\narrivals = { load = 0.4, of = "bottleneck" }',
    "datagrams": 'datagrams = "1000 B"\narrivals = { count = 2 }',
    "audio": 'datagrams = "250 B"\nencodings = ["10 kb/s", "40 kb/s", "160 kb/s"]\narrivals = { count = 2 }',
    "video": 'video = { ladder = ["235 kb/s", "750 kb/s", "3 Mb/s"] }\narrivals = { count = 1 }',
    "media": 'media = { rate = "2 Mb/s" }\narrivals = { count = 2 }',
    "web": 'web = {}\narrivals = { count = 3, spread = "3 s" }',
}
CONDITIONS = sorted(file.stem for file in Path(__file__).parents[1].glob("studies/conditions/*.toml"))
# Losses, an outage, and a longer path: what recoveries are for.
TROUBLE = """
loss = { per_packet = 0.004 }
changes = [{ at = "4 s", rate = "0 b/s" }, { at = "5 s", rate = "5 Mb/s" }, { at = "8 s", delay = "150 ms" }]
"""


def names(command: Path, what: str) -> list[str]:
    """Return the names of the command's controllers or routers."""
    lines = subprocess.check_output([command, what], text=True).splitlines()[2:]
    return [line.split()[0] for line in lines if line and not line.startswith(" ")]


def axis(name: str, values: list[str]) -> str:
    """Format an axis of a scenario."""
    return f"{name} = {json.dumps(values)}\n"


def scenarios(command: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of each scenario."""
    controllers = [name for name in names(command, "controllers") if name != "fixed-rate"]  # it needs a rate
    for probe in ("false", "true"):
        recoveries = axis("controller", controllers) + axis("recovery", ["sack", "newreno", "reno"])
        scheme = '[scheme.it]\ncontroller = "$controller"\n'
        scheme += f'transport = {{ recovery = "$recovery", tail_loss_probe = {probe} }}\n'
        network = NETWORK.format(axes=recoveries, router=DROP_TAIL, link=TROUBLE)
        yield f"recoveries-{probe}", network + scheme + BULK + TRANSFERS
    for controller in ("cubic", "prague", "pcp", "vcp", "xcp", "fair-share"):
        scheme = f'[scheme.it]\ncontroller = "{controller}"\ntransport = {{ ecn = "ect0" }}\n'
        for router in names(command, "routers"):
            settings = ', rate = "4 Mb/s"' if router == "policer" else ""
            network = NETWORK.format(axes="", router=f'{{ kind = "{router}"{settings} }}', link="")
            yield f"{router}-{controller}", network + scheme + BULK + TRANSFERS
    for workload, keys in WORKLOADS.items():
        for macroflow in ("flow", "destination"):
            axes = axis("controller", ["newreno", "cubic", "pcp", "bbr", "cm"])
            scheme = f'[scheme.it]\ncontroller = "$controller"\nmacroflow = "{macroflow}"\n'
            traffic = f'[[traffic]]\nname = "it"\nscheme = "it"\nfrom = "sender"\nto = "receiver"\n{keys}\n'
            network = NETWORK.format(axes=axes, router=DROP_TAIL, link="")
            yield f"{workload}-{macroflow}", network + scheme + traffic
    hosts = '[[hosts]]\nname = "{0}"\nat = "{1}"\nrate = "unlimited"\ndelay = "0 ms"\n'
    for condition in CONDITIONS:
        text = f'title = "{condition}"\nduration = "12 s"\nwarmup = "2 s"\ncondition = "{condition}"\n[axes]\n'
        text += axis("controller", ["cubic", "bbr", "pcp", "copa"])
        text += hosts.format("sender", "left") + hosts.format("receiver", "right")
        yield condition, text + '[scheme.it]\ncontroller = "$controller"\n' + BULK


def values(result: Any, without: set[str]) -> Iterator[Any]:
    """Yield all leaves of a JSON value, but for the keys in `without`."""
    if isinstance(result, dict):
        for key, value in result.items():
            if key not in without:
                yield from values(value, without)
    elif isinstance(result, list):
        for value in result:
            yield from values(value, without)
    else:
        yield result


def points(command: Path, file: Path, home: Path, new: list[str]) -> dict[str, Any] | str:
    """Run all points of a scenario: the values of each, or what the command says where it refuses the file."""
    with TemporaryDirectory(dir=home) as out:
        run = [str(command), "run", str(file), "--json", "--quiet", "--out", out]
        result = subprocess.run(run, capture_output=True, text=True, check=False)
    if not result.stdout:
        return result.stderr.replace(str(file), file.name)
    runs: list[dict[str, Any]] = json.loads(result.stdout)["runs"]
    without = {"wall_s", "point", *new}
    return {json.dumps(run["point"]): list(values(run, without)) for run in runs}


def main() -> int:
    """Run all scenarios with both builds, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--new", action="append", default=[], metavar="COLUMN", help="a column that only AFTER has")
    arguments = parser.parse_args()
    same = differ = 0
    refused: list[str] = []
    with TemporaryDirectory() as home:
        for name, text in scenarios(arguments.before):
            file = Path(home, f"{name}.toml")
            file.write_text(text)
            before, after = (
                points(command, file, Path(home), arguments.new) for command in (arguments.before, arguments.after)
            )
            if isinstance(before, str) or isinstance(after, str):
                refused.append(name)
                if before != after:
                    differ += 1
                    print(f"{name}: before: {before!s:.200}\n{name}: after: {after!s:.200}")
                continue
            for point in before.keys() | after.keys():
                if before.get(point) == after.get(point):
                    same += 1
                else:
                    differ += 1
                    print(f"{name} {point}")
    print(f"{same} points are equal, {differ} differ")
    if refused:
        print(f"refused, and not compared: {', '.join(refused)}")
    return differ > 0


if __name__ == "__main__":
    sys.exit(main())
