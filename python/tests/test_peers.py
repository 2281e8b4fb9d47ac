"""Our TCP against ns-3's, on the network of PCP's Figure 4; our high-speed TCPs against those of Linux 2.6.22 in ns-2.

`bench/peers/offered_load.jsonl` has the results of ns-3 3.37, with five or more seeds per load;
`bench/peers/record` wrote it. `vegas.jsonl` has those of ns-3's Vegas: the output of `vegas --flows=1`, 2 and 4.
`bench/peers/high_speed.jsonl` is ns-2's, five seeds a scheme; `bench/peers/record_high_speed` wrote it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import rampmeter

ROOT = Path(__file__).parents[2]
RECORD = [json.loads(line) for line in (ROOT / "bench/peers/offered_load.jsonl").read_text().splitlines()]
LOADS = sorted({row["load"] for row in RECORD})
NS2_RECORD = [json.loads(line) for line in (ROOT / "bench/peers/high_speed.jsonl").read_text().splitlines()]
SCHEMES = sorted({row["algorithm"] for row in NS2_RECORD})
HAS_NS3 = Path("/usr/include/ns3").is_dir() and shutil.which("g++") is not None


@cache
def ours(load: float) -> dict[str, Any]:
    seeds = max(10, sum(row["load"] == load for row in RECORD))  # losses at low load are rare and clustered
    result = rampmeter.run(ROOT / "studies/pcp/offered_load.toml", scheme="tcp", load=load, seed=range(1, seeds + 1))
    dropped, offered = (sum(result.links[name].to_pylist()) for name in ["dropped_packets", "offered_packets"])
    return {
        "fct_mean_s": fmean(result.runs["fct_mean_s"].to_pylist()),
        "drop_rate": dropped / offered,
    }


def theirs(load: float, column: str) -> float:
    return fmean(row[column] for row in RECORD if row["load"] == load)


@pytest.mark.parametrize("load", LOADS)
def test_mean_completion_time_is_within_a_tenth_of_ns3s(load: float) -> None:
    assert ours(load)["fct_mean_s"] == pytest.approx(theirs(load, "fct_mean_s"), rel=0.10)


@pytest.mark.parametrize("load", LOADS)
def test_loss_is_within_a_factor_of_one_and_a_half_of_ns3s(load: float) -> None:
    assert 1 / 1.5 <= ours(load)["drop_rate"] / theirs(load, "drop_rate") <= 1.5


@pytest.mark.skipif(not HAS_NS3, reason="ns-3 is not installed (Debian: libns3-dev, g++)")
def test_ns3_repeats_its_recorded_results() -> None:
    build = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "peers"
    subprocess.run([ROOT / "bench/peers/build", build], check=True)
    said = subprocess.run([build / "offered_load", "--load=0.15", "--RngRun=1"], check=True, capture_output=True)
    row = json.loads(said.stdout)
    [recorded] = (row for row in RECORD if (row["load"], row["seed"]) == (0.15, 1))
    for column in ["completed", "fct_mean_s", "fct_sd_s", "queue_mean_packets"]:
        assert row[column] == pytest.approx(recorded[column], rel=1e-6)


VEGAS = [json.loads(line) for line in (ROOT / "bench/peers/vegas.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("theirs", VEGAS, ids=lambda row: f"{row['flows']}-flows")
def test_vegas_matches_that_of_ns3(theirs: dict[str, Any]) -> None:
    [row] = rampmeter.run(ROOT / "studies/bench/vegas.toml", flows=theirs["flows"]).links.to_pylist()
    for column in ["utilization", "queue_mean_packets", "drop_rate"]:
        assert row[column] == pytest.approx(theirs[column], rel=0.15)


@pytest.mark.skipif(not HAS_NS3, reason="ns-3 is not installed (Debian: libns3-dev, g++)")
def test_ns3_repeats_its_recorded_vegas() -> None:
    build = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "peers"
    subprocess.run([ROOT / "bench/peers/build", build], check=True)
    for recorded in VEGAS:
        said = subprocess.run([build / "vegas", f"--flows={recorded['flows']}"], check=True, capture_output=True)
        assert json.loads(said.stdout) == pytest.approx(recorded, rel=1e-6)


@cache
def high_speed() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = rampmeter.run(ROOT / "studies/bench/high_speed.toml").links.to_pylist()
    return rows


@pytest.mark.parametrize("scheme", SCHEMES)
def test_high_speed_tcps_match_those_of_linux(scheme: str) -> None:
    rows = [row for row in high_speed() if row["scheme"] == scheme]
    peers = [row for row in NS2_RECORD if row["algorithm"] == scheme]
    used, theirs = (fmean(row["utilization"] for row in side) for side in [rows, peers])
    assert used == pytest.approx(theirs, rel=0.03)
    lost = sum(row["dropped_packets"] for row in rows) / sum(row["offered_packets"] for row in rows)
    assert 1 / 1.5 <= lost / fmean(row["drop_rate"] for row in peers) <= 1.5


@pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed (Debian: ns2)")
def test_ns2_repeats_its_recorded_results() -> None:
    said = subprocess.run(["ns", ROOT / "bench/peers/high_speed.tcl", "cubic", "1"], check=True, capture_output=True)
    row = json.loads(next(line for line in said.stdout.splitlines() if line.startswith(b"{")))
    assert row in NS2_RECORD
