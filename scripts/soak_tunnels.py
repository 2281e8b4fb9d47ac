"""TCP connections through tunnels for soak.py: both of their ends, and what each end must see of the other.

A connection is an `Exchange`. Each side sends random bytes and half-closes, or resets the connection midway. Both sides
are in this process, so the service knows what to send and to expect by the number with which a connection starts.

What must hold: without a reset each side receives all bytes, then their end. The other side of a reset receives a
prefix of the bytes and then a reset: an end would make the prefix look complete.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from queue import Empty, Queue
from random import Random

from processes import TunnelClient

SIZES = [0, 1, 1_000, 30_000, 100_000, 300_000, 1_000_000]
NUMBER = struct.Struct(">Q")  # the first bytes of each connection
PIECE = 65536
RESETS = 0.1  # the share of connections that the client resets, and of those that the service resets
PAUSES = 0.1  # the share of connections in which a side pauses after half of its bytes
MAX_PAUSE = 8.0  # seconds


class End(Enum):
    """How a connection ended for one side."""

    COMPLETE = "all bytes and their end arrived"
    WRONG = "other bytes arrived"
    SHORT = "the end arrived before all bytes"
    RESET = "a reset arrived"
    OWN_RESET = "it reset the connection"
    LATE = "the end did not arrive in time"
    REFUSED = "the port refused the connection"


@dataclass(frozen=True)
class Side:
    """What one side does."""

    content: bytes
    waits: bool = False  # until all bytes of the other side have arrived
    reset_after: int | None = None  # bytes sent
    pause: float = 0.0  # seconds, after half of the bytes


@dataclass
class Exchange:
    """One connection."""

    client: Side
    service: Side
    service_end: Queue[End] = field(default_factory=Queue)

    def title(self) -> str:
        """Return a few words about it."""
        if self.client.reset_after is not None or self.service.reset_after is not None:
            return f"reset by the {'service' if self.client.reset_after is None else 'client'}"
        return "the client waits" if self.client.waits else "the service waits" if self.service.waits else "both send"


def draw_exchange(draw: Random) -> Exchange:
    """Draw what both sides of a connection do."""
    up, down = draw.randbytes(draw.choice(SIZES)), draw.randbytes(draw.choice(SIZES))
    kind = draw.random()
    if kind < 2 * RESETS:
        # A side waits for a byte of the other one before it resets the connection: then both are there.
        up, down = up + b"up", down + b"down"
    if kind < RESETS:
        return Exchange(Side(up, reset_after=draw.randrange(len(up))), Side(down))
    if kind < 2 * RESETS:
        return Exchange(Side(up), Side(down, reset_after=draw.randrange(len(down))))
    first = draw.choice(["both", "client", "service"])
    pauses = [draw.uniform(0, MAX_PAUSE) if draw.random() < PAUSES else 0.0 for _ in range(2)]
    client = Side(up, waits=first == "service", pause=pauses[0])
    return Exchange(client, Side(down, waits=first == "client", pause=pauses[1]))


def is_as_demanded(exchange: Exchange, client: End, service: End) -> bool:
    """Whether both sides saw what they must see where nothing was killed."""
    if exchange.client.reset_after is not None:
        return (client, service) == (End.OWN_RESET, End.RESET)
    if exchange.service.reset_after is not None:
        return (client, service) == (End.RESET, End.OWN_RESET)
    return (client, service) == (End.COMPLETE, End.COMPLETE)


def converse(tcp: socket.socket, own: Side, other: Side, deadline: float) -> End:
    """Send and receive as `own` says, and compare what arrives with what `other` sends."""
    tcp.setblocking(False)
    poll = select.poll()
    unsent, half = memoryview(own.content), len(own.content) // 2
    received = sent = 0
    has_ended = has_finished = False  # the other side; this one
    resume_at = 0.0
    while not (has_ended and has_finished):
        now = time.monotonic()
        if now > deadline:
            abort(tcp)
            return End.LATE
        if own.reset_after is not None and sent >= own.reset_after and received:
            abort(tcp)
            return End.OWN_RESET
        is_paused = (own.waits and not has_ended) or now < resume_at
        # A side that is going to reset the connection sends so many bytes and no more.
        limit = len(own.content) if own.reset_after is None else own.reset_after
        wants = not is_paused and not has_finished and (sent < limit or own.reset_after is None)
        poll.register(tcp, (0 if has_ended else select.POLLIN) | (select.POLLOUT if wants else 0))
        events = sum(event for _, event in poll.poll(100))
        if events & select.POLLERR:
            return End.RESET
        try:
            if events & select.POLLIN:
                piece = tcp.recv(PIECE)
                if piece != other.content[received : received + len(piece)]:
                    abort(tcp)
                    return End.WRONG
                received += len(piece)
                has_ended = not piece
                if has_ended and received < len(other.content):
                    abort(tcp)
                    return End.SHORT
            if events & select.POLLOUT and sent < limit:
                before = sent
                sent += tcp.send(unsent[sent : min(sent + PIECE, limit)])
                if own.pause and before <= half < sent:
                    resume_at = now + own.pause
            elif events & select.POLLOUT:
                tcp.shutdown(socket.SHUT_WR)
                has_finished = True
        except BlockingIOError:
            continue
        except OSError:  # reset, or written to after a reset
            return End.RESET
    return End.COMPLETE


def abort(tcp: socket.socket) -> None:
    """Reset the connection."""
    with suppress(OSError):
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    tcp.close()


class Service:
    """The destination of the tunnels: a TCP service with one thread for each connection."""

    def __init__(self, limit: float) -> None:
        """Listen on a free port; a connection may take `limit` seconds."""
        self._limit = limit
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._exchanges: dict[int, Exchange] = {}
        self._next = 0
        self.ends: Counter[End] = Counter()  # for the service, also of connections through a tunnel that was killed
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()

    def run(self, tunnel: TunnelClient, exchange: Exchange) -> tuple[End, End]:
        """Connect through a tunnel that leads here; return how the connection ended for both sides.

        Once the tunnel was killed, the service's end is not waited for: the tunnel's server ends it much later.
        """
        kills = tunnel.kills
        deadline = time.monotonic() + self._limit
        with self._lock:
            number = self._next = self._next + 1
            self._exchanges[number] = exchange
        try:
            with socket.create_connection(("127.0.0.1", tunnel.port), timeout=self._limit) as tcp:
                tcp.sendall(NUMBER.pack(number))
                client = converse(tcp, exchange.client, exchange.service, deadline)
        except ConnectionRefusedError:
            client = End.REFUSED
        except OSError:
            client = End.RESET
        service = End.REFUSED if client is End.REFUSED else End.LATE
        while service is End.LATE and client is not End.LATE and tunnel.kills == kills and time.monotonic() < deadline:
            with suppress(Empty):
                service = exchange.service_end.get(timeout=0.5)
        with self._lock:
            del self._exchanges[number]
        return client, service

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                tcp, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(tcp,), daemon=True).start()

    def _serve(self, tcp: socket.socket) -> None:
        deadline = time.monotonic() + self._limit
        with tcp, suppress(OSError):
            tcp.settimeout(self._limit)
            number = b""
            while len(number) < NUMBER.size:
                piece = tcp.recv(NUMBER.size - len(number))
                if not piece:
                    return
                number += piece
            with self._lock:
                exchange = self._exchanges.get(NUMBER.unpack(number)[0])
            if exchange:  # otherwise its tunnel was killed before it arrived
                end = converse(tcp, exchange.service, exchange.client, deadline)
                exchange.service_end.put(end)
                with self._lock:
                    self.ends[end] += 1
