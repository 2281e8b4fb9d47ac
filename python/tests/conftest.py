import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traces import OURS, lines, link_capture, sent, written

from rampmeter.view import picture

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


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A directory as `rampmeter run --trace` writes it: two points, in each a flow and a link."""
    for number, scheme in enumerate(("bbr", "cubic")):
        point = tmp_path / f"traces/scheme={scheme}"
        point.mkdir(parents=True)
        many = [sent(20 + n + 0.1 * number * n, 3 + n, rampmeter_cause="arrival") for n in range(3000)]
        written(point, "0-bulk.client.qlog", lines(*OURS[:8], *many, *OURS[8:]))
        written(point, "slow.pcapng", link_capture())
    return tmp_path / "traces"


@pytest.fixture
def browser() -> str:
    found = picture.browser()
    if found is None:
        pytest.skip("no Chromium: apt-get install chromium-headless-shell")
    return found
