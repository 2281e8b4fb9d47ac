from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def first_light() -> Path:
    return ROOT / "studies/pcp/first_light.toml"


@pytest.fixture
def offered_load() -> Path:
    return ROOT / "studies/pcp/offered_load.toml"
