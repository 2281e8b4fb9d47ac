"""Sweeps on a real Dask cluster of this machine: the same tables as without it, also if parts of it are lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

import rampmeter
from rampmeter import cluster as carrier
from rampmeter.cluster import ClusterError

ROOT = Path(__file__).parents[2]
COMMAND = os.environ.get("RAMPMETER", ROOT / "target/release/rampmeter")
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
TABLES = ["runs.parquet", "links.parquet", "flows.parquet"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three worker processes of one thread each."""
    with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        client.wait_for_workers(3)
        yield client


def scenario(tmp_path: Path, seconds: int) -> Path:
    """A scenario of 12 points with a file of schemes."""
    (tmp_path / "schemes.toml").write_text('[scheme.a]\ncontroller = "cubic"\n[scheme.b]\ncontroller = "pcp"\n')
    file = tmp_path / "scenario.toml"
    file.write_text(f"""
duration = "{seconds} s"
schemes = "schemes.toml"
link = [{{ name = "bottleneck", between = ["l", "r"], rate = "20 Mb/s", delay = "10 ms", measure = true,
          router = {{ kind = "drop-tail", packets = 30 }} }}]
hosts = [{{ name = "s", at = "l", rate = "1 Gb/s", delay = "1 ms" }},
         {{ name = "c", at = "r", rate = "1 Gb/s", delay = "1 ms" }}]
traffic = [{{ name = "t", scheme = "$scheme", from = "s", to = "c",
             arrivals = {{ count = "$flows", spread = "1 s" }} }}]
[axes]
scheme = ["a", "b"]
flows = [1, 3]
seed = [1, 2, 3]
""")
    return file


def same_tables(one: Path, other: Path) -> None:
    for name in TABLES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_tables_are_the_same_as_without_a_cluster(tmp_path: Path, client: Client) -> None:
    file = scenario(tmp_path, 5)
    here, there = tmp_path / "here", tmp_path / "there"
    rampmeter.run(file, out=here)
    run = rampmeter.run(file, out=there, cluster=client)
    assert run.about["finished"] == 12
    same_tables(here, there)


def test_a_lost_worker_costs_nothing_but_time(tmp_path: Path, cluster: LocalCluster, client: Client) -> None:
    file = scenario(tmp_path, 60)
    here, there = tmp_path / "here", tmp_path / "there"
    command = [COMMAND, "run", file, "--quiet", "--cluster", cluster.scheduler_address, "--out", there]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tmp_path, env=ENVIRONMENT
    )
    victim = next(iter(client.run(os.getpid).values()))
    while not list(there.glob("points/*.json")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    os.kill(victim, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    rampmeter.run(file, out=here)
    same_tables(here, there)


def test_a_lost_scheduler_is_one_message_and_the_command_resumes(tmp_path: Path) -> None:
    dask = Path(sys.executable).parent / "dask"
    place: list[str | Path] = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", tmp_path / "scheduler.json"]
    scheduler = subprocess.Popen(
        [dask, "scheduler", "--no-dashboard", *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    worker = None
    try:
        place_file = tmp_path / "scheduler.json"
        while not (place_file.exists() and place_file.read_text()):  # it is empty at first
            assert scheduler.poll() is None
            time.sleep(0.02)
        address = json.loads(place_file.read_text())["address"]
        worker = subprocess.Popen(
            [dask, "worker", address, "--nthreads", "1", "--no-dashboard", "--local-directory", tmp_path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        with Client(address) as client:
            client.wait_for_workers(1)
        file, there = scenario(tmp_path, 60), tmp_path / "there"
        command = [COMMAND, "run", file, "--quiet", "--out", there]
        process = subprocess.Popen(
            [*command, "--cluster", address], stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=ENVIRONMENT
        )
        while not list(there.glob("points/*.json")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.02)
        scheduler.kill()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        first, *rest = errors.splitlines()
        assert "the connection to the Dask scheduler was lost; finished points are kept" in first
        assert rest == ["rampmeter: cluster: points are missing, for the reason above"]
    finally:
        for started in filter(None, [scheduler, worker]):
            started.kill()
            started.wait()
    kept = {file: file.stat().st_mtime_ns for file in there.glob("points/*.json")}
    assert subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL, check=False, timeout=60).returncode == 0
    assert kept.items() <= {file: file.stat().st_mtime_ns for file in there.glob("points/*.json")}.items()


def test_a_cluster_that_loses_all_workers_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(carrier, "NO_WORKERS_S", 0.3)
    monkeypatch.setattr(carrier, "WORKERS_CHECK_S", 0.1)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(1)
        with carrier.watched_workers(client):
            time.sleep(1)
            assert not capsys.readouterr().err
            cluster.scale(0)
            deadline = time.monotonic() + 30
            message = ""
            while not message and time.monotonic() < deadline:
                time.sleep(0.1)
                message = capsys.readouterr().err
            time.sleep(1)
        assert message.startswith("rampmeter: the cluster has had no workers for 0.3 s; start some (dask worker tcp://")
        assert not capsys.readouterr().err, "once is enough"


def test_workers_of_another_build_are_refused(client: Client) -> None:
    job = json.dumps({"build": "0.0.0", "scenarios": [], "points": []})
    with pytest.raises(ClusterError, match="install the same one everywhere"):
        list(carrier.carry(client, job))


def test_an_error_of_a_point_names_it(tmp_path: Path, client: Client) -> None:
    file = scenario(tmp_path, 5)
    portable = {"file": "x.toml", "text": file.read_text(), "beside": {}}
    place = {"scenario": 0, "point": {"scheme": "a", "flows": 1, "seed": 1}}
    from rampmeter import _engine

    job = json.dumps({"build": _engine.BUILD, "scenarios": [portable], "points": [place]})
    [reply] = carrier.carry(client, job)
    assert "schemes.toml cannot be read: it was not carried" in str(json.loads(reply)["reply"]["outcome"]["Err"])


def test_batches_have_one_scenario_and_cover_every_point() -> None:
    scenarios = [0] * 70 + [1] * 3 + [2]
    batches = list(carrier.split(scenarios, 1))
    assert [index for _, indices in batches for index in indices] == list(range(74))
    assert all(scenarios[index] == scenario for scenario, indices in batches for index in indices)
    assert len(batches) > 8


def test_no_scheduler_is_one_line(tmp_path: Path) -> None:
    command = [COMMAND, "run", scenario(tmp_path, 5), "--quiet", "--cluster", "tcp://127.0.0.1:1"]
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False, env=ENVIRONMENT
    )
    assert result.returncode == 1
    assert "start one: dask scheduler" in result.stderr


def test_real_packets_stay_on_this_machine(tmp_path: Path, client: Client) -> None:
    with pytest.raises(rampmeter.ScenarioError, match="only simulated runs"):
        rampmeter.run(scenario(tmp_path, 5), "emulated", cluster=client)
