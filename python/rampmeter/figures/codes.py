"""The load codes of VCP's routers: Figure 2 of the VCP paper. A definition without runs."""

from __future__ import annotations

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, note

LOW = 80.0
"""Load factor in percent below which the load is low (section III-B)."""

FULL = 100.0
"""Load factor in percent from which a link is overloaded."""

CUT = 0.875
"""Factor of the window in overload (section III-C)."""

END = 140.0
"""The largest drawn load factor."""

OVER = 120.0
"""The drawn height of overload; the code only means "more than 100%"."""

REGIONS = [
    (0.0, LOW, LOW, "low load", "(01)", "multiplicative increase", "#0072B2"),
    (LOW, FULL, FULL, "high load", "(10)", "additive\nincrease", "#009E73"),
    (FULL, END, OVER, "overload", "(11)", "multiplicative\ndecrease", "#D55E00"),
]
"""From, to, quantized, region, code, sender's rule, color."""


def draw() -> Drawing:
    """Draw the quantized load factor against the raw one."""
    with rc_context(RULES):
        figure, axes = pyplot.subplots(figsize=(7.6, 4.8), layout="constrained")
        for begin, end, height, region, code, does, color in REGIONS:
            axes.axvspan(begin, end, color=color, alpha=0.08, linewidth=0)
            axes.plot([begin, end], [height, height], color=color, linewidth=2.8, solid_capstyle="butt")
            axes.plot(begin, height, "o", color=color, markersize=7, clip_on=False)
            if end < END:
                axes.plot(end, height, "o", color=color, markersize=7, markerfacecolor="white")
            middle = (begin + end) / 2
            axes.text(middle, height + 4, code, ha="center", color=color, fontweight="bold", fontsize=11)
            axes.text(middle, 30, region, ha="center", color=color, fontweight="bold")
            axes.text(middle, 24, does, ha="center", va="top", color=color)
        axes.annotate(
            "",
            (CUT * FULL, 64),
            (FULL, 64),
            arrowprops={"arrowstyle": "->", "color": "#444444", "shrinkA": 0, "shrinkB": 0},
        )
        axes.text(FULL + 1.5, 64, "a cut to 7/8", va="center", color="#444444")
        axes.set_xlim(0, END)
        axes.set_ylim(0, END)
        axes.set_xticks([0, LOW, FULL, END], ["0", "80", "100", ""])
        axes.set_yticks([LOW, FULL, OVER], ["80", "100", "> 100"])
        axes.grid(visible=False, axis="x")
        axes.set_title("Quantized load factor (%)")
        axes.set_xlabel("raw load factor (%)")
        note(
            figure,
            "By definition (VCP, section III-B), with the paper's codes and the senders' reactions. A cut to 7/8 from "
            "full load\nends in high load, 7.5% above the low one. Senders without VCP have code (00).",
        )
    return figure
