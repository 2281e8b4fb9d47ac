"""A picture of the page, drawn by Chromium without a window: the page sends its SVG when it has all data."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from threading import Thread

from rampmeter.view.model import TraceError
from rampmeter.view.server import Server
from rampmeter.view.sources import Source

BROWSERS = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"]
WIDTH, HEIGHT = 1300, 1100
SECONDS = 60
"""How long the page may take."""


def browser() -> str | None:
    """Return the first browser that is installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def draw(sources: list[Source], view: str, file: Path) -> None:
    """Write an SVG or a PNG of the page with this view. Raises `TraceError` where a file of the view is broken."""
    command = browser()
    if command is None:
        raise OSError(f"--picture needs one of {', '.join(BROWSERS)}: install one, or save the SVG from the page")
    pictures: queue.Queue[bytes | TraceError] = queue.Queue()
    server = Server(sources, pictures=pictures)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        start = [command, "--headless", "--hide-scrollbars", f"--user-data-dir={directory}/profile"]
        start += ["--no-sandbox"] if os.geteuid() == 0 else []
        page = [*start, f"--window-size={WIDTH},{HEIGHT}", f"{server.url}?picture#{view}"]
        # Some of these commands are scripts that start the browser: both are ended, as the group of a session.
        quiet = subprocess.DEVNULL
        with subprocess.Popen(page, stdout=quiet, stderr=quiet, start_new_session=True) as process:
            try:
                svg = pictures.get(timeout=SECONDS)
            except queue.Empty:
                raise OSError(f"{file}: {command} drew nothing in {SECONDS} s") from None
            finally:
                os.killpg(process.pid, signal.SIGTERM)
        if isinstance(svg, TraceError):
            raise svg
        if file.suffix == ".svg":
            file.write_bytes(svg)
            return
        image = Path(directory) / "page.svg"
        image.write_bytes(svg)
        width, height = map(float, re.findall(rb'(?:width|height)="([\d.]+)"', svg)[:2])
        size = [f"--window-size={width:.0f},{height:.0f}", "--force-device-scale-factor=2"]
        shot = [*start, *size, f"--screenshot={file.resolve()}", image.as_uri()]
        subprocess.run(shot, check=False, capture_output=True, timeout=SECONDS)
    if not file.exists():
        raise OSError(f"{file}: {command} drew nothing")
