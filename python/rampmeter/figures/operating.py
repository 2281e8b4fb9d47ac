"""Stable TCP over time and over numbers of flows, packet sizes and round trips."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.along import number
from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, name_lines, note, plain_log
from rampmeter.figures.traces import LinkTrace, link_trace, marked_share, values
from rampmeter.running import Run

COLOURS = ["#0072B2", "#D55E00", "#009E73"]

EITHER = {"stable": "#0072B2", "newreno": "#D55E00"}
"""Stable TCP and the scheme for comparison."""

OPERATION = 50e6
"""Rate of the link of basic operation, b/s."""

PHASES = [(0.0, 50), (60.0, 100), (90.0, 25)]
"""Start of each phase in seconds, and its number of flows in each direction."""

OVER = 1.0
"""Averaging interval, seconds."""

SHARING = 10.0
"""S for packets of 1000 bytes, packets per second."""

PAYLOAD = 8 * 946.0
"""Bits of data in such a packet."""

HEADERS = 54
"""Bytes of a packet that are not data."""


def operation(result: Run) -> Drawing:
    """Draw utilization, marks and queue while flows double and then end, a column for each round trip."""
    rtts, phases = values(result, "rtt"), _last_phase(result)
    dropped = sum(row["dropped_packets"] for row in result.links.to_pylist())
    seed = values(result, "seed")[0]
    with rc_context(RULES):
        figure, panels = pyplot.subplots(
            3, len(rtts), figsize=(10.4, 6.6), sharex=True, sharey="row", layout="constrained", squeeze=False
        )
        for place, rtt in enumerate(rtts):
            trace = link_trace(result, "bottleneck", rtt=rtt, phase=phases, seed=seed)
            upper, middle, lower = panels[:, place]
            times, rates = trace.rates(OVER)
            upper.plot(times, [100 * each / OPERATION for each in rates], color=COLOURS[0], linewidth=1.4)
            upper.set_title(f"{number(rtt):g} ms: utilization (%)")
            upper.set_ylim(0, 105)
            for begin, end, marked in _marks(result, rtt):
                middle.plot([begin, end], [marked, marked], color=COLOURS[1], linewidth=2.4, solid_capstyle="butt")
                middle.annotate(
                    f"{marked:.1f}",
                    ((begin + end) / 2, marked),
                    xytext=(0, 5),
                    textcoords="offset points",
                    ha="center",
                    color=COLOURS[1],
                )
            middle.set_title("Packets marked, mean of each phase (%)")
            middle.set_ylim(0, 30)
            low, mean, high = _queues(trace)
            at = [time for time, _ in mean]
            lower.fill_between(at, [y for _, y in low], [y for _, y in high], color=COLOURS[2], alpha=0.25, linewidth=0)
            lower.plot(*zip(*mean, strict=True), color=COLOURS[2], linewidth=1.4)
            lower.set_yscale("symlog", linthresh=1)
            lower.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
            lower.set_title("Queue: minimum, mean and maximum of each second (packets)")
            lower.set_xlabel("time (s)")
            lower.set_xlim(0, trace.times[-1])
            for time, _ in PHASES[1:]:
                for axes in (upper, middle, lower):
                    axes.axvline(time, color="#777777", linewidth=1, linestyle=(0, (4, 1.6)))
        note(
            figure,
            "50 Mb/s with virtual-queue marking ($\\theta$ = 0.95, $\\phi$ = 1.1), packets of 1000 bytes; 50 flows "
            "each way, 100 from 60 s on, 25 from 90 s on. S = 10 packets/s.\nUtilization: means over one second; "
            "the queue is sampled every 20 ms; the first run.\nPackets dropped later than 10 s after a change of the "
            f"number of flows: {dropped:,}. Marked: of the packets with data.",
        )
    return figure


def reach(result: Run) -> Drawing:
    """Draw utilization, queue, rate and fairness against the number of flows, for both marking algorithms."""
    rows = _rows(result)
    flows = sorted({row["flows"] for row in rows})
    kinds = [str(kind) for kind in values(result, "scheme")]
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, 2, figsize=(9.8, 6.8), layout="constrained")
        first, second, third, fourth = panels.flat
        dashes = (0, (4, 1.6))
        for kind, color in zip(kinds, COLOURS, strict=False):
            of = [row for row in rows if row["scheme"] == kind]
            drawn: Any = {"color": color, "clip_on": False}
            first.plot(flows, [100 * row["utilization"] for row in of], "o-", label=kind, **drawn)
            second.plot(flows, [row["queue_mean_packets"] for row in of], "o-", **drawn)
            second.plot(flows, [row["queue_p99_packets"] for row in of], "o", linestyle=dashes, linewidth=1.2, **drawn)
            points = [(100 * marked_share(row), row["goodput_mean_bps"] / PAYLOAD) for row in of]
            third.plot(*zip(*points, strict=True), "o", markersize=6, **drawn)
            fourth.plot(flows, [row["goodput_jain"] for row in of], "o-", **drawn)
        for axes, title in [
            (first, "Utilization (%)"),
            (second, "Queue, mean and p99 (packets)"),
            (fourth, "Jain's index of the flows' goodputs"),
        ]:
            axes.set_title(title)
            axes.set_xscale("log")
            axes.set_xlabel("flows each way")
            axes.set_xticks(flows, [f"{each:,}" for each in flows])
            axes.minorticks_off()
        first.set_ylim(0, 100)
        first.legend(loc="lower right")
        second.set_ylim(bottom=0)
        fourth.set_ylim(min(0.9, fourth.dataLim.y0), 1)
        low, high = max(third.dataLim.x0, 0.1) / 1.3, third.dataLim.x1 * 1.2
        shares = [low * (high / low) ** (step / 100) for step in range(101)]
        third.plot(shares, [SHARING * (100 - p) / p for p in shares], color="black", linewidth=1.2, zorder=1)
        third.set_xscale("log")
        third.set_yscale("log")
        plain_log(third.xaxis)
        plain_log(third.yaxis)
        third.set_title("A flow's rate, and the response curve (packets/s)")
        third.set_xlabel("packets marked (%)")
        dropped = sum(row["dropped_packets"] for row in rows)
        note(
            figure,
            "100 Mb/s, 40 to 60 ms, packets of 1000 bytes, S = 10 packets/s; 340 s without the "
            "first 300 s.\nvirtual-queue: $\\theta$ = 0.95, $\\phi$ = 1.1; avq: a virtual queue whose rate adapts to "
            f"a utilization of 0.91. Dashed: p99. Curve: S (1 - p) / p.\nPackets dropped: {dropped:,}.",
        )
    return figure


def packets(result: Run) -> Drawing:
    """Draw marks and utilization, queue and goodput against the size of packets."""
    rows = sorted(_rows(result), key=lambda row: number(row["size"]))
    sizes = [number(row["size"]) for row in rows]
    with rc_context(RULES):
        figure, panels = pyplot.subplots(1, 3, figsize=(11.6, 4), sharex=True, layout="constrained")
        first, second, third = panels
        _lines(
            first,
            "Utilization, and packets marked (%)",
            sizes,
            {
                "utilization": [100 * row["utilization"] for row in rows],
                "marked": [100 * marked_share(row) for row in rows],
            },
            maximum=100,
        )
        _lines(second, "Queueing delay (ms)", sizes, _queue(rows, unit=[8e3 * size / 20e6 for size in sizes]))
        whole = [row["goodput_mean_bps"] / 1e3 * size / (size - HEADERS) for row, size in zip(rows, sizes, strict=True)]
        goodput = [row["goodput_mean_bps"] / 1e3 for row in rows]
        _lines(third, "A flow's rate (kb/s)", sizes, {"data": goodput, "with headers": whole}, maximum=1.2 * max(whole))
        for axes in panels:
            axes.set_xticks(sizes, [f"{size:,g}" for size in sizes])
            axes.set_xlabel("packets (bytes)")
        note(
            figure,
            "40 flows on 20 Mb/s with virtual-queue marking, 40 to 60 ms; S times the size is 80 kb/s for all "
            "sizes. 60 s without the first 20 s.",
        )
    return figure


def classes(result: Run) -> Drawing:
    """Draw the throughput of each class of round trips divided by the mean of all flows, for both TCPs."""
    found = _classes(result)
    with rc_context(RULES):
        figure, axes = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
        ends = []
        for scheme, color in EITHER.items():
            if scheme in found:
                points = found[scheme]
                marker = "o" if scheme == "stable" else "s"
                axes.plot(*zip(*points, strict=True), color=color, marker=marker, markersize=6)
                ends.append((scheme, *points[-1]))
        axes.axhline(1, color="#777777", linewidth=1, linestyle=(0, (4, 1.6)), zorder=1)
        axes.set_yscale("log")
        axes.set_ylim(min(0.3, axes.dataLim.y0 / 1.2), max(3, axes.dataLim.y1 * 1.2))
        plain_log(axes.yaxis)
        axes.set_xlim(0, 1.04 * max(rtt for points in found.values() for rtt, _ in points))
        axes.set_title("Throughput divided by the mean of all flows")
        axes.set_xlabel("round trip (ms)")
        name_lines(axes, ends, colors=EITHER)
        spreads = " and ".join(
            f"{max(y for _, y in points) / min(y for _, y in points):.2f} for {scheme}"
            for scheme, points in found.items()
        )
        note(
            figure,
            "50 Mb/s, ten long-lived flows of each round trip and as many in the reverse direction, 120 s without "
            "the first 40 s.\nstable over virtual-queue marking; newreno with ECN and delayed acknowledgements over "
            "adaptive RED, 5 ms.\nThe "
            f"ratio of the largest to the smallest is {spreads}.",
        )
    return figure


def _last_phase(result: Run) -> str:
    """Return the phase that ends last: its samples cover the whole run."""
    return str(values(result, "phase")[-1])


def _marks(result: Run, rtt: Any) -> list[tuple[float, float, float]]:
    """Return the percentage of marked packets of each phase, with start and end."""
    found = []
    ends = [*(time for time, _ in PHASES[1:]), 120.0]
    for phase, (begin, _), end in zip(values(result, "phase"), PHASES, ends, strict=False):
        rows = [row for row in result.links.to_pylist() if row["rtt"] == rtt and row["phase"] == phase]
        marked = fmean(100 * marked_share(row) for row in rows)
        found.append((begin, end, marked))
    return found


def _queues(trace: LinkTrace) -> tuple[list[tuple[float, float]], ...]:
    """Return the minimum, mean and maximum of each interval."""
    at = defaultdict(list)
    for time, queue in zip(trace.times, trace.packets, strict=True):
        at[time // OVER].append(queue)
    return tuple([((key + 0.5) * OVER, float(of(at[key]))) for key in sorted(at)] for of in (min, fmean, max))


def _rows(result: Run) -> list[dict[str, Any]]:
    joined: list[dict[str, Any]] = result.runs.join(result.links, [*result.about["axes"]]).to_pylist()
    return sorted(joined, key=lambda row: row.get("flows") or 0)


def _queue(rows: Sequence[dict[str, Any]], unit: Sequence[float] | None = None) -> dict[str, list[float]]:
    """Return the mean and the 99th percentile of the queue."""
    each = unit or [1.0] * len(rows)
    return {
        name: [row[f"queue_{column}_packets"] * one for row, one in zip(rows, each, strict=True)]
        for name, column in [("mean", "mean"), ("p99", "p99")]
    }


def _lines(
    axes: Any, title: str, places: Sequence[float], lines: dict[str, list[float]], maximum: float | None = None
) -> None:
    ends = []
    for (name, heights), color in zip(lines.items(), COLOURS, strict=False):
        axes.plot(places, heights, "o-", color=color, clip_on=False)
        ends.append((name, places[-1], heights[-1]))
    axes.set_title(title)
    axes.set_ylim(0, maximum or 1.05 * max(each for heights in lines.values() for each in heights))
    name_lines(axes, ends, colors=dict(zip(lines, COLOURS, strict=False)))


def _classes(result: Run) -> dict[str, list[tuple[float, float]]]:
    """Return, by scheme, round trips in ms and the rates of their flows divided by the mean of all."""
    goodputs: dict[str, dict[float, list[float]]] = {}
    for row in result.flows.to_pylist():
        if not row["measured"]:
            continue
        goodputs.setdefault(row["scheme"], defaultdict(list))[number(row["traffic"])].append(row["goodput_bps"])
    found = {}
    for scheme, of in goodputs.items():
        mean = fmean(each for listed in of.values() for each in listed)
        found[scheme] = [(rtt, fmean(of[rtt]) / mean) for rtt in sorted(of)]
    return found
