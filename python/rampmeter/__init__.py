"""Congestion control written once: simulated, emulated with real packets, and on a real network.

>>> import rampmeter
>>> result = rampmeter.run("studies/pcp/offered_load.toml", load=[0.3, 0.6], seed=[1])
>>> result.runs.select(["scheme", "load", "fct_mean_s"])
"""

from rampmeter._engine import ScenarioError, WorldError, __version__
from rampmeter.running import About, Run, Skipped, Value, run

__all__ = ["About", "Run", "ScenarioError", "Skipped", "Value", "WorldError", "__version__", "run"]
