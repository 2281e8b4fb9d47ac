import random
import socket
import struct
import threading
import time
from types import SimpleNamespace
from typing import Any

from soak_memory import at_rest, permitted_growth
from soak_tunnels import End, Exchange, Service, Side, converse, draw_exchange, is_as_demanded

MB = 1 << 20
WHOLE = Side(b"x" * 1000)


def test_memory_at_rest_is_the_lowest_at_the_end_of_a_pause() -> None:
    began = time.monotonic()

    def memory() -> int:
        elapsed = time.monotonic() - began
        return 10 if elapsed < 0.5 else 30 if elapsed < 0.8 else 20 if elapsed < 0.9 else 40

    assert at_rest([memory, lambda: 50], seconds=1.0) == [20, 50]


def test_a_leak_of_half_a_megabyte_a_minute_is_growth() -> None:
    for start in (10 * MB, 25 * MB, 40 * MB):
        halfway, end = (start + minutes * MB // 2 for minutes in (10, 20))
        assert end - halfway > permitted_growth(halfway)
        assert end - halfway < permitted_growth(60 * MB), "where a tenth is more"


def test_direct_connections_are_as_demanded() -> None:
    service, draw = Service(20), random.Random(1)
    direct: Any = SimpleNamespace(port=service.port, kills=0)
    exchanges = [draw_exchange(draw) for _ in range(60)]
    for exchange in exchanges:
        if max(exchange.client.pause, exchange.service.pause) == 0:
            ends = service.run(direct, exchange)
            assert is_as_demanded(exchange, *ends), (exchange.title(), ends)
    assert any(exchange.client.reset_after is not None for exchange in exchanges)
    assert any(exchange.service.reset_after is not None for exchange in exchanges)
    assert service.ends[End.SHORT] + service.ends[End.WRONG] == 0
    service.close()


def seen(peer_sends: bytes, *, resets: bool) -> End:
    """How a connection ends for one side, if the other one sends these bytes and ends or resets it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = socket.create_connection(listener.getsockname())
        own, _ = listener.accept()

    def send() -> None:
        other.sendall(peer_sends)
        time.sleep(0.2)
        if resets:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.close()

    thread = threading.Thread(target=send)
    thread.start()
    end = converse(own, Side(b"", waits=True), WHOLE, time.monotonic() + 5)
    thread.join()
    own.close()
    return end


def test_an_end_before_all_bytes_is_not_complete() -> None:
    assert seen(WHOLE.content, resets=False) is End.COMPLETE
    assert seen(WHOLE.content[:-1], resets=False) is End.SHORT
    assert seen(WHOLE.content[:-1], resets=True) is End.RESET
    assert seen(b"y" + WHOLE.content[1:], resets=False) is End.WRONG
    assert seen(WHOLE.content + b"x", resets=False) is End.WRONG


def test_an_end_in_place_of_a_reset_is_not_as_demanded() -> None:
    reset_by_client = Exchange(Side(WHOLE.content, reset_after=10), WHOLE)
    assert is_as_demanded(reset_by_client, End.OWN_RESET, End.RESET)
    assert not is_as_demanded(reset_by_client, End.OWN_RESET, End.SHORT)
    assert not is_as_demanded(reset_by_client, End.OWN_RESET, End.LATE)
    assert not is_as_demanded(Exchange(WHOLE, WHOLE), End.COMPLETE, End.RESET)
