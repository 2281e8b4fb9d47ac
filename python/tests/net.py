"""Servers and helpers for the tests of real networks. All ports are the system's choice."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

SECONDS = 60.0
"""The maximum wait for what should happen at once."""

OTHER_KEY = "A" * 43
"""A public key that no server has."""


def noise(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


@contextmanager
def served(command: Path, directory: Path, *options: str, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """Serve `directory` with `rampmeter serve`; yield HOST:PORT/NAME?key=KEY, for `url`."""
    arguments = [str(command), "serve", str(directory), "--listen", listen, *options]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout or []:
                if found := re.search(r"'(127\.0\.0\.1:\d+/NAME\?key=[^']*)'", line):
                    break
            else:
                raise AssertionError("the server has printed no address")
            yield found[1]
        finally:
            process.terminate()
            process.communicate()


def url(template: str, name: str, *, key: bool = True) -> str:
    address = template.replace("NAME", name)
    return address if key else address.split("?key=")[0]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@contextmanager
def thread(run: Callable[[], object]) -> Iterator[threading.Thread]:
    """Run something in a thread, and wait for its end; its exceptions are raised here."""
    failures: list[BaseException] = []

    def body() -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    started = threading.Thread(target=body, daemon=True)
    started.start()
    yield started
    started.join(SECONDS)
    assert not started.is_alive()
    if failures:
        raise failures[0]
