"""A run's rows in order: the axis to draw along, the axes of lines, and the point that is shown in detail.

The seed is always averaged over. Of the other axes the first whose values are quantities is drawn along; every
combination of the rest has a line of its own, called by its values. A user may choose both: then axes that are neither
have panels of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import Any

import pyarrow as pa

from rampmeter.running import Run, Value
from rampmeter.tables import Row

_PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}

UNITS: list[dict[str, float]] = [
    {"": 1},
    {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    {f"{prefix}{bits}": factor for bits in ("b/s", "bit/s", "bit", "bps") for prefix, factor in _PREFIXES.items()},
]
"""The units of each kind of quantity in a scenario, as people write them."""


class UnknownNameError(ValueError):
    """A name that a run does not have."""

    def __init__(self, file: str, what: str, name: str, known: list[str]) -> None:
        """Name the file, the unknown name and the names that exist."""
        super().__init__(f"{file}: there is no {what} `{name}`; write one of: {', '.join(known)}")


class Scale:
    """The places of an axis' values: quantities by their size in the unit of the smallest, others in their order."""

    def __init__(self, axis: str, values: list[Value]) -> None:
        """Choose the unit, and whether the scale is logarithmic."""
        self.names = [str(value) for value in values]
        found = [_quantity(value) for value in values]
        sizes = [(unit.get(name, 0) * number, name) for number, name, unit in found]
        self.is_quantity = all(unit and unit == found[0][2] for _, _, unit in found)
        """Whether all values are numbers, or numbers with units of the same kind."""
        self.factor, unit = 1.0, ""
        if self.is_quantity:
            unit = min(sizes)[1]
            self.factor = found[0][2][unit]
        places = sorted({self.place(value) for value in values})
        self.is_log = self.is_quantity and places[0] > 0 and places[-1] > 10 * places[0] and _is_even(places)
        """Whether the values span more than a decade, evenly spaced in logarithm."""
        notes = [note for note in (unit, "logarithmic" if self.is_log else "") if note]
        self.label = f"{axis} ({', '.join(notes)})" if notes else axis

    def place(self, value: Value) -> float:
        """Return where `value` is on the scale."""
        if not self.is_quantity:
            return self.names.index(str(value))
        number, name, unit = _quantity(value)
        return unit[name] * number / self.factor

    def text(self, place: float) -> str:
        """Return what is written at `place`."""
        return f"{place:,.10g}" if self.is_quantity else self.names[round(place)]


class Sweep:
    """A run and the use of its axes."""

    def __init__(self, run: Run, x: str | None, lines: Sequence[str] | None, file: str) -> None:
        """Choose the axis to draw along and the axes of lines, unless they are given."""
        self.run = run
        axes = run.about["axes"]
        self.axes = [axis for axis in axes if axis != "seed"]
        for axis in [*([] if x is None else [x]), *(lines or [])]:
            if axis not in self.axes:
                raise UnknownNameError(file, "axis", axis, self.axes)
        self.seeds = axes["seed"]
        self.link_column, self.flow_column = (f"its_{own}" if own in axes else own for own in ("link", "flow"))
        """Where tables name the link and the flow: elsewhere if an axis has that name."""
        varied = [axis for axis in self.axes if len(axes[axis]) > 1]
        self.scales = {axis: Scale(axis, axes[axis]) for axis in self.axes}
        self.along = x or next((axis for axis in varied if self.scales[axis].is_quantity), None)
        """The axis of the charts, if any has quantities."""
        others = [axis for axis in varied if axis != self.along] or [
            axis for axis in self.axes[:1] if axis != self.along
        ]
        self.apart = others if lines is None else [axis for axis in lines if axis != self.along]
        """The axes whose values name a line."""
        self.beside = [axis for axis in others if axis not in self.apart]
        """The axes whose values name a panel."""
        self.shown: Row = {"seed": self.seeds[0]}
        """The point that is shown in detail: the first seed, the largest value of the drawn axis."""
        rows = run.runs.to_pylist()
        if self.along is not None:
            scale = self.scales[self.along]
            self.shown[self.along] = max((row[self.along] for row in rows), key=scale.place)
        self.shown |= {axis: rows[0][axis] for axis in self.beside}

    def name(self, row: Row) -> str:
        """Name the line that `row` belongs to."""
        return _named(row, self.apart) or "all"

    def panel(self, row: Row) -> str:
        """Name the panel that `row` belongs to."""
        return _named(row, self.beside)

    def links(self) -> list[str]:
        """List the measured links."""
        return list(dict.fromkeys(self.run.links[self.link_column].to_pylist()))

    def link(self, name: str) -> list[Row]:
        """Return the rows of one link."""
        return [row for row in self.run.links.to_pylist() if row[self.link_column] == name]

    def example(self, table: pa.Table) -> tuple[list[Row], str]:
        """Return the rows of the point that is shown in detail, for every line, and its name."""
        said = ", ".join(f"{axis} {value}" for axis, value in reversed(self.shown.items()))
        rows = table.to_pylist()
        return [row for row in rows if all(row[axis] == value for axis, value in self.shown.items())], said


def _named(row: Row, axes: list[str]) -> str:
    return ", ".join(f"{row[axis]}" if isinstance(row[axis], str) else f"{axis} {row[axis]}" for axis in axes)


def _quantity(value: Any) -> tuple[float, str, dict[str, float]]:
    """Return the number, the unit and the units of its kind; no units if `value` is not a quantity."""
    found = re.fullmatch(r"(-?[\d_]*\.?[\d_]+(?:e[+-]?\d+)?) ?([a-zA-Z/]*)", str(value))
    unit = next((units for units in UNITS if found and found[2] in units), {})
    return (float(found[1]), found[2], unit) if found and unit else (0.0, "", {})


def _is_even(places: list[float]) -> bool:
    """Judge whether the quotients of neighbors are alike: of 1, 2, 5, 10 they are, of 1, 50, 100 they are not."""
    steps = [log(after / before) for before, after in pairwise(places)]
    return max(steps) <= 3 * min(steps)
