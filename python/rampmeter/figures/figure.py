"""What a figure is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rampmeter.running import Value


@dataclass(frozen=True)
class Figure:
    """A scenario, seldom several, seldom none, and how the results are drawn."""

    title: str
    """One line for listings."""
    scenario: str | None
    """The scenario's file, in the folder `studies`; None where a figure is of theory alone."""
    draw: Callable[..., Any]
    """From the results of each scenario to a matplotlib figure."""
    beside: Sequence[str] = ()
    """Further scenarios, in order."""
    quick: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Fewer values of the axes, for a first look."""
    world: str = "simulated"
    """Where its runs take place."""

    @property
    def scenarios(self) -> list[str]:
        """Give the files of all its scenarios, in order."""
        return [*([] if self.scenario is None else [self.scenario]), *self.beside]


def studies() -> Path:
    """Find the folder `studies`: here, above, or in the checkout that the package stands in."""
    here = Path.cwd()
    for folder in [here, *here.parents, Path(__file__).parents[3]]:
        if (folder / "studies" / "pcp").is_dir():
            return folder / "studies"
    raise FileNotFoundError("there is no folder `studies` here or above; say where it is with --studies DIR")
