"""Our TCP against ns-3's, on the network of PCP's Figure 4; our high-speed TCPs against those of Linux 2.6.22 in ns-2.

And the figures in claims of `studies/rivals`: those of ns-3, and those of the formula for a policer.

`bench/peers/offered_load.jsonl` has the results of ns-3 3.37, with five or more seeds per load;
`bench/peers/record` wrote it. `rivals.jsonl` has those of ns-3's BBR, LEDBAT and Vegas, with which the `ns3` claims of
`studies/rivals` compare ours; `bench/peers/record_rivals` wrote it.
`bench/peers/high_speed.jsonl` is ns-2's, five seeds a scheme; `bench/peers/record_high_speed` wrote it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from math import exp, factorial
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


RIVALS = [json.loads(line) for line in (ROOT / "bench/peers/rivals.jsonl").read_text().splitlines()]
BBR = ["--ns3::TcpSocket::InitialCwnd=10", "--ns3::TcpSocketBase::MinRto=200ms", "--rate=50", "--buffer=1000"]


def test_claims_have_the_recorded_figures_of_ns3(rival_claims: list[dict[str, Any]]) -> None:
    claims = [claim for claim in rival_claims if claim["scenario"] in ("ns3_bbr.toml", "ns3_delays.toml")]
    assert claims
    for claim in claims:
        metric = claim["metric"]
        where = {"scheme": "bbr1", "newreno": 0, **metric["where"]}
        where["beside"] = where.pop("newreno")
        rows = [row for row in RIVALS if where.items() <= row.items()]
        assert len(rows) >= 3, claim["id"]
        share = fmean(row["share"] for row in rows)
        figure = share / (1 - share) if "over" in metric else fmean(row[metric["mean"].split(".")[-1]] for row in rows)
        assert metric["in"]["ns-3"] == pytest.approx(figure, rel=1e-3), claim["id"]


def refused(load: float, places: int) -> float:
    """Return the fraction of arrivals that M/D/1/N refuses (Brun, Garcia 2000; the service time is 1).

    P = 1 - b / (1 + load b),   b = sum over k < N of (-load)^k / k! (N - 1 - k)^k exp((N - 1 - k) load)

    The terms alternate in sign, so it loses digits for large N.
    """
    steps = range(places)
    b: float = sum((-load) ** k / factorial(k) * (places - 1 - k) ** k * exp((places - 1 - k) * load) for k in steps)
    return 1 - b / (1 + load * b)


def test_claims_have_the_figures_of_the_formula_for_a_policer(rival_claims: list[dict[str, Any]]) -> None:
    claims = [claim for claim in rival_claims if claim["id"].startswith("policer.")]
    assert claims
    for claim in claims:
        [(name, figure)] = claim["metric"]["in"].items()
        where = claim["metric"]["where"]
        places = int(name.removeprefix("M/D/1/"))
        assert where["burst"] == f"{places * 1.5:g} kB"
        assert figure == pytest.approx(refused(where["load"], places), rel=1e-3), claim["id"]
        assert float(claim["paper"].rstrip("%")) / 100 == pytest.approx(figure)


@pytest.mark.skipif(not HAS_NS3, reason="ns-3 is not installed (Debian: libns3-dev, g++)")
@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("vegas-10", ["--tcp=TcpVegas", "--ns3::TcpVegas::Alpha=11", "--ns3::TcpVegas::Beta=10"]),
        ("ledbat", ["--tcp=Ledbat", "--ns3::TcpLedbat::SSParam=no", "--timestamps=1"]),
        ("bbr1", ["--tcp=Bbr", *BBR, "--duration=60", "--warmup=20", "--spread=1"]),
    ],
)
def test_ns3_repeats_its_recorded_rivals(scheme: str, options: list[str]) -> None:
    build = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "peers"
    subprocess.run([ROOT / "bench/peers/build", build], check=True)
    said = subprocess.run([build / "rivals", "--flows=1", "--RngRun=1", *options], check=True, capture_output=True)
    assert {"seed": 1, "scheme": scheme, **json.loads(said.stdout)} in RIVALS


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
