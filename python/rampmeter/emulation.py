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
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any


def run(engine: Any, path: str, axes: Sequence[tuple[str, Sequence[Any]]], out: str) -> None:
    """Run `engine.run` in the emulated world and in another process; raises what it raises."""
    request = json.dumps([engine.__file__, path, axes, out], default=_plain)
    command = [sys.executable, "-I", __file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            answer, trouble = child.communicate(request)
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)  # a terminal has told it already, a notebook has not
            raise
    if not answer:
        why = trouble.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        raise engine.WorldError(f"the process that emulates ended without an answer: {why[0]}")
    error, message = json.loads(answer)
    if error is not None:
        raise getattr(engine, error)(message)


def _plain(value: Any) -> Any:
    """Turn a number of numpy's into one of Python's."""
    return value.item()


def _serve() -> None:
    """Do what `run` asks for, in the new process."""
    file, path, listed, out = json.load(sys.stdin)
    axes = [(axis, values) for axis, values in listed]  # JSON knows no tuples
    loader = ExtensionFileLoader("rampmeter._engine", file)
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    engine = module_from_spec(spec)
    loader.exec_module(engine)
    engine.enter_user_namespace()
    answer: tuple[str | None, str] = (None, "")
    try:
        engine.run(path, "emulated", axes, None, out, file)
    except (engine.ScenarioError, engine.WorldError) as error:
        answer = (type(error).__name__, str(error))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _serve()
