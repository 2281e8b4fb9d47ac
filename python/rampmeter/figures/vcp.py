"""The figures of the VCP paper, with notes about our runs. The paper's Figure 12 is a block diagram; ours has signals.

One run per point where the paper has the mean of five, `--seeds 5`; their deviation is "a few percent". Seven links of
2 Gb/s have VCP and XCP alone, and a few intermediate points are left out: so all figures of the paper take less than an
hour on two cores. `--whole` has all five runs of all points.
"""

from __future__ import annotations

from rampmeter.figures import codes, dynamics, fluid, fluid_packets, model
from rampmeter.figures.along import mbps
from rampmeter.figures.end_to_end import END_TO_END
from rampmeter.figures.figure import Figure
from rampmeter.figures.plus import PLUS
from rampmeter.figures.schemes import QUIET, STRONG, SchemeLines

ONE_SEED = {"seed": [1]}
FEW = {"scheme": ["vcp", "xcp", "sack", "cubic"]}
ROUTERS = {"scheme": ["vcp", "xcp"]}
ALL = {"scheme": [*QUIET, *STRONG]}
"""The schemes of Figures 3 to 9. The scenarios also have variants of VCP: docs/vcp.md."""

BASE = "150 Mb/s, 80 ms"
LASTS = "a buffer of one bandwidth-delay product, 120 s without the first 24 s."
FLOWS = f"30 long-lived flows each way, {LASTS}"
LOT = "30 long-lived flows each way over seven links and 5 more over each; means of the seven links."

FIGURES = {
    "vcp.1": Figure(
        title="Two flows while the capacity jumps (VCP, Figure 1)",
        scenario="vcp/capacity_jumps.toml",
        values={**ONE_SEED, **ROUTERS, "phase": ["up-again"]},
        whole={**ROUTERS, "phase": ["up-again"]},
        draw=dynamics.jumps,
    ),
    "vcp.2": Figure(
        title="The quantized load factor and its codes (VCP, Figure 2)",
        scenario=None,
        draw=codes.draw,
    ),
    "vcp.3": Figure(
        title="One bottleneck: its capacity (VCP, Figure 3)",
        scenario="vcp/capacity.toml",
        values={**ONE_SEED, **ALL},
        whole=ALL,
        quick={"capacity": ["1 Mb/s", "10 Mb/s", "100 Mb/s"]},
        draw=SchemeLines(axis="capacity", label="capacity (Mb/s)", x=mbps, note=f"80 ms, {FLOWS}").draw,
    ),
    "vcp.4": Figure(
        title="One bottleneck: the round trip (VCP, Figure 4)",
        scenario="vcp/round_trip.toml",
        whole=ALL,
        values={
            **ONE_SEED,
            **ALL,
            "path": ["1ms", "5ms", "10ms", "50ms", "100ms", "200ms", "400ms", "800ms", "1500ms"],
        },
        quick={**FEW, "path": ["1ms", "10ms", "100ms", "400ms"]},
        draw=SchemeLines(
            axis="path",
            label="round trip (ms)",
            note="150 Mb/s, 30 long-lived flows each way, a buffer of one bandwidth-delay product, 120 s, up to 500 s "
            "above 100 ms, without the first fifth.",
        ).draw,
    ),
    "vcp.5": Figure(
        title="One bottleneck: the number of long-lived flows (VCP, Figure 5)",
        scenario="vcp/flows.toml",
        whole=ALL,
        values={**ONE_SEED, **ALL, "flows": [1, 5, 10, 50, 100, 500, 1000]},
        quick={**FEW, "flows": [1, 10, 100, 1000]},
        draw=SchemeLines(
            axis="flows", label="flows", note=f"{BASE}, 30 long-lived flows in the reverse direction, {LASTS}"
        ).draw,
    ),
    "vcp.6": Figure(
        title="One bottleneck: Web-like and long-lived flows (VCP, Figure 6)",
        scenario="vcp/web.toml",
        values={**ONE_SEED, **ALL},
        whole=ALL,
        quick={**FEW, "web": [10, 50, 200]},
        draw=SchemeLines(axis="web", label="Web-like flows (1/s)", note=f"{BASE}, {FLOWS}").draw,
    ),
    "vcp.7": Figure(
        title="Fairness among round trips (VCP, Figure 7)",
        scenario="vcp/rtt_fairness.toml",
        whole=ALL,
        values={**ONE_SEED, **ALL, "longest": ["40ms", "98ms", "156ms", "214ms", "272ms", "330ms"]},
        quick={"scheme": ["vcp", "xcp", "cubic"], "longest": ["40ms", "156ms", "330ms"]},
        draw=SchemeLines(
            axis="longest",
            label="longest round trip of 30, the shortest is 40 ms (ms)",
            note="150 Mb/s, 30 long-lived flows each way, 240 s without the first 48 s.",
        ).fairness,
    ),
    "vcp.8": Figure(
        title="Seven bottlenecks: their capacity (VCP, Figure 8)",
        scenario="vcp/parking_capacity.toml",
        whole=ALL,
        values={
            **ONE_SEED,
            **ALL,
            "capacity": ["500 kb/s", "1 Mb/s", "5 Mb/s", "10 Mb/s", "50 Mb/s", "150 Mb/s", "500 Mb/s"],
        },
        beyond={**ROUTERS, "capacity": ["2 Gb/s"]},
        quick={"capacity": ["1 Mb/s", "10 Mb/s", "50 Mb/s"]},
        draw=SchemeLines(axis="capacity", label="capacity (Mb/s)", x=mbps, note=f"80 ms along all seven, {LOT}").draw,
    ),
    "vcp.9": Figure(
        title="Seven bottlenecks: the round trip along all of them (VCP, Figure 9)",
        scenario="vcp/parking_round_trip.toml",
        whole=ALL,
        values={**ONE_SEED, **ALL, "path": ["1ms", "10ms", "100ms", "1000ms"]},
        quick={"scheme": ["vcp", "xcp", "cubic"], "path": ["10ms", "100ms"]},
        draw=SchemeLines(axis="path", label="round trip along all seven (ms)", note=f"150 Mb/s, {LOT}").draw,
    ),
    "vcp.10": Figure(
        title="Convergence of five flows that start one after another (VCP, Figure 10)",
        scenario="vcp/convergence.toml",
        values={**ONE_SEED, **ROUTERS, "phase": ["late"]},
        whole={**ROUTERS, "phase": ["late"]},
        draw=dynamics.convergence,
    ),
    "vcp.11": Figure(
        title="150 flows join 50 flows for 80 s (VCP, Figure 11)",
        scenario="vcp/demand.toml",
        values={**ONE_SEED, "scheme": ["vcp"], "phase": ["after"]},
        whole={"scheme": ["vcp"], "phase": ["after"]},
        draw=dynamics.demand,
    ),
    "vcp.12": Figure(
        title="Signals in the loop of the simplified model (VCP, Figure 12)",
        scenario=None,
        draw=model.draw,
    ),
    "vcp.13": Figure(
        title="Two flows with very different round trips (VCP, Figure 13)",
        scenario="vcp/two_round_trips.toml",
        values={**ONE_SEED, "scheme": ["vcp"]},
        whole={"scheme": ["vcp"]},
        draw=dynamics.two_round_trips,
    ),
    "vcp.plus": PLUS.figure("VCP+ beside VCP, XCP and CUBIC (Figures 3 to 9)"),
    "vcp.end-to-end": END_TO_END.figure("VCP end to end beside NewReno, CUBIC and PCP (Figures 3 and 7)"),
    "vcp.fluid": Figure(
        title="Stability and fairness of the fluid model (VCP, Theorems 1 and 2)",
        scenario=None,
        draw=fluid.draw,
    ),
    "vcp.fluid-packets": Figure(
        title="Simulated packets and the fluid model, from the same windows (VCP, section V)",
        scenario="vcp/fluid.toml",
        values=ONE_SEED,
        quick={"rate": ["10 Mb/s", "20 Mb/s"]},
        draw=fluid_packets.draw,
    ),
}
"""Figures by name: the paper, a dot, the number in the paper."""
