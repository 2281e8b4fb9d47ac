"""Soak files and tunnels: many clients over bad paths, kills of both ends, new addresses, and every byte compared.

    make soak
    make soak SOAK="--minutes 2 --clients 20"

Clients fetch files from two servers, and open connections through tunnels, again and again (soak_jobs.py,
soak_tunnels.py). The paths lose, reorder and duplicate packets and give clients new addresses
(bad_path.py). Some clients are killed and run again, as one file server is, and the tunnels' clients. The other file
server and the tunnels' server are never killed. Halfway and at the end all clients pause for a while: what these
servers then use must not grow (soak_memory.py), and their descriptors must all be closed at the end. A file that
differs, a job that is not complete in time, or a connection that ends otherwise than its two ends say is a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bad_path import BadPath, Faults
from command import table
from processes import Process, Server, TunnelClient, TunnelServer
from soak_jobs import KINDS, MAX_WAIT, Clients, Site, Tally
from soak_memory import REST, at_rest, permitted_growth
from soak_tunnels import End, Service

SIZES = [0, 1, 1_000, 30_000, 30_000, 300_000, 300_000, 3_000_000]
CONNECTION_LIMIT = 60.0  # seconds that a connection through a tunnel may take, with pauses of its ends
DISCARD_LIMIT = 75  # seconds after which all sessions are discarded: a tunnel's server waits for a minute
PROGRESS_INTERVAL = 30.0  # seconds between lines about the progress where there is no terminal


@dataclass
class Watched:
    """A server that is never killed, and what was measured of it."""

    name: str
    process: Process
    memory: list[int] = field(default_factory=list)  # bytes, about each second
    at_rest: list[int] = field(default_factory=list)  # halfway and at the end
    descriptors: int = 0  # at the start
    descriptors_left: int = 0  # more than these at the end

    def __post_init__(self) -> None:
        """Count the first descriptors."""
        self.descriptors = self.process.descriptors()

    def memory_now(self) -> int:
        """Return its memory; 0 if it has ended."""
        return self.process.memory() if self.process.is_running() else 0

    def sample(self) -> None:
        """Measure its memory."""
        self.memory.append(self.memory_now())

    def count_descriptors(self) -> int:
        """Return how many descriptors are open that were not at the start."""
        self.descriptors_left = self.process.descriptors() - self.descriptors if self.process.is_running() else 0
        return self.descriptors_left


@dataclass
class Result:
    """What happened in a soak."""

    tallies: dict[str, Tally]
    total: Tally
    counts: dict[str, int]  # of kills
    measured: dict[str, float]
    failures: list[str]


def make_files(directory: Path, seed: int) -> dict[str, str]:
    """Write files of random bytes; return their hashes by name."""
    draw = random.Random(seed)
    hashes = {}
    for number, size in enumerate(SIZES):
        content = draw.randbytes(size)
        (directory / f"file-{number}").write_bytes(content)
        hashes[f"file-{number}"] = hashlib.sha256(content).hexdigest()
    return hashes


def soak(arguments: argparse.Namespace, home: Path, stack: ExitStack) -> Result:
    """Run everything, and judge it; the processes end with `stack`, also if this is interrupted."""
    program, clients, seed = arguments.rampmeter, arguments.clients, arguments.seed
    os.environ["XDG_CONFIG_HOME"] = str(home)
    served = home / "files"
    served.mkdir()
    hashes = make_files(served, seed)
    servers = [Server(program, served, home, 2 * clients + 16) for _ in range(2)]
    for server in servers:
        stack.callback(server.kill)
    service = Service(CONNECTION_LIMIT)
    # All tunnels have one key, and the connections of a killed one keep their places for a minute, in which each tunnel
    # is killed twice on average.
    tunnel_server = TunnelServer(program, home, service.port, 5 * clients + 16)
    stack.callback(tunnel_server.kill)
    ports = [*(server.port for server in servers), tunnel_server.port]
    paths = [BadPath(("127.0.0.1", port), Faults(), seed + n) for n, port in enumerate(ports)]
    urls = [f"127.0.0.1:{p.address[1]}/NAME?key={s.key}" for p, s in zip(paths[:2], servers, strict=True)]
    watched = [Watched("server", servers[0]), Watched("tunnel_server", tunnel_server)]
    tunnel_url = f"127.0.0.1:{paths[2].address[1]}?key={tunnel_server.key}"
    count = max(2, clients // 25) if "tunnel" in arguments.kinds else 0
    tunnels = [TunnelClient(program, home, tunnel_url, tunnel_server.client_key, service.port) for _ in range(count)]
    for tunnel in tunnels:
        stack.callback(tunnel.kill)
    group = Clients(Site(program, home, urls, hashes, service, tunnels, arguments.kinds), clients)
    for half, end in ((1, group.pause), (2, group.stop)):
        run_for(30 * arguments.minutes, group, servers[1], tunnels, watched, seed + half)
        end()
        progress(f"half {half} of 2: at rest for {REST:.0f} s")
        for each, memory in zip(watched, at_rest([each.memory_now for each in watched]), strict=True):
            each.at_rest.append(memory)
        group.resume()
    processes: list[Process] = [*tunnels, *servers, tunnel_server]
    for tunnel in tunnels:
        tunnel.stop()
    for path in paths:
        path.close()
    for _ in range(DISCARD_LIMIT):
        if not sum(each.count_descriptors() for each in watched):
            break
        time.sleep(1)
    for process in [*servers, tunnel_server]:
        process.stop()
    service.close()
    if arguments.logs:
        keep_logs(arguments.logs, processes, watched)
    return judge(group, service, processes, watched, paths, tunnels)


def run_for(
    seconds: float, group: Clients, killed: Server, tunnels: list[TunnelClient], watched: list[Watched], seed: int
) -> None:
    """Kill the file server and the tunnels' clients now and then, and measure the others."""
    draw = random.Random(seed)
    started_at = time.monotonic()
    next_kill, next_cut, next_line = started_at + 15, started_at + 10, started_at + PROGRESS_INTERVAL
    while (elapsed := time.monotonic() - started_at) < seconds:
        time.sleep(1)
        for each in watched:
            each.sample()
        now = time.monotonic()
        if now > next_kill:
            next_kill += 30
            killed.restart()
        if tunnels and now > next_cut:
            next_cut += 30 / len(tunnels)
            draw.choice(tunnels).restart()
        if sys.stderr.isatty() or now > next_line:
            next_line += PROGRESS_INTERVAL
            total, memory = group.total(), ", ".join(f"{each.memory[-1] >> 20} MiB" for each in watched)
            done = f"{total.jobs} jobs, {total.bytes / 1e6:.0f} MB"
            progress(f"{elapsed:.0f} of {seconds:.0f} s: {done}, servers {memory}")


def progress(text: str) -> None:
    """Print a line about the progress, on a terminal in place of the last one."""
    print(*(["\r\033[K", text] if sys.stderr.isatty() else [text, "\n"]), sep="", end="", file=sys.stderr, flush=True)


def keep_logs(directory: Path, processes: list[Process], watched: list[Watched]) -> None:
    """Copy what the processes printed, and write the samples of memory, into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for process in processes:
        shutil.copy(process.log, directory)
    for each in watched:
        (directory / f"{each.name}_memory.txt").write_text("".join(f"{sample}\n" for sample in each.memory))


def judge(
    group: Clients,
    service: Service,
    processes: list[Process],
    watched: list[Watched],
    paths: list[BadPath],
    tunnels: list[TunnelClient],
) -> Result:
    """Sum up what happened, and list what failed."""
    total, failures = group.total(), []
    for kind, tally in group.tallies.items():
        if tally.wrong:
            failures.append(f"{tally.wrong} jobs of kind {kind} had wrong bytes")
        if tally.unfinished:
            failures.append(f"{tally.unfinished} jobs of kind {kind} were not complete within {MAX_WAIT:g} s")
        if tally.broken:
            failures.append(f"{tally.broken} jobs of kind {kind} ended otherwise than they must")
    if wrong := service.ends[End.WRONG] + service.ends[End.SHORT]:
        failures.append(f"{wrong} connections brought other bytes to the service, or an end too early")
    if group.errors:
        failures.append(f"{group.errors} clients ended by an error of this script")
    if panics := sum(process.panics() for process in processes):
        failures.append(f"servers and tunnels panicked {panics} times")
    measured: dict[str, float] = {}
    waits = sorted(total.waits_s)
    if waits:
        measured = {
            "wait_p50_s": waits[len(waits) // 2],
            "wait_p99_s": waits[len(waits) * 99 // 100],
            "wait_max_s": waits[-1],
        }
    for each in watched:
        before, after = each.at_rest
        measured[f"{each.name}_at_rest_halfway_bytes"] = before
        measured[f"{each.name}_at_rest_bytes"] = after
        measured[f"{each.name}_memory_max_bytes"] = max(each.memory)
        measured[f"{each.name}_descriptors_left"] = each.descriptors_left
        if after - before > permitted_growth(before):
            permitted = f"{permitted_growth(before) / 1024:.0f} KiB are permitted"
            failures.append(f"{each.name} grew by {(after - before) / 1024:.0f} KiB at rest; {permitted}")
        if each.descriptors_left > 0:
            failures.append(f"{each.name} has {each.descriptors_left} descriptors more than at its start")
        if each.process.process.returncode not in (0, 130, -signal.SIGTERM):
            failures.append(f"{each.name} ended with {each.process.process.returncode}")
    measured |= {
        "datagrams": sum(path.counts.datagrams for path in paths),
        "datagrams_lost": sum(path.counts.lost for path in paths),
        "new_addresses": sum(path.counts.moved for path in paths),
    }
    kills = {
        "server_kills": sum(each.kills for each in processes if isinstance(each, Server)),
        "tunnel_kills": sum(each.kills for each in tunnels),
    }
    return Result(group.tallies, total, kills, measured, failures)


def report(result: Result, *, as_json: bool) -> str:
    """Return a table or an object of all counts, in sum and for each kind of job, and of what was measured."""
    if as_json:
        kinds = {kind: tally.counts() for kind, tally in result.tallies.items()}
        counts = {**result.total.counts(), **result.counts, "kinds": kinds}
        return json.dumps({**counts, **result.measured, "reasons": result.total.reasons, "failures": result.failures})
    rows = []
    for name, value in result.total.counts().items():
        rows.append([name, "", str(value)])
        rows += [["", kind, str(tally.counts()[name])] for kind, tally in result.tallies.items()]
    rows += [[name, "", str(value)] for name, value in result.counts.items()]
    rows += [[name, "", f"{value:.6g}"] for name, value in result.measured.items()]
    lines = [table(["what", "", "value"], rows)]
    for number, reason in sorted(((n, text) for text, n in result.total.reasons.items()), reverse=True):
        lines.append(f"{number} failed commands: {reason}")
    return "\n".join([*lines, *(result.failures or ["every byte is right; nothing grew"])])


def job_kinds(text: str) -> list[str]:
    """Return the kinds of jobs in a list with commas."""
    kinds = text.split(",")
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        raise argparse.ArgumentTypeError(f"no kind of jobs is {wrong[0]!r}: write some of {','.join(KINDS)}")
    return kinds


def main() -> int:
    """Soak, and print what happened."""
    parser = argparse.ArgumentParser(description="Many clients over bad paths, with kills; every byte is compared.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--minutes", type=float, default=20, help="(%(default)s)")
    parser.add_argument("--clients", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of files, faults and kills (%(default)s)")
    parser.add_argument("--kinds", type=job_kinds, default=list(KINDS), help=f"of jobs ({','.join(KINDS)})")
    parser.add_argument("--logs", type=Path, help="keep logs of servers and tunnels, and samples of memory, here")
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))  # each client's address is a socket of the path
    # After an interrupt some clients still write there.
    with TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as place, ExitStack() as stack:
        result = soak(arguments, Path(place), stack)
    print(report(result, as_json=arguments.json))
    return 1 if result.failures else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
