"""A run's rows in order: the axis to draw along, the axes of lines, and the means.

The seed is always averaged over. Of the other axes the first whose values are numbers is drawn along; every combination
of the rest has a line of its own, called by its values.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rampmeter.running import Run
from rampmeter.tables import Row, with_shares


class Sweep:
    """A run and the use of its axes."""

    def __init__(self, run: Run) -> None:
        """Choose the axis to draw along and the axes of lines."""
        self.run = run
        axes = run.about["axes"]
        self.axes = [axis for axis in axes if axis != "seed"]
        self.seeds = axes["seed"]
        self.link_column, self.flow_column = (f"its_{own}" if own in axes else own for own in ("link", "flow"))
        """Where tables name the link and the flow: elsewhere if an axis has that name."""
        varied = [axis for axis in self.axes if len(axes[axis]) > 1]
        numeric = [axis for axis in varied if all(_is_number(value) for value in axes[axis])]
        self.along = numeric[0] if numeric else None
        """The axis of the charts, if any has numbers."""
        self.apart = [axis for axis in varied if axis != self.along] or [
            axis for axis in self.axes[:1] if axis != self.along
        ]
        """The axes whose values name a line."""

    def name(self, row: Row) -> str:
        """Name the line that `row` belongs to."""
        named = [f"{row[axis]}" if isinstance(row[axis], str) else f"{axis} {row[axis]}" for axis in self.apart]
        return ", ".join(named) or "all"

    def links(self) -> list[str]:
        """List the measured links."""
        return list(dict.fromkeys(self.run.links[self.link_column].to_pylist()))

    def link(self, name: str) -> list[Row]:
        """Return the rows of one link, with the shares of packets that it dropped and marked."""
        return with_shares([row for row in self.run.links.to_pylist() if row[self.link_column] == name])

    def example(self, table: pa.Table) -> tuple[list[Row], str]:
        """Return one run's rows for each line, and its point: first seed, largest value of the drawn axis."""
        rows = table.to_pylist()
        place: Row = {"seed": self.seeds[0]}
        if self.along is not None:
            place[self.along] = max(self.run.about["axes"][self.along])
        said = ", ".join(f"{axis} {value}" for axis, value in reversed(place.items()))
        return [row for row in rows if all(row[axis] == value for axis, value in place.items())], said


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
