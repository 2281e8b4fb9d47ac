"""The emulated world in a process of its own.

Without root, emulation needs a user namespace, and the system gives one only to a process that has a single thread yet:
a Python that has imported pyarrow or a notebook has many. So a run is handed to a new Python, which loads the engine
and nothing else of this package. Real-time priorities and file limits that a run asks for end with that process too.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from tempfile import TemporaryFile
from typing import Any


def run(
    engine: Any,
    path: str,
    axes: Sequence[tuple[str, Sequence[Any]]],
    jobs: int | None,
    out: str,
    fresh: bool,
    trace: str | None,
    watch: Callable[[int, int, float | None], object],
) -> None:
    """Run `engine.run` in the emulated world and in another process; raises what it raises.

    The other process writes one JSON list per line: its progress, for each call of `watch`, and its answer.
    """
    request = json.dumps([engine.__file__, path, axes, jobs, out, fresh, trace], default=_plain)
    command = [sys.executable, "-I", __file__]
    answer: list[Any] = []
    with (
        TemporaryFile("w+") as trouble,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=trouble, text=True) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            # A process that ends without reading has written its reason to `trouble`.
            with suppress(BrokenPipeError), child.stdin as asking:
                asking.write(request)
            for line in child.stdout:
                kind, *said = json.loads(line)
                if kind == "progress":
                    watch(*said)
                else:
                    answer = said
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)  # needed in a notebook; a terminal has already sent it
            raise
        child.wait()
        if not answer:
            trouble.seek(0)
            why = trouble.read().strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
            raise engine.WorldError(f"the process of the emulated world ended without a result: {why[0]}")
    error, message = answer
    if error is not None:
        raise getattr(engine, error)(message)


def _plain(value: Any) -> Any:
    """Convert a numpy number to a Python number."""
    return value.item()


def _serve() -> None:
    """Run the request of `run` in the new process."""
    file, path, listed, jobs, out, fresh, trace = json.load(sys.stdin)
    axes = [(axis, values) for axis, values in listed]  # JSON has no tuples
    loader = ExtensionFileLoader("rampmeter._engine", file)
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    engine = module_from_spec(spec)
    loader.exec_module(engine)
    engine.enter_user_namespace()
    answer: tuple[str | None, str] = (None, "")
    try:
        watch = partial(_say, "progress")
        engine.run(path, "emulated", axes, jobs, out, fresh, trace, file, watch, None)
    except (engine.ScenarioError, engine.WorldError) as error:
        answer = (type(error).__name__, str(error))
    _say("answer", *answer)


def _say(*words: Any) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    _serve()
