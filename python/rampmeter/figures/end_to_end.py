"""VCP end to end beside NewReno, CUBIC and PCP: Figures 3 and 7 of the VCP paper without its routers."""

from __future__ import annotations

from rampmeter.figures.along import mbps
from rampmeter.figures.rows import Row, Rows
from rampmeter.figures.schemes import SchemeLines

END_TO_END = Rows(
    schemes=["end-to-end", "newreno", "cubic", "pcp"],
    rows=[
        Row(
            "3",
            "vcp/end_to_end_capacity.toml",
            SchemeLines(axis="capacity", label="capacity (Mb/s)", x=mbps, note=""),
            {},
            {"capacity": ["1 Mb/s", "10 Mb/s"]},
        ),
        Row(
            "7",
            "vcp/end_to_end_rtt_fairness.toml",
            SchemeLines(axis="longest", label="longest round trip (ms)", note=""),
            {"longest": ["40ms", "98ms", "156ms", "214ms", "272ms", "330ms"]},
            {"longest": ["40ms"]},
        ),
    ],
    note="All routers are drop-tail,\nwithout ECN, with a buffer of one bandwidth-delay product.",
)
