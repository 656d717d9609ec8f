"""The client against a real broker: what both ends promise each other, and a broker that is stopped and started."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import pydanube
from pydanube.cli.launch import BrokerProcess
from pydanube.model.errors import AlreadyExists, OffsetOutOfRange, SubscriptionBusy, TopicMismatch, UnknownTopic
from pydanube.testing import RunningBroker, broker

from .running import run


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as running:
        yield running


async def drain(consumer: pydanube.Consumer, count: int) -> list[pydanube.Message]:
    taken: list[pydanube.Message] = []
    async for message in consumer:
        taken.append(message)
        await consumer.ack(message)
        if len(taken) == count:
            break
    await consumer.flush_acks()
    return taken


def test_there_and_back(running: RunningBroker) -> None:
    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producer = await client.producer("there", name="shop-1", compression="zstd")
            sent = await producer.send(
                b"payload", key="k", attributes={"a": "b"}, event_time=datetime(2026, 1, 1, tzinfo=UTC)
            )
            assert sent == ("/default/there", None, 0)
            consumer = await client.subscribe("there", "s", start="earliest")
            (message,) = await drain(consumer, 1)
            assert (message.payload, message.key, dict(message.attributes)) == (b"payload", "k", {"a": "b"})
            assert (message.event_time, message.producer) == (datetime(2026, 1, 1, tzinfo=UTC), "shop-1")
            assert message.publish_time > datetime(2020, 1, 1, tzinfo=UTC)
            with pytest.raises(SubscriptionBusy):
                await client.subscribe("there", "s")
            await consumer.close()
            again = await client.subscribe("there", "s")
            await producer.send(b"next")
            assert [message.offset for message in await drain(again, 1)] == [1]

    run(work())


@pytest.mark.parametrize("size", [10, 100_000, 4_000_000])
def test_more_than_the_standing_credit(running: RunningBroker, size: int) -> None:
    """Grants, several producers on one connection, batches of any size."""

    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producers = [await client.producer(f"credit-{size}") for _ in range(3)]
            payloads = [bytes(size)] * max(3, 12_000_000 // max(size, 2000))
            results = await asyncio.gather(*(producer.send_many(payloads) for producer in producers))
            offsets = sorted(offset for sent in results for offset in sent.offsets)
            assert offsets == list(range(3 * len(payloads)))
            got = 0
            async for batch in client.read(f"credit-{size}"):
                got += sum(map(len, batch.payloads))
            assert got == 3 * len(payloads) * size
            await client.delete_topic(f"credit-{size}")

    run(work())


def test_partitions(running: RunningBroker) -> None:
    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producer = await client.producer("parts", partitions=3)
            keys = [f"k{number % 9}" for number in range(300)]
            payloads = [b"%d" % number for number in range(300)]
            sent = await producer.send_many(payloads, keys=keys)
            consumer = await client.subscribe("parts", "s", start="earliest")
            taken = await drain(consumer, 300)
            place_of = {message.payload: (message.topic, message.partition, message.offset) for message in taken}
            assert [place_of[payload] for payload in payloads] == [tuple(place) for place in sent]
            for key in set(keys):
                in_order = [int(message.payload) for message in taken if message.key == key]
                assert in_order == sorted(in_order)
            assert {each.partition: each.latest for each in await client.offsets("parts")}.keys() == {0, 1, 2}
            read = [message async for batch in client.read("parts") for message in batch]
            assert sorted(message.payload for message in read) == sorted(payloads)
            with pytest.raises(TopicMismatch):
                await client.producer("parts", partitions=2)
            assert (await client.list_topics()).count("/default/parts") == 1

    run(work())


def test_a_non_reliable_topic(running: RunningBroker) -> None:
    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producer = await client.producer("passing", reliable=False)
            await producer.send(b"nobody listens")
            consumer = await client.subscribe("passing", "s")
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(5)))
            assert [message.payload for message in await drain(consumer, 5)] == [b"0", b"1", b"2", b"3", b"4"]
            await consumer.close(drain=5)
            with pytest.raises(TopicMismatch):
                await client.producer("passing", reliable=True)

    run(work())


def test_reading(running: RunningBroker) -> None:
    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producer = await client.producer("reading")
            for first in range(0, 100, 10):
                await producer.send_many([b"%d" % number for number in range(first, first + 10)])
            got = [offset async for batch in client.read("reading", start=35, stop=72) for offset in batch.offsets]
            assert got == list(range(35, 72))
            assert [batch async for batch in client.read("reading", start="latest")] == []
            following = client.read("reading", start=100, stop=None)
            waiting = asyncio.ensure_future(anext(following))
            await producer.send(b"news")
            assert (await waiting).payloads == [b"news"]
            with pytest.raises(UnknownTopic):
                await anext(client.read("no-such"))
            with pytest.raises(OffsetOutOfRange):
                await anext(client.read("reading", start=1000, stop=None))

    run(work())


def test_reading_by_time(running: RunningBroker) -> None:
    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producer = await client.producer("by-time")
            await producer.send(b"old")
            running.clock.advance(3600)
            now = datetime.fromtimestamp(running.clock.now_us() / 1e6, UTC)
            await producer.send(b"new")
            soon = now - timedelta(minutes=1)
            assert [batch.payloads async for batch in client.read("by-time", start=soon)] == [[b"new"]]
            consumer = await client.subscribe("by-time", "s", start=soon)
            assert [message.payload for message in await drain(consumer, 1)] == [b"new"]

    run(work())


def test_administration(running: RunningBroker) -> None:
    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            await client.create_namespace("shop", auto_create_topics=False)
            with pytest.raises(AlreadyExists):
                await client.create_namespace("shop")
            with pytest.raises(pydanube.DanubeError):
                await client.producer("/shop/orders")
            await client.create_topic("/shop/orders", partitions=2)
            assert await client.list_topics("shop") == ["/shop/orders"]
            await client.set_retention("/shop/orders", time_us=1_000_000)
            facts = await client.describe_topic("/shop/orders")
            assert facts["retention"] == {"time_us": 1_000_000, "bytes": None, "hold_unconsumed": True}
            await client.reset_retention("/shop/orders")
            assert (await client.describe_topic("/shop/orders"))["retention"] is None
            consumer = await client.subscribe("/shop/orders", "s")
            assert await client.list_subscriptions("/shop/orders") == ["s"]
            await consumer.close()
            await client.delete_subscription("/shop/orders", "s")
            assert await client.list_subscriptions("/shop/orders") == []
            await client.set_namespace("shop", auto_create_topics=True)
            assert (await client.describe_namespace("shop"))["auto_create_topics"] is True
            await client.delete_topic("/shop/orders")
            await client.delete_namespace("shop")
            assert "shop" not in await client.list_namespaces()
            assert (await client.health()).round_trip_s >= 0

    run(work())


def test_a_handler_that_blocks_the_loop(running: RunningBroker) -> None:
    """Longer than any timer of the connection would notice: there is none."""

    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producer = await client.producer("slow", linger_ms=0)
            for number in range(100):
                producer.post(b"%d" % number)
            consumer = await client.subscribe("slow", "s", start="earliest")
            (message,) = await drain(consumer, 1)
            time.sleep(0.2)  # the loop stands still; what waits in the sockets waits on
            assert message.payload == b"0"
            await producer.flush()
            assert len(await drain(consumer, 99)) == 99
            assert consumer.state == "open"

    run(work())


def test_a_recreated_topic_is_another_one(running: RunningBroker) -> None:
    """A producer that lives on while its topic is deleted and created again hears of it, and can go on."""

    async def work() -> None:
        async with pydanube.connect(running.url) as client:
            producer = await client.producer("again")
            await producer.send(b"old")
            await client.delete_topic("again")
            await client.create_topic("again")
            with pytest.raises(pydanube.DanubeError):
                await producer.send(b"lost")
            assert (await producer.send(b"new")).offset == 0

    run(work())


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_process_that_is_started_again(tmp_path: Path, how: str) -> None:
    """Producers and consumers that were open before go on: nothing is lost, nothing comes twice."""

    async def work() -> None:
        process = BrokerProcess(tmp_path / "data")
        native, http = process.ports.native, process.ports.http
        try:
            async with pydanube.connect(process.url) as client:
                producer = await client.producer("restart", batch_count=10)
                consumer = await client.subscribe("restart", "s", start="earliest")
                for number in range(200):
                    producer.post(b"%d" % number)
                first = await drain(consumer, 100)
                for number in range(200, 400):
                    producer.post(b"%d" % number)
                await asyncio.to_thread(getattr(process, how))
                for number in range(400, 500):
                    producer.post(b"%d" % number)
                process = await asyncio.to_thread(BrokerProcess, tmp_path / "data", native_port=native, http_port=http)
                await producer.flush()
                rest = await drain(consumer, 400)
                assert [int(message.payload) for message in first + rest] == list(range(500))
                assert [message.offset for message in first + rest] == list(range(500))
        finally:
            process.kill()

    run(work())
