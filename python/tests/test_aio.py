"""`rampmeter.aio`: files and streams for asyncio."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest
from net import SECONDS, noise, served, url, wait_until

import rampmeter
from rampmeter import aio


async def pair(listener: aio.Listener, connection: aio.Connection) -> tuple[aio.Stream, aio.Stream]:
    ours = await connection.open()
    await ours.write(b"hello")
    theirs = await listener.accept()
    assert await theirs.read(5) == b"hello"
    return ours, theirs


async def echo(stream: aio.Stream) -> None:
    async with stream:
        while data := await stream.read(65536):
            await stream.write(data)


def test_many_tasks_have_a_stream_each(keys: Path) -> None:
    async def serve(listener: aio.Listener) -> None:
        tasks = [asyncio.create_task(echo(stream)) async for stream in listener]
        await asyncio.gather(*tasks)

    async def use(connection: aio.Connection, number: int) -> bool:
        async with await connection.open(weight=1.0 + number) as stream:
            await stream.write(noise(20_000, number))
            stream.write_eof()
            return await stream.read() == noise(20_000, number)

    async def main() -> None:
        listener = await aio.listen("127.0.0.1:0")
        serving = asyncio.create_task(serve(listener))
        async with await aio.connect(listener.url) as connection:
            assert all(await asyncio.gather(*(use(connection, number) for number in range(100))))
        await listener.close()
        await serving

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def test_a_cancelled_read_loses_nothing_and_others_go_on(keys: Path) -> None:
    async def main() -> None:
        async with await aio.listen("127.0.0.1:0") as listener, await aio.connect(listener.url) as connection:
            ours, theirs = await pair(listener, connection)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(ours.read(4), 0.02)
            waiting = [asyncio.create_task(ours.read(1)) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[1].cancel()
            await theirs.write(b"ab")
            assert {await waiting[0], await waiting[2]} == {b"a", b"b"}
            await theirs.write(b"late")
            assert await ours.read(4) == b"late"

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def test_a_close_ends_what_other_tasks_wait_for(keys: Path) -> None:
    async def main() -> None:
        listener = await aio.listen("127.0.0.1:0")
        connection = await aio.connect(listener.url)
        ours, theirs = await pair(listener, connection)
        reading = asyncio.create_task(ours.read())
        accepting = [asyncio.create_task(end.accept()) for end in (listener, listener, connection)]
        await asyncio.sleep(0.01)
        ours.close()
        with pytest.raises(ValueError, match="closed"):
            await reading
        assert await theirs.read() == b"", "a close delivers what was written, and the end"
        await listener.close()
        for task in accepting:
            with pytest.raises(ConnectionAbortedError):
                await task

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def test_a_cancelled_get_resumes(rampmeter_command: Path, tmp_path: Path, keys: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    with (there / "large").open("wb") as large:
        large.truncate(400_000_000)

    async def interrupted(server: str) -> None:
        started = asyncio.Event()
        getting = asyncio.create_task(
            aio.get(url(server, "large"), here, progress=lambda done, _: started.set() if done else None)
        )
        await started.wait()
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting

    with served(rampmeter_command, there) as server:
        asyncio.run(asyncio.wait_for(interrupted(server), SECONDS))
    with served(rampmeter_command, there) as server:
        report = asyncio.run(asyncio.wait_for(aio.get(url(server, "large"), here), SECONDS))
        assert report.resumed_from > 0
        assert here.stat().st_size == 400_000_000
        with pytest.raises(rampmeter.TransferError):
            asyncio.run(aio.get(url(server, "none"), here))


def test_event_loops_leave_no_descriptor_open(keys: Path) -> None:
    async def main() -> None:
        async with await aio.listen("127.0.0.1:0") as listener, await aio.connect(listener.url) as connection:
            await pair(listener, connection)

    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    asyncio.run(main())
    before = descriptors()
    for _ in range(3):
        asyncio.run(main())
    wait_until(lambda: descriptors() <= before, "descriptors stay open")
