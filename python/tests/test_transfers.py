"""`rampmeter.get` from a `rampmeter serve` in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from net import OTHER_KEY, noise, served, thread, url, wait_until

import rampmeter

LARGE = 400_000_000
"""The size of a file that takes a while."""


@pytest.fixture
def here(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory beside the one that is served."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A directory to serve."""
    directory = tmp_path / "there"
    (directory / "below").mkdir(parents=True)
    (directory / "small").write_bytes(noise(100_000))
    with (directory / "large").open("wb") as large:
        large.truncate(LARGE)
    return directory


def test_a_file_arrives_with_its_hash(rampmeter_command: Path, there: Path, here: Path) -> None:
    with served(rampmeter_command, there) as server:
        report = rampmeter.get(url(server, "small"))
        assert report.path == Path("small")
        assert (here / "small").read_bytes() == noise(100_000)
        assert (report.complete, report.bytes, report.resumed_from) == (1, 100_000, 0)
        assert report.server_key == server.split("=")[1]
        again = rampmeter.get(url(server, "small"), here / "copy", blake3=report.files[0].blake3, controller="cubic")
        assert (again.path, again.controller) == (here / "copy", "cubic")


def test_progress_ends_with_the_whole_size(rampmeter_command: Path, there: Path, here: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with served(rampmeter_command, there) as server:
        rampmeter.get(url(server, "large"), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (LARGE, LARGE)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 3


def test_an_exception_in_progress_stops_and_the_next_resumes(rampmeter_command: Path, there: Path, here: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        if done > 0:
            raise LookupError("enough")

    with served(rampmeter_command, there) as server, pytest.raises(LookupError):
        rampmeter.get(url(server, "large"), progress=stop)
    assert [path.name for path in here.iterdir()] == ["large.part"]
    with served(rampmeter_command, there) as server:
        report = rampmeter.get(url(server, "large"))
        assert 0 < report.resumed_from < LARGE
        assert (here / "large").stat().st_size == LARGE
        assert rampmeter.get(url(server, "large"), resume=False).resumed_from == 0


def test_ctrl_c_stops_and_the_next_resumes(rampmeter_command: Path, there: Path, here: Path) -> None:
    def interrupt() -> None:
        part = here / "large.part"
        wait_until(lambda: part.exists() and part.stat().st_size > 0, "nothing arrives")
        os.kill(os.getpid(), signal.SIGINT)

    with (
        served(rampmeter_command, there) as server,
        pytest.raises(KeyboardInterrupt),
        thread(interrupt),
    ):
        rampmeter.get(url(server, "large"))
    with served(rampmeter_command, there) as server:
        assert rampmeter.get(url(server, "large")).resumed_from > 0
    assert (here / "large").stat().st_size == LARGE


def test_a_wrong_key_is_refused_with_both_keys(rampmeter_command: Path, there: Path, here: Path) -> None:
    with served(rampmeter_command, there) as server:
        with pytest.raises(rampmeter.ContactError, match=OTHER_KEY) as error:
            rampmeter.get(url(server, "small", key=False), key=OTHER_KEY)
        assert error.value.kind == "key_changed"
        assert server.split("=")[1] in str(error.value)
    assert list(here.iterdir()) == []


def test_a_changed_key_names_the_line_to_delete(rampmeter_command: Path, there: Path, here: Path, keys: Path) -> None:
    known = keys / "known_servers"
    with served(rampmeter_command, there) as server:
        address = url(server, "small", key=False)
        assert rampmeter.get(address).is_new_server
        known.write_text("# servers\n" + known.read_text())
        assert not rampmeter.get(address).is_new_server
    known.write_text(known.read_text().replace(server.split("=")[1], OTHER_KEY))
    with (
        served(rampmeter_command, there, listen=address.split("/")[0]),
        pytest.raises(rampmeter.ContactError, match=f"{known}:2 has.* delete line 2") as error,
    ):
        rampmeter.get(address)
    assert error.value.kind == "key_changed"


@pytest.mark.parametrize("key", [OTHER_KEY, None])
def test_a_silent_server_is_given_up_after_the_timeout(here: Path, key: str | None) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        began = time.monotonic()
        with pytest.raises(rampmeter.ContactError, match="no answer") as error:
            rampmeter.get(f"127.0.0.1:{silent.getsockname()[1]}/f", key=key, timeout=0.5)
    assert error.value.kind == "no_answer"
    assert 0.5 <= time.monotonic() - began < 5


def test_what_cannot_be_served_or_accepted_has_its_own_kind(rampmeter_command: Path, there: Path, here: Path) -> None:
    with served(rampmeter_command, there) as server:
        for name, more, kind in [
            ("none", {}, "not_found"),
            ("below", {}, "refused"),
            ("small", {"blake3": "0" * 64}, "other_content"),
            ("small", {"max_size": 99_999}, "too_large"),
            ("small", {"controller": "fixed-rate"}, "refused"),
        ]:
            with pytest.raises(rampmeter.TransferError) as error:
                rampmeter.get(url(server, name), **more)  # type: ignore[arg-type]
            assert error.value.kind == kind, error.value
    assert [path.name for path in here.iterdir() if path.stat().st_size > 0] == []


def test_errors_of_this_machine_and_of_arguments_are_pythons(rampmeter_command: Path, there: Path, here: Path) -> None:
    with served(rampmeter_command, there) as server:
        with pytest.raises(FileNotFoundError) as error:
            rampmeter.get(url(server, "small"), "none/f")
        assert error.value.filename is not None
        (here / "link").symlink_to("none")
        with pytest.raises(rampmeter.TransferError, match="symbolic link") as not_followed:
            rampmeter.get(url(server, "small"), "link")
        assert not_followed.value.kind == "not_own_file"
        for arguments in [
            {"url": "nowhere"},
            {"url": url(server, "below/")},
            {"url": url(server, "small"), "key": "short"},
            {"url": url(server, "small"), "blake3": "short"},
            {"url": url(server, "small"), "timeout": -1.0},
            {"url": url(server, "small"), "controller": "no such"},
        ]:
            with pytest.raises(ValueError, match="`"):
                rampmeter.get(**arguments)  # type: ignore[arg-type]
