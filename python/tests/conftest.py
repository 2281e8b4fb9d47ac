import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """Python ignores SIGINT if it was started in the background of a script: tests that send it would wait for ever."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def quick_start() -> Path:
    return ROOT / "studies/pcp/quick_start.toml"


@pytest.fixture
def rival_claims() -> list[dict[str, Any]]:
    """The claims of `studies/rivals`."""
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    claims: list[dict[str, Any]] = tomllib.loads((ROOT / "studies/rivals/claims.toml").read_text())["claim"]
    return claims


@pytest.fixture
def rampmeter_command() -> Path:
    """The command as `make build` builds it."""
    command = Path(os.environ.get("RAMPMETER", ROOT / "target/release/rampmeter"))
    if not command.exists():
        pytest.skip(f"{command} is not there: run `make build`, or name the command in RAMPMETER")
    return command


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the user's keys, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config/rampmeter"
