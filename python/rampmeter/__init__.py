"""Congestion control written once: simulated, emulated with real packets, and on a real network.

>>> import rampmeter
>>> result = rampmeter.run("studies/pcp/offered_load.toml", load=[0.3, 0.6], seed=[1])
>>> result.runs.select(["scheme", "load", "fct_mean_s"])
"""

from rampmeter._engine import ContactError, ScenarioError, TransferError, WorldError, __version__
from rampmeter.running import About, Run, Skipped, Value, run
from rampmeter.streams import Connection, Listener, Session, Stream, connect, listen
from rampmeter.transfers import File, Report, get

__all__ = [
    "About",
    "Connection",
    "ContactError",
    "File",
    "Listener",
    "Report",
    "Run",
    "ScenarioError",
    "Session",
    "Skipped",
    "Stream",
    "TransferError",
    "Value",
    "WorldError",
    "__version__",
    "connect",
    "get",
    "listen",
    "run",
]
