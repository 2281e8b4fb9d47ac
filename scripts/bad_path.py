"""A path that loses, delays, reorders and duplicates datagrams, and moves clients to new addresses as a NAT would.

It is a relay between UDP sockets, so it needs no rights. Everything is drawn from one seeded stream; arrival times are
those of the machine.
"""

from __future__ import annotations

import heapq
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass

Address = tuple[str, int]

IDLE = 60.0  # seconds after which a mapping without packets is discarded
BATCH = 64  # datagrams read from one socket before another is served


@dataclass(frozen=True)
class Faults:
    """What the path does, in both directions."""

    delay: float = 0.010  # seconds, in each direction
    loss: float = 0.05
    late: float = 0.02  # the share of datagrams that come `lateness` later, and so behind others
    lateness: float = 0.010  # seconds
    duplicates: float = 0.01
    move_every: float = 20.0  # seconds, the mean time after which a client has a new address


@dataclass
class Counts:
    """What the path did."""

    datagrams: int = 0
    lost: int = 0
    late: int = 0
    duplicated: int = 0
    moved: int = 0  # clients that sent from a new address


@dataclass
class Mapping:
    """A mapping of the NAT: the socket that the server sees in place of a client."""

    client: Address
    upstream: socket.socket
    used_at: float
    move_at: float
    is_moved: bool = False  # since the client's last datagram


class BadPath:
    """Relays between clients and the server at `server` until it is closed."""

    def __init__(self, server: Address, faults: Faults, seed: int) -> None:
        """Listen on a free port of this machine."""
        self.server, self.faults, self.counts = server, faults, Counts()
        self._random = random.Random(seed)
        self._front = _socket()
        self._front.bind(("127.0.0.1", 0))
        self.address: Address = self._front.getsockname()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._front, selectors.EVENT_READ, None)
        self._mappings: dict[Address, Mapping] = {}
        self._queue: list[tuple[float, int, bytes, Address, bool]] = []  # due, number, datagram, client, to the server
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and close all sockets."""
        self._stop.set()
        self._thread.join()
        for mapping in self._mappings.values():
            mapping.upstream.close()
        self._front.close()
        self._selector.close()

    def _run(self) -> None:
        next_sweep = time.monotonic()
        while not self._stop.is_set():
            now = time.monotonic()
            if now >= next_sweep:
                next_sweep = now + 0.1
                self._sweep(now)
            while self._queue and self._queue[0][0] <= now:
                _, _, datagram, client, to_server = heapq.heappop(self._queue)
                self._deliver(datagram, client, to_server=to_server)
            due = self._queue[0][0] if self._queue else next_sweep
            for key, _ in self._selector.select(max(0.0, min(due, next_sweep) - time.monotonic())):
                self._read(key)

    def _read(self, key: selectors.SelectorKey) -> None:
        source = key.fileobj
        assert isinstance(source, socket.socket)
        for _ in range(BATCH):
            try:
                datagram, sender = source.recvfrom(65536)
            except OSError:  # nothing more, or the server's port is closed for a moment
                return
            now = time.monotonic()
            if key.data is None:
                self._mapping(now, sender)
                self._enqueue(now, datagram, sender, to_server=True)
            else:
                self._enqueue(now, datagram, key.data, to_server=False)

    def _mapping(self, now: float, client: Address) -> Mapping:
        mapping = self._mappings.get(client)
        if mapping is None:
            move_at = now + self._random.expovariate(1 / self.faults.move_every)
            mapping = self._mappings[client] = Mapping(client, self._upstream(client), now, move_at)
        self.counts.moved += mapping.is_moved
        mapping.used_at, mapping.is_moved = now, False
        return mapping

    def _upstream(self, client: Address) -> socket.socket:
        upstream = _socket()
        upstream.connect(self.server)
        self._selector.register(upstream, selectors.EVENT_READ, client)
        return upstream

    def _sweep(self, now: float) -> None:
        """Move clients whose time has come, and discard the mappings of silent ones."""
        for mapping in list(self._mappings.values()):
            if now - mapping.used_at > IDLE:
                self._close(mapping)
                del self._mappings[mapping.client]
            elif now >= mapping.move_at:
                self._close(mapping)
                mapping.upstream = self._upstream(mapping.client)
                mapping.move_at = now + self._random.expovariate(1 / self.faults.move_every)
                mapping.is_moved = True

    def _close(self, mapping: Mapping) -> None:
        self._selector.unregister(mapping.upstream)
        mapping.upstream.close()

    def _enqueue(self, now: float, datagram: bytes, client: Address, *, to_server: bool) -> None:
        faults, draw = self.faults, self._random.random
        self.counts.datagrams += 1
        if draw() < faults.loss:
            self.counts.lost += 1
            return
        copies = 1
        if draw() < faults.duplicates:
            self.counts.duplicated += 1
            copies = 2
        for _ in range(copies):
            due = now + faults.delay
            if draw() < faults.late:
                self.counts.late += 1
                due += faults.lateness
            self._number += 1
            heapq.heappush(self._queue, (due, self._number, datagram, client, to_server))

    def _deliver(self, datagram: bytes, client: Address, *, to_server: bool) -> None:
        mapping = self._mappings.get(client)
        if mapping is None:
            return
        try:
            if to_server:
                mapping.upstream.send(datagram)
            else:
                self._front.sendto(datagram, client)
        except OSError:  # a buffer is full, or the other side has no socket: lost
            self.counts.lost += 1


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return made
