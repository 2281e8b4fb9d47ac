"""Files of servers (`rampmeter serve`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rampmeter import _engine

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes so far, those of earlier transfers included, and the file's size if it is known."""

INTERVAL = 0.05
"""Seconds from one report of progress to the next."""

STOP_TIMEOUT = 2.0
"""Maximum wait for the end of a transfer that was stopped, in seconds."""


@dataclass(frozen=True)
class File:
    """One file of a transfer."""

    name: str
    """Its name at the server."""
    path: Path
    """Its path here."""
    bytes: int
    """Its size."""
    resumed_from: int
    """Bytes that an earlier transfer had moved."""
    blake3: str
    """Its BLAKE3 hash."""
    error: str | None
    """`None`: a file that fails is an exception."""


@dataclass(frozen=True)
class Report:
    """A transfer: the fields of `rampmeter get --json`, and `path`."""

    path: Path
    """The file."""
    files: list[File]
    """The same, with its hash."""
    bytes: int
    """Its size."""
    resumed_from: int
    """Bytes of it that earlier transfers had moved."""
    complete: int
    """1."""
    failed: int
    """0."""
    server: str
    """The server's address."""
    server_key: str
    """Its public key."""
    is_new_server: bool
    """Whether this was the first contact, and the key was stored."""
    controller: str
    """The controller that sent the files."""
    seconds: float
    """The time from the first packet to the last byte."""
    goodput_bps: float
    """Moved bits of the file per second over that time."""
    handshake_s: float
    """The round-trip time of the handshake."""
    min_rtt_s: float
    """The minimum round-trip time."""
    rtt_s: float
    """The smoothed round-trip time at the end."""
    loss: float
    """The fraction of the sender's packets that did not arrive."""


def get(
    url: str,
    path: str | os.PathLike[str] | None = None,
    *,
    key: str | None = None,
    identity: str | os.PathLike[str] | None = None,
    blake3: str | None = None,
    controller: str | None = None,
    max_size: int | None = None,
    resume: bool = True,
    retry: int = 0,
    timeout: float = 10.0,
    progress: Progress | None = None,
) -> Report:
    """Get a file, HOST:PORT/NAME, as `rampmeter get` does.

    The file gets its name when it is complete and its hash is right; one that is there is replaced, and keeps its
    permissions. What arrives of a transfer that ends early stays in a part file, and the next call resumes from there.

    Args:
        url: the address, with `?key=KEY` for a server whose public key is known.
        path: the file or directory to write to; by default the name, in the current directory. In a directory the file
            keeps its name.
        key: the server's public key; by default the one in the file of known servers, to which a new server is added.
        identity: the file of this client's secret key, for servers that serve only listed keys.
        blake3: the hash that the file must have, in hexadecimal digits.
        controller: the congestion controller that the server should use, such as `cubic`.
        max_size: the size of the largest file that is accepted, in bytes.
        resume: go on with part files of earlier calls.
        retry: how often to try again if the server does not answer, stops or is busy, after 1, 2, 4 ... seconds;
            unless it is 0, a file that was changed meanwhile, or arrived damaged, is asked for again once.
        timeout: seconds without an answer after which the server counts as unreachable.
        progress: called in this thread, up to 20 times a second and at the end. An exception there stops the transfer.

    Raises:
        ContactError: the server cannot be contacted, or is not the expected one.
        TransferError: the file was not received.
        OSError: the file cannot be written here.
        ValueError: an argument is invalid.

    """
    transfer = begin(url, path, key, identity, blake3, controller, max_size, resume, retry, timeout)
    operation = transfer.report()
    try:
        while True:
            done, result = operation.wait(INTERVAL if progress else None)
            if progress:
                progress(*transfer.progress())
            if done:
                return report(result)
    except BaseException:
        transfer.stop()
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # it has ended
            operation.wait(STOP_TIMEOUT)
        raise


def begin(
    url: str,
    path: str | os.PathLike[str] | None,
    key: str | None,
    identity: str | os.PathLike[str] | None,
    blake3: str | None,
    controller: str | None,
    max_size: int | None,
    resume: bool,
    retry: int,
    timeout: float,
) -> _engine.Transfer:
    """Begin a transfer, for the arguments of `get`."""
    # A file called "-" is a file, not standard output.
    out = None if path is None else Path(path).absolute()
    return _engine.Transfer(url, out, key, identity, blake3, controller, max_size, resume, retry, timeout)


def report(result: dict[str, Any]) -> Report:
    """Make the report of a transfer."""
    files = [File(**file) for file in result.pop("files")]
    return Report(path=files[0].path, files=files, **result)
