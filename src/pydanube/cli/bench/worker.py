"""One producer or consumer of a bench, in a process of its own: `python -m pydanube.cli.bench.worker TASK`.

It says "ready" when it is connected and has its messages, starts at a line on standard input, and ends with its result
as one line of JSON. Times are of the machine's monotonic clock, which all processes share.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import msgspec

import pydanube
from pydanube.cli.target import run

from .content import Checker, Wrong, make_pool, part_of

IN_FLIGHT_MAX = 32
IN_FLIGHT_BYTES = 16 << 20
SILENCE_SECONDS = 30.0


class Task(msgspec.Struct, frozen=True):
    work: str  # produce | consume | latency
    url: str
    topic: str
    size: int
    count: int  # of messages, of each producer
    batch: int = 1
    producers: list[int] = []  # who writes to the topic; one that produces names itself
    subscription: str = "bench"
    durability: str = "fsync"
    compression: str | None = None
    rate: int = 0


class Result(msgspec.Struct, frozen=True):
    started: float
    ended: float
    messages: int
    latencies_ms: list[float] = []
    wrong: str | None = None


async def _begin() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def produce(client: pydanube.Client, task: Task) -> Result:
    """So many batches under way that the broker always has the next one, and few enough that none waits here."""
    pool = make_pool(task.producers[0], task.size)
    producer = await client.producer(
        task.topic,
        durability=task.durability,
        compression=task.compression,
        batch_count=task.batch,
        batch_bytes=min(4 << 20, (task.size + 64) * task.batch),
    )
    latencies_ms: list[float] = []
    room = asyncio.Semaphore(max(1, min(IN_FLIGHT_MAX, IN_FLIGHT_BYTES // (task.size * task.batch))))

    async def send(first: int) -> None:
        begun = time.monotonic()
        try:
            await producer.send_many(part_of(pool, first, min(task.batch, task.count - first)))
        finally:
            room.release()
        latencies_ms.append((time.monotonic() - begun) * 1000)

    await _begin()
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for first in range(0, task.count, task.batch):
            await room.acquire()
            group.create_task(send(first))
    return Result(started, time.monotonic(), task.count, latencies_ms)


async def consume(client: pydanube.Client, task: Task) -> Result:
    checker = Checker(task.producers, task.count, task.size)
    await _begin()
    started = time.monotonic()
    consumer = await client.subscribe(task.topic, task.subscription, start="earliest")
    messages = 0
    async for batch in _until_silent(consumer):
        await consumer.ack(batch)
        payloads = batch.payloads
        messages += len(payloads)
        checker.take(batch.offset_ranges, payloads)
        if checker.is_done:
            break
    ended = time.monotonic()
    checker.end()
    await consumer.flush_acks()
    return Result(started, ended, messages)


async def _until_silent(consumer: pydanube.Consumer) -> AsyncIterator[pydanube.ReceivedBatch]:
    """A message that is lost must not keep the bench waiting for ever."""
    loop, batches = asyncio.get_running_loop(), aiter(consumer.batches())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SILENCE_SECONDS) as limit:
            async for batch in batches:
                yield batch
                limit.reschedule(loop.time() + SILENCE_SECONDS)


async def latency(client: pydanube.Client, task: Task) -> Result:
    """One message at a time, at an even rate; how long until a consumer has it."""
    pool = make_pool(task.producers[0], task.size)
    producer = await client.producer(task.topic, linger_ms=0, durability=task.durability, compression=task.compression)
    consumer = await client.subscribe(task.topic, task.subscription, start="earliest")
    checker = Checker(task.producers, task.count, task.size)
    sent: list[float] = []
    arrived_ms: list[float] = []

    async def receive() -> None:
        async for batch in _until_silent(consumer):
            now = time.monotonic()
            checker.take(batch.offset_ranges, batch.payloads)
            arrived_ms.extend((now - sent[offset]) * 1000 for offset in batch.offsets)
            await consumer.ack(batch)
            if checker.is_done:
                return

    await _begin()
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(receive())
        for number in range(task.count):
            await asyncio.sleep(started + number / task.rate - time.monotonic())
            sent.append(time.monotonic())
            group.create_task(producer.send(pool[number % len(pool)]))
    checker.end()
    return Result(started, time.monotonic(), task.count, arrived_ms)


WORKS = {"produce": produce, "consume": consume, "latency": latency}


async def _work(task: Task) -> Result:
    async with pydanube.connect(task.url) as client:
        return await WORKS[task.work](client, task)


def main() -> None:
    task = msgspec.json.decode(sys.argv[1].encode(), type=Task)
    result = Result(0, 0, 0)
    try:
        result = run(_work(task))
    except* (pydanube.DanubeError, Wrong) as errors:
        result = Result(0, 0, 0, wrong="; ".join(map(str, errors.exceptions)))
    print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    main()
