"""The figures of the PCP paper, with notes about our runs."""

from __future__ import annotations

from rampmeter.figures import mechanisms
from rampmeter.figures.along import Along
from rampmeter.figures.figure import Figure
from rampmeter.figures.paths import Paths, Sizes
from rampmeter.figures.ratios import Ratios

BASE = "250 kB transfers, 40 Mb/s, round trips of 15 to 35 ms, a drop-tail buffer of 100 packets"
TCP = (
    "One packet at the start: tcp, NewReno as in the paper, acknowledgements delayed by 200 ms; pcp-paper, PCP as in\n"
    "its paper; pcp-one, our PCP with that first window. Ten packets: pcp, cubic and bbr, as senders start today."
)
FQ = "fq is the paper's bound: a router without a buffer limit writes each flow's fair rate into its packets."

TWO_SEEDS = {"seed": [1, 2]}


def by_load(note: str) -> Along:
    """Draw the four panels against the offered load."""
    return Along(axis="load", label="offered load (% of the link)", unit=100.0, note=f"{note}\n{TCP}\n{FQ}")


SACK = (
    "One packet at the start: tcp-sack, our TCP with the paper's settings, and pcp-one. Ten: pcp, and the kernel's "
    "linux-cubic and linux-bbr."
)
CONGESTED = (
    "One packet at the start: tcp-sack, our TCP with the paper's settings, pcp-one and pcp-paper. Ten: pcp, cubic, bbr."
)

FIGURES = {
    "pcp.2": Figure(
        title="Transfers of 250 kB over forty paths, with real packets (PCP, Figure 2)",
        scenario="pcp/paths.toml",
        world="emulated",
        quick={"path": ["p12", "p17", "p20", "p23", "p27", "p31", "p36", "p39"]},
        draw=Paths(
            note="Real packets over emulated paths of 1 to 100 Mb/s and 10 to 200 ms, up to 0.5% of packets lost at "
            "random, with no, light\nor heavy traffic of the kernel's TCP. four-pcp: four simultaneous transfers; "
            f"others: one. Means of six.\n{SACK}",
        ).draw,
    ),
    "pcp.3": Figure(
        title="The size of transfers on a path that loses packets, with real packets (PCP, Figure 3)",
        scenario="pcp/transfer_size.toml",
        world="emulated",
        quick={"size": ["10kB", "100kB", "1MB"]},
        draw=Sizes(
            note="Real packets over an emulated path: 40 Mb/s, 60 ms, 0.4% of packets lost at random. Means of six "
            f"transfers.\n{SACK}",
        ).draw,
    ),
    "pcp.3-congested": Figure(
        title="The size of transfers on a path that other TCP traffic congests (PCP, Figure 3)",
        scenario="pcp/congested_transfers.toml",
        quick={"size": ["10kB", "100kB", "1MB"], "seed": [1]},
        draw=Sizes(
            note="Simulated: 40 Mb/s, 60 ms, a buffer of 20 ms. Short transfers of other TCP flows, 60% of the link, "
            f"overflow it.\n{CONGESTED}",
        ).draw,
    ),
    "pcp.4": Figure(
        title="Completion time, its standard deviation, queue and loss against offered load (PCP, Figure 4)",
        scenario="pcp/offered_load.toml",
        quick=TWO_SEEDS,
        draw=by_load(f"{BASE}, Poisson arrivals.").draw,
    ),
    "pcp.5": Figure(
        title="PCP and TCP through routers with fair queueing (PCP, Figure 5)",
        scenario="pcp/fair_queueing.toml",
        values={"scheme": ["pcp", "pcp-one", "pcp-paper", "cubic", "bbr", "tcp", "fq", "pcp-fifo", "tcp-fifo"]},
        quick=TWO_SEEDS,
        draw=by_load(f"{BASE} under fair queueing; -fifo: Figure 4's drop-tail router.").draw,
    ),
    "pcp.6": Figure(
        title="Sizes and arrivals with heavy tails (PCP, Figure 6)",
        scenario="pcp/bursty.toml",
        quick=TWO_SEEDS,
        draw=by_load("As Figure 4, with Pareto sizes (shape 1.25) and inter-arrival times (shape 1.2).").draw,
    ),
    "pcp.7": Figure(
        title="Transfers that start simultaneously, with wrong histories (PCP, Figure 7)",
        scenario="pcp/synchronized.toml",
        quick=TWO_SEEDS,
        draw=Along(
            axis="flows",
            label="transfers that start simultaneously",
            note=f"{BASE}; the history of every PCP transfer has the rate of the whole link.\n{TCP}\n{FQ}",
        ).draw,
    ),
    "pcp.8": Figure(
        title="The bottleneck's bandwidth (PCP, Figure 8)",
        scenario="pcp/bandwidth.toml",
        quick=TWO_SEEDS,
        draw=Along(
            axis="bandwidth",
            label="bandwidth (Mb/s)",
            log=True,
            note=f"250 kB transfers at 60% load, round trips of 15 to 35 ms, buffers of 25 ms.\n{TCP}\n{FQ}",
        ).draw,
    ),
    "pcp.9": Figure(
        title="The round trip (PCP, Figure 9)",
        scenario="pcp/round_trip.toml",
        quick=TWO_SEEDS,
        draw=Along(
            axis="rtt",
            label="mean round trip (ms)",
            log=True,
            note=f"250 kB transfers at 60% load, 40 Mb/s, buffers of one round trip.\n{TCP}\n{FQ}",
        ).draw,
    ),
    "pcp.10": Figure(
        title="The size of transfers (PCP, Figure 10)",
        scenario="pcp/size.toml",
        quick=TWO_SEEDS,
        draw=Along(
            axis="packets",
            label="size (packets of 1250 B)",
            log=True,
            note=f"As Figure 4 at 60% load, with other sizes.\n{TCP}\n{FQ}",
        ).draw,
    ),
    "pcp.11": Figure(
        title="Packets lost at random (PCP, Figure 11)",
        scenario="pcp/loss.toml",
        quick=TWO_SEEDS,
        draw=Along(
            axis="loss",
            label="packets lost at random (%)",
            unit=100.0,
            note=f"{BASE}, at 60% load.\n{TCP}\ntcp-short-timers has PCP's retransmission timers. {FQ}",
        ).draw,
    ),
    "pcp.access-paths": Figure(
        title="Downloads over seven access paths: PCP compared with CUBIC",
        scenario="pcp/access_paths.toml",
        quick={"path": ["cable", "dsl", "ocean"], "seed": [1]},
        draw=Ratios(
            scheme="pcp",
            other="cubic",
            label="PCP's flow completion time divided by CUBIC's",
            note="Mean flow completion times of downloads by size; an unfinished download counts with its age. Titles "
            "have the geometric mean.\nWithout history each download has a new client; with history one client makes "
            "all downloads. Blue: PCP is faster.\nRandom losses: wifi 0.5%, ocean 0.01%, satellite 0.1% of packets.",
            names={
                "path": {
                    "fibre": "fibre\n300 Mb/s, 20 ms",
                    "cable": "cable\n100 Mb/s, 30 ms",
                    "wifi": "wifi\n50 Mb/s, 25 ms",
                    "lte": "lte\n30 Mb/s, 60 ms",
                    "dsl": "dsl\n20 Mb/s, 40 ms",
                    "ocean": "ocean\n100 Mb/s, 120 ms",
                    "satellite": "satellite\n50 Mb/s, 560 ms",
                },
                "size": {"30kB": "30 kB", "300kB": "300 kB", "3MB": "3 MB", "30MB": "30 MB"},
                "history": {"none": "no history", "present": "with history"},
                "competing": {"none": "alone", "cubic": "1 CUBIC flow", "two-cubic": "2 CUBIC flows"},
            },
        ).draw,
    ),
    "pcp.window": Figure(
        title="PCP: the start of a flow without and with history",
        scenario="pcp/mechanisms.toml",
        values={"case": ["no-history", "history"]},
        draw=mechanisms.draw_window,
    ),
    "pcp.shares": Figure(
        title="PCP: flows that join one after another, and their queue",
        scenario="pcp/mechanisms.toml",
        values={"case": ["join"]},
        draw=mechanisms.draw_shares,
    ),
    "pcp.drains": Figure(
        title="PCP: a flow beside a CUBIC flow, and the queue in a drain",
        scenario="pcp/mechanisms.toml",
        values={"case": ["join", "cubic"]},
        draw=mechanisms.draw_drains,
    ),
}
"""Figures by name: the paper, a dot, the number in the paper."""
