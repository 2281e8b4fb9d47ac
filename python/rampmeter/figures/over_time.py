"""Flows over time: sequence traces, rates, windows, as in most figures of the Congestion Manager paper."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from statistics import fmean
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.along import mbps
from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, name_lines, note
from rampmeter.figures.traces import Trace, mean, rows, sums, traces, values
from rampmeter.running import Run

OF_SCHEME = {"newreno": "#D55E00", "tcp-cm": "#009E73", "pcp-cm": "#0072B2"}
"""A color for each scheme, as in `style`."""

IN_TURN = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
"""Colors of flows of the same kind, by their order."""

HALF_LIFE = "half-life"
"""An axis whose name is not a Python identifier."""

WARM = 5.0
"""Start of the measurement in Figure 14, seconds, as in the scenario."""

ENCODINGS = [10, 20, 40, 80, 160]
"""Encodings of the audio of Figure 15, kb/s; the sixth, 320, is above the link's free capacity."""

FAINT: Any = {"linewidth": 0.6, "alpha": 0.35}
"""The style of single runs behind their mean."""


def web_background(result: Run) -> Drawing:
    """Figure 5: delivered bytes over time at each rate for both schemes, and the ratio of their goodputs."""
    rates = values(result, "rate")
    looks = {"newreno": {"color": OF_SCHEME["newreno"]}, "tcp-cm": {"color": OF_SCHEME["tcp-cm"], "linestyle": "--"}}
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, -(-(len(rates) + 1) // 2), figsize=(10, 5.4), layout="constrained")
        for axes, rate in zip(panels.flat, rates, strict=False):
            unit, named = (1e6, "MB") if mbps(rate) >= 3 else (1e3, "kB")
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
            axes.set_xlim(left=0)
            axes.set_xlabel("time (s)")
        panels.flat[0].legend(loc="upper left")
        axes = panels.flat[len(rates)]
        ratios = [_goodput(result, "tcp-cm", rate) / _goodput(result, "newreno", rate) for rate in rates]
        axes.axhspan(0.85, 1.15, color="#eeeeee", zorder=0)
        axes.axhline(1, color="#777777", linewidth=0.8)
        axes.plot([mbps(rate) for rate in rates], ratios, "o-", color=OF_SCHEME["tcp-cm"])
        axes.text(0.97, 0.06, "gray: within 15%", transform=axes.transAxes, ha="right", color="#555555")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _place: f"{value:g}")
        axes.set_ylim(0.5, 1.5)
        axes.set_title("Goodput of tcp-cm divided by newreno's")
        axes.set_xlabel("bottleneck (Mb/s)")
        note(
            figure,
            "A transfer and Web-like traffic of a third of the link, round trip 120 ms, a buffer of 120 ms. Thin: "
            f"each of {len(values(result, 'seed'))} runs; thick: their mean.",
        )
    return figure


def reordering(result: Run) -> Drawing:
    """Figure 9: the window over a path on which packets overtake each other, with and without sequence numbers."""
    panels = {True: "With the CM header, which numbers packets", False: "Without: packets are only counted"}
    colors = {True: OF_SCHEME["tcp-cm"], False: OF_SCHEME["newreno"]}
    with rc_context(RULES):
        figure, drawn = pyplot.subplots(2, 1, figsize=(8.6, 4.8), sharex=True, sharey=True, layout="constrained")
        for axes, (sequenced, title) in zip(drawn, panels.items(), strict=True):
            for trace in traces(result, sequenced=sequenced):
                windows = [each / 1e3 for each in trace.windows]
                axes.plot(trace.times, windows, color=colors[sequenced], drawstyle="steps-post")
                for place in range(1, len(windows)):
                    if windows[place] < 0.75 * windows[place - 1]:
                        axes.annotate(
                            _undo_note(trace, place),
                            (trace.times[place], windows[place]),
                            xytext=(9, -4),
                            textcoords="offset points",
                            color=colors[sequenced],
                        )
            axes.set_title(f"{title} (window, kB)")
        drawn[-1].set_ylim(bottom=0)
        drawn[-1].set_xlim(left=0)
        drawn[-1].set_xlabel("time (s)")
        note(
            figure,
            "1000-byte datagrams at 750 kb/s over 1 Mb/s; no packet is lost. Every other second the path becomes "
            "15 ms shorter,\nso one or two packets are overtaken. A count that is too low is taken for a loss until "
            "later counts correct it.",
        )
    return figure


def aging(result: Run) -> Drawing:
    """Figure 12: delivered and lost bytes at the onset of congestion, by the half-life of the rate."""
    colors = {"min-rtt": OF_SCHEME["tcp-cm"], "mean-rtt": OF_SCHEME["newreno"]}
    lost = {
        half_life: {row["seed"]: _lost(row) for row in rows(result, **{HALF_LIFE: half_life})} for half_life in colors
    }
    seed = median_seed(lost["mean-rtt"])
    with rc_context(RULES):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 4.6), width_ratios=[1.9, 1], layout="constrained")
        begin, end = 13.0, 23.0
        ends, seen = [], []
        for half_life, color in colors.items():
            for trace in traces(result, seed=seed, **{HALF_LIFE: half_life}):
                points = [
                    (time, each / 1e3)
                    for time, each in zip(trace.times, trace.delivered, strict=True)
                    if begin <= time <= end
                ]
                dashes = "--" if half_life == "mean-rtt" else "-"
                left.plot(*zip(*points, strict=True), dashes, color=color)
                ends.append((f"{half_life}\n{lost[half_life][seed]:.0f} lost", *points[-1]))
                seen += [height for _, height in points]
        left.set_title("Delivered (kB)")
        left.set_xlabel("time (s)")
        left.set_xlim(begin, end)
        left.set_ylim(min(seen) - 20, max(seen) + 40)
        name_lines(left, ends, gap=0.16, colors=dict(zip([name for name, _, _ in ends], colors.values(), strict=True)))
        for one in lost["min-rtt"]:
            pair = [lost[half_life][one] for half_life in colors]
            right.plot([0, 1], pair, color="#bbbbbb", linewidth=2.2 if one == seed else 1, zorder=1)
            right.scatter([0, 1], pair, color=list(colors.values()), zorder=2)
        right.set_xticks([0, 1], list(colors))
        right.set_xlim(-0.4, 1.4)
        right.set_ylim(bottom=0)
        right.set_title("Datagrams lost, one line per run")
        note(
            figure,
            "A flow of datagrams, whose only feedback is responses to probes, uses 1 Mb/s and a queue of two seconds "
            "alone. At 15.6 s\nother traffic starts, 10 Mb/s in each direction. Left: the run with the median loss of "
            "mean-rtt, the thick line right.",
        )
    return figure


def sharing(result: Run) -> Drawing:
    """Figure 13: the rates of flows that start one after the other, equal and weighted."""
    schemes = {"tcp-cm": "TCP/CM", "pcp-cm": "A PCP macroflow"}
    titles = {"equal": "equal weights", "unequal": "weights 1 to 4"}
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, 2, figsize=(9.2, 6.4), sharex=True, sharey=True, layout="constrained")
        panels[0, 0].set_ylim(0, 2.25)
        panels[0, 0].set_yticks([0, 0.5, 1, 1.5, 2])
        panels[0, 0].set_xlim(0, 60)
        for across, (weights, title) in zip(panels, titles.items(), strict=True):
            for axes, (scheme, named) in zip(across, schemes.items(), strict=True):
                ends, colors = [], {}
                for place, trace in enumerate(traces(result, seed=first_seed(result), weights=weights, scheme=scheme)):
                    times, rates = trace.rates(1.0)
                    axes.plot(times, [each / 1e6 for each in rates], color=IN_TURN[place], linewidth=1.4)
                    name = trace.traffic if weights == "equal" else f"weight {place + 1}"
                    colors[name] = IN_TURN[place]
                    ends.append((name, times[-1], rates[-1] / 1e6))
                name_lines(axes, ends, gap=0.075, colors=colors)
                axes.set_title(f"{named}, {title} (Mb/s)")
        for axes in panels[-1]:
            axes.set_xlabel("time (s)")
        note(
            figure,
            "Four flows of one host to another start five seconds apart and share one window (TCP/CM) or rate (PCP) "
            "over 2 Mb/s and 120 ms.\nDelivery rates over one second.",
        )
    return figure


def ensembles(result: Run) -> Drawing:
    """Figure 14: rates of four connections over time, independent and as one macroflow."""
    panels = {
        "four-newreno": ("Four NewReno connections", "newreno"),
        "four-tcp-cm": ("Four TCP/CM, one macroflow", "tcp-cm"),
        "four-pcp-cm": ("Four over one PCP macroflow", "pcp-cm"),
    }
    runs = rows(result, connections="four-newreno", cross="transfers")
    apart = {row["seed"]: row["goodput_spread"] or inf for row in runs}
    seed = median_seed(apart)
    with rc_context(RULES):
        figure, drawn = pyplot.subplots(1, 3, figsize=(10.4, 4.6), sharex=True, sharey=True, layout="constrained")
        for axes, (connections, (name, scheme)) in zip(drawn, panels.items(), strict=True):
            for trace in traces(result, connections=connections, cross="transfers", seed=seed):
                since = max(before for time, before in zip(trace.times, trace.delivered, strict=True) if time <= WARM)
                points = [
                    (time, (each - since) / 1e3)
                    for time, each in zip(trace.times, trace.delivered, strict=True)
                    if time >= WARM
                ]
                axes.plot(*zip(*points, strict=True), color=OF_SCHEME[scheme], linewidth=1.3)
            (row,) = rows(result, connections=connections, cross="transfers", seed=seed)
            axes.set_title(f"{name}\nfastest / slowest {row['goodput_spread']:.2f}, Jain {row['goodput_jain']:.3f}")
            axes.set_xlabel("time (s)")
            axes.text(
                0.04,
                0.93,
                f"together {4e-3 * row['goodput_mean_bps']:.0f} kb/s",
                transform=axes.transAxes,
                color=OF_SCHEME[scheme],
                fontweight="bold",
            )
        drawn[0].set_ylabel("delivered since 5 s (kB)")
        drawn[0].set_ylim(bottom=0)
        drawn[0].set_xlim(WARM, 35)
        note(
            figure,
            "Four long-lived transfers of one host to another, competing Web-like transfers and 100 kb/s at a fixed "
            "rate, over 1 Mb/s and 120 ms: the run with\nthe median ratio of the fastest to the slowest of four "
            f"NewReno flows, {apart[seed]:.2f}. Over {len(apart)} runs this ratio is {min(apart.values()):.2f} to "
            f"{max(apart.values()):.2f}.",
        )
    return figure


def audio(result: Run) -> Drawing:
    """Figure 15: rates over time of layered audio, a transfer of the same host and a NewReno flow."""
    seed = first_seed(result)
    lines = {
        trace.traffic: trace.rates(2.0)
        for flow in ["together", "newreno"]
        for trace in traces(result, flow=flow, seed=seed)
    }
    lines["both"] = sums([lines["audio"], lines["transfer"]])
    names = {"audio": "audio", "transfer": "TCP/CM", "newreno": "NewReno", "both": "audio and\nTCP/CM"}
    colors = dict(zip(names.values(), ["#CC79A7", OF_SCHEME["tcp-cm"], OF_SCHEME["newreno"], "#0072B2"], strict=True))
    panels = {"Audio and TCP/CM together, and a NewReno flow (kb/s)": ["newreno", "both"]}
    panels["Audio and TCP/CM; dashed: the encodings of the audio (kb/s)"] = ["transfer", "audio"]
    means = {
        flow: fmean(row["goodput_mean_bps"] for row in rows(result, flow=flow)) / 1e3
        for flow in ["audio", "transfer", "newreno"]
    }
    below = fmean(row["just_below_share"] for row in rows(result, flow="audio"))
    with rc_context(RULES):
        figure, drawn = pyplot.subplots(2, 1, figsize=(9.2, 6.4), sharex=True, layout="constrained")
        drawn[0].set_xlim(0, lines["newreno"][0][-1])
        for axes, (title, shown) in zip(drawn, panels.items(), strict=True):
            axes.set_ylim(0, 1.05 * max(rate for traffic in shown for rate in lines[traffic][1]) / 1e3)
            ends = []
            for traffic in shown:
                times, rates = lines[traffic]
                axes.plot(times, [each / 1e3 for each in rates], color=colors[names[traffic]], linewidth=1.5)
                ends.append((names[traffic], times[-1], rates[-1] / 1e3))
            name_lines(axes, ends, gap=0.16, colors=colors)
            axes.set_title(title)
        drawn[1].set_yticks(ENCODINGS)
        drawn[1].set_ylim(0, max(170, drawn[1].get_ylim()[1]))
        drawn[1].grid(visible=False, axis="y")
        for encoding in ENCODINGS:
            drawn[1].axhline(encoding, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        drawn[1].set_xlabel("time (s)")
        note(
            figure,
            "0.5 Mb/s and 120 ms; also a competing NewReno flow and 50 kb/s at a fixed rate. Delivery rates over two "
            "seconds, the first run.\n"
            f"Over {len(values(result, 'seed'))} runs, from 20 s on: audio {means['audio']:.0f}, TCP/CM "
            f"{means['transfer']:.0f}, NewReno {means['newreno']:.0f} kb/s; the audio uses the encoding just "
            f"below its share for {100 * below:.0f}% of its time.",
        )
    return figure


def first_seed(result: Run) -> int:
    """Return the first seed."""
    return int(values(result, "seed")[0])


def median_seed(figures: Mapping[int, float]) -> int:
    """Return the seed whose value is the median, the lower one of two."""
    return sorted(figures, key=lambda seed: figures[seed])[(len(figures) - 1) // 2]


def _undo_note(trace: Trace, place: int) -> str:
    """Describe when the reduction of the window at `place` was undone: the window nearly doubled."""
    for time, window in zip(trace.times[place:], trace.windows[place:], strict=True):
        if window > 1.5 * trace.windows[place]:
            return f"undone after\n{time - trace.times[place]:.2f} s"
    return "never undone"


def _lost(row: Mapping[str, Any]) -> float:
    return float(row["lost_mean_packets"])


def _goodput(result: Run, scheme: str, rate: str) -> float:
    return fmean(row["goodput_mean_bps"] for row in rows(result, scheme=scheme, rate=rate))
