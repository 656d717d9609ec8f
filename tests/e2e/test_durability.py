"""A real broker process, real clients, SIGKILL at random moments: what was acknowledged is there, once, in order."""

import asyncio
import random
from collections import defaultdict
from pathlib import Path

import pydanube
from pydanube.cli.launch import BrokerProcess

ROUNDS = 20
PRODUCERS = 3


class Ledger:
    """What the broker has promised."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, dict[int, bytes]] = defaultdict(dict)  # by topic: offset to value
        self.count = 0
        self.changed = asyncio.Event()

    def note(self, topic: str, offset: int, value: bytes) -> None:
        known = self.acknowledged[topic].setdefault(offset, value)
        assert known == value, f"offset {offset} of {topic} was given to {known!r} and to {value!r}"
        self.count += 1

    async def wait_for(self, count: int) -> None:
        while self.count < count:
            self.changed.clear()
            await self.changed.wait()


async def publish(
    client: pydanube.Client, topic: str, tag: str, ledger: Ledger, stop: asyncio.Event, seed: int
) -> None:
    rng = random.Random(seed)
    producer = await client.producer(topic)
    number = 0
    while not stop.is_set():
        values = [f"{tag}/{number + at}".encode() for at in range(rng.choice((1, 5, 200)))]
        number += len(values)
        sent = await producer.send_many(values)
        for value, where in zip(values, sent, strict=True):
            ledger.note(where.topic, where.offset, value)
        ledger.changed.set()
    await producer.close()


async def read_all(client: pydanube.Client, topic: str) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async for batch in client.read(topic, start="earliest", stop="latest"):
        for offset, payload in zip(batch.offsets, batch.payloads, strict=True):
            assert offset == len(found), f"{topic}: offset {offset} follows {len(found) - 1}"
            found[offset] = payload
    return found


async def scenario(data_dir: Path) -> None:
    rng = random.Random(7)
    config = data_dir / "danube.yml"
    data_dir.mkdir()
    config.write_text("journal: {file_bytes: 16MiB}\n")
    broker = BrokerProcess(data_dir, "--config", str(config))
    port, http = broker.ports.native, broker.ports.http
    ledger = Ledger()
    stop = asyncio.Event()
    try:
        async with pydanube.connect(f"danube://127.0.0.1:{port}") as client:
            async with asyncio.TaskGroup() as tasks:
                for number in range(PRODUCERS):
                    topic = f"/default/t{number % 2}"
                    tasks.create_task(publish(client, topic, f"p{number}", ledger, stop, number))
                for _ in range(ROUNDS):
                    await ledger.wait_for(ledger.count + rng.randrange(1, 3000))
                    await asyncio.to_thread(broker.kill)
                    broker = await asyncio.to_thread(
                        BrokerProcess, data_dir, "--config", str(config), native_port=port, http_port=http
                    )
                await ledger.wait_for(ledger.count + 100)
                stop.set()
            for topic, acknowledged in ledger.acknowledged.items():
                found = await read_all(client, topic)
                for offset, value in acknowledged.items():
                    assert found[offset] == value
                assert len(set(found.values())) == len(found), f"{topic}: a message is stored twice"
                last: dict[bytes, int] = {}
                for offset in range(len(found)):
                    tag, order = found[offset].split(b"/")
                    assert int(order) == last.get(tag, -1) + 1, f"{topic}: {found[offset]!r} at offset {offset}"
                    last[tag] = int(order)
    finally:
        broker.kill()


def test_every_acknowledged_message_survives_kill(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(scenario(tmp_path / "data"), 120))


async def consumers(data_dir: Path) -> None:
    """Consumers that vanish get again what they had not acknowledged, and nothing that was durably acknowledged."""
    rng = random.Random(11)
    broker = BrokerProcess(data_dir)
    port, http = broker.ports.native, broker.ports.http
    url = f"danube://127.0.0.1:{port}"
    durable: set[int] = set()
    total = 3000
    try:
        async with pydanube.connect(url) as client:
            producer = await client.producer("/default/c")
            await producer.send_many([b"%d" % number for number in range(total)])
            await producer.close()
        while len(durable) < total:
            async with pydanube.connect(url) as client:
                consumer = await client.subscribe("/default/c", "s", start="earliest")
                expected = [offset for offset in range(total) if offset not in durable]
                expected = expected[: rng.randrange(1, 700)]
                acked: list[int] = []
                for offset in expected:  # just what was not acknowledged, in order
                    message = await consumer.receive()
                    assert (message.offset, message.payload) == (offset, b"%d" % offset)
                    if rng.random() < 0.8:
                        await consumer.ack(message)
                        acked.append(offset)
                await consumer.flush_acks()
                durable.update(acked)
                if rng.random() < 0.4:
                    await asyncio.to_thread(broker.kill)
                    broker = await asyncio.to_thread(BrokerProcess, data_dir, native_port=port, http_port=http)
    finally:
        broker.kill()


def test_consumers_get_what_they_did_not_acknowledge(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(consumers(tmp_path / "data"), 120))


async def stop_in_good_order(data_dir: Path) -> None:
    broker = BrokerProcess(data_dir)
    async with pydanube.connect(broker.url) as client:
        producer = await client.producer("/default/g")
        await producer.send_many([b"x"] * 1000)
        await producer.close()
    assert await asyncio.to_thread(broker.stop) == 0
    broker = BrokerProcess(data_dir)
    try:
        assert not any("torn" in line or "damag" in line for line in broker.said)
        async with pydanube.connect(broker.url) as client:
            assert len(await read_all(client, "/default/g")) == 1000
    finally:
        broker.kill()


def test_a_stop_in_good_order_leaves_nothing_to_repair(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(stop_in_good_order(tmp_path / "data"), 60))
