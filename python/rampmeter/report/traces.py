"""What flows and links did over time, at one point of a sweep: a column of panels for each line of the sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rampmeter.report.sweep import Sweep
from rampmeter.tables import Row, grouped

FLOW_PANELS = [
    ("window (kB)", "window_bytes", 1e-3),
    ("in flight (kB)", "in_flight_bytes", 1e-3),
    ("sending rate (Mb/s)", "rate_bps", 1e-6),
    ("round trip (ms)", "smoothed_rtt_s", 1e3),
    ("goodput (Mb/s)", "goodput_bps", 1e-6),
    ("packets lost", "lost", 1.0),
]
"""Title, column and factor."""

LINK_PANELS = [("queue (packets)", "queue_packets", 1.0), ("sent (Mb/s)", "sent_bps", 1e-6)]

MIN_SAMPLES = 5
"""The minimum number of intervals that a rate is averaged over."""


class Traces(NamedTuple):
    """Samples by the line of the sweep and the flow, or the link."""

    flows: dict[str, dict[str, list[Row]]]
    """Samples with the columns `goodput_bps`, and `lost` and `timed_out` since the sample before."""
    links: dict[str, dict[str, list[Row]]]
    """Samples with the column `sent_bps`."""
    traffic: dict[str, str]
    """The traffic of each flow."""
    place: str
    width: float
    """The seconds that a rate is averaged over."""

    def panels(self) -> Iterator[tuple[str, str | None, str, float]]:
        """Yield title, link, column and factor of the panels that have values."""
        for title, column, factor in FLOW_PANELS:
            columns = [column, "timed_out"] if column == "lost" else [column]
            samples = (row for flows in self.flows.values() for rows in flows.values() for row in rows)
            if any(row[each] for row in samples for each in columns):
                yield title, None, column, factor
        for link in dict.fromkeys(link for links in self.links.values() for link in links):
            for title, column, factor in LINK_PANELS:
                yield f"{link}: {title}", link, column, factor


def read_traces(sweep: Sweep) -> Traces | None:
    """Return the samples of the point in detail: of its long-lived flows, or of all flows if none is long-lived."""
    if sweep.run.link_series is None or sweep.run.flow_series is None:
        return None
    about, place = sweep.example(sweep.run.flows)
    flows, links = (sweep.example(table)[0] for table in (sweep.run.flow_series, sweep.run.link_series))
    times = sorted({row["time_s"] for row in [*flows, *links]})
    if len(times) < 2:
        return None
    width = max(MIN_SAMPLES * (times[1] - times[0]), times[-1] / 60)
    called = _names(sweep, about)
    traffic = {called[sweep.name(row), row[sweep.flow_column]]: row[traffic_column(sweep)] for row in about}
    lasting = {(sweep.name(row), row[sweep.flow_column]) for row in about if row["size_bytes"] is None}
    kept = [row for row in flows if (sweep.name(row), row[sweep.flow_column]) in lasting] or flows
    of_flows = {
        line: grouped(some, lambda row: called[sweep.name(row), row[sweep.flow_column]])
        for line, some in grouped(kept, sweep.name).items()
    }
    of_links = {
        line: grouped(some, lambda row: row[sweep.link_column]) for line, some in grouped(links, sweep.name).items()
    }
    for samples in [samples for by_flow in of_flows.values() for samples in by_flow.values()]:
        for row, rate, before in zip(samples, rates(samples, "delivered_bytes", width), [None, *samples], strict=False):
            row["goodput_bps"] = rate
            for column, counted in [("lost", "lost_packets"), ("timed_out", "timeouts")]:
                row[column] = (row[counted] or 0) - ((before[counted] or 0) if before else 0)
    for samples in [samples for by_link in of_links.values() for samples in by_link.values()]:
        for row, rate in zip(samples, rates(samples, "transmitted_bytes", width), strict=True):
            row["sent_bps"] = rate
    return Traces(of_flows, of_links, traffic, place, width)


def rates(samples: list[Row], column: str, width: float) -> list[float | None]:
    """Return the bits per second in the last `width` seconds before each sample, by a count of bytes."""
    found: list[float | None] = []
    first = 0
    for row in samples:
        while row["time_s"] - samples[first]["time_s"] > width * (1 + 1e-9):
            first += 1
        past = row["time_s"] - samples[first]["time_s"]
        found.append(8 * (row[column] - samples[first][column]) / past if past > 0 else None)
    return found


def traffic_column(sweep: Sweep) -> str:
    """Return the column of `flows` with the traffic."""
    return "its_traffic" if "traffic" in sweep.axes else "traffic"


def _names(sweep: Sweep, about: list[Row]) -> dict[tuple[str, int], str]:
    """Name each line's flows by their traffic, with their index where the traffic has several."""
    traffic = traffic_column(sweep)
    count = Counter((sweep.name(row), row[traffic]) for row in about)
    names = {}
    for row in about:
        line, flow = sweep.name(row), row[sweep.flow_column]
        names[line, flow] = f"{row[traffic]} {flow}" if count[line, row[traffic]] > 1 else row[traffic]
    return names
