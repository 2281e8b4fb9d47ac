"""Files and streams for asyncio: the functions and classes of `rampmeter`, with coroutines where those wait.

>>> from rampmeter import aio
>>> async def echo(listener):
...     async for stream in listener:
...         async with stream:
...             await stream.write(await stream.read())

Timeouts are asyncio's: `async with asyncio.timeout(5): ...`. A task that is cancelled while it waits loses nothing that
has arrived, except within a `read` to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rampmeter import _engine
from rampmeter.streams import (
    ConnectionBase,
    ListenerBase,
    SessionBase,
    StreamBase,
    accepted,
    listening,
    optional_size,
)
from rampmeter.transfers import INTERVAL, STOP_TIMEOUT, Progress, Report, begin, report

_Self = TypeVar("_Self", bound="_Acceptor")

__all__ = ["Connection", "Listener", "Session", "Stream", "connect", "get", "listen"]


class _Wakeups:
    """The operations that the tasks of one event loop wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = _engine.Wakeups()
        self.waiting: dict[int, asyncio.Event] = {}
        self.last = 0
        # The event loop has it for as long as it runs; nothing here refers to the event loop.
        loop.add_reader(self.engine.fileno(), self._wake)

    def _wake(self) -> None:
        for token in self.engine.take():
            if event := self.waiting.get(token):
                event.set()


_wakeups: WeakKeyDictionary[asyncio.AbstractEventLoop, _Wakeups] = WeakKeyDictionary()


async def _wait(operation: _engine.Operation, timeout: float | None = None) -> tuple[bool, Any]:
    """Wait for up to `timeout` seconds. Return whether there is a result, and the result."""
    loop = asyncio.get_running_loop()
    wakeups = _wakeups.get(loop)
    if wakeups is None:
        wakeups = _wakeups[loop] = _Wakeups(loop)
    wakeups.last += 1
    token, event = wakeups.last, asyncio.Event()
    wakeups.waiting[token] = event
    try:
        while True:
            event.clear()
            done, result = operation.poll(wakeups.engine, token)
            if done:
                return True, result
            try:
                await asyncio.wait_for(event.wait(), timeout)
            except asyncio.TimeoutError:
                return False, None
    finally:
        del wakeups.waiting[token]


async def _result(operation: _engine.Operation) -> Any:
    """Wait for the result. An operation that is given up is cancelled."""
    try:
        return (await _wait(operation))[1]
    finally:
        operation.cancel()


class Stream(StreamBase):
    """A `rampmeter.Stream` whose `read` and `write` are coroutines."""

    @property
    def session(self) -> Session:
        """Return the session of the stream, in which further ones can be opened."""
        return Session(self._engine.session())

    async def read(self, size: int = -1) -> bytes:
        """Read some bytes, up to `size`, as soon as there are any; without a size, all to the end."""
        return bytes(await _result(self._engine.read(optional_size(size))))

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`. This waits while the peer does not read."""
        await _result(self._engine.write(bytes(data)))

    async def __aenter__(self) -> Stream:
        """Use it in an `async with` statement."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the stream; abort it after an exception."""
        self._engine.close(error is None)


class Session(SessionBase):
    """A `rampmeter.Session` whose `open` is a coroutine."""

    async def open(self, *, weight: float = 1.0) -> Stream:
        """Open a stream. The other host accepts it when its first byte arrives."""
        stream = Stream(await _result(self._session.open()))
        if weight != 1.0:
            stream.weight = weight
        return stream


class _Acceptor:
    """What accepts streams: a connection those of its server, a listener those of all clients."""

    _engine: Any  # a connection or a listener of the engine

    async def accept(self) -> Stream:
        """Return the next stream that another host has opened. `ConnectionAbortedError` after the end."""
        return Stream(accepted(await _result(self._engine.accept())))

    async def close(self) -> None:
        """End all sessions, once everything that finished streams have written is delivered: five seconds at most."""
        await _result(self._engine.close())

    async def __aiter__(self) -> AsyncIterator[Stream]:
        """Yield the streams that other hosts open, until the end."""
        while (stream := await _result(self._engine.accept())) is not None:
            yield Stream(stream)

    async def __aenter__(self: _Self) -> _Self:
        """Use it in an `async with` statement."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()


class Connection(ConnectionBase, Session, _Acceptor):
    """A `rampmeter.Connection` whose `accept` and `close` are coroutines."""


class Listener(ListenerBase, _Acceptor):
    """A `rampmeter.Listener` whose `accept` and `close` are coroutines."""


async def connect(
    address: str,
    *,
    key: str | None = None,
    identity: str | os.PathLike[str] | None = None,
    controller: str = "newreno",
    timeout: float = 10.0,
) -> Connection:
    """Connect to a server, as `rampmeter.connect` does."""
    return Connection(await _result(_engine.connect(address, key, identity, controller, timeout)))


async def listen(
    address: str = "127.0.0.1:7268",
    *,
    identity: str | os.PathLike[str] | None = None,
    clients: Iterable[str] | None = None,
    controller: str = "newreno",
    max_sessions: int = 256,
    max_streams: int = 256,
) -> Listener:
    """Listen for clients, as `rampmeter.listen` does."""
    return Listener(await _result(listening(address, identity, clients, controller, max_sessions, max_streams)))


async def get(
    url: str,
    path: str | os.PathLike[str] | None = None,
    *,
    key: str | None = None,
    identity: str | os.PathLike[str] | None = None,
    blake3: str | None = None,
    controller: str | None = None,
    max_size: int | None = None,
    resume: bool = True,
    retry: int = 0,
    timeout: float = 10.0,
    progress: Progress | None = None,
) -> Report:
    """Get a file, as `rampmeter.get` does. If the task is cancelled, the next call resumes."""
    transfer = begin(url, path, key, identity, blake3, controller, max_size, resume, retry, timeout)
    operation = transfer.report()
    try:
        while True:
            done, result = await _wait(operation, INTERVAL if progress else None)
            if progress:
                progress(*transfer.progress())
            if done:
                return report(result)
    except BaseException:
        transfer.stop()
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # it has ended
            await _wait(operation, STOP_TIMEOUT)
        raise
