"""The interactive chart over time: Vega-Lite, with its program inside the page, so that it needs no network."""

from __future__ import annotations

from typing import Any

import vl_convert

from rampmeter.report.traces import Traces

MAX_ROWS = 5_000
"""The maximum number of samples in a chart; of more, every second, third and so on is left."""

SNIPPET = """
for (const part of document.querySelectorAll("details")) {
  part.addEventListener("toggle", () => {
    const actions = { export: true, source: false, compiled: false, editor: false };
    vegaEmbed(part.querySelector("div"), JSON.parse(part.querySelector("script").textContent), { actions });
  }, { once: true });
}
"""
"""Draws a chart when it is opened."""


def program() -> str:
    """Return Vega, Vega-Lite and what draws the charts of the page."""
    return vl_convert.javascript_bundle(SNIPPET).replace("</script", "<\\/script")


def over_time(seen: Traces) -> dict[str, Any]:
    """Describe all lines of the sweep over time: choose one, drag and zoom along time, point at samples."""
    panels = list(seen.panels())
    lines = list(dict.fromkeys([*seen.flows, *seen.links]))
    samples = [
        (line, name, row)
        for groups in (seen.flows, seen.links)
        for line, by_name in groups.items()
        for name, rows in by_name.items()
        for row in rows
    ]
    times = sorted({row["time_s"] for _, _, row in samples})
    kept = set(times[:: -(-len(samples) // MAX_ROWS)])
    values = [
        {"time": row["time_s"], "line": line, "name": name}
        | {
            f"y{n}": float(f"{factor * row[column]:.4g}")
            for n, (_, link, column, factor) in enumerate(panels)
            if row.get(column) is not None and link in (None, name)
        }
        for line, name, row in samples
        if row["time_s"] in kept
    ]
    zoom = {"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}
    charts = [
        {
            "width": 800,
            "height": 90,
            "params": [zoom],
            "transform": [{"filter": f"datum.line === line && isValid(datum.y{n})"}],
            "mark": {"type": "line", "strokeWidth": 1, "tooltip": True},
            "encoding": {
                "x": {"field": "time", "type": "quantitative", "title": "time (s)"},
                "y": {"field": f"y{n}", "type": "quantitative", "title": title.replace(": ", ":|").split("|")},
                "color": {"field": "name", "type": "nominal", "title": None},
            },
        }
        for n, (title, *_) in enumerate(panels)
    ]
    choice = {"name": "line", "value": lines[0], "bind": {"input": "select", "options": lines, "name": "line: "}}
    return {"params": [choice], "data": {"values": values}, "vconcat": charts}
