"""Throughput against loss, and the square root law: Figure 6 of the Congestion Manager paper."""

from __future__ import annotations

from collections import defaultdict
from math import sqrt
from statistics import fmean
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.over_time import OF_SCHEME
from rampmeter.figures.style import RULES, note, plain_log
from rampmeter.figures.traces import values
from rampmeter.running import Run

MARKERS = {"newreno": "s", "tcp-cm": "^"}

PAYLOAD = 8 * 1446.0
"""Bits of data in a packet."""


def friendliness(random: Run, queues: Run) -> Drawing:
    """Draw runs with random losses (left) and with losses in queues (right), and the law in both."""
    with rc_context(RULES):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 4.6), layout="constrained")
        points = _random(random)
        _panel(left, points, "Packets lost at random", [120])
        _panel(right, _in_queues(queues), "Packets lost in the queue", [120, 240])
        left.set_ylabel("throughput (Mb/s)")
        left.legend(loc="upper right")
        seeds = len(values(queues, "seed"))
        note(
            figure,
            "Left: one flow, 100 Mb/s, 120 ms; means of the runs. Right: a transfer of 20 s that competes with "
            f"Web-like traffic at seven bottlenecks\nfrom 100 kb/s to 10 Mb/s, {seeds} runs each, one point per run; "
            "lost: retransmitted packets. Dashed: MSS/RTT √(3/2p) at the given RTT.\nThe law counts losses of one "
            "round trip once; above 1 Mb/s nine tenths of losses are in the first four seconds, when slow start "
            "overflows the queue.",
        )
    return figure


def _panel(axes: Any, points: dict[str, list[tuple[float, float]]], title: str, rtts: list[int]) -> None:
    for scheme, places in points.items():
        open_ones = {"markerfacecolor": "none"} if scheme == "tcp-cm" else {"alpha": 0.6}
        axes.plot(
            *zip(*places, strict=True),
            MARKERS[scheme],
            color=OF_SCHEME[scheme],
            label=scheme,
            clip_on=False,
            **{"markersize": 6, **open_ones},
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    shares = [x for places in points.values() for x, _ in places]
    ends = [min(shares) / 1.3, max(shares) * 1.3]
    heights = axes.get_ylim()
    for rtt in rtts:
        law = [PAYLOAD / (rtt * 1e-3) * sqrt(1.5 / (p / 100)) / 1e6 for p in ends]
        axes.plot(ends, law, color="#777777", linewidth=1, linestyle=(0, (4, 1.6)), zorder=1)
        axes.annotate(
            f"{rtt} ms", (ends[1], law[1]), xytext=(4, 0), textcoords="offset points", va="center", color="#555555"
        )
    axes.set_ylim(heights[0] / 1.1, heights[1] * 1.1)
    axes.set_title(title)
    axes.set_xlabel("packets lost (%)")
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)


def _random(result: Run) -> dict[str, list[tuple[float, float]]]:
    found = defaultdict(list)
    for row in result.runs.to_pylist():
        found[row["scheme"], row["loss"]].append(row["goodput_mean_bps"] / 1e6)
    points = defaultdict(list)
    for (scheme, loss), goodputs in found.items():
        points[scheme].append((100 * loss, fmean(goodputs)))
    return points


def _in_queues(result: Run) -> dict[str, list[tuple[float, float]]]:
    points = defaultdict(list)
    for row in result.flows.to_pylist():
        if row["measured"] and row["retransmitted_packets"]:
            loss = 100 * row["retransmitted_packets"] / row["sent_packets"]
            points[row["flow_scheme"]].append((loss, row["goodput_bps"] / 1e6))
    return points
