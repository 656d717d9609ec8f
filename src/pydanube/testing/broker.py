"""A real broker in the test's own process: on a thread, on free ports, with its journal in memory and a clock that the
test moves.

    with broker() as running:
        client = pydanube.connect_blocking(running.url)
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import uvloop

from pydanube.broker import Broker, BrokerSettings, NativeServer
from pydanube.metadata import MemoryStore
from pydanube.model.limits import MIB
from pydanube.storage import MemoryFiles, StorageSettings

from .clock import ManualClock

T = TypeVar("T")
_START_SECONDS = 10.0


class RunningBroker:
    def __init__(self, broker: Broker, server: NativeServer, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.port = server.port
        self.url = f"danube://127.0.0.1:{server.port}"

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine on the broker's loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work(), self.broker.loop).result()

    def keep_up(self) -> None:
        """What the broker does now and then, now: retention and the like."""
        self.run(self.broker.keep_up)


@contextmanager
def broker(settings: BrokerSettings | None = None, *, clock: ManualClock | None = None) -> Iterator[RunningBroker]:
    chosen = settings or BrokerSettings(storage=StorageSettings(file_bytes=16 * MIB, reserve_bytes=MIB))
    time = clock or ManualClock()
    started: list[RunningBroker | BaseException] = []
    is_up = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        try:
            running = await Broker.start(
                chosen, MemoryFiles(1024 * MIB), MemoryStore(time), time, Random(), in_memory=True
            )
            server = await NativeServer.start(running, "127.0.0.1", 0)
        except BaseException as error:
            started.append(error)
            is_up.set()
            raise
        done = asyncio.Event()
        stop.append(lambda: running.loop.call_soon_threadsafe(done.set))
        started.append(RunningBroker(running, server, time))
        is_up.set()
        await done.wait()
        await server.close()
        await running.close()

    thread = threading.Thread(target=lambda: uvloop.run(serve()), name="danube-test-broker", daemon=True)
    thread.start()
    if not is_up.wait(_START_SECONDS):
        raise TimeoutError(f"the broker did not start within {_START_SECONDS} s")
    if isinstance(started[0], BaseException):
        raise started[0]
    try:
        yield started[0]
    finally:
        stop[0]()
        thread.join()
