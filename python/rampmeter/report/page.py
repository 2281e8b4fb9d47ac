"""The page: description, charts and tables."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from html import escape

from rampmeter.report.charts import Chart
from rampmeter.report.sweep import Sweep
from rampmeter.running import About
from rampmeter.tables import LINKS, RUNS, Column, Row, means

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2429; background: #fff; max-width: 66rem; margin: 2rem auto;
  padding: 0 1.2rem }
h1 { font-size: 1.6rem; line-height: 1.25; margin-bottom: .3rem }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .3rem }
p { margin: .3rem 0 .8rem; color: #4c5760 }
img { width: 100%; height: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .87rem }
th, td { padding: .25rem .75rem .25rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid #e4e7ea }
th { white-space: normal; vertical-align: bottom; color: #4c5760; font-weight: 600; border-bottom-color: #aab3ba }
.word { text-align: left }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1.2rem; margin: 1rem 0 }
dt { color: #4c5760 }
dd { margin: 0; overflow-wrap: anywhere }
.missing { border-left: 4px solid #d55e00; padding: .2rem 0 .2rem .9rem }
"""


def write_page(sweep: Sweep, charts: Sequence[Chart]) -> str:
    """Write the whole page."""
    about = sweep.run.about
    parts = [f"<h1>{escape(about['title'])}</h1>", what_ran(about), left_out(sweep), degraded(sweep)]
    parts += [picture(chart) for chart in charts]
    interval = "± half of their 95% confidence interval (Student's t)"
    over = f"Means over {len(sweep.seeds)} seeds, {interval}. " if len(sweep.seeds) > 1 else ""
    runs = sweep.run.runs.to_pylist()
    explained = "FCT is the flow completion time, of transfers that began after the warm-up."
    parts += ["<h2>Flows</h2>", f"<p>{over}{explained}</p>", table(sweep, RUNS, runs)]
    for link in sweep.links():
        parts += [f"<h2>Link {escape(link)}</h2>", table(sweep, LINKS, sweep.link(link))]
    body = "\n".join(part for part in parts if part)
    title = f"<title>{escape(about['title'])}</title>"
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    return f'<!doctype html>\n<html lang="en">\n{meta}\n{title}\n<style>{STYLE}</style>\n{body}\n</html>\n'


def what_ran(about: About) -> str:
    """Describe the run so that it can be repeated."""
    entries = {
        "scenario": about["scenario"],
        "SHA-256": about["scenario_sha256"],
        "world": about["world"],
        "Rampmeter": about["build"],
        "date": about["date"],
        "machine": "{system}, {processor}, {cores} cores".format(**about["machine"]),
        "runs": f"{about['finished']} of {about['points']}",
    }
    entries |= {f"axis {axis}": ", ".join(map(str, values)) for axis, values in about["axes"].items()}
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in entries.items())
    return f"<dl>{listed}</dl>"


def left_out(sweep: Sweep) -> str:
    """List the points that the world cannot run, and those whose runs failed."""
    failed = [f"{run['point']}: {run['reason']}" for run in sweep.run.about["failed"]]
    if not sweep.run.skipped and not failed:
        return ""
    listed = "".join(f"<li>{escape(point)}</li>" for point in [*sweep.run.skipped, *failed])
    return f'<div class="missing">Not run:<ul>{listed}</ul></div>'


def degraded(sweep: Sweep) -> str:
    """List what kept flows from working as designed, with the number of runs."""
    runs = Counter((found["scheme"], found["reason"]) for found in sweep.run.about["degraded"])
    if not runs:
        return ""
    listed = "".join(
        f"<li>scheme {escape(scheme)}, in {count} of {sweep.run.about['finished']} runs: {escape(reason)}</li>"
        for (scheme, reason), count in runs.items()
    )
    return f'<div class="missing">Degraded flows:<ul>{listed}</ul></div>'


def picture(chart: Chart) -> str:
    """Put a chart inside the page, as data: names in one SVG cannot meet those in another."""
    data = b64encode(chart.svg).decode()
    image = f'<img alt="{escape(chart.title)}" src="data:image/svg+xml;base64,{data}">'
    return f"<h2>{escape(chart.title)}</h2>\n<p>{escape(chart.note)}</p>\n{image}"


def table(sweep: Sweep, columns: Sequence[Column], rows: list[Row]) -> str:
    """Write a row for every point but the seed, without axes that have one value: the list above has those."""
    axes = [axis for axis in sweep.axes if len(sweep.run.about["axes"][axis]) > 1] or sweep.axes
    return f'<div class="wide">{means(axes, (columns, rows)).html()}</div>'
