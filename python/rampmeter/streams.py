"""Streams of bytes over encrypted sessions: calls that wait. `rampmeter.aio` has the same for asyncio."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from rampmeter import _engine

_Self = TypeVar("_Self", bound="_Acceptor")


class StreamBase:
    """What a stream does without waiting."""

    def __init__(self, engine: _engine.Stream) -> None:
        """Wrap a stream of the engine."""
        self._engine = engine
        self._weight = 1.0

    @property
    def weight(self) -> float:
        """Return the weight that was set here; 1 at first.

        Beside others of its session, the stream sends in proportion to its weight.
        """
        return self._weight

    @weight.setter
    def weight(self, weight: float) -> None:
        self._engine.set_weight(weight)
        self._weight = weight

    def write_eof(self) -> None:
        """End this side's bytes: the peer reads them all, then the end, and can still write."""
        self._engine.write_eof()

    def close(self) -> None:
        """End both directions: what was written is still delivered, and the peer can write no more."""
        self._engine.close(True)

    def abort(self) -> None:
        """Reset the stream: the peer's next read or write fails."""
        self._engine.close(False)


class Stream(StreamBase):
    """A reliable, ordered sequence of bytes in each direction, to a program on another host.

    One thread may read while another one writes. As a context manager it is closed at the end, and aborted if an
    exception ends the block. A stream that is dropped without `close` is aborted.
    """

    @property
    def session(self) -> Session:
        """Return the session of the stream, in which further ones can be opened."""
        return Session(self._engine.session())

    def read(self, size: int = -1, *, timeout: float | None = None) -> bytes:
        """Read some bytes, up to `size`, as soon as there are any; without a size, all to the end.

        The result is empty at the end of the peer's bytes. After `timeout` seconds, `TimeoutError` is raised.
        """
        return bytes(_result(self._engine.read(optional_size(size)), timeout))

    def write(self, data: bytes | bytearray | memoryview, *, timeout: float | None = None) -> None:
        """Write all of `data`. This waits while the peer does not read.

        After `timeout` seconds, `TimeoutError` is raised, and a part of `data` may have been written.
        """
        _result(self._engine.write(bytes(data)), timeout)

    def __enter__(self) -> Stream:
        """Use it in a `with` statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the stream; abort it after an exception."""
        self._engine.close(error is None)


class SessionBase:
    """What a session does without waiting."""

    def __init__(self, engine: _engine.Session) -> None:
        """Wrap a session of the engine."""
        self._session = engine

    @property
    def peer_key(self) -> str:
        """Return the public key of the other host."""
        return self._session.peer_key()

    def abort(self) -> None:
        """End the session at once; streams that are still open fail."""
        self._session.close()


class Session(SessionBase):
    """An encrypted session with another host. Both sides open streams in it."""

    def open(self, *, weight: float = 1.0, timeout: float | None = None) -> Stream:
        """Open a stream. The other host accepts it when its first byte arrives."""
        stream = Stream(_result(self._session.open(), timeout))
        if weight != 1.0:
            stream.weight = weight
        return stream


class _Acceptor:
    """What accepts streams: a connection those of its server, a listener those of all clients."""

    _engine: Any  # a connection or a listener of the engine

    def accept(self, *, timeout: float | None = None) -> Stream:
        """Return the next stream that another host has opened. `ConnectionAbortedError` after the end."""
        return Stream(accepted(_result(self._engine.accept(), timeout)))

    def close(self) -> None:
        """End all sessions, once everything that finished streams have written is delivered: five seconds at most."""
        _result(self._engine.close(), None)

    def __iter__(self) -> Iterator[Stream]:
        """Yield the streams that other hosts open, until the end."""
        while (stream := _result(self._engine.accept(), None)) is not None:
            yield Stream(stream)

    def __enter__(self: _Self) -> _Self:
        """Use it in a `with` statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class ConnectionBase(SessionBase):
    """What a connection does without waiting."""

    def __init__(self, engine: _engine.Connection) -> None:
        """Wrap a connection of the engine."""
        super().__init__(engine.session())
        self._engine = engine

    @property
    def address(self) -> str:
        """Return the server's address, HOST:PORT."""
        return self._engine.address()

    @property
    def is_new_server(self) -> bool:
        """Return whether this was the first contact, and the server's key was stored."""
        return self._engine.is_new_server()


class Connection(ConnectionBase, Session, _Acceptor):
    """A session with a server, created by `connect`. It ends when it and its streams are closed or dropped."""


class ListenerBase:
    """What a listener does without waiting."""

    def __init__(self, engine: _engine.Listener) -> None:
        """Wrap a listener of the engine."""
        self._engine = engine

    @property
    def address(self) -> str:
        """Return the address that it listens on, HOST:PORT."""
        return self._engine.address()

    @property
    def key(self) -> str:
        """Return its public key."""
        return self._engine.key()

    @property
    def url(self) -> str:
        """Return what clients give to `connect`: the address and the key."""
        return f"{self.address}?key={self.key}"


class Listener(ListenerBase, _Acceptor):
    """A server, created by `listen`. It serves until it is closed, or it and its streams are dropped."""


def connect(
    address: str,
    *,
    key: str | None = None,
    identity: str | os.PathLike[str] | None = None,
    controller: str = "newreno",
    timeout: float = 10.0,
) -> Connection:
    """Connect to a server at HOST:PORT or HOST:PORT?key=KEY.

    Args:
        address: the address of a `listen`, or of a Rust program's `Server`.
        key: the server's public key; by default the one in the file of known servers, to which a new server is added.
        identity: the file of this client's secret key, for servers that serve only listed keys.
        controller: the congestion controller of what this side sends.
        timeout: the maximum wait for an answer at each of the server's addresses, in seconds.

    Raises:
        ContactError: the server cannot be contacted, or is not the expected one; `kind` says why.
        ValueError: an argument is invalid.

    """
    return Connection(_result(_engine.connect(address, key, identity, controller, timeout), None))


def listen(
    address: str = "127.0.0.1:7268",
    *,
    identity: str | os.PathLike[str] | None = None,
    clients: Iterable[str] | None = None,
    controller: str = "newreno",
    max_sessions: int = 256,
    max_streams: int = 256,
) -> Listener:
    """Listen for clients on HOST:PORT; port 0 is any free one.

    Args:
        address: by default only this machine can connect; `0.0.0.0:7268` is every IPv4 address of this host.
        identity: the file of the secret key, which is made if it does not exist; by default the user's.
        clients: the public keys of the clients that may connect; by default everybody who reaches the address.
        controller: the congestion controller of what this side sends.
        max_sessions: the maximum number of sessions.
        max_streams: the maximum number of streams that a client has open; further ones are reset.

    Raises:
        ContactError: the address cannot be listened on, or the file of the key cannot be used; `kind` says why.
        ValueError: an argument is invalid.

    """
    return Listener(_result(listening(address, identity, clients, controller, max_sessions, max_streams), None))


def listening(
    address: str,
    identity: str | os.PathLike[str] | None,
    clients: Iterable[str] | None,
    controller: str,
    max_sessions: int,
    max_streams: int,
) -> _engine.Operation:
    """Begin to listen, for the arguments of `listen`."""
    if isinstance(clients, str):
        raise ValueError("clients is one string: give a list of public keys")
    listed = None if clients is None else list(clients)
    return _engine.listen(address, identity, listed, controller, max_sessions, max_streams)


def _result(operation: _engine.Operation, timeout: float | None) -> Any:
    """Wait for the result. An operation that is given up is cancelled."""
    try:
        done, result = operation.wait(timeout)
    finally:
        operation.cancel()
    if not done:
        raise TimeoutError(f"this took longer than {timeout} s")
    return result


def accepted(stream: _engine.Stream | None) -> _engine.Stream:
    """Check that a stream was accepted."""
    if stream is None:
        raise ConnectionAbortedError("no further stream comes: the session has ended, or was closed here")
    return stream


def optional_size(size: int) -> int | None:
    """Return `None` for a negative size, which means all."""
    return None if size < 0 else size
