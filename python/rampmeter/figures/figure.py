"""What a figure is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure as MatplotlibFigure

from rampmeter.running import Value

Drawing: TypeAlias = MatplotlibFigure
"""What a figure is drawn as."""


@dataclass(frozen=True)
class Figure:
    """A scenario, seldom several, seldom none, and how the results are drawn."""

    title: str
    """One line for listings."""
    scenario: str | None
    """The scenario's file, in the folder `studies`; None where a figure is of theory alone."""
    draw: Callable[..., Drawing]
    """From the results of each scenario to a drawing."""
    beside: Sequence[str] = ()
    """Further scenarios, in order."""
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """The axes' values that are drawn, where the file has more."""
    beyond: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Further points, of the scenario alone: all combinations would take too long, a few schemes do not."""
    quick: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Fewer values of the axes, for a first look; there is nothing `beyond` then."""
    whole: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Of all that the file has, what makes no difference to the drawing; `beyond` is part of it."""
    text: Callable[..., str] | None = None
    """From the same results to what is printed, too, and written beside the drawing."""
    world: str = "simulated"
    """Where its runs take place."""

    @property
    def scenarios(self) -> list[str]:
        """Give the files of all its scenarios, in order."""
        return [*([] if self.scenario is None else [self.scenario]), *self.beside]

    def sweeps(
        self, *, quick: bool = False, whole: bool = False, seeds: int | None = None
    ) -> list[tuple[str, dict[str, Sequence[Value]]]]:
        """Give what is run: each scenario's file with values of its axes, and what lies beyond them last."""
        axes = dict(self.whole if whole else {**self.values, **(self.quick if quick else {})})
        found = [(scenario, axes) for scenario in self.scenarios]
        if self.beyond and not quick and not whole:
            found.append((self.scenarios[0], {**axes, **self.beyond}))
        of_seeds: dict[str, Sequence[Value]] = {} if seeds is None else {"seed": list(range(1, seeds + 1))}
        return [(scenario, {**axes, **of_seeds}) for scenario, axes in found]


def studies() -> Path:
    """Find the folder `studies`: of a checkout that is here or above, or else the package's own."""
    here = Path.cwd()
    folders = [folder / "studies" for folder in [here, *here.parents]]
    return next((folder for folder in folders if (folder / "pcp").is_dir()), Path(__file__).parents[1] / "studies")
