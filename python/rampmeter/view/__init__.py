"""Traces as one page in the browser: why a flow did what it did.

`rampmeter view DIR|FILE...` or `python -m rampmeter.view`. Readers (`qlog`, `capture`, `kernel`, `link`) turn
files into flows and links of sorted arrays (`model`), `panels` and `network` say what is drawn of them, `thinning`
reduces that to what pixels can show, and `server` answers the page. Nothing is written to disk.
"""

from rampmeter.view.server import Server
from rampmeter.view.sources import find

__all__ = ["Server", "find"]
