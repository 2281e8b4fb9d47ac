"""`python -m rampmeter.view DIR|FILE...`, or `rampmeter view` with the same arguments."""

from __future__ import annotations

import argparse
import gc
import sys
import webbrowser
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl

from rampmeter.view.live import Live
from rampmeter.view.model import TraceError
from rampmeter.view.picture import draw
from rampmeter.view.server import Server
from rampmeter.view.sources import Source, find

KEYS = {
    "t=FROM,TO": "the times in seconds",
    "c=FLOW|LINK|...": "a column, also several times: a flow and links, each as GROUP/NAME",
    "hide=PANEL": "a panel that is not shown, also several times",
    "off=PANEL:SERIES": "a series that is not shown, also several times",
}
"""What an address says of a view (`page.js`)."""


MANY = 20
"""How many names an error lists."""
PANELS = ("network", "state", "sequence", "window", "rtt", "rate", "own", "own_bps", "own_bytes", "own_s", "events")


def wrong_key(view: str) -> str:
    """Say what is wrong with the keys of a view and with its times; empty if nothing is."""
    known = [key.partition("=")[0] for key in KEYS]
    for part in filter(None, view.split("&")):
        key, sign, _ = part.partition("=")
        if key not in known or not sign:
            return f"there is no key `{key}`; write {', '.join(KEYS)}"
    for value in (value for key, value in parse_qsl(view) if key == "t"):
        try:
            start, end = map(float, value.split(","))
        except ValueError:
            return f"`t={value}` has no two times; write for example t=2.6,2.7"
        if not start < end:
            return f"`t={value}` ends before it begins; write t={end:g},{start:g}"
    return ""


def wrong_name(view: str, sources: list[Source]) -> str:
    """Say which flow, link or panel of a view is not there; empty if all are."""
    links = {f"{each.group}/{each.name}" for each in sources if each.is_link}
    flows = {f"{each.group}/{each.name}" for each in sources}
    panels = [*PANELS, *(f"{each.name}:{of}" for each in sources if each.is_link for of in ("rate", "queue"))]
    for key, value in parse_qsl(view):
        if key == "c":
            flow, *beside = value.split("|")
            if flow not in flows:
                return f"`c={value}`: there is no flow `{flow}`; there are {some(flows)}"
            for link in beside:
                if link not in links:
                    return f"`c={value}`: there is no link `{link}`; there are {some(links)}"
        if key == "hide" and value not in panels:
            return f"`hide={value}`: there is no such panel; there are {some(panels)}"
        if key == "off" and not any(value.startswith(f"{panel}:") for panel in panels):
            return f"`off={value}`: write PANEL:SERIES with a panel of {some(panels)}"
    return ""


def some(names: Iterable[str]) -> str:
    """List names, not more than can be read."""
    known = sorted(set(names))
    return (", ".join(known[:MANY]) or "none") + (f" and {len(known) - MANY} more" if len(known) > MANY else "")


def main() -> int:
    """Serve the page until Ctrl-C, or draw a picture of it."""
    parser = argparse.ArgumentParser(
        prog="rampmeter view",
        description="Show why flows did what they did, in the browser: traces of `rampmeter run --trace`, qlog of QUIC "
        "stacks, and captures of TCP. Several arguments are shown side by side.",
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="DIR|FILE", help="a directory of traces, or a trace")
    parser.add_argument("--port", type=int, default=0, help="the port at 127.0.0.1 (default: any that is free)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(
        "--show",
        default="",
        metavar="KEYS",
        help="the view to open, KEY=VALUE&...: the part of an address after #. "
        + "; ".join(map(" ".join, KEYS.items())),
    )
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write a picture, .svg or .png, and exit")
    parser.add_argument("--live", action="store_true", help="follow directories that a run writes, or will write")
    given = parser.parse_args()
    if given.live and given.picture:
        parser.error("--picture is of a trace that has ended: give it without --live")
    if given.picture and given.picture.suffix not in (".svg", ".png"):
        parser.error(f"--picture {given.picture}: a picture's name ends with .svg or .png")
    view = given.show.removeprefix("#")
    if wrong := wrong_key(view):
        print(f"rampmeter: --show: {wrong}", file=sys.stderr)
        return 2
    gc.disable()  # the events of a trace have no cycles, and looking for them takes half the time of reading
    try:
        sources = [] if given.live else find(given.paths)
        if wrong := "" if given.live else wrong_name(view, sources):
            print(f"rampmeter: --show: {wrong}", file=sys.stderr)
            return 2
        for run in {each.run for each in sources}:  # what the page opens with
            max((each for each in sources if each.run == run), key=lambda each: each.sends).shown()
    except (TraceError, OSError) as error:
        print(f"rampmeter: {error}", file=sys.stderr)
        return 2
    try:
        if given.picture:
            draw(sources, view, given.picture)
            return 0
        server = Server(Live(given.paths) if given.live else sources, given.port)
        url = server.url + (f"#{view}" if view else "")
        print(url, flush=True)
        if not given.no_browser:
            webbrowser.open(url)
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    except (TraceError, OSError) as error:
        print(f"rampmeter: {error}", file=sys.stderr)
        return 2 if isinstance(error, TraceError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
