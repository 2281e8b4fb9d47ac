"""Answers the page: on loopback only, below a random token, and nothing but the page and the sources that it has."""

from __future__ import annotations

import hmac
import json
import secrets
import struct
import sys
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Lock
from urllib.parse import parse_qs, urlsplit

from rampmeter.view import hover, network, thinning
from rampmeter.view.live import Live
from rampmeter.view.model import Floats, TraceError
from rampmeter.view.panels import Series
from rampmeter.view.sources import Shown, Source

PAGE = Path(__file__).parent / "page"
FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "network.js": ("network.js", "text/javascript; charset=utf-8"),
    "svg.js": ("svg.js", "text/javascript; charset=utf-8"),
    "cursor.js": ("cursor.js", "text/javascript; charset=utf-8"),
    "data.js": ("data.js", "text/javascript; charset=utf-8"),
    "draw.js": ("draw.js", "text/javascript; charset=utf-8"),
    "uPlot.js": ("uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "uPlot.css": ("uPlot.min.css", "text/css; charset=utf-8"),
}
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
MAX_COLUMNS = 16_000


class Server(ThreadingHTTPServer):
    """A server of these sources, at a port of 127.0.0.1 that the system chooses."""

    daemon_threads = True

    def __init__(
        self, sources: list[Source] | Live, port: int = 0, pictures: Queue[bytes | TraceError] | None = None
    ) -> None:
        """Listen. `pictures` gets what the page draws of itself, or why it cannot; without it, it sends nothing."""
        super().__init__(("127.0.0.1", port), Handler)
        self.live = sources if isinstance(sources, Live) else None
        self.sources = sources.sources if isinstance(sources, Live) else sources
        self.pictures = pictures
        self.looking = Lock()
        self.token = secrets.token_urlsafe(18)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print an error, but not that the page was closed before it had its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def asked(self) -> tuple[str | None, dict[str, str]]:
        """Return what is asked for: nothing if the token is wrong, or the name of the host, which others choose."""
        url = urlsplit(self.path)
        token, _, name = url.path.removeprefix("/").partition("/")
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        is_known = hmac.compare_digest(token.encode(), self.server.token.encode())
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        return (name if is_known and host in ("127.0.0.1", "localhost") else None), query

    def do_POST(self) -> None:
        """Take a picture."""
        if self.server.pictures is None or self.asked()[0] != "picture":
            return self.answer(b"not found\n", "text/plain", 404)
        self.server.pictures.put(self.rfile.read(int(self.headers["Content-Length"])))
        return self.answer(b"", "text/plain")

    def do_GET(self) -> None:
        """Answer."""
        name, asked = self.asked()
        if name in FILES:
            file, kind = FILES[name]
            return self.answer((PAGE / file).read_bytes(), kind)
        try:
            if name == "data":
                return self.answer(self.data(asked), "application/octet-stream")
            answers = {
                "sources": self.listed,
                "under": self.under,
                "step": self.step,
                "network": self.network,
                "states": self.states,
            }
            if name in answers:
                return self.answer(json.dumps(answers[name](asked)).encode(), "application/json")
        except TraceError as error:
            if self.server.pictures is not None:
                self.server.pictures.put(error)
            return self.answer(str(error).encode(), "text/plain; charset=utf-8", 422)
        except (KeyError, ValueError, IndexError) as error:
            return self.answer(f"not a request of the page: {error!r}".encode(), "text/plain; charset=utf-8", 400)
        return self.answer(b"not found\n", "text/plain", 404)

    def answer(self, body: bytes, kind: str, status: int = 200) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""

    def listed(self, asked: dict[str, str]) -> dict[str, object]:
        """Return the list of sources, and the state of what is followed."""
        with self.server.looking:
            state = self.server.live.look() if self.server.live else None
        sources = [
            {
                "run": each.run,
                "group": each.group,
                "name": each.name,
                "isLink": each.is_link,
                "sends": each.sends,
                "size": each.size(),
            }
            for each in self.server.sources
        ]
        return {"state": state, "sources": sources}

    def index(self, asked: dict[str, str]) -> int:
        """Return the number of the source that is asked for."""
        number = int(asked["source"])
        if not 0 <= number < len(self.server.sources):
            raise IndexError("source")
        return number

    def source(self, asked: dict[str, str]) -> Shown:
        """Return the source that is asked for."""
        return self.server.sources[self.index(asked)].shown()

    def data(self, asked: dict[str, str]) -> bytes:
        """Return the panels of a source in an interval: a JSON header and columns of floats."""
        shown = self.source(asked)
        start, end = (float(asked.get(name, limit)) for name, limit in zip(("from", "to"), shown.span, strict=True))
        count = min(max(int(asked["columns"]), 1), MAX_COLUMNS)
        return packed(shown, start, end, count)

    def under(self, asked: dict[str, str]) -> dict[str, object]:
        """Return what is under the pointer, and where it is if it is a mark."""
        pointer = hover.Pointer(*(float(asked[name]) for name in ("time", "value", "perX", "perY")))
        lines, at = hover.under(self.source(asked), asked["panel"], pointer)
        return {"lines": lines, "at": at}

    def step(self, asked: dict[str, str]) -> dict[str, object]:
        """Return the event of a panel next to another one or to a time."""
        shown, time = self.source(asked), float(asked["time"])
        panel = {panel.key: panel for panel in shown.panels}[asked["panel"]]
        at = hover.Event(int(asked["series"]), int(asked["row"])) if "row" in asked else None
        off = parse_qs(urlsplit(self.path).query).get("off", [])
        event = hover.neighbour(panel, off, time, at, is_later=int(asked["way"]) > 0)
        if event is None:
            return {"lines": []}
        lines, place = hover.describe(shown, panel, event)
        return {"lines": lines, "at": place, "time": float(panel.series[event.series].time[event.row]), **asdict(event)}

    def network(self, asked: dict[str, str]) -> dict[str, object]:
        """Return the network of a source."""
        sources, index = self.server.sources, self.index(asked)
        nodes, edges = network.network(network.links_beside(sources, index), network.openings_beside(sources, index))
        return {"nodes": [asdict(node) for node in nodes], "edges": [asdict(edge) for edge in edges]}

    def states(self, asked: dict[str, str]) -> dict[str, object]:
        """Return what the links of the network of a source do at a time."""
        links = network.links_beside(self.server.sources, self.index(asked))
        return {str(number): network.state(link, float(asked["time"])) for number, link in links.items()}


def packed(shown: Shown, start: float, end: float, count: int) -> bytes:
    """Thin all series for so many columns of pixels and put them into bytes."""
    floats: list[Floats] = []
    panels = []
    for panel in shown.panels:
        series = []
        for each in panel.series:
            parts = thinned(each, start, end, count)
            floats += parts
            looks = {"label": each.label, "kind": each.kind, "colour": each.colour, "names": each.names}
            series.append({**looks, "count": len(parts[0]), "columns": len(parts)})
        axis = {"key": panel.key, "title": panel.title, "unit": panel.unit, "fromZero": panel.from_zero}
        panels.append({**axis, "series": series})
    about = {"about": getattr(shown.source, "about", ""), "remarks": shown.source.remarks, "size": shown.size}
    header = json.dumps({"span": shown.span, "panels": panels, **about}).encode()
    header += b" " * (-(len(header) + 4) % 8)
    return struct.pack("<I", len(header)) + header + b"".join(part.astype("<f8").tobytes() for part in floats)


def thinned(series: Series, start: float, end: float, count: int) -> list[Floats]:
    """Return the columns of a series: time, value, and height if it has heights."""
    if series.kind == "line":
        return list(thinning.line(series.time, series.value, start, end, count))
    if series.kind == "band":
        return list(thinning.bands(series.time, series.value, start, end, count))
    rows = thinning.marks(series.time, series.value, start, end, count)
    heights = [] if series.height is None else [series.height[rows]]
    return [series.time[rows], series.value[rows], *heights]
