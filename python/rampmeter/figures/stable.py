"""The figures of Stable TCP: theory with simulated points. The report's own figure numbers are not available.

T. Kelly, "On engineering a stable and scalable TCP variant", CUED/F-INFENG/TR.435, 2002.
"""

from __future__ import annotations

from rampmeter.figures import equilibria, operating, swings
from rampmeter.figures.figure import Figure

FIGURES = {
    "stable.response": Figure(
        title="Response curves of Stable and of conventional TCP (Stable TCP, section 3)",
        scenario="stable/response.toml",
        quick={"flows": [5, 20, 100]},
        draw=equilibria.responses,
    ),
    "stable.marking": Figure(
        title="Marking and the largest stable gain for Poisson and bursty arrivals (Stable TCP, section 4)",
        scenario="stable/marking.toml",
        quick={"load": [0.2, 0.5, 0.84]},
        draw=equilibria.marking,
    ),
    "stable.stability": Figure(
        title="Onset of oscillation: gains below and above the bound (Stable TCP, section 2)",
        scenario="stable/stability.toml",
        quick={"gain": [0.06, 0.1, 0.2, 0.4, 0.8]},
        draw=swings.draw,
    ),
    "stable.utilization": Figure(
        title="Utilization where response curves and marking cross (Stable TCP, section 4)",
        scenario="stable/response.toml",
        values={"scheme": ["stable"]},
        quick={"flows": [5, 20, 100]},
        draw=equilibria.crossing,
    ),
    "stable.burstiness": Figure(
        title="Utilization and stability with bursty competing traffic (Stable TCP, section 4)",
        scenario="stable/burstiness.toml",
        quick={"burst": [1, 16, 64], "seed": [1]},
        draw=equilibria.burstiness,
    ),
    "stable.operation": Figure(
        title="The number of flows doubles and then falls, at two round trips (Stable TCP, section 5)",
        scenario="stable/operation.toml",
        values={"phase": ["fifty", "hundred", "few"], "seed": [1]},
        whole={"phase": ["fifty", "hundred", "few"], "seed": [1]},
        draw=operating.operation,
    ),
    "stable.range": Figure(
        title="From 10 to 1000 flows on one link (Stable TCP, section 5)",
        scenario="stable/range.toml",
        quick={"flows": [10, 100]},
        draw=operating.reach,
    ),
    "stable.packets": Figure(
        title="The size of packets (Stable TCP, section 5)",
        scenario="stable/packets.toml",
        draw=operating.packets,
    ),
    "stable.rtts": Figure(
        title="Eight round trips on one bottleneck (Stable TCP, section 5)",
        scenario="stable/rtts.toml",
        draw=operating.classes,
    ),
}
"""Figures by their subject."""
