"""The loads of bench_tunnel.py: programs of a client, and the servers that they need.

To add a load, write a function that runs its program and returns what it measures, and a line in `LOADS`.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO

from wire_network import Emulated, Namespace, real_time
from wire_peers import PeerError

HTTP, GIT, SSH, IPERF = 8080, 9418, 2222, 5201
PORTS = (HTTP, GIT, SSH, IPERF)
SMALL, MEDIUM, FILE, LARGE = 30_000, 1_000_000, 20_000_000, 50_000_000
TREE = 100  # files in the directory and in the repository
TREE_BYTES = 2_000_000
OBJECTS, OBJECT = 60, 20_000
LARGE_SECONDS = 20  # of the largest file at most
IPERF_SECONDS = 8
LIMIT = 300  # seconds for a load
BROWSER = "chromium-headless-shell"
REALTIME = real_time(10)

NGINX = """
daemon off;
master_process off;
pid {files}/nginx.pid;
events {{}}
http {{
    access_log off;
    types {{ text/html html; image/png png; }}
    client_body_temp_path {files}/body;
    proxy_temp_path {files}/proxy;
    fastcgi_temp_path {files}/fastcgi;
    uwsgi_temp_path {files}/uwsgi;
    scgi_temp_path {files}/scgi;
    server {{ listen {port}; root {files}/web; }}
}}
"""

SSHD = """
Port {port}
HostKey {files}/host_key
AuthorizedKeysFile {files}/user_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
"""

# The time from the start of the navigation until all objects are there, as the browser measures it.
PAGE = """<!doctype html><title>{count} objects</title>{objects}
<script>addEventListener("load", () => {{ document.body.dataset.ms = performance.now() }})</script>
"""


class Files:
    """What servers serve, their settings and keys."""

    def __init__(self, directory: Path) -> None:
        """Create all of it; the same content each time."""
        self.directory = directory
        content = random.Random(1)
        web, tree = directory / "web", directory / "tree"
        web.mkdir()
        tree.mkdir()
        for size in (SMALL, MEDIUM, FILE, LARGE):
            (web / str(size)).write_bytes(content.randbytes(size))
        for number in range(TREE):
            (tree / f"{number}.bin").write_bytes(content.randbytes(TREE_BYTES // TREE))
        self.create_page(web, content)
        (directory / "nginx.conf").write_text(NGINX.format(files=directory, port=HTTP))
        (directory / "sshd.conf").write_text(SSHD.format(files=directory, port=SSH))
        for key in ("host_key", "user_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / key)
        git = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-C", tree)
        run(*git, "init", "--quiet", "--initial-branch=main")
        run(*git, "add", ".")
        run(*git, "commit", "--quiet", "--message", "Everything")
        run("git", "clone", "--quiet", "--bare", tree, directory / "repository.git")

    def create_page(self, web: Path, content: random.Random) -> None:
        """Create a page of images, whose pixels are never looked at."""
        for number in range(OBJECTS):
            (web / f"{number}.png").write_bytes(content.randbytes(OBJECT))
        objects = "".join(f'<img src="{number}.png" alt="">' for number in range(OBJECTS))
        (web / "page.html").write_text(PAGE.format(count=OBJECTS, objects=objects))

    def received(self) -> Path:
        """Return an empty directory for what a client receives."""
        path = self.directory / "received"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path


@dataclass(frozen=True)
class Way:
    """How the client's programs reach the servers."""

    address: str  # of all of them
    proxy: str | None = None  # SOCKS5, for programs that speak it, which then use the server's own address
    server: str = ""
    command: str | None = None  # for ssh, as its `ProxyCommand`; other programs cannot use this way


@dataclass(frozen=True)
class Load:
    """A program of the client, and the programs that it needs."""

    name: str
    unit: str  # "s" is a time, and "Mb/s" a rate
    needs: tuple[str, ...]
    measure: Callable[[Files, Namespace, Way], float]


def curl(client: Namespace, report: str, *words: str, limit: float = LIMIT) -> list[float]:
    """Run curl for at most `limit` seconds, and return the variables that it reports."""
    options = ["--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", str(limit)]
    command = client.command(*REALTIME, "curl", *options, "--write-out", f"{report}\n", *words)
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT + 10, check=False)
    is_complete = result.returncode == 0 or (result.returncode == 28 and limit < LIMIT)
    if not is_complete:
        raise PeerError(f"curl ended with {result.returncode}: {result.stderr.strip()}")
    return [float(word) for word in result.stdout.split("\n")[-2].split()]


def small_file(files: Files, client: Namespace, way: Way) -> float:
    """Download a small file five times, each time with a new connection."""
    words = ("--output", str(files.received() / "file"), f"http://{way.address}:{HTTP}/{SMALL}")
    return median(curl(client, "%{time_total}", *words)[0] for _ in range(5))


def medium_file(files: Files, client: Namespace, way: Way) -> float:
    """Download a file."""
    words = ("--output", str(files.received() / "file"), f"http://{way.address}:{HTTP}/{MEDIUM}")
    return curl(client, "%{time_total}", *words)[0]


def large_file(files: Files, client: Namespace, way: Way) -> float:
    """Download a large file, or what of it arrives in some seconds, and return the rate."""
    words = ("--output", str(files.received() / "file"), f"http://{way.address}:{HTTP}/{LARGE}")
    size, seconds = curl(client, "%{size_download} %{time_total}", *words, limit=LARGE_SECONDS)
    return size * 8e-6 / seconds


def browse(files: Files, client: Namespace, way: Way) -> float:
    """Load a page of many objects in a browser."""
    proxy = [f"--proxy-server=socks5://{way.proxy}"] if way.proxy else []
    words = [BROWSER, "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom", *proxy]
    profile = f"--user-data-dir={files.received()}"
    url = f"http://{way.server if way.proxy else way.address}:{HTTP}/page.html"
    # It has threads of its own priorities.
    result = subprocess.run(
        client.command(*words, profile, url), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    found = re.search(r'data-ms="([0-9.]+)"', result.stdout)
    if not found:
        raise PeerError(f"the browser did not load the page: {result.stderr.strip()[-500:]}")
    return float(found[1]) / 1e3


def fetch_objects(files: Files, client: Namespace, way: Way) -> float:
    """Download the objects of the page as a browser does, with six connections."""
    proxy = ["--proxy", f"socks5h://{way.proxy}", "--noproxy", ""] if way.proxy else []
    url = f"http://{way.server if way.proxy else way.address}:{HTTP}/[0-{OBJECTS - 1}].png"
    words = ["--parallel", "--parallel-max", "6", *proxy, "--output", f"{files.received()}/#1", url]
    began = time.monotonic()
    curl(client, "%{time_total}", *words)
    return time.monotonic() - began


def clone(files: Files, client: Namespace, way: Way) -> float:
    """Clone a repository from git's daemon."""
    url = f"git://{way.address}:{GIT}/repository.git"
    return timed(client, "git", "clone", "--quiet", "--bare", url, str(files.received() / "copy"))


def ssh(files: Files, way: Way) -> str:
    """Return the command for ssh."""
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    proxy = f' -o "ProxyCommand={way.command}"' if way.command else ""
    return f"ssh -F none -p {SSH} -i {files.directory}/user_key {options}{proxy}"


def rsync(files: Files, client: Namespace, way: Way) -> float:
    """Copy a directory over ssh."""
    source = f"{way.address}:{files.directory}/tree/"
    words = ("--recursive", "--rsh", ssh(files, way), "--exclude", ".git", source, str(files.received()))
    return timed(client, "rsync", *words)


def rsync_file(files: Files, client: Namespace, way: Way) -> float:
    """Copy one file over ssh."""
    source = f"{way.address}:{files.directory}/web/{FILE}"
    return timed(client, "rsync", "--rsh", ssh(files, way), source, str(files.received()))


def clone_by_ssh(files: Files, client: Namespace, way: Way) -> float:
    """Clone a repository over ssh."""
    url = f"{way.address}:{files.directory}/repository.git"
    words = ("git", "-c", f"core.sshCommand={ssh(files, way)}", "clone", "--quiet", "--bare", url)
    return timed(client, *words, str(files.received() / "copy"))


def iperf(_: Files, client: Namespace, way: Way) -> float:
    """Send as much as possible from the server for some seconds."""
    words = ["iperf3", "--client", way.address, "--port", str(IPERF), "--reverse", "--time", str(IPERF_SECONDS)]
    result = subprocess.run(
        client.command(*REALTIME, *words, "--json"), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    report = json.loads(result.stdout or "{}")
    if "end" not in report or "sum_received" not in report["end"]:
        raise PeerError(f"iperf3 failed: {report.get('error', result.stderr)}")
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6


TREE_SIZE = f"{TREE_BYTES / 1e6:g} MB"
PAGE_SIZE = f"{OBJECTS} objects, {OBJECTS * OBJECT / 1e6:g} MB"
BY_SSH = ("rsync", "rsync-file", "git-ssh")
LOADS = {
    "small": Load("curl, 30 kB", "s", ("curl", "nginx"), small_file),
    "medium": Load("curl, 1 MB", "s", ("curl", "nginx"), medium_file),
    "large": Load(f"curl, 50 MB, {LARGE_SECONDS} s at most", "Mb/s", ("curl", "nginx"), large_file),
    "page": Load(f"Chromium, {PAGE_SIZE}", "s", (BROWSER, "nginx"), browse),
    "objects": Load(f"curl --parallel, {PAGE_SIZE}", "s", ("curl", "nginx"), fetch_objects),
    "git": Load(f"git clone, {TREE_SIZE}", "s", ("git",), clone),
    "rsync": Load(f"rsync over ssh, {TREE} files, {TREE_SIZE}", "s", ("rsync", "ssh", "sshd"), rsync),
    "rsync-file": Load(f"rsync over ssh, one file, {FILE / 1e6:g} MB", "s", ("rsync", "ssh", "sshd"), rsync_file),
    "git-ssh": Load(f"git clone over ssh, {TREE_SIZE}", "s", ("git", "ssh", "sshd"), clone_by_ssh),
    "iperf": Load(f"iperf3, {IPERF_SECONDS} s", "Mb/s", ("iperf3",), iperf),
}


@contextmanager
def serving(files: Files, network: Emulated) -> Iterator[None]:
    """Run all servers whose programs are installed."""
    at, here = files.directory, network.server
    # sshd needs a directory of its own in /run, which stays in its namespace of mounts.
    private = "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f $0"
    commands = {
        HTTP: ("nginx", ["nginx", "-e", "stderr", "-p", str(at), "-c", str(at / "nginx.conf")]),
        GIT: ("git", ["git", "daemon", "--export-all", f"--base-path={at}", "--reuseaddr", f"--port={GIT}"]),
        SSH: ("sshd", ["unshare", "--mount", "sh", "-c", private, str(at / "sshd.conf")]),
        IPERF: ("iperf3", ["iperf3", "--server", "--port", str(IPERF)]),
    }
    with ExitStack() as stack, (at / "servers.log").open("w") as log:
        for port, (program, command) in commands.items():
            if shutil.which(program):
                stack.enter_context(running(here.command(*REALTIME, *command), log))
                await_listener(here, port, program)
        yield


@contextmanager
def running(command: list[str], log: IO[str] | None) -> Iterator[None]:
    """Run a program in the background, and end it."""
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def run(*words: str | Path) -> bytes:
    """Run a command that cannot fail, and return what it prints."""
    result = subprocess.run(list(map(str, words)), capture_output=True, check=False)
    if result.returncode != 0:
        raise PeerError(f"{words[0]} failed: {result.stderr.decode(errors='replace').strip()}")
    return result.stdout


def timed(client: Namespace, *words: str) -> float:
    """Run a command of the client, and return its time in seconds."""
    began = time.monotonic()
    result = subprocess.run(
        client.command(*REALTIME, *words), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if result.returncode != 0:
        raise PeerError(f"{words[0]} ended with {result.returncode}: {result.stderr.strip()}")
    return time.monotonic() - began


def await_listener(at: Namespace, port: int, what: str) -> None:
    """Wait until a TCP port is open."""
    deadline = time.monotonic() + 20
    while f":{port} " not in at.run("ss", "--tcp", "--listening", "--numeric"):
        if time.monotonic() > deadline:
            raise PeerError(f"{what} does not listen on port {port}")
        time.sleep(0.02)
