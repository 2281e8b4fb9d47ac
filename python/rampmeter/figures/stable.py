"""The figures of Stable TCP: theory with simulated points. The report's own figure numbers are not available.

T. Kelly, "On engineering a stable and scalable TCP variant", CUED/F-INFENG/TR.435, 2002.
"""

from __future__ import annotations

from rampmeter.figures import equilibria, operating, swings
from rampmeter.figures.figure import Figure
from rampmeter.running import Value

OURS: dict[str, list[Value]] = {"variant": ["ours"], "seed": [1]}
"""The default settings, one run per point."""

FIGURES = {
    "stable.response": Figure(
        title="Response curves of Stable and of conventional TCP (Stable TCP, section 3)",
        scenario="stable/response.toml",
        values=OURS,
        whole=OURS,
        quick={"flows": [5, 20, 100]},
        draw=equilibria.responses,
    ),
    "stable.marking": Figure(
        title="Marking and the largest stable gain for Poisson and bursty arrivals (Stable TCP, section 4)",
        scenario="stable/marking.toml",
        values={"seed": [1]},
        whole={"seed": [1]},
        quick={"load": [0.2, 0.5, 0.84]},
        draw=equilibria.marking,
    ),
    "stable.stability": Figure(
        title="Onset of oscillation: gains below and above the bound (Stable TCP, section 2)",
        scenario="stable/stability.toml",
        values=OURS,
        whole=OURS,
        quick={"gain": [0.06, 0.1, 0.2, 0.4, 0.8]},
        draw=swings.draw,
    ),
    "stable.utilization": Figure(
        title="Utilization where response curves and marking cross (Stable TCP, section 4)",
        scenario="stable/response.toml",
        values=OURS | {"scheme": ["stable"]},
        whole=OURS | {"scheme": ["stable"]},
        quick={"flows": [5, 20, 100]},
        draw=equilibria.crossing,
    ),
    "stable.burstiness": Figure(
        title="Utilization and stability with bursty competing traffic (Stable TCP, section 4)",
        scenario="stable/burstiness.toml",
        values=OURS | {"seed": [1, 2]},
        whole=OURS | {"seed": [1, 2]},
        quick={"burst": [1, 16, 64], "seed": [1]},
        draw=equilibria.burstiness,
    ),
    "stable.operation": Figure(
        title="The number of flows doubles and then falls, at two round trips (Stable TCP, section 5)",
        scenario="stable/operation.toml",
        values=OURS | {"phase": ["fifty", "hundred", "few"]},
        whole=OURS | {"phase": ["fifty", "hundred", "few"]},
        draw=operating.operation,
    ),
    "stable.range": Figure(
        title="From 10 to 1000 flows on one link (Stable TCP, section 5)",
        scenario="stable/range.toml",
        values=OURS,
        whole=OURS,
        quick={"flows": [10, 100]},
        draw=operating.reach,
    ),
    "stable.packets": Figure(
        title="The size of packets (Stable TCP, section 5)",
        scenario="stable/packets.toml",
        values=OURS,
        whole=OURS,
        draw=operating.packets,
    ),
    "stable.rtts": Figure(
        title="Eight round trips on one bottleneck (Stable TCP, section 5)",
        scenario="stable/rtts.toml",
        values=OURS | {"scheme": ["stable", "newreno"], "seed": [1, 2, 3]},
        whole=OURS | {"scheme": ["stable", "newreno"], "seed": [1, 2, 3]},
        draw=operating.classes,
    ),
}
"""Figures by their subject."""
