"""The flows and links of the files that the command was given. A file is read when it is first shown, and kept."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rampmeter.view import capture, kernel, qlog
from rampmeter.view.link import LinkReader
from rampmeter.view.model import Flow, Link, TraceError, span
from rampmeter.view.panels import Panel, drawn

SUFFIXES = {".qlog", ".sqlog", ".pcap", ".pcapng"}
HEAD = 1 << 16


@dataclass
class Shown:
    """A flow or a link with its panels."""

    source: Flow | Link
    panels: list[Panel]
    span: tuple[float, float]


@dataclass
class Source:
    """A flow or a link that can be shown."""

    run: int
    """Which argument of the command it comes from."""
    group: str
    """The directory, which has the links of its flows."""
    name: str
    is_link: bool
    sends: bool
    """Whether it looks like the end that sends data."""
    load: Callable[[], Flow | Link]
    title: str = ""
    begin: float = 0.0
    """The time of its first event, where the file says it at its start."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: Shown | None = None

    def shown(self) -> Shown:
        """Read it, the first time."""
        with self.lock:
            if self.kept is None:
                found = self.load()
                self.kept = Shown(found, drawn(found), span(found))
            return self.kept


def find(arguments: list[Path]) -> list[Source]:
    """List the sources of all arguments."""
    found = []
    for run, argument in enumerate(arguments):
        if not argument.exists():
            raise TraceError(f"{argument}: does not exist; `rampmeter run FILE --trace DIR` writes traces")
        files = [argument] if argument.is_file() else listed(argument)
        if not files:
            raise TraceError(f"{argument}: has no traces: no file that ends with {', '.join(sorted(SUFFIXES))}")
        for file in files:
            group = file.parent
            if len(arguments) == 1 and argument in group.parents:
                group = group.relative_to(argument)
            found += of_file(run, str(group), file)
    return found


def listed(directory: Path) -> list[Path]:
    """List the traces in a directory and below, 2 before 10."""
    files = (file for file in directory.rglob("*") if file.suffix in SUFFIXES and file.is_file())

    def key(file: Path) -> list[str]:
        return [part.zfill(20) if part.isdigit() else part for part in re.split(r"(\d+)", str(file))]

    return sorted(files, key=key)


def of_file(run: int, group: str, file: Path) -> list[Source]:
    """List the sources of a file. Files whose flows are not known by their names are read now."""
    if capture.is_capture(file):
        if capture.is_link(file):
            return [Source(run, group, file.stem, True, False, lambda: read_link(file))]
        return [ready(run, group, flow) for flow in kernel.read(file)]
    with file.open("rb") as opened:
        head = opened.read(HEAD)
    if not head.startswith(b"\x1e"):
        return [ready(run, group, flow) for flow in qlog.read(file)]
    sends = any(b"packet_sent" in line and b'"stream"' in line for line in head.splitlines())
    title, begin = qlog.headline(head)
    return [Source(run, group, qlog.flow_name(file), False, sends, lambda: qlog.read(file)[0], title, begin)]


def read_link(file: Path) -> Link:
    """Read the capture of a link."""
    reader = LinkReader(file)
    reader.advance()
    return reader.result()


def ready(run: int, group: str, flow: Flow) -> Source:
    """Return a source that is read already."""
    return Source(run, group, flow.name, False, len(flow.sent["time"]) > 0, lambda: flow)
