"""The figures of the Congestion Manager paper, with notes about our runs."""

from __future__ import annotations

from rampmeter.figures import law, over_time
from rampmeter.figures.figure import Figure

ONE_SEED = {"seed": [1]}
TWO_SEEDS = {"seed": [1, 2]}

FIGURES = {
    "cm.5": Figure(
        title="TCP/CM, or NewReno, with competing Web-like traffic (CM, Figure 5)",
        scenario="cm/friendly.toml",
        quick=TWO_SEEDS,
        draw=over_time.web_background,
    ),
    "cm.6": Figure(
        title="Throughput at the same loss (CM, Figure 6)",
        scenario="cm/losses.toml",
        further=("cm/friendly.toml",),
        quick=TWO_SEEDS,
        draw=law.friendliness,
    ),
    "cm.9": Figure(
        title="Reordered packets, with and without the CM header (CM, Figure 9)",
        scenario="cm/reordering.toml",
        draw=over_time.reordering,
    ),
    "cm.12": Figure(
        title="Aging of a rate with the minimum or the mean round-trip time (CM, Figure 12)",
        scenario="cm/aging.toml",
        values={"buffer": ["2 s"]},
        quick=TWO_SEEDS,
        draw=over_time.aging,
    ),
    "cm.13": Figure(
        title="Flows that start one after the other in one macroflow (CM, Figure 13)",
        scenario="cm/sharing.toml",
        quick=ONE_SEED,
        draw=over_time.sharing,
    ),
    "cm.14": Figure(
        title="Four connections, independent and as one macroflow (CM, Figure 14)",
        scenario="cm/web.toml",
        quick=TWO_SEEDS,
        draw=over_time.ensembles,
    ),
    "cm.15": Figure(
        title="Layered audio and TCP/CM of one host, with a competing NewReno flow (CM, Figure 15)",
        scenario="cm/audio.toml",
        quick=ONE_SEED,
        draw=over_time.audio,
    ),
}
"""Figures by name: the paper, a dot, the number in the paper."""
