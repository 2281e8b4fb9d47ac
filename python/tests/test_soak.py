import random
import socket
import struct
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from soak_memory import growth
from soak_tunnels import End, Exchange, Service, Side, converse, draw_exchange, is_as_demanded

MB = 1 << 20
WHOLE = Side(b"x" * 1000)


def memory(minutes: int, start: int, leak: float, seed: int) -> list[int]:
    """Samples of each second: noise, bursts of several seconds, a start of half a minute, and a leak per minute."""
    draw = random.Random(seed)
    samples, burst = [], 0.0
    for second in range(60 * minutes):
        burst = draw.uniform(0.05, 0.2) * start if draw.random() < 0.03 else burst * 0.8
        steady = start * min(1.0, 0.6 + second / 75)
        samples.append(int(steady + burst + draw.gauss(0, 0.01 * start) + leak * second / 60))
    return samples


@pytest.mark.parametrize("minutes", [3, 20])
@pytest.mark.parametrize("start", [10 * MB, 25 * MB, 110 * MB])
def test_memory_with_bursts_and_no_slope_does_not_grow(minutes: int, start: int) -> None:
    for seed in range(20):
        grown, limit = growth(memory(minutes, start, 0, seed))
        assert grown < 0.6 * limit


@pytest.mark.parametrize(("minutes", "start"), [(10, 10 * MB), (10, 25 * MB), (20, 25 * MB), (20, 60 * MB)])
def test_a_leak_of_2_mb_a_minute_is_growth(minutes: int, start: int) -> None:
    for seed in range(20):
        grown, limit = growth(memory(minutes, start, 2 * MB, seed))
        assert grown > limit


def test_a_short_soak_has_a_growth_too() -> None:
    assert growth([5 * MB]) == (0, 3 * MB)
    assert growth([5 * MB, 9 * MB])[0] == 4 * MB
    assert growth([5 * MB, 5 * MB, 9 * MB])[0] == 4 * MB


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
