"""The description of a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure as MatplotlibFigure

from rampmeter.running import Value

Drawing: TypeAlias = MatplotlibFigure
"""The type of a drawn figure."""


@dataclass(frozen=True)
class Figure:
    """A scenario (rarely several or none) and a function that draws its results."""

    title: str
    """One line for listings."""
    scenario: str | None
    """The scenario's file in the directory `studies`; None for a figure of theory only."""
    draw: Callable[..., Drawing]
    """Draws the results of the scenarios."""
    further: Sequence[str] = ()
    """Further scenarios, in order."""
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """The drawn values of the axes, if the file has more."""
    points: Mapping[str, Mapping[str, Sequence[Value]]] = field(default_factory=dict)
    """Drawn values of the axes of each of several scenarios, by its file."""
    quick_points: Mapping[str, Mapping[str, Sequence[Value]]] = field(default_factory=dict)
    """The same for a preview."""
    beyond: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Further points of the scenario, if all combinations would take too long."""
    quick: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Fewer values of the axes for a preview; excludes `beyond`."""
    whole: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Values for `--whole`, if the drawing does not use all of the file's; includes `beyond`."""
    text: Callable[..., str] | None = None
    """Formats the same results as text, which is printed, and written next to the drawing."""
    world: str = "simulated"
    """The world of its runs."""

    @property
    def scenarios(self) -> list[str]:
        """Return the files of all its scenarios, in order."""
        return [*([] if self.scenario is None else [self.scenario]), *self.further]

    def sweeps(
        self, *, quick: bool = False, whole: bool = False, seeds: int | None = None
    ) -> list[tuple[str, dict[str, Sequence[Value]]]]:
        """Return the runs: each scenario's file with values of its axes, and the points `beyond` last."""
        axes = dict(self.whole if whole else {**self.values, **(self.quick if quick else {})})
        points = {} if whole else self.quick_points if quick else self.points
        found = [(scenario, {**axes, **points.get(scenario, {})}) for scenario in self.scenarios]
        if self.beyond and not quick and not whole:
            found.append((self.scenarios[0], {**axes, **self.beyond}))
        of_seeds: dict[str, Sequence[Value]] = {} if seeds is None else {"seed": list(range(1, seeds + 1))}
        return [(scenario, {**axes, **of_seeds}) for scenario, axes in found]


def studies() -> Path:
    """Find the directory `studies`: that of the current or a parent directory, or else the package's own."""
    here = Path.cwd()
    directories = [directory / "studies" for directory in [here, *here.parents]]
    return next(
        (directory for directory in directories if (directory / "pcp").is_dir()), Path(__file__).parents[1] / "studies"
    )
