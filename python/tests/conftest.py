import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def quick_start() -> Path:
    return ROOT / "studies/pcp/quick_start.toml"


@pytest.fixture
def rampmeter_command() -> Path:
    """The command as `make build` builds it."""
    command = Path(os.environ.get("RAMPMETER", ROOT / "target/release/rampmeter"))
    if not command.exists():
        pytest.skip(f"{command} is not there: run `make build`, or name the command in RAMPMETER")
    return command
