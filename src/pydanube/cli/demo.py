"""The demonstration that `make demo` runs: a million messages through a broker that is killed in the middle.

A producer publishes, a consumer follows. At half of it the broker's process gets SIGKILL and is started again on the
same folder and ports. Both clients reconnect by themselves. At the end the topic is read from its beginning: every
message that was acknowledged has to be there, once and in order.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path

import click

import pydanube

from .launch import BrokerProcess
from .output import console, show_bytes, table
from .progress import Moving, moving
from .target import run

MESSAGES = 1_000_000
BATCH = 1000
IN_FLIGHT = 16
TOPIC, SUBSCRIPTION = "/default/orders", "billing"


def order(number: int) -> bytes:
    return b'{"order": %d, "user": "user-%d", "items": %d, "note": "packed and ready to go"}' % (
        number,
        number * 7919 % 10_007,
        number % 9 + 1,
    )


class Demo:
    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.broker = BrokerProcess(data_dir)
        self._half = asyncio.Event()
        self._acknowledged = [False] * (MESSAGES // BATCH)
        self._last_ack = 0.0
        self.silence = 0.0  # the longest time without an acknowledgement
        self.came_again = 0

    async def publish(self, client: pydanube.Client, moved: Moving) -> None:
        producer = await client.producer(TOPIC, batch_count=BATCH)
        room = asyncio.Semaphore(IN_FLIGHT)

        async def send(number: int, payloads: list[bytes]) -> None:
            await producer.send_many(payloads)
            room.release()
            self._acknowledged[number] = True
            now = time.monotonic()
            self.silence = max(self.silence, now - (self._last_ack or now))
            self._last_ack = now
            moved.add(len(payloads), sum(map(len, payloads)))
            if moved.messages >= MESSAGES // 2:
                self._half.set()

        async with asyncio.TaskGroup() as group:
            for number in range(MESSAGES // BATCH):
                await room.acquire()
                group.create_task(send(number, [order(number * BATCH + each) for each in range(BATCH)]))

    async def follow(self, client: pydanube.Client) -> None:
        """What a consumer sees: nothing is left out; what it had not acknowledged at the crash comes again."""
        consumer = await client.subscribe(TOPIC, SUBSCRIPTION, start="earliest")
        next_offset = 0
        async for batch in consumer.batches():
            for first, end in batch.offset_ranges:
                if first > next_offset:
                    raise SystemExit(f"the consumer should have got offset {next_offset} and got {first}")
                self.came_again += min(end, next_offset) - first
                next_offset = max(next_offset, end)
            await consumer.ack(batch)
            if next_offset >= MESSAGES:
                break
        with contextlib.suppress(pydanube.ConnectionLost):  # of the crash: what was acknowledged then came again
            await consumer.flush_acks()

    async def crash(self, moved: Moving) -> None:
        await self._half.wait()
        pid, ports = self.broker.pid, self.broker.ports
        await asyncio.to_thread(self.broker.kill)
        moved.say(f"kill -9 {pid}: the broker is gone, without a word.", "red")
        options = {"native_port": ports.native, "http_port": ports.http}
        self.broker = await asyncio.to_thread(lambda: BrokerProcess(self._data_dir, **options))
        for line in self.broker.said[:-1]:
            moved.say(line, "yellow")
        moved.say(f"Started again on the same folder and ports, as process {self.broker.pid}.", "green")

    async def check(self, client: pydanube.Client, moved: Moving) -> bool:
        """Reads all of it back, from the first offset on."""
        expected = 0
        async for batch in client.read(TOPIC, "earliest"):
            payloads = batch.payloads
            if payloads != [order(number) for number in range(expected, expected + len(payloads))]:
                return False
            expected += len(payloads)
            moved.add(len(payloads), sum(map(len, payloads)))
        return expected == MESSAGES and all(self._acknowledged)


async def play(demo: Demo) -> bool:
    started = time.monotonic()
    async with pydanube.connect(demo.broker.url) as producing, pydanube.connect(demo.broker.url) as consuming:
        await producing.create_topic(TOPIC)
        with moving("publishing", MESSAGES) as published:
            async with asyncio.TaskGroup() as group:
                group.create_task(demo.crash(published))
                group.create_task(demo.follow(consuming))
                await demo.publish(producing, published)
        seconds = time.monotonic() - started
        reading = time.monotonic()
        with moving("reading back", MESSAGES) as checked:
            is_right = await demo.check(consuming, checked)
        read_seconds = time.monotonic() - reading
    shown = table("", "", ">messages", ">bytes", ">seconds", ">messages/s")
    shown.title = None
    rows = (("published, acknowledged on disk, and consumed", published, seconds), ("read back", checked, read_seconds))
    for name, moved, spent in rows:
        rate = moved.messages / spent
        shown.add_row(name, f"{moved.messages:,}", show_bytes(moved.bytes), f"{spent:.2f}", f"{rate:,.0f}")
    console().print("", shown, "")
    click.echo(f"The longest time without an acknowledgement, crash and restart included: {demo.silence:.2f} s.")
    click.echo(f"The consumer missed none; {demo.came_again:,} that it had not acknowledged came a second time.")
    if is_right:
        click.secho(f"All {MESSAGES:,} acknowledged messages are there, once and in order.", fg="green", bold=True)
    else:
        click.secho("What was read back is not what was acknowledged.", fg="red", bold=True)
    return is_right


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="danube-demo-") as folder, contextlib.ExitStack() as stack:

        async def whole() -> bool:
            demo = Demo(Path(folder))
            stack.callback(lambda: demo.broker.stop())
            click.echo(f"A broker, process {demo.broker.pid}, at {demo.broker.url}, data in {folder}.")
            click.echo(f"{MESSAGES:,} messages go through it. At half of them it is killed.\n")
            return await play(demo)

        sys.exit(0 if run(whole()) else 1)


if __name__ == "__main__":
    main()
