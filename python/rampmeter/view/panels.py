"""What is drawn of a flow or a link: panels of series. The page draws each kind of series and knows no names."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rampmeter.view.model import Floats, Flow, Link, Table, delivery_rate, empty, span

BLUE, ORANGE, GREEN, RED, PURPLE, BROWN, GREY, TEAL = (
    "#0b6bcb",
    "#b35900",
    "#0a7d4f",
    "#c8102e",
    "#8a3ea8",
    "#7a5c00",
    "#5f6b7a",
    "#007c89",
)
"""Each has a contrast of 4.5 or more to white."""
COLOURS = [BLUE, ORANGE, GREEN, PURPLE, TEAL, BROWN, RED, GREY]
UNITS = {"_bps": "b/s", "_bytes": "B", "_s": "s", "": ""}
MAX_LANES = 9


@dataclass
class Series:
    """Something that is drawn. `kind`: `line` (steps), `dots`, `bars` (with a height), `cross`, `band` or `lanes`."""

    label: str
    kind: str
    colour: str
    time: Floats
    value: Floats
    height: Floats | None = None
    names: list[str] = field(default_factory=list)
    """The names of values, for bands and lanes."""


@dataclass
class Panel:
    """Series with one vertical axis. `from_zero`: whether the axis begins at zero."""

    key: str
    title: str
    unit: str
    series: list[Series]
    from_zero: bool = True


def drawn(source: Flow | Link) -> list[Panel]:
    """Return the panels that have data."""
    panels = of_flow(source) if isinstance(source, Flow) else of_link(source)
    for panel in panels:
        panel.series = [series for series in panel.series if len(series.time)]
    return [panel for panel in panels if panel.series]


def of_flow(flow: Flow) -> list[Panel]:
    """Return the panels of a flow."""

    def line(name: str, label: str, colour: str, kind: str = "line") -> list[Series]:
        table = flow.metrics.get(name)
        return [Series(label, kind, colour, table["time"], table["value"])] if table else []

    def bars(table: Table, label: str, colour: str, kind: str = "bars") -> Series:
        known = table["offset"] == table["offset"]
        return Series(label, kind, colour, table["time"][known], table["offset"][known], table["length"][known])

    again = flow.sent["repeated"] > 0
    over = interval(flow)
    within = f"over {duration(over)}"
    acked = delivery_rate(flow.acked["time"], flow.acked["bytes"], over)
    sent = delivery_rate(flow.sent["time"], flow.sent["bytes"], over)
    sequence = [
        bars({name: column[~again] for name, column in flow.sent.items()}, "sent", BLUE),
        bars(flow.received, "received", TEAL),
        bars(flow.acked, "acknowledged", GREEN),
        bars({name: column[again] for name, column in flow.sent.items()}, "retransmitted", ORANGE),
        bars(flow.lost, "lost", RED, "cross"),
    ]
    window = line("window", "window", PURPLE) + line("in_flight", "in flight", BLUE)
    window += line("ssthresh", "slow-start threshold", BROWN) + line("receive_window", "receive window", GREY)
    trips = line("latest_rtt", "latest", BLUE, "dots") + line("smoothed_rtt", "smoothed", ORANGE)
    rates = [
        Series(f"acknowledged {within}", "line", GREEN, acked["time"], acked["value"]),
        Series(f"sent {within}", "line", BLUE, sent["time"], sent["value"]),
        *line("rate", "pacing rate", PURPLE),
    ]
    states = flow.metrics.get("state", empty("value"))
    band = Series("state", "band", GREY, states["time"], states["value"], names=flow.states)
    return [
        Panel("state", "Controller's state", "", [band]),
        Panel("sequence", "Stream offset", "B", sequence, from_zero=False),
        Panel("window", "Window and bytes in flight", "B", window),
        Panel("rtt", "Round-trip time", "s", trips + line("min_rtt", "minimum", GREEN)),
        Panel("rate", "Rate", "b/s", rates),
        *own_values(flow),
        Panel("events", "Losses, timers, application", "", [lanes(flow)]),
    ]


def interval(flow: Flow) -> float:
    """Return the interval of rates: a round trip, at least a millisecond; or a part of the whole."""
    trips = flow.metrics.get("smoothed_rtt") or flow.metrics.get("latest_rtt")
    first, last = span(flow)
    return max(float(np.median(trips["value"])), 1e-3) if trips and len(trips["value"]) else (last - first) / 500


def duration(seconds: float) -> str:
    """Write an interval with three digits."""
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{1e3 * seconds:.3g} ms"


def own_values(flow: Flow) -> list[Panel]:
    """Return a panel for each unit of the controller's own values."""
    panels = []
    for suffix, unit in UNITS.items():
        names = [name for name in flow.own if unit_of(name) == suffix]
        colours = COLOURS * (1 + len(names) // len(COLOURS))
        series = [
            Series(name.removesuffix(suffix).replace("_", " "), "line", colour, table["time"], table["value"])
            for name, colour in zip(names, colours, strict=False)
            if (table := flow.own[name])
        ]
        title = "Controller's own values" + (f" ({unit})" if unit else "")
        panels.append(Panel(f"own{suffix}", title, unit, series, from_zero=False))
    return panels


def unit_of(name: str) -> str:
    """Return the suffix of a name that says its unit."""
    return next((suffix for suffix in UNITS if suffix and name.endswith(suffix)), "")


def lanes(flow: Flow) -> Series:
    """Return marks in a lane for each kind of moment; the rarest kinds have room first."""
    names = sorted(sorted(flow.moments, key=lambda name: len(flow.moments[name]))[:MAX_LANES])
    time = np.concatenate([flow.moments[name] for name in names]) if names else np.zeros(0)
    lane = np.repeat(np.arange(len(names), dtype=np.float64), [len(flow.moments[name]) for name in names])
    order = np.argsort(time, kind="stable")
    return Series("events", "lanes", RED, time[order], lane[order], names=names)


def of_link(link: Link) -> list[Panel]:
    """Return the panels of a link."""
    rate = link.rates
    offered, dropped, marked = link.offered, link.dropped["time"], link.marked
    before = np.searchsorted(offered["time"], dropped, "right") - 1
    at_drop = offered["queued"][np.clip(before, 0, None)] if len(offered["time"]) else np.zeros(len(dropped))
    arrives = Series(f"at the far end, over {duration(link.over)}", "line", GREEN, rate["time"], rate["value"])
    queue = [
        Series("queued before a packet", "dots", BLUE, offered["time"], offered["queued"]),
        Series("marked", "cross", ORANGE, marked["time"], marked["queued"]),
        Series("dropped", "cross", RED, dropped, at_drop),
    ]
    return [
        Panel(f"{link.name}:rate", f"Link {link.name}: rate", "b/s", [arrives]),
        Panel(f"{link.name}:queue", f"Link {link.name}: queue", "packets", queue),
    ]
