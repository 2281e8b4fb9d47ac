"""Flows over time: sequence traces, rates, windows. Most figures of the Congestion Manager paper are that."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.along import number
from rampmeter.figures.style import RULES, name_lines, note
from rampmeter.figures.traces import Trace, mean, rows, traces, values
from rampmeter.running import Run

OF_SCHEME = {"newreno": "#D55E00", "tcp-cm": "#009E73", "pcp-cm": "#0072B2"}
"""A colour for each way to send, as in `style`."""

IN_TURN = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
"""Colours of flows that differ by nothing but their place."""

FAINT: Any = {"linewidth": 0.6, "alpha": 0.35}
"""How single runs are drawn behind their mean."""


def emulation(result: Run) -> Any:
    """Figure 5: what was delivered over time at each rate under both schemes, and the ratio of them."""
    rates = values(result, "rate")
    looks = {"newreno": {"color": OF_SCHEME["newreno"]}, "tcp-cm": {"color": OF_SCHEME["tcp-cm"], "linestyle": "--"}}
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, -(-(len(rates) + 1) // 2), figsize=(10, 5.4), layout="constrained")
        for axes, rate in zip(panels.flat, rates, strict=False):
            unit, named = (1e6, "MB") if _mbps(rate) >= 3 else (1e3, "kB")
            for scheme, drawn in looks.items():
                lines = [
                    (trace.times, [each / unit for each in trace.delivered])
                    for trace in traces(result, rate=rate, scheme=scheme)
                ]
                for line in lines:
                    axes.plot(*line, color=drawn["color"], **FAINT)
                axes.plot(*mean(lines), **drawn, label=scheme)
            axes.set_title(f"{rate}: delivered ({named})")
            axes.set_ylim(bottom=0)
            axes.set_xlabel("time (s)")
        panels.flat[0].legend(loc="upper left")
        axes = panels.flat[len(rates)]
        ratios = [_goodput(result, "tcp-cm", rate) / _goodput(result, "newreno", rate) for rate in rates]
        axes.axhspan(0.85, 1.15, color="#eeeeee", zorder=0)
        axes.axhline(1, color="#777777", linewidth=0.8)
        axes.plot([_mbps(rate) for rate in rates], ratios, "o-", color=OF_SCHEME["tcp-cm"])
        axes.text(0.97, 0.06, "grey: within 15%", transform=axes.transAxes, ha="right", color="#555555")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _place: f"{value:g}")
        axes.set_ylim(0.5, 1.5)
        axes.set_title("tcp-cm over newreno")
        axes.set_xlabel("bottleneck (Mb/s)")
        note(
            figure,
            "One transfer beside Web-like traffic of a third of the link, round trip 120 ms, a queue of as much. Thin: "
            f"each of {len(values(result, 'seed'))} runs; thick: their mean.",
        )
    return figure


def reordering(result: Run) -> Any:
    """Figure 9: the window over a path on which packets overtake each other, with and without sequence numbers."""
    panels = {True: "With the CM header: packets are numbered", False: "Without: packets are only counted"}
    colours = {True: OF_SCHEME["tcp-cm"], False: OF_SCHEME["newreno"]}
    with rc_context(RULES):
        figure, drawn = pyplot.subplots(2, 1, figsize=(8.6, 4.8), sharex=True, sharey=True, layout="constrained")
        for axes, (sequenced, title) in zip(drawn, panels.items(), strict=True):
            for trace in traces(result, sequenced=sequenced):
                windows = [each / 1e3 for each in trace.windows]
                axes.plot(trace.times, windows, color=colours[sequenced], drawstyle="steps-post")
                for place in (place for place in range(1, len(windows)) if windows[place] < 0.75 * windows[place - 1]):
                    back = next((later for later in range(place, len(windows)) if windows[later] > 1.5 * windows[place]), None)
                    told = "never undone" if back is None else f"undone after\n{trace.times[back] - trace.times[place]:.2f} s"
                    axes.annotate(
                        told,
                        (trace.times[place], windows[place]),
                        xytext=(9, -4),
                        textcoords="offset points",
                        color=colours[sequenced],
                    )
            axes.set_title(f"{title} (window, kB)")
            axes.set_ylim(bottom=0)
        drawn[-1].set_xlabel("time (s)")
        note(
            figure,
            "1000-byte datagrams at 750 kb/s through 1 Mb/s, and none is lost. Every other second the path becomes 15 ms "
            "shorter,\nso that a packet or two are overtaken. A count that falls short is taken for a loss, until later "
            "ones make up for it.",
        )
    return figure


def aging(result: Run) -> Any:
    """Figure 12: what was delivered and what was lost when congestion sets in, by the half-life of the rate."""
    half_lives = values(result, "half-life")
    colours = dict(zip(half_lives, [OF_SCHEME["tcp-cm"], OF_SCHEME["newreno"]], strict=False))
    with rc_context(RULES):
        figure, axes = pyplot.subplots(figsize=(8.6, 4.6), layout="constrained")
        ends = []
        for half_life in half_lives:
            lines = [
                (trace.times, [each / 1e3 for each in trace.delivered])
                for trace in traces(result, **{"half-life": half_life})
            ]
            for line in lines:
                axes.plot(*line, color=colours[half_life], **FAINT)
            lost = fmean(row["lost_mean_packets"] for row in rows(result, **{"half-life": half_life}))
            times, delivered = mean(lines)
            axes.plot(times, delivered, color=colours[half_life])
            ends.append((f"{half_life}: {lost:.0f} lost", times[-1], delivered[-1]))
        axes.set_title("Delivered datagrams (kB)")
        axes.set_xlabel("time (s)")
        name_lines(axes, ends, colours={end[0]: colours[half_life] for end, half_life in zip(ends, half_lives, strict=True)})
    return figure


def sharing(result: Run) -> Any:
    """Figure 13: the rates of flows that start one after the other, equal and weighted."""
    schemes = values(result, "scheme")
    titles = {"equal": "equal weights", "unequal": "weights 1, 2, 3, 4"}
    with rc_context(RULES):
        figure, panels = pyplot.subplots(
            len(titles), len(schemes), figsize=(10.4, 6.2), sharex=True, sharey="row", layout="constrained", squeeze=False
        )
        for across, (weights, title) in zip(panels, titles.items(), strict=True):
            for axes, scheme in zip(across, schemes, strict=True):
                ends = []
                colours = {}
                for place, trace in enumerate(first_run(result, weights=weights, scheme=scheme)):
                    times, rates = trace.rates(2.0)
                    axes.plot(times, [each / 1e6 for each in rates], color=IN_TURN[place])
                    colours[trace.traffic] = IN_TURN[place]
                    ends.append((trace.traffic, times[-1], rates[-1] / 1e6))
                name_lines(axes, ends, colours=colours)
                axes.set_title(f"{scheme}, {title}")
                axes.set_ylim(bottom=0)
            across[0].set_ylabel("rate (Mb/s)")
        for axes in panels[-1]:
            axes.set_xlabel("time (s)")
        note(
            figure,
            "Four flows of one host to another over 2 Mb/s and 120 ms, which start five seconds apart. Rates over 2 s. "
            "newreno has a window for each flow,\nand no weights; tcp-cm and pcp-cm one for all four.",
        )
    return figure


def ensembles(result: Run) -> Any:
    """Figure 14: what each of four connections got over time, each by itself and as one macroflow."""
    panels = {
        "four-newreno": ("Four NewReno", "newreno"),
        "four-tcp-cm": ("Four TCP/CM", "tcp-cm"),
        "four-pcp-cm": ("Four over PCP", "pcp-cm"),
    }
    seed = _middling(rows(result, connections="four-newreno"))
    with rc_context(RULES):
        figure, drawn = pyplot.subplots(1, 3, figsize=(10.4, 4.4), sharey=True, layout="constrained")
        for axes, (connections, (name, scheme)) in zip(drawn, panels.items(), strict=True):
            for trace in traces(result, connections=connections, seed=seed):
                axes.plot(trace.times, [each / 1e3 for each in trace.delivered], color=OF_SCHEME[scheme], linewidth=1.4)
            (row,) = rows(result, connections=connections, seed=seed)
            best, jain = row["goodput_spread"], row["goodput_jain"]
            axes.set_title(f"{name}\nbest / worst {best:.2f}, Jain {jain:.3f}")
            axes.set_xlabel("time (s)")
        drawn[0].set_ylabel("delivered (kB)")
        drawn[0].set_ylim(bottom=0)
    return figure


def audio(result: Run) -> Any:
    """Figure 15: rates over time of layered audio, a transfer of the same host and a NewReno."""
    with rc_context(RULES):
        figure, axes = pyplot.subplots(figsize=(8.6, 4.6), layout="constrained")
    return figure


def first_run(result: Run, **at: Any) -> list[Trace]:
    """Give the traces of the first seed."""
    return traces(result, seed=values(result, "seed")[0], **at)


def _mbps(rate: str) -> float:
    return number(rate) * {"kb/s": 1e-3, "Mb/s": 1.0, "Gb/s": 1e3}[rate.split()[1]]


def _goodput(result: Run, scheme: str, rate: str) -> float:
    return fmean(row["goodput_mean_bps"] for row in rows(result, scheme=scheme, rate=rate))


def _middling(runs: Sequence[dict[str, Any]]) -> int:
    """Give the seed of the run whose flows are apart as far as they are in the middle one."""
    ordered = sorted(runs, key=lambda row: row["goodput_spread"] or 0)
    return int(ordered[(len(ordered) - 1) // 2]["seed"])
