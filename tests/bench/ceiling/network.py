"""The ceiling for a broker: opaque batches from a socket to a file to a socket, with nothing in between.

    python -m tests.bench.ceiling.network serve FOLDER          prints its port
    python -m tests.bench.ceiling.network publish PORT COUNT SIZE BATCH
    python -m tests.bench.ceiling.network consume PORT COUNT

Batches are offsets and bytes; the server takes them into arenas of its own, checks their CRC, writes what came together
in one round (`pwritev`, `fdatasync`), then answers and passes them on. No topics, offsets, sequences, cursors, credit
or recovery: a number to compare with, not a broker.
"""

import asyncio
import json
import os
import struct
import sys
import threading
import time
from itertools import accumulate, pairwise
from typing import cast

import uvloop
from crc32c import crc32c

HEAD = struct.Struct("<IBxxxII")  # length, kind, messages, spare
PUBLISH, ANSWER, SUBSCRIBE, READY = 1, 2, 3, 4
ARENA_BYTES = 4 << 20
FILE_BYTES = 1 << 30
IN_FLIGHT = 32


class Frames(asyncio.BufferedProtocol):
    """Received into arenas; `on_frame` gets views."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._view = memoryview(bytearray(ARENA_BYTES))
        self._start = self._end = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        if ARENA_BYTES - self._end < 512 << 10:
            rest = bytes(self._view[self._start : self._end])
            self._view = memoryview(bytearray(ARENA_BYTES))
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        while self._end - self._start >= HEAD.size:
            length, kind, count, _ = HEAD.unpack_from(self._view, self._start)
            if self._end - self._start < length:
                break
            self.on_frame(kind, count, self._view[self._start : self._start + length])
            self._start += length
        self.after_frames()

    def on_frame(self, kind: int, count: int, frame: memoryview) -> None:
        raise AssertionError((kind, count, frame))

    def after_frames(self) -> None:
        pass


class Server:
    def __init__(self, folder: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.consumers: list[asyncio.Transport] = []
        self.waiting: list[tuple[memoryview, asyncio.Transport]] = []
        self._fd = os.open(os.path.join(folder, "ceiling"), os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        os.posix_fallocate(self._fd, 0, FILE_BYTES)
        self._wake = threading.Condition()
        threading.Thread(target=self._write, daemon=True).start()

    def kick(self) -> None:
        if self.waiting:
            with self._wake:
                self._wake.notify()

    def _write(self) -> None:
        position = 0
        while True:
            with self._wake:
                while not self.waiting:
                    self._wake.wait()
                taken, self.waiting = self.waiting, []
            frames = [frame for frame, _ in taken]
            for start in range(0, len(frames), 1024):
                position += os.pwritev(self._fd, frames[start : start + 1024], position)
            os.fdatasync(self._fd)
            if position > FILE_BYTES // 2:
                position = 0
            self.loop.call_soon_threadsafe(self._written, taken)

    def _written(self, taken: list[tuple[memoryview, asyncio.Transport]]) -> None:
        for _, transport in taken:
            transport.write(HEAD.pack(HEAD.size, ANSWER, 0, 0))
        for consumer in self.consumers:
            consumer.writelines([frame for frame, _ in taken])


class ServerConnection(Frames):
    def __init__(self, server: Server) -> None:
        self._server = server

    def on_frame(self, kind: int, count: int, frame: memoryview) -> None:
        del count
        if kind == PUBLISH:
            crc32c(frame[HEAD.size :])
            self._server.waiting.append((frame, self.transport))
        else:
            self._server.consumers.append(self.transport)
            self.transport.write(HEAD.pack(HEAD.size, READY, 0, 0))

    def after_frames(self) -> None:
        self._server.kick()


class Publisher(Frames):
    def __init__(self) -> None:
        self.window = asyncio.Semaphore(IN_FLIGHT)

    def on_frame(self, kind: int, count: int, frame: memoryview) -> None:
        del kind, count, frame
        self.window.release()


class Consumer(Frames):
    def __init__(self, wanted: int) -> None:
        self.done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._wanted = wanted
        self._started = 0.0

    def on_frame(self, kind: int, count: int, frame: memoryview) -> None:
        if kind == READY:
            print("ready", flush=True)
            return
        self._started = self._started or time.perf_counter()
        body = HEAD.size + 4 * (count + 1)
        offsets = struct.unpack_from(f"<{count + 1}i", frame, HEAD.size)
        data = bytes(frame[body:])
        messages = [data[first:end] for first, end in pairwise(offsets)]
        self._wanted -= len(messages)
        if self._wanted <= 0 and not self.done.done():
            self.done.set_result(time.perf_counter() - self._started)


async def serve(folder: str) -> None:
    server = Server(folder)
    listening = await server.loop.create_server(lambda: ServerConnection(server), "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


async def publish(port: int, count: int, size: int, batch: int) -> None:
    loop = asyncio.get_running_loop()
    transport, publisher = await loop.create_connection(Publisher, "127.0.0.1", port)
    started = time.perf_counter()
    for _ in range(0, count, batch):
        messages = [bytes(size)] * batch
        offsets = struct.pack(f"<{batch + 1}i", *accumulate(map(len, messages), initial=0))
        data = b"".join(messages)
        await publisher.window.acquire()
        transport.writelines((HEAD.pack(HEAD.size + len(offsets) + len(data), PUBLISH, batch, 0), offsets, data))
    for _ in range(IN_FLIGHT):
        await publisher.window.acquire()
    print(json.dumps({"messages_per_second": count / (time.perf_counter() - started)}), flush=True)
    transport.close()


async def consume(port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    transport, consumer = await loop.create_connection(lambda: Consumer(count), "127.0.0.1", port)
    transport.write(HEAD.pack(HEAD.size, SUBSCRIBE, 0, 0))
    print(json.dumps({"messages_per_second": count / await consumer.done}), flush=True)
    transport.close()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "serve":
        uvloop.run(serve(rest[0]))
    elif what == "publish":
        uvloop.run(publish(*map(int, rest)))
    else:
        uvloop.run(consume(*map(int, rest)))
