"""VCP's simplified model around its loop (Figure 12): the window, the reported load, and xi."""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.fluid import bottleneck
from rampmeter.figures.style import RULES, note
from rampmeter.theory.vcp import STEPS, aggregate, critical_kappa

KAPPAS = {0.25: "#0072B2", 0.5: "#009E73", 1.5: "#D55E00"}
"""Three values of kappa with their colors: the protocol's, Theorem 1's bound, and a larger stable one."""

SHARE = 10.0
"""A flow's share of gamma C T, packets."""

UNTIL = 25.0
"""Number of drawn round trips."""


def draw() -> Drawing:
    """Draw w(t), rho(t) and xi(rho(t)) from half of their final values.

    From the paper's initial window of one packet per flow they rise to millions of times that value if kappa is large.
    """
    cases = [bottleneck(SHARE, kappa) for kappa in KAPPAS]
    start = [case.equilibrium / 2 for case in cases]
    solved = aggregate(cases, until=UNTIL, start=start)
    target = cases[0].target
    sent = np.exp(solved.states)
    reported = np.vstack([[start] * STEPS, sent[:-STEPS]]) / target  # (11); windows were the same before the beginning
    with rc_context(RULES):
        figure, panels = pyplot.subplots(3, 1, figsize=(8, 7.4), layout="constrained", sharex=True)
        for (kappa, color), windows, loads in zip(KAPPAS.items(), sent.T, reported.T, strict=True):
            label = f"$\\kappa$ = {kappa:g}"
            panels[0].plot(solved.times, windows / target, color=color, label=label)
            panels[1].plot(solved.times, loads, color=color)
            panels[2].plot(solved.times, kappa * (1 / loads - 1), color=color)  # (10)
        panels[0].set_title("Sender's window: $w(t)$ (fraction of $\\gamma CT$)")
        panels[0].margins(y=0.2)
        panels[0].legend(loc="upper right", ncols=3)
        panels[1].set_title("Load factor, one round trip later: $\\rho(t) = w(t-T)/\\gamma CT$")
        panels[2].set_title("Sender's MI parameter: $\\xi(\\rho(t)) = \\kappa(1-\\rho)/\\rho$")
        panels[2].set_xlabel("time (round trips)")
        panels[2].set_xlim(0, UNTIL)
        note(
            figure,
            "(9) to (11) with $\\alpha$ = 1 and 10 packets per flow in $\\gamma CT$, from half of the equilibrium.\n"
            "Theorem 1: stable with $\\kappa \\leq$ 1/2; with these windows the loop is stable up to "
            f"{critical_kappa(1 / SHARE):.2f} (figure vcp.fluid).",
        )
    return figure
