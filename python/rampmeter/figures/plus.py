"""VCP+ beside VCP, XCP and CUBIC in the settings of Figures 3 to 9 of the VCP paper."""

from __future__ import annotations

from rampmeter.figures.rows import CAPACITY, LONGEST, Row, Rows
from rampmeter.figures.schemes import SchemeLines

CAPACITIES = ["500 kb/s", "1 Mb/s", "2 Mb/s", "5 Mb/s", "10 Mb/s", "50 Mb/s", "200 Mb/s", "1 Gb/s"]
LOT = ["500 kb/s", "1 Mb/s", "5 Mb/s", "10 Mb/s", "50 Mb/s", "150 Mb/s"]

PLUS = Rows(
    schemes=["vcp", "vcp-plus", "xcp", "cubic"],
    rows=[
        Row("3", "vcp/capacity.toml", CAPACITY, {"capacity": CAPACITIES}, {"capacity": ["1 Mb/s", "10 Mb/s"]}),
        Row(
            "4",
            "vcp/round_trip.toml",
            SchemeLines(axis="path", label="round trip (ms)", note=""),
            {"path": ["1ms", "5ms", "20ms", "100ms", "400ms", "1500ms"]},
            {"path": ["5ms"]},
        ),
        Row("5", "vcp/flows.toml", SchemeLines(axis="flows", label="flows", note=""), {}, {"flows": [5]}),
        Row("6", "vcp/web.toml", SchemeLines(axis="web", label="Web-like flows (1/s)", note=""), {}, {"web": [10]}),
        Row(
            "7",
            "vcp/rtt_fairness.toml",
            LONGEST,
            {"longest": ["40ms", "98ms", "156ms", "214ms", "272ms", "330ms"]},
            {"longest": ["40ms"]},
        ),
        Row("8", "vcp/parking_capacity.toml", CAPACITY, {"capacity": LOT}, {"capacity": ["1 Mb/s"]}),
        Row(
            "9",
            "vcp/parking_round_trip.toml",
            SchemeLines(axis="path", label="round trip along all seven (ms)", note=""),
            {"path": ["1ms", "10ms", "100ms", "1000ms"]},
            {"path": ["10ms"]},
        ),
    ],
    note="Figures 8 and 9 have means of seven links.\nCUBIC has RED with ECN, the others have routers of their own.",
)
