"""The figures of the VCP paper, and what ours ran."""

from __future__ import annotations

from rampmeter.figures import fluid
from rampmeter.figures.figure import Figure

FIGURES = {
    "vcp.fluid": Figure(
        title="Stability and fairness of the fluid model (VCP, Theorems 1 and 2)",
        scenario=None,
        draw=fluid.draw,
    ),
}
"""By their names: the paper, a dot, the number there."""
