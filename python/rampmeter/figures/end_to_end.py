"""VCP end to end beside NewReno, CUBIC and PCP: Figures 3 and 7 of the VCP paper without its routers."""

from __future__ import annotations

from rampmeter.figures.rows import CAPACITY, LONGEST, Row, Rows

END_TO_END = Rows(
    schemes=["end-to-end", "newreno", "cubic", "pcp"],
    rows=[
        Row(
            "3",
            "vcp/end_to_end_capacity.toml",
            CAPACITY,
            {},
            {"capacity": ["1 Mb/s", "10 Mb/s"]},
        ),
        Row(
            "7",
            "vcp/end_to_end_rtt_fairness.toml",
            LONGEST,
            {"longest": ["40ms", "98ms", "156ms", "214ms", "272ms", "330ms"]},
            {"longest": ["40ms"]},
        ),
    ],
    note="All routers are drop-tail,\nwithout ECN, with a buffer of one bandwidth-delay product.",
)
