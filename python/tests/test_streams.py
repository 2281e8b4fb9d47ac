"""`rampmeter.connect` and `rampmeter.listen`: streams between two ends of this process."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from net import OTHER_KEY, SECONDS, noise, thread, wait_until

import rampmeter


@pytest.fixture
def listener(keys: Path) -> Iterator[rampmeter.Listener]:
    with rampmeter.listen("127.0.0.1:0") as listener:
        yield listener


@pytest.fixture
def connection(listener: rampmeter.Listener) -> Iterator[rampmeter.Connection]:
    with rampmeter.connect(listener.url) as connection:
        yield connection


def pair(listener: rampmeter.Listener, connection: rampmeter.Connection) -> tuple[rampmeter.Stream, rampmeter.Stream]:
    ours = connection.open()
    ours.write(b"hello")
    theirs = listener.accept(timeout=SECONDS)
    assert theirs.read(5, timeout=SECONDS) == b"hello"
    return ours, theirs


def echo(listener: rampmeter.Listener, number: int) -> None:
    for _ in range(number):
        with listener.accept(timeout=SECONDS) as stream:
            while data := stream.read(65536, timeout=SECONDS):
                stream.write(data, timeout=SECONDS)


def test_bytes_go_both_ways_and_each_side_ends_its_own(
    listener: rampmeter.Listener, connection: rampmeter.Connection
) -> None:
    data = noise(2_000_000)
    with thread(lambda: echo(listener, 1)), connection.open() as stream:

        def write() -> None:
            for start in range(0, len(data), 100_000):
                stream.write(memoryview(data)[start : start + 100_000])
            stream.write_eof()

        with thread(write):
            assert stream.read(timeout=SECONDS) == data
        assert stream.read(1) == b"", "the end is read again"
        with pytest.raises(BrokenPipeError):
            stream.write(b"more")


def test_a_side_that_has_ended_still_reads(listener: rampmeter.Listener, connection: rampmeter.Connection) -> None:
    ours, theirs = pair(listener, connection)
    ours.write_eof()
    assert theirs.read(timeout=SECONDS) == b""
    for piece in (b"one", b"two"):
        theirs.write(piece)
        assert ours.read(3, timeout=SECONDS) == piece
    theirs.close()
    assert ours.read(timeout=SECONDS) == b""


def test_many_streams_at_the_same_time(listener: rampmeter.Listener, connection: rampmeter.Connection) -> None:
    def use(number: int) -> bool:
        with connection.open() as stream:
            stream.write(noise(10_000, number))
            stream.write_eof()
            return stream.read(timeout=SECONDS) == noise(10_000, number)

    with ThreadPoolExecutor(24) as threads:
        servers = [threads.submit(echo, listener, 25) for _ in range(8)]
        assert all(threads.map(use, range(200)))
        for server in servers:
            server.result(SECONDS)


def test_a_server_opens_streams_in_the_session_of_another(
    listener: rampmeter.Listener, connection: rampmeter.Connection
) -> None:
    _, theirs = pair(listener, connection)
    assert connection.peer_key == listener.key
    with theirs.session.open(weight=2.0) as opened:
        opened.write(b"from the server")
    with connection.accept(timeout=SECONDS) as stream:
        assert stream.read(timeout=SECONDS) == b"from the server"


def test_a_stream_is_reset_by_an_exception_and_when_dropped(
    listener: rampmeter.Listener, connection: rampmeter.Connection
) -> None:
    ours, theirs = pair(listener, connection)
    with pytest.raises(LookupError), ours:
        raise LookupError
    with pytest.raises(ConnectionResetError):
        theirs.read(timeout=SECONDS)
    with pytest.raises(ValueError, match="closed"):
        ours.read(1)
    ours, theirs = pair(listener, connection)
    del ours
    gc.collect()
    with pytest.raises(ConnectionResetError):
        theirs.read(timeout=SECONDS)


def test_what_was_written_before_close_arrives(listener: rampmeter.Listener) -> None:
    data = noise(200_000)

    def send() -> None:
        with rampmeter.connect(listener.url) as connection, connection.open() as stream:
            stream.write(data)

    with thread(send):
        assert listener.accept(timeout=SECONDS).read(timeout=SECONDS) == data


def test_a_timeout_loses_no_bytes(listener: rampmeter.Listener, connection: rampmeter.Connection) -> None:
    ours, theirs = pair(listener, connection)
    with pytest.raises(TimeoutError):
        ours.read(1, timeout=0.02)
    with pytest.raises(TimeoutError):
        connection.accept(timeout=0.02)
    theirs.write(b"late")
    assert ours.read(4, timeout=SECONDS) == b"late"


def test_a_writer_waits_while_nobody_reads(listener: rampmeter.Listener, connection: rampmeter.Connection) -> None:
    ours, theirs = pair(listener, connection)
    with pytest.raises(TimeoutError):
        ours.write(bytes(50_000_000), timeout=0.5)
    assert theirs.read(10, timeout=SECONDS) == bytes(10)


def test_the_end_of_a_listener_ends_what_waits_for_it(keys: Path) -> None:
    listener = rampmeter.listen("127.0.0.1:0")
    connection = rampmeter.connect(listener.url)
    ours, _ = pair(listener, connection)
    accepted: list[rampmeter.Stream] = []
    with thread(lambda: accepted.extend(listener)), thread(lambda: accepted.extend(connection)):
        listener.close()
    assert accepted == []
    with pytest.raises(ConnectionAbortedError):
        listener.accept()
    with pytest.raises(ConnectionAbortedError):
        ours.read(timeout=SECONDS)
    with pytest.raises(ConnectionAbortedError):
        connection.open(timeout=SECONDS)


def test_a_close_ends_what_other_threads_wait_for(
    listener: rampmeter.Listener, connection: rampmeter.Connection
) -> None:
    ours, _ = pair(listener, connection)

    def read() -> None:
        with pytest.raises(ValueError, match="closed"):
            ours.read()

    with thread(read):
        time.sleep(0.02)
        ours.close()


def test_weights_are_positive_numbers(connection: rampmeter.Connection) -> None:
    stream = connection.open(weight=3.0)
    assert stream.weight == 3.0
    stream.weight = 0.5
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weight"):
            stream.weight = weight
    assert stream.weight == 0.5


def test_only_listed_clients_are_served(rampmeter_command: Path, tmp_path: Path, keys: Path) -> None:
    made = subprocess.run([rampmeter_command, "key", tmp_path / "mine"], capture_output=True, text=True, check=True)
    mine = made.stdout.strip()
    with rampmeter.listen("127.0.0.1:0", clients=[mine]) as listener:
        with rampmeter.connect(listener.url, identity=tmp_path / "mine") as connection:
            _, theirs = pair(listener, connection)
            assert theirs.session.peer_key == mine
        with pytest.raises(rampmeter.ContactError, match="ask its operator") as error:
            rampmeter.connect(listener.url)
        assert error.value.kind == "not_authorized"


def test_a_server_keeps_its_key_and_is_known_by_it(keys: Path) -> None:
    with rampmeter.listen("127.0.0.1:0") as listener:
        key, address = listener.key, listener.address
        with rampmeter.connect(address) as connection:
            assert connection.is_new_server
            assert connection.address == address
    with rampmeter.listen("127.0.0.1:0") as listener:
        assert listener.key == key
        with pytest.raises(rampmeter.ContactError) as error:
            rampmeter.connect(listener.address, key=OTHER_KEY)
        assert error.value.kind == "key_changed"


def test_what_cannot_be_contacted_has_its_own_kind(listener: rampmeter.Listener) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(rampmeter.ContactError) as error:
            rampmeter.connect(address, key=OTHER_KEY, timeout=0.2)
        assert error.value.kind == "no_answer"
    with pytest.raises(rampmeter.ContactError) as error:
        rampmeter.connect("no-such-host.invalid:7268", key=OTHER_KEY)
    assert error.value.kind == "unknown_host"
    with pytest.raises(rampmeter.ContactError) as error:
        rampmeter.listen(listener.address)
    assert error.value.kind == "port_in_use"
    for address in ("nowhere", "127.0.0.1:7268/name", "127.0.0.1:0"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            rampmeter.connect(address)
    with pytest.raises(ValueError, match="HOST:PORT"):
        rampmeter.listen("nowhere")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_objects_that_are_dropped_close_their_sockets(keys: Path) -> None:
    gc.collect()
    before, threads = descriptors(), len(list(Path("/proc/self/task").iterdir()))
    listener = rampmeter.listen("127.0.0.1:0")
    connection = rampmeter.connect(listener.url)
    ours, theirs = pair(listener, connection)
    assert descriptors() > before
    del connection
    gc.collect()
    theirs.write(b"a stream keeps its connection")
    assert ours.read(5, timeout=SECONDS) == b"a str"
    del ours, theirs, listener
    gc.collect()
    wait_until(lambda: descriptors() <= before, "sockets stay open")
    wait_until(lambda: len(list(Path("/proc/self/task").iterdir())) <= threads, "threads stay")


def test_ctrl_c_ends_a_wait(connection: rampmeter.Connection) -> None:
    stream = connection.open()
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        stream.read()
    timer.join()
