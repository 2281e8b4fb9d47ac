"""The flows and links of the files that the command was given. A file is read when it is first shown, and kept."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rampmeter.view import capture, kernel, qlog
from rampmeter.view.link import LinkReader
from rampmeter.view.model import Flow, Link, TraceError, span
from rampmeter.view.panels import Panel, drawn

SUFFIXES = {".qlog", ".sqlog", ".pcap", ".pcapng"}
HEAD = 1 << 16
PIECE = 1 << 25
"""How many bytes of a file that grows are read before it is shown."""
PAUSE = 3
"""A file that grows is shown anew after this many times the time that it takes to make its tables."""


class Reader(Protocol):
    """Reads a file, from where it ended before."""

    @property
    def offset(self) -> int:
        """Return how many bytes of the file were read."""

    def advance(self, end: int | None = None) -> None:
        """Read what the file has more, about up to this position."""

    def result(self, may_grow: bool = False) -> Flow | Link:
        """Return all that was read. A file that may grow is not cut."""


@dataclass
class Shown:
    """A flow or a link with its panels."""

    source: Flow | Link
    panels: list[Panel]
    span: tuple[float, float]
    size: int = 0
    """How much of its file was read, if that may grow."""


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
    start: Callable[[], Reader]
    """Begins to read it."""
    title: str = ""
    begin: float = 0.0
    """The time of its first event, where the file says it at its start."""
    growing: Path | None = None
    """Its file, if it is being written."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    reader: Reader | None = None
    kept: Shown | None = None
    kept_until: float = 0.0

    def size(self) -> int:
        """Return the size of its file, if it may grow."""
        return self.growing.stat().st_size if self.growing else 0

    def shown(self) -> Shown:
        """Read it, the first time, or what it has more."""
        with self.lock:
            size = self.size()
            if self.kept and (self.kept.size == size or time.monotonic() < self.kept_until):
                return self.kept
            if self.reader is None or self.reader.offset > size:  # a new run writes to the same file
                self.reader = self.start()
            end = min(size, self.reader.offset + PIECE)
            self.reader.advance(end if self.growing else None)
            begin = time.monotonic()
            found = self.reader.result(may_grow=self.growing is not None)
            self.kept = Shown(found, drawn(found), span(found), end)
            if self.growing is None:
                self.reader = None
            self.kept_until = time.monotonic() + PAUSE * (time.monotonic() - begin)
            return self.kept


def find(arguments: list[Path]) -> list[Source]:
    """List the sources of all arguments."""
    found = []
    for run, argument in enumerate(arguments):
        if not argument.exists():
            raise TraceError(f"{argument}: does not exist; `rampmeter run FILE --trace DIR` writes traces")
        files = listed(argument)
        if not files:
            raise TraceError(f"{argument}: has no traces: no file that ends with {', '.join(sorted(SUFFIXES))}")
        broken = []
        for file in files:
            try:
                found += of_file(run, group(file, arguments), file)
            except TraceError as error:
                if argument == file:
                    raise
                broken.append(unreadable(run, group(file, arguments), file, error))
        found += broken  # last, so that the page opens with a flow that can be shown
    return found + links_beside(arguments, found)


def links_beside(arguments: list[Path], found: list[Source]) -> list[Source]:
    """List the links in the directories of flows that were given as files."""
    known = {(each.group, each.name) for each in found if each.is_link}
    links = []
    for run, argument in enumerate(arguments):
        flows = listed(argument) if argument.is_file() and not capture.is_capture(argument) else []
        for file in (beside for flow in flows for beside in sorted(flow.parent.glob("*.pcapng"))):
            here = (group(file, arguments), file.stem)
            if here not in known and capture.is_capture(file) and capture.is_link(file):
                known.add(here)
                links += of_file(run, here[0], file)
    return links


def group(file: Path, arguments: list[Path]) -> str:
    """Return the directory of a file, without what is the same for all."""
    directory = file.parent
    is_below = len(arguments) == 1 and arguments[0] in directory.parents
    return str(directory.relative_to(arguments[0]) if is_below else directory)


def listed(argument: Path) -> list[Path]:
    """List the traces of an argument: those in a directory and below, 2 before 10."""
    if argument.is_file():
        return [argument]
    files = (file for file in argument.rglob("*") if file.suffix in SUFFIXES and file.is_file())

    def key(file: Path) -> list[str]:
        return [part.zfill(20) if part.isdigit() else part for part in re.split(r"(\d+)", str(file))]

    return sorted(files, key=key)


def of_file(run: int, group: str, file: Path) -> list[Source]:
    """List the sources of a file. Files whose flows are not known by their names are read now."""
    if capture.is_capture(file):
        if capture.is_link(file):
            return [Source(run, group, file.stem, True, False, lambda: LinkReader(file))]
        return [ready(run, group, flow) for flow in kernel.read(file)]
    if file.suffix in (".pcap", ".pcapng"):
        raise TraceError(f"{file}: neither qlog nor pcap: it does not begin as a capture")
    with file.open("rb") as opened:
        head = opened.read(HEAD)
    if not head.startswith(b"\x1e"):
        return [ready(run, group, flow) for flow in qlog.read(file)]
    sends = any(b"packet_sent" in line and b'"stream"' in line for line in head.splitlines())
    title, begin = qlog.headline(head)
    return [Source(run, group, qlog.flow_name(file), False, sends, lambda: qlog.LineReader(file), title, begin)]


def unreadable(run: int, group: str, file: Path, error: TraceError) -> Source:
    """Return a source that says why it cannot be shown."""

    def start() -> Reader:
        raise TraceError(*error.args)

    return Source(run, group, file.stem if file.suffix == ".pcapng" else qlog.flow_name(file), False, False, start)


@dataclass
class Whole:
    """A flow that was read already."""

    flow: Flow
    offset: int = 0

    def advance(self, end: int | None = None) -> None:
        """Have nothing more to read."""

    def result(self, may_grow: bool = False) -> Flow:
        """Return the flow."""
        return self.flow


def ready(run: int, group: str, flow: Flow) -> Source:
    """Return a source that is read already."""
    return Source(run, group, flow.name, False, len(flow.sent["time"]) > 0, lambda: Whole(flow))
