"""Consumers against a scripted broker: credit, acknowledgements, sessions, closing."""

import asyncio
from datetime import UTC, datetime

import pytest

import pydanube
from pydanube.client.received import Decoded, Run
from pydanube.model.errors import (
    ClientClosed,
    ConnectionLost,
    DiskFull,
    InvalidAck,
    InvalidBatch,
    InvalidRequest,
    SubscriptionBusy,
    UnknownTopic,
)
from pydanube.records import Records, encode_batch, open_batch, stamp
from pydanube.wire import Kind, decode, encode, messages

from .fake_broker import TOPIC_ID, FakeBroker, Peer
from .running import run


def stored(first: int, count: int, size: int = 10) -> bytes:
    """A batch as a broker would have it."""
    payloads = [b"%d" % number + bytes(size) for number in range(first, first + count)]
    batch = encode_batch(Records(payloads=payloads), topic_id=TOPIC_ID, first_publish_time_us=5)
    stamp(batch, first, 0, 6)
    return bytes(batch)


def run_of(batch: bytes) -> Run:
    opened = open_batch(batch)
    return Run(Decoded(opened), 0, len(opened))


async def take(consumer: pydanube.Consumer, count: int) -> list[pydanube.Message]:
    messages: list[pydanube.Message] = []
    async for message in consumer:
        messages.append(message)
        if len(messages) == count:
            break
    return messages


def test_messages_and_acks() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing", start="earliest")
            assert consumer.state == "open"
            assert broker.subscribed[0].start == "earliest"
            broker.deliver(1, stored(100, 5))
            taken = await take(consumer, 5)
            assert [message.offset for message in taken] == [100, 101, 102, 103, 104]
            assert taken[0].publish_time == datetime(1970, 1, 1, 0, 0, 0, 5, UTC)
            assert (taken[0].topic, taken[0].partition, taken[0].key) == ("/default/orders", None, None)
            for message in (taken[0], taken[1], taken[3]):
                await consumer.ack(message)
            await consumer.ack(taken[1])
            await consumer.flush_acks()
            assert [ack.ranges for ack in broker.acks] == [[(100, 102), (103, 104)]]
            await consumer.ack_up_to(taken[4])
            await consumer.flush_acks()
            assert broker.acks[-1].ranges == [(102, 103), (104, 105)]

    run(work())


def test_acks_are_sent_without_being_asked_for() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(0, 3))
            await consumer.ack(await take(consumer, 3))
            await broker.until(lambda: broker.acks)
            assert broker.acks[0].ranges == [(0, 3)]

    run(work())


def test_batches_and_their_limits() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            for first in range(0, 30, 10):
                broker.deliver(1, stored(first, 10))
            await broker.until(lambda: broker.peers[0].flow)
            sizes = []
            async for batch in consumer.batches(max_messages=12, max_wait=5):
                sizes.append(len(batch))
                assert batch.offsets == [message.offset for message in batch.messages]
                assert [payload[:2] for payload in batch.payloads] == [message.payload[:2] for message in batch]
                assert batch.keys == [None] * len(batch)
                await consumer.ack(batch)
                if sum(sizes) == 24:
                    break
            assert sizes == [12, 12]
            async for batch in consumer.batches(max_bytes=1):
                assert batch.offsets == list(range(24, 30))
                assert batch.to_arrow().column("offset").to_pylist() == batch.offsets
                await consumer.ack(batch)
                break
            await consumer.flush_acks()
            acked = sorted(part for ack in broker.acks for part in ack.ranges)
            assert (acked[0][0], acked[-1][1]) == (0, 30)
            with pytest.raises(InvalidRequest):
                await anext(aiter(consumer.batches(max_messages=0)))

    run(work())


def test_one_by_one_and_by_the_batch_can_be_mixed() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(0, 10), without=((3, 4),))
            broker.deliver(1, stored(10, 2))
            await client.health()
            seen = [message.offset for message in await take(consumer, 2)]
            async for batch in consumer.batches(max_messages=3):
                seen += batch.offsets
                break
            seen += [message.offset for message in await take(consumer, 1)]
            async for batch in consumer.batches():
                seen += batch.offsets
                break
            assert seen == [0, 1, 2, *range(4, 12)]

    run(work())


def test_what_was_acknowledged_already_is_left_out() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(10, 10), without=((5, 12), (14, 15), (18, 40)))
            broker.deliver(1, stored(20, 2), without=((20, 22),))
            broker.deliver(1, stored(22, 1))
            offsets = [message.offset for message in await take(consumer, 6)]
            assert offsets == [12, 13, 15, 16, 17, 22]

    run(work())


def test_credit_comes_back_as_messages_are_taken() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing", receive_bytes=100_000)
            await broker.until(lambda: broker.peers[0].flow.get(1))
            assert broker.peers[0].flow[1] == 100_000
            first, second = stored(0, 10, 3000), stored(10, 10, 3000)
            broker.deliver(1, first)
            await take(consumer, 10)
            await client.health()
            assert broker.peers[0].flow[1] == 100_000 - len(first)
            broker.deliver(1, second)
            await take(consumer, 10)
            await broker.until(lambda: broker.peers[0].flow[1] == 100_000)

    run(work())


def test_partitions_take_turns() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            broker.partitions["/default/p"] = ["/default/p-part-0", "/default/p-part-1"]
            consumer = await client.subscribe("p", "s")
            for first in range(0, 6, 2):
                broker.deliver(1, stored(first, 2))
            for first in range(0, 6, 2):
                broker.deliver(2, stored(first, 2))
            await client.health()
            taken = await take(consumer, 12)
            assert [message.partition for message in taken] == [0, 0, 1, 1] * 3
            await consumer.ack(taken)
            await consumer.flush_acks()
            assert sorted((ack.handle, ack.ranges) for ack in broker.acks) == [(1, [(0, 6)]), (2, [(0, 6)])]

    run(work())


def test_after_a_reconnect_it_goes_on_and_old_acks_are_dropped() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(0, 4))
            old = (await take(consumer, 2))[0]  # two more are decoded and not seen
            await broker.drop()
            await broker.until(lambda: broker.peers[-1].flow.get(2))
            broker.deliver(2, stored(0, 4))
            again = await take(consumer, 4)
            assert [message.offset for message in again] == [0, 1, 2, 3]
            assert consumer.state == "open"
            await consumer.ack(old)
            await consumer.ack(again[3])
            await consumer.flush_acks()
            assert [(ack.handle, ack.ranges) for ack in broker.acks] == [(2, [(3, 4)])]

    run(work())


def test_acks_that_are_lost_are_told() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(0, 1))
            broker.answers[Kind.ACK] = lambda peer, _: peer.transport.abort()
            await consumer.ack(await take(consumer, 1))
            with pytest.raises(ConnectionLost):
                await consumer.flush_acks()
            del broker.answers[Kind.ACK]
            await consumer.flush_acks()

    run(work())


def test_acks_that_could_not_be_stored_are_sent_again() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(0, 2))

            def refuse(peer: Peer, frame: object) -> None:
                del broker.answers[Kind.ACK]
                peer.refuse(frame.request, DiskFull("full"))  # type: ignore[attr-defined]

            broker.answers[Kind.ACK] = refuse
            await consumer.ack(await take(consumer, 2))
            await consumer.flush_acks()
            assert [ack.ranges for ack in broker.acks] == [[(0, 2)]]

    run(work())


def test_a_moved_subscription_begins_anew() -> None:
    """Deliveries of another generation: what came before counts no more."""

    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(50, 2))
            (old,) = await take(consumer, 1)
            broker.deliver(1, stored(0, 2), generation=1)
            await client.health()
            new = await take(consumer, 2)
            assert [message.offset for message in new] == [0, 1]
            await consumer.ack(old)
            await consumer.ack(new)
            await consumer.flush_acks()
            assert [(ack.generation, ack.ranges) for ack in broker.acks] == [(1, [(0, 2)])]

    run(work())


def test_close_waits_for_what_was_handed_out() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(0, 5))
            taken = await take(consumer, 3)
            closing = asyncio.ensure_future(consumer.close(drain=20))
            await client.health()
            assert not closing.done()
            await consumer.ack(taken)
            await closing
            assert consumer.state == "closed"
            assert [ack.ranges for ack in broker.acks] == [[(0, 3)]]
            assert broker.peers[0].flow == {}
            assert await take(consumer, 1) == []
            await consumer.close()

    run(work())


def test_close_gives_the_rest_back_at_once() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            broker.deliver(1, stored(0, 5))
            await take(consumer, 3)
            await consumer.close()
            assert broker.acks == []
            assert broker.peers[0].flow == {}

    run(work())


def test_whoever_waits_hears_of_the_end() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            waiting = asyncio.ensure_future(take(consumer, 1))
            await client.health()
            await consumer.close()
            assert await waiting == []
            with pytest.raises(ClientClosed):
                await consumer.receive()

    run(work())


def test_several_tasks_share_a_consumer() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "billing")
            waiting = [asyncio.ensure_future(consumer.receive()) for _ in range(6)]
            await client.health()
            broker.deliver(1, stored(0, 4))
            broker.deliver(1, stored(4, 2))
            got = [message.offset for message in await asyncio.gather(*waiting)]
            assert sorted(got) == [0, 1, 2, 3, 4, 5]

    run(work())


def test_a_subscription_that_cannot_be_opened() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            broker.partitions["/default/none"] = []
            with pytest.raises(UnknownTopic):
                await client.subscribe("none", "s")
            broker.answers[Kind.SUBSCRIBE] = lambda peer, frame: peer.refuse(frame.request, SubscriptionBusy("taken"))
            with pytest.raises(SubscriptionBusy):
                await client.subscribe("orders", "s")
            with pytest.raises(InvalidRequest):
                await client.subscribe("orders", "s", start="yesterday")

    run(work())


def test_after_a_reconnect_a_busy_subscription_is_waited_for_and_a_lost_one_is_an_error() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "s")
            errors: list[pydanube.DanubeError] = [SubscriptionBusy("still"), UnknownTopic("deleted")]
            broker.answers[Kind.SUBSCRIBE] = lambda peer, frame: peer.refuse(frame.request, errors.pop(0))
            await broker.drop()
            with pytest.raises(UnknownTopic):
                await take(consumer, 1)
            assert (errors, consumer.state) == ([], "failed")

    run(work())


def test_a_subscription_that_nobody_waits_for_is_closed_again() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            held: list[tuple[Peer, int]] = []
            broker.answers[Kind.SUBSCRIBE] = lambda peer, frame: held.append((peer, frame.request))
            subscribing = asyncio.ensure_future(client.subscribe("orders", "s"))
            await broker.until(lambda: held)
            subscribing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await subscribing
            peer, request = held[0]
            closed: list[int] = []
            broker.answers[Kind.CONSUMER_CLOSE] = lambda _, frame: closed.append(
                decode(frame.control, messages.CloseHandle).handle
            )
            peer.send(Kind.SUBSCRIBED, request, encode(messages.Subscribed(9, 1, 0, TOPIC_ID, 0)))
            await broker.until(lambda: closed)
            assert closed == [9]

    run(work())


def test_a_damaged_batch_is_an_error_and_not_the_end() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "s")
            batch = bytearray(stored(0, 2))
            batch[-1] ^= 1
            broker.deliver(1, bytes(batch))
            with pytest.raises(InvalidBatch):
                await take(consumer, 1)
            broker.deliver(1, stored(2, 1))
            assert [message.offset for message in await take(consumer, 1)] == [2]

    run(work())


def test_a_foreign_message_is_refused() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            one, two = await client.subscribe("orders", "a"), await client.subscribe("orders", "b")
            broker.deliver(1, stored(0, 1))
            (message,) = await take(one, 1)
            with pytest.raises(InvalidAck):
                await two.ack(message)

    run(work())


@pytest.mark.parametrize(
    ("start", "text"),
    [
        ("latest", "latest"),
        (17, "17"),
        ("17", "17"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00+00:00"),
        ("2026-01-01", "2026-01-01T00:00:00+00:00"),
    ],
)
def test_starts(start: str | int | datetime, text: str) -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            await client.subscribe("orders", "s", start=start)
            assert broker.subscribed[0].start == text

    run(work())


def test_reading_is_one_request_ahead() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            offsets = encode(messages.OffsetsAre(TOPIC_ID, 3, 12, []))
            broker.answers[Kind.OFFSETS] = lambda peer, frame: peer.send(Kind.OFFSETS_ARE, frame.request, offsets)
            asked: list[int] = []

            def fetch(peer: Peer, frame: object) -> None:
                offset = decode(frame.control, messages.Fetch).offset  # type: ignore[attr-defined]
                asked.append(offset)
                if len(asked) == 2:
                    peer.transport.abort()  # it is asked again
                    return
                first = offset // 4 * 4
                reply = encode(messages.Fetched(TOPIC_ID, first, 3, 12))
                peer.send(Kind.FETCHED, frame.request, reply, (stored(first, 4),))  # type: ignore[attr-defined]

            broker.answers[Kind.FETCH] = fetch
            got: list[int] = []
            async for batch in client.read("orders", start=5, stop=10):
                got += batch.offsets
            assert got == [5, 6, 7, 8, 9]
            assert asked == [5, 8, 8]

    run(work())


def test_what_was_read_is_not_acknowledged() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "s")
            with pytest.raises(InvalidAck):
                await consumer.ack(pydanube.ReceivedBatch("/default/orders", None, [run_of(stored(0, 1))]))

    run(work())


def test_reading_follows() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            offsets = encode(messages.OffsetsAre(TOPIC_ID, 0, 0, []))
            broker.answers[Kind.OFFSETS] = lambda peer, frame: peer.send(Kind.OFFSETS_ARE, frame.request, offsets)
            answers = [(), (), (stored(0, 2),), (), (stored(2, 1),)]

            def fetch(peer: Peer, frame: object) -> None:
                reply = encode(messages.Fetched(TOPIC_ID, 0, 0, 0))
                peer.send(Kind.FETCHED, frame.request, reply, answers.pop(0))  # type: ignore[attr-defined]

            broker.answers[Kind.FETCH] = fetch
            got: list[int] = []
            async for batch in client.read("orders", stop=None):
                got += batch.offsets
                if len(got) == 3:
                    break
            assert got == [0, 1, 2]

    run(work())


def test_a_small_delivery_does_not_hold_the_memory_it_was_received_into() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            consumer = await client.subscribe("orders", "s")
            batch = stored(0, 3)
            broker.deliver(1, batch)
            async for received in consumer.batches():
                held = received.runs_from(0)[0].decoded.batch.view.obj
                assert len(memoryview(held)) == len(batch)
                break

    run(work())
