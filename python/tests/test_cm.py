"""The Congestion Manager from Python, through a daemon in a process of its own."""

import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rampmeter import cm


@pytest.fixture
def daemon(tmp_path: Path, rampmeter_command: Path) -> Iterator[Path]:
    path = tmp_path / "cm.sock"
    command = [str(rampmeter_command), "cm", "daemon", "--controller", "newreno", "--socket", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        for _ in range(200):
            if path.exists():
                break
            time.sleep(0.05)
        yield path
        process.terminate()


def grant(manager: cm.Manager) -> cm.Send:
    for event in manager.events(timeout=20):
        if isinstance(event, cm.Send):
            return event
    raise AssertionError("no grant came")


def test_requests_are_granted_and_feedback_opens_the_window(daemon: Path) -> None:
    with cm.connect(daemon) as manager:
        flow = manager.open("127.0.0.1")
        before, _ = flow.query()
        for _ in range(100):
            flow.request()
            send = grant(manager)
            assert send.flow is flow
            assert send.size == flow.mtu
            flow.notify(send.size)
            flow.update(received=send.size, rtt=0.01)
        rate, srtt = flow.query()
        assert rate > 10 * before
        assert srtt == pytest.approx(0.01)


def test_a_closed_flow_is_discarded(daemon: Path) -> None:
    with cm.connect(daemon) as manager:
        kept = manager.open("127.0.0.1")
        for _ in range(100):
            manager.open("127.0.0.1").close()
        assert list(manager._flows.values()) == [kept]


def test_two_connections_share_the_state_of_a_path(daemon: Path) -> None:
    with cm.connect(daemon) as one, cm.connect(daemon) as two:
        first = one.open("127.0.0.1")
        for _ in range(50):
            first.request()
            size = grant(one).size
            first.notify(size)
            first.update(received=size, rtt=0.01)
        assert two.open("127.0.0.1", weight=2).query()[1] == pytest.approx(first.query()[1])


def test_flows_can_be_put_into_a_macroflow_of_choice(daemon: Path) -> None:
    with cm.connect(daemon) as manager:
        first, second, far = manager.open("127.0.0.1"), manager.open("127.0.0.1"), manager.open("127.0.0.2")
        for _ in range(5):
            first.notify(50_000)
            first.update(received=50_000, rtt=0.01)
        shared, _ = first.query()
        second.set_macroflow("new")
        assert second.query()[0] < shared / 5
        second.set_macroflow(first)
        assert second.query()[0] == pytest.approx(shared)
        second.set_macroflow("default")
        with pytest.raises(cm.CmError, match="different destinations"):
            second.set_macroflow(far)


def test_datagrams_sent_by_the_daemon_arrive(daemon: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, cm.connect(daemon) as manager:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(20)
        manager.open("127.0.0.1", receiver.getsockname()[1]).send(b"hello")
        assert receiver.recv(100) == b"hello"


def test_packets_of_an_own_socket_pass_through_the_daemon(daemon: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, cm.connect(daemon) as manager:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(20)
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        manager.listen(receiver.getsockname()[1])
        flow = manager.open("127.0.0.1", receiver.getsockname()[1])
        end = time.monotonic() + 20
        header, address = flow.header(5)
        while not header:  # this host's daemon is the receiver's daemon too
            assert address == receiver.getsockname()
            assert time.monotonic() < end
            time.sleep(0.01)
            header, address = flow.header(5)
        assert (len(header), address) == (20, ("127.0.0.1", 2961))
        own.sendto(header + b"hello", address)
        flow.notify(5)
        assert receiver.recv(100) == b"hello"
        assert flow.header(5)[0][4:8] != header[4:8]
        with pytest.raises(cm.CmError, match="cm_mtu"):
            flow.header(60_000)
        own.close()


def test_receivers_register_ports_and_hint_weights(daemon: Path) -> None:
    with cm.connect(daemon) as manager:
        manager.listen(5000)
        manager.hint("127.0.0.9", {5000: 4})
        with pytest.raises(cm.CmError):
            manager.hint("127.0.0.9", {5001: 4})
        manager.unlisten(5000)
        with pytest.raises(cm.CmError):
            manager.unlisten(5000)


def test_a_connection_works_with_select(daemon: Path) -> None:
    with cm.connect(daemon) as manager:
        flow = manager.open("127.0.0.1")
        assert manager.next(0) is None
        manager.fileno()
        flow.request()
        assert select.select([manager], [], [], 20)[0]
        assert isinstance(manager.next(0), cm.Send)


def test_misuse_raises_an_error(daemon: Path, tmp_path: Path) -> None:
    with pytest.raises(cm.CmError, match="rampmeter cm daemon"):
        cm.connect(tmp_path / "nowhere")
    with cm.connect(daemon) as manager:
        flow = manager.open("127.0.0.1")
        with pytest.raises(cm.CmError):
            flow.weigh(-1)
        with pytest.raises(cm.CmError):
            flow.update(rtt=float("nan"))
        flow.close()
        with pytest.raises(cm.CmError, match="closed") as caught:
            flow.request()
        assert caught.value.code == -3
    with pytest.raises(ValueError, match="closed"):
        manager.next()


def test_a_forked_child_gets_an_error(daemon: Path) -> None:
    with cm.connect(daemon) as manager:
        flow = manager.open("127.0.0.1")
        child = os.fork()
        if child == 0:
            try:
                flow.request()
                os._exit(1)
            except cm.CmError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        flow.request()
        grant(manager)


def test_errors_have_messages(daemon: Path) -> None:
    with cm.connect(daemon) as manager:
        flow = manager.open("127.0.0.1")
        with pytest.raises(ValueError, match="99999 is not a port"):
            manager.open("127.0.0.1", 99999)
        with pytest.raises(ValueError, match="sent is -1"):
            flow.notify(-1)
        with pytest.raises(cm.CmError) as refused:
            flow.notify(65508)
        assert str(refused.value).startswith("the datagram is larger")
        assert refused.value.code == -10


def test_a_missing_daemon_is_reported_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(cm.CmError, match=r"nobody\.sock: no congestion manager listens") as refused:
        cm.connect(tmp_path / "nobody.sock")
    assert refused.value.code == -5
