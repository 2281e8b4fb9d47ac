"""Follows directories that a running `rampmeter run --trace` writes: new files, files that grow, the end of the run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from rampmeter.view.model import TraceError
from rampmeter.view.sources import Source, group, listed, of_file

PROCESSES = Path("/proc")


class Live:
    """The sources of directories that are being written, or will be."""

    def __init__(self, arguments: list[Path]) -> None:
        """Start with what is there."""
        self.arguments = arguments
        self.sources: list[Source] = []
        self.known: set[Path] = set()
        self.state = ""

    def look(self) -> str:
        """Add the sources of new files. Returns the state: `waiting` for events, `running`, or `ended`."""
        is_running = any(is_written(argument) for argument in self.arguments)  # first: files are whole when it ends
        for run, argument in enumerate(self.arguments):
            for file in listed(argument) if argument.exists() else []:
                if file not in self.known:
                    self.add(run, file)
        self.state = "running" if is_running else "ended" if self.sources else "waiting"
        return self.state

    def add(self, run: int, file: Path) -> None:
        """Add the sources of a file, if it has a beginning that says what it is."""
        try:
            found = of_file(run, group(file, self.arguments), file) if file.stat().st_size else []
        except TraceError:
            return
        for source in found:
            source.growing = file
        self.sources += found
        self.known |= {file} if found else set()


def is_written(directory: Path) -> bool:
    """Whether a process `rampmeter ... --trace` writes traces to a directory or to one above it."""
    wanted = directory.resolve()
    for process in PROCESSES.glob("[0-9]*"):
        try:
            command, *words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if Path(command).name != "rampmeter":
                continue
            here = (process / "cwd").resolve()
        except OSError:  # it has ended, or it is that of another user
            continue
        named = [word.removeprefix("--trace=") for word in words if word.startswith("--trace=")]
        named += [value for word, value in pairwise(words) if word == "--trace"]
        if any((here / path).resolve() in (wanted, *wanted.parents) for path in named):
            return True
    return False
