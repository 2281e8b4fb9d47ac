"""A picture of the page, drawn by Chromium without a window."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"]
SIZE = "1400,1100"


def browser() -> str | None:
    """Return the first browser that is installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def draw(url: str, file: Path) -> None:
    """Write an SVG or a PNG of the page at `url`."""
    command = browser()
    if command is None:
        raise OSError(f"--picture needs one of {', '.join(BROWSERS)}: install one, or save the SVG from the page")
    if file.suffix not in (".svg", ".png"):
        raise OSError(f"{file}: a picture's name ends with .svg or .png")
    with tempfile.TemporaryDirectory() as profile:
        arguments = [command, "--headless", "--hide-scrollbars", f"--user-data-dir={profile}", f"--window-size={SIZE}"]
        arguments += ["--virtual-time-budget=20000", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        if file.suffix == ".png":
            arguments += ["--force-device-scale-factor=2", f"--screenshot={file.resolve()}", url]
            subprocess.run(arguments, check=False, capture_output=True, timeout=120)
            if not file.exists():
                raise OSError(f"{file}: {command} drew nothing")
            return
        address, _, view = url.partition("#")
        arguments += ["--dump-dom", f"{address}?svg#{view}"]
        page = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=120).stdout
    found = re.search(r"<svg .*</svg>", page, re.DOTALL)
    if found is None:
        raise OSError(f"{file}: {command} drew nothing")
    file.write_text(found[0].replace("&nbsp;", "\u00a0") + "\n", encoding="utf-8")
