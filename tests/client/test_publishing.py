"""Producers against a scripted broker: batching, credit, errors, and what happens when connections end."""

import asyncio
from itertools import pairwise

import pytest

import pydanube
from pydanube.client.client import Client
from pydanube.model.errors import (
    BatchTooLarge,
    BufferFull,
    ClientClosed,
    ConnectionLost,
    DiskFull,
    InvalidRequest,
    MessageTooLarge,
    NotAllowed,
    OutOfSequence,
    Overloaded,
    ProducerFenced,
    TopicMismatch,
    UnknownProducer,
    UnknownTopic,
)
from pydanube.records import open_batch
from pydanube.wire import Frame, Kind, decode, encode, messages

from .fake_broker import FakeBroker, Peer
from .running import run


def test_a_lone_message_goes_out_at_once() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            # With this linger it would never come if it waited.
            producer = await client.producer("orders", linger_ms=1e6)
            sent = await producer.send(b"one", key="k", attributes={"a": "b"}, event_time=7)
            assert sent == ("/default/orders", None, 0)
            records = open_batch(broker.batches[0].data).records()
            assert (records.payloads, records.keys, records.event_times_us) == ([b"one"], ["k"], [7])
            assert records.attributes == [{"a": "b"}]

    run(work())


def test_what_is_sent_together_travels_together() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            places = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(50)))
            assert [place.offset for place in places] == list(range(50))
            assert [batch.header.record_count for batch in broker.batches] == [50]

    run(work())


def test_while_batches_are_under_way_messages_gather() -> None:
    """The answer to the last batch sends what has gathered, without waiting for the linger."""

    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", linger_ms=1e6)
            broker.is_holding = True
            producer.post(b"first")
            await broker.until(lambda: broker.batches)
            for number in range(20):
                producer.post(b"%d" % number)
            broker.is_holding = False
            broker.answer(broker.batches[0])
            await producer.flush()
            assert [batch.header.record_count for batch in broker.batches] == [1, 20]

    run(work())


def test_a_full_batch_is_sent() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            by_count = await client.producer("orders", batch_count=10)
            for number in range(25):
                by_count.post(b"%d" % number)
            await by_count.flush()
            assert [batch.header.record_count for batch in broker.batches] == [10, 10, 5]
            by_bytes = await client.producer("orders", batch_bytes=1000)
            for _ in range(5):
                by_bytes.post(b"x" * 492)
            await by_bytes.flush()
            assert [batch.header.record_count for batch in broker.batches[3:]] == [2, 2, 1]

    run(work())


def test_send_many_divides_and_keeps_order() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", batch_bytes=1000)
            producer.post(b"before")
            payloads = [b"%04d" % number * (number % 7 + 1) for number in range(500)]
            sent = await producer.send_many(payloads)
            assert sent.offsets == list(range(1, 501))
            assert (len(sent), sent[-1].offset, sent[:2]) == (500, 500, [sent[0], sent[1]])
            got = [payload for batch in broker.batches for payload in open_batch(batch.data).payloads()]
            assert got == [b"before", *payloads]
            sequences = [(batch.header.first_sequence, batch.header.record_count) for batch in broker.batches]
            assert all(a + n == b for (a, n), (b, _) in pairwise(sequences))

    run(work())


def test_at_most_32_batches_are_unanswered() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", batch_count=1)
            broker.is_holding = True
            for number in range(100):
                producer.post(b"%d" % number)
            await broker.until(lambda: len(broker.batches) >= 32)
            await client.health()  # whatever was sent before this has come
            assert len(broker.batches) == 32
            broker.is_holding = False
            for batch in broker.batches[:32]:
                broker.answer(batch)
            await producer.flush()
            assert broker.end == 100

    run(work())


def test_credit_is_respected() -> None:
    """Beyond the standing credit nothing is sent without a grant; the fake broker checks every batch."""

    async def work() -> None:
        async with FakeBroker(publish_credit=2500) as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", batch_count=1)
            broker.is_holding = True
            for _ in range(10):
                producer.post(b"x" * 1000)
            await broker.until(lambda: broker.wants)
            assert len(broker.batches) == 2
            peer = broker.peers[0]
            broker.grant(peer, broker.wants[0])
            await broker.until(lambda: len(broker.batches) > 2)
            broker.is_holding = False
            for batch in list(broker.batches):
                broker.answer(batch)

            def grant_all(_peer: object, frame: object) -> None:
                del frame
                broker.grant(peer, 5000)

            broker.answers[Kind.WANT] = grant_all
            await producer.flush()
            assert broker.end == 10

    run(work())


def test_a_batch_larger_than_the_standing_credit_waits_for_a_grant() -> None:
    async def work() -> None:
        async with FakeBroker(publish_credit=100) as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            sending = asyncio.ensure_future(producer.send(b"x" * 1000))
            await broker.until(lambda: broker.wants)
            assert broker.batches == []
            assert broker.wants[0] >= 1000
            broker.grant(broker.peers[0], broker.wants[0])
            assert (await sending).offset == 0

    run(work())


def test_after_a_lost_connection_batches_are_sent_again_byte_identical_and_in_order() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", batch_count=1)
            broker.is_holding = True
            sending = [asyncio.ensure_future(producer.send(b"%d" % number)) for number in range(5)]
            await broker.until(lambda: len(broker.batches) == 5)
            broker.answer(broker.batches[0])
            assert (await sending[0]).offset == 0
            # The second one was stored, and its answer is lost.
            header = broker.batches[1].header
            broker.stored[(header.producer_id, header.producer_epoch, header.first_sequence)] = broker.end
            broker.end += 1
            await broker.drop()
            broker.is_holding = False
            places = await asyncio.gather(*sending)
            assert [place.offset for place in places] == [0, 1, 2, 3, 4]
            assert [batch.data for batch in broker.batches[5:]] == [batch.data for batch in broker.batches[1:5]]
            assert broker.end == 5
            first, again = broker.opened
            assert (first.producer_id, again.producer_id, again.epoch) == (0, 1001, 0)

    run(work())


def test_a_broker_that_restarts_is_found_again() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            await producer.send(b"before")
            await broker.stop()
            sending = asyncio.ensure_future(producer.send(b"between"))
            await broker.listen()
            assert (await sending).offset == 1
            assert (await producer.send(b"after")).offset == 2
            assert (await client.health()).broker == "fake"

    run(work())


def test_a_broker_that_says_goodbye_is_left_in_good_order() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            broker.is_holding = True
            first = asyncio.ensure_future(producer.send(b"first"))
            await broker.until(lambda: broker.batches)
            broker.peers[0].send(Kind.GOODBYE, 0)
            broker.is_holding = False
            broker.answer(broker.batches[0])
            assert (await first).offset == 0
            second = asyncio.ensure_future(producer.send(b"second"))
            broker.peers[0].transport.close()
            assert (await second).offset == 1
            assert len(broker.peers) == 2

    run(work())


def test_without_idempotence_nothing_is_sent_twice() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", idempotent=False)
            broker.is_holding = True
            sending = asyncio.ensure_future(producer.send(b"maybe"))
            await broker.until(lambda: broker.batches)
            assert broker.batches[0].header.producer_id == 0
            await broker.drop()
            with pytest.raises(ConnectionLost):
                await sending
            broker.is_holding = False
            assert (await producer.send(b"new")).offset == 0
            assert len(broker.batches) == 2

    run(work())


@pytest.mark.parametrize("error", [DiskFull("full"), Overloaded("busy")])
def test_what_may_succeed_later_is_tried_again_in_order(error: pydanube.DanubeError) -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", batch_count=1)
            broker.refusals = [error, OutOfSequence("behind"), OutOfSequence("behind")]
            places = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(3)))
            assert [place.offset for place in places] == [0, 1, 2]
            assert [batch.data for batch in broker.batches[3:]] == [batch.data for batch in broker.batches[:3]]

    run(work())


def test_out_of_sequence_before_its_cause_is_known() -> None:
    """The answers of two batches may cross: the second one waits for the first one's fate."""

    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", batch_count=1)
            broker.is_holding = True
            sending = [asyncio.ensure_future(producer.send(b"%d" % number)) for number in range(2)]
            await broker.until(lambda: len(broker.batches) == 2)
            broker.is_holding = False
            broker.refusals = [OutOfSequence("behind"), DiskFull("full")]
            broker.answer(broker.batches[1])
            broker.answer(broker.batches[0])
            assert [place.offset for place in await asyncio.gather(*sending)] == [0, 1]

    run(work())


def test_a_forgotten_producer_begins_anew() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            await producer.send(b"one")
            broker.refusals = [UnknownProducer("long ago")]
            with pytest.raises(UnknownProducer):
                await producer.send(b"two")
            assert (await producer.send(b"three")).offset == 1
            last = broker.batches[-1].header
            assert (last.producer_id, last.first_sequence) == (1002, 0)

    run(work())


def test_a_producer_forgotten_meanwhile_begins_anew() -> None:
    """The broker says so when the producer is opened again: what was under way has failed."""

    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            broker.is_holding = True
            sending = asyncio.ensure_future(producer.send(b"one"))
            await broker.until(lambda: broker.batches)
            broker.refuse_open = [UnknownProducer("long ago")]
            await broker.drop()
            broker.is_holding = False
            with pytest.raises(UnknownProducer):
                await sending
            assert (await producer.send(b"two")).offset == 0
            assert [asked.producer_id for asked in broker.opened] == [0, 1001, 0]

    run(work())


def test_opening_again_is_tried_until_it_works_or_never_will() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            broker.refuse_open = [DiskFull("full"), Overloaded("busy")]
            await broker.drop()
            assert (await producer.send(b"one")).offset == 0
            broker.refuse_open = [UnknownTopic("deleted")]
            await broker.drop()
            with pytest.raises(UnknownTopic):
                await producer.send(b"two")
            with pytest.raises(UnknownTopic):
                await producer.send(b"three")

    run(work())


def test_a_fenced_producer_is_finished() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            broker.refusals = [ProducerFenced("another one")]
            for _ in range(2):
                with pytest.raises(ProducerFenced):
                    await producer.send(b"one")
            assert len(broker.batches) == 1

    run(work())


def test_what_is_not_answered_in_time_has_failed() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", delivery_timeout=0.05)
            broker.is_holding = True
            with pytest.raises(ConnectionLost, match="within"):
                await producer.send(b"never")
            broker.is_holding = False
            broker.answer(broker.batches[0])  # too late to matter
            patient = await client.producer("orders")
            await patient.send(b"yes")

    run(work())


def test_flush_names_what_failed() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", batch_count=3)
            broker.refusals = [NotAllowed("no")]
            for number in range(3):
                producer.post(b"%d" % number)
            with pytest.raises(pydanube.PublishErrors) as raised:
                await producer.flush()
            (error,) = raised.value.exceptions
            assert isinstance(error, NotAllowed)
            assert "3 messages to /default/orders: no" in str(error)
            await producer.flush()  # told once
            producer.post(b"again")
            await producer.flush()

    run(work())


def test_errors_are_published_errors_and_a_group() -> None:
    group = pydanube.PublishErrors("two", [DiskFull("a"), NotAllowed("b")])
    assert isinstance(group, pydanube.DanubeError)
    matched, rest = group.split(DiskFull)
    assert matched is not None
    assert rest is not None
    assert (type(matched), len(rest.exceptions)) == (pydanube.PublishErrors, 1)


def test_the_buffer_is_bounded_in_bytes() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders", buffer_bytes=10_000)
            broker.is_holding = True
            for _ in range(20):
                producer.post(b"x" * 492)
            with pytest.raises(BufferFull):
                producer.post(b"x" * 492)
            waiting = asyncio.ensure_future(producer.send(b"y" * 492))
            many = asyncio.ensure_future(producer.send_many([b"z" * 492]))
            await broker.until(lambda: broker.batches)
            assert broker.batches[0].header.record_count == 20
            assert not waiting.done()
            broker.is_holding = False
            broker.answer(broker.batches[0])
            assert (await waiting).offset >= 20
            assert len(await many) == 1

    run(work())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"payload": "text"}, InvalidRequest),
        ({"payload": b"", "key": b"bytes"}, InvalidRequest),
        ({"payload": b"", "key": "\ud800"}, InvalidRequest),
        ({"payload": b"", "key": "k" * 100_000}, BatchTooLarge),
        ({"payload": b"", "attributes": {"a": 1}}, InvalidRequest),
        ({"payload": bytes(2 << 20)}, MessageTooLarge),
    ],
)
def test_a_message_that_cannot_be_sent_harms_no_other(
    arguments: dict[str, object], error: type[pydanube.DanubeError]
) -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            producer.post(b"good")
            with pytest.raises(error):
                producer.post(**arguments)  # type: ignore[arg-type]
            with pytest.raises(error):
                await producer.send(**arguments)  # type: ignore[arg-type]
            await producer.flush()
            assert broker.end == 1

    run(work())


def test_send_many_refuses_what_does_not_fit_together() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            with pytest.raises(InvalidRequest):
                await producer.send_many([b"a", b"b"], keys=["k"])
            with pytest.raises(InvalidRequest):
                await producer.send_many(["text"])  # type: ignore[list-item]
            with pytest.raises(MessageTooLarge):
                await producer.send_many([bytes(2 << 20)])
            assert len(await producer.send_many([])) == 0
            assert (await producer.send_many((b"a", bytearray(b"b")), keys=["k", None])).offsets == [0, 1]

    run(work())


def test_mutable_payloads_are_copied() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            producer = await client.producer("orders")
            payload = bytearray(b"before")
            producer.post(payload)
            payload[:] = b"after!"
            await producer.flush()
            assert open_batch(broker.batches[0].data).payloads() == [b"before"]

    run(work())


def test_partitions() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            broker.partitions["/default/new"] = []
            producer = await client.producer("new", partitions=3)
            assert [asked.topic for asked in broker.opened] == [f"/default/new-part-{number}" for number in range(3)]
            assert {asked.settings.partitions for asked in broker.opened} == {3}
            keys = [f"key-{number % 10}" for number in range(100)]
            sent = await producer.send_many([b"%d" % number for number in range(100)], keys=keys)
            by_key: dict[str, set[int | None]] = {}
            for key, place in zip(keys, sent, strict=True):
                by_key.setdefault(key, set()).add(place.partition)
            assert all(len(partitions) == 1 for partitions in by_key.values())
            for key, partitions in by_key.items():
                assert (await producer.send(b"", key=key)).partition in partitions
            one_by_one = {(await producer.send_many([b"x"]))[0].partition for _ in range(3)}
            assert one_by_one == {0, 1, 2}

            broker.partitions["/default/there"] = ["/default/there-part-0", "/default/there-part-1"]
            await client.producer("there")
            assert [asked.settings.partitions for asked in broker.opened[3:]] == [2, 2]
            with pytest.raises(TopicMismatch):
                await client.producer("there", partitions=3)
            with pytest.raises(TopicMismatch):
                await client.producer("plain", partitions=3)

    run(work())


def test_send_many_gives_back_places_in_the_order_of_the_messages() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            names = [f"/default/p-part-{number}" for number in range(4)]
            broker.partitions["/default/p"] = names
            producer = await client.producer("p", batch_count=3)
            payloads = [b"%d" % number for number in range(40)]
            sent = await producer.send_many(payloads, keys=[f"k{number % 5}" for number in range(40)])
            place_of: dict[bytes | None, int] = {}
            for batch in broker.batches:
                header = batch.header
                first = broker.stored[(header.producer_id, header.producer_epoch, header.first_sequence)]
                place_of |= {payload: first + at for at, payload in enumerate(open_batch(batch.data).payloads())}
            assert [place_of[payload] for payload in payloads] == sent.offsets

    run(work())


def test_closing() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            client = pydanube.connect(broker.url)
            producer = await client.producer("orders")
            producer.post(b"last words")
            await client.close()
            assert broker.end == 1
            with pytest.raises(ClientClosed):
                producer.post(b"more")
            with pytest.raises(ClientClosed):
                await client.health()
            await client.close()

    run(work())


def test_an_error_in_the_block_ends_it_without_waiting() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            broker.is_holding = True
            client = await pydanube.connect(broker.url).__aenter__()
            producer = await client.producer("orders")
            producer.post(b"never answered")
            await client.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
            with pytest.raises(pydanube.PublishErrors):
                await producer.flush()

    run(work())


def test_no_broker_is_a_clear_error() -> None:
    async def work(client: Client) -> None:
        with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1:"):
            async with client:
                pass
        await client.close()

    run(work(pydanube.connect("danube://127.0.0.1:1")))


def test_the_first_broker_that_answers_is_used() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            url = f"danube://127.0.0.1:1,127.0.0.1:{broker.port}"
            async with pydanube.connect(url) as client:
                assert (await client.health()).address == f"127.0.0.1:{broker.port}"

    run(work())


def test_a_broker_that_breaks_the_protocol_is_left() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            broker.answers[Kind.PING] = lambda peer, frame: peer.send(Kind.DONE, frame.request)
            with pytest.raises(ConnectionLost, match="DONE"):
                await client.health()
            del broker.answers[Kind.PING]
            assert (await client.health()).broker == "fake"

    run(work())


def test_an_error_for_the_whole_connection_is_its_reason() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            reply = encode(messages.ErrorReply(107, "you are not welcome"))
            broker.answers[Kind.PING] = lambda peer, _: peer.send(Kind.ERROR, 0, reply)
            with pytest.raises(ConnectionLost, match="not welcome"):
                await client.health()

    run(work())


def test_a_producer_that_cannot_be_opened_leaves_nothing_behind() -> None:
    async def work() -> None:
        async with FakeBroker() as broker, pydanube.connect(broker.url) as client:
            broker.partitions["/default/p"] = ["/default/p-part-0", "/default/p-part-1"]
            closed: list[int] = []

            def close(peer: Peer, frame: Frame) -> None:
                closed.append(decode(frame.control, messages.CloseHandle).handle)
                peer.send(Kind.DONE, frame.request)

            broker.answers[Kind.PRODUCER_CLOSE] = close
            broker.on_opened = lambda: broker.refuse_open.append(TopicMismatch("another durability"))
            with pytest.raises(TopicMismatch):
                await client.producer("p")
            assert closed == [1]

    run(work())
