import os
from collections.abc import Callable, Sequence

from rampmeter.running import Value

__version__: str

class ScenarioError(ValueError): ...
class WorldError(RuntimeError): ...

def enter_user_namespace() -> None: ...
def run(
    path: str | os.PathLike[str],
    world: str,
    axes: Sequence[tuple[str, Sequence[Value]]],
    jobs: int | None,
    out: str | os.PathLike[str],
    program: str | os.PathLike[str],
    watch: Callable[[int, int, float | None], object],
) -> None: ...
