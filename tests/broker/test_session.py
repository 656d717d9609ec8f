"""The broker over a real socket, frame by frame."""

from collections.abc import Iterator

import pytest

from pydanube.model.errors import (
    AlreadyExists,
    InvalidRequest,
    OffsetOutOfRange,
    OutOfSequence,
    SubscriptionBusy,
    TopicMismatch,
    UnknownNamespace,
    UnknownSubscription,
    UnknownTopic,
    WrongTopic,
)
from pydanube.records import Batch, Records, encode_batch, open_batch, read_header
from pydanube.testing import RunningBroker, broker
from pydanube.wire import Kind, hot, messages

from .raw import RawClient


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker() as found:
        yield found


@pytest.fixture
def client(running: RunningBroker) -> Iterator[RawClient]:
    with RawClient(running.port) as found:
        yield found


def deliveries(client: RawClient, count: int) -> list[tuple[int, bytes | None]]:
    """The next messages, with their offsets."""
    found: list[tuple[int, bytes | None]] = []
    while len(found) < count:
        frame = client.expect(Kind.DELIVER)
        head = hot.decode_deliver(frame.control)
        at, first = 0, head.first
        while at < len(frame.attachment):
            length = read_header(frame.attachment, at).length
            batch = Batch(frame.attachment[at : at + length])
            for number, payload in enumerate(batch.payloads()):
                offset = first + number
                if not any(start <= offset < end for start, end in head.without):
                    found.append((offset, payload))
            first += len(batch)
            at += length
    return found


def test_publish_and_consume(client: RawClient) -> None:
    producer = client.producer("/default/a")
    assert client.publish(producer, [b"one", b"two"]) == 0
    assert client.publish(producer, [b"three"]) == 2
    consumer = client.subscribe("/default/a", "s")
    assert deliveries(client, 3) == [(0, b"one"), (1, b"two"), (2, b"three")]
    client.ack(consumer, (0, 3))
    assert client.publish(producer, [b"four"]) == 3
    assert deliveries(client, 1) == [(3, b"four")]


def test_a_resend_is_answered_with_its_offset_and_stored_once(client: RawClient) -> None:
    producer = client.producer("a")
    batch = client.encode(producer, [b"x"])
    assert client.publish_batch(producer, bytes(batch)) == 0
    assert client.publish_batch(producer, bytes(batch)) == 0
    assert client.publish(producer, [b"y"]) == 1
    client.sequences[producer.producer_id] += 1
    with pytest.raises(OutOfSequence):
        client.publish(producer, [b"z"])


def test_a_batch_for_another_topic_is_refused(client: RawClient) -> None:
    one, two = client.producer("a"), client.producer("b")
    batch = client.encode(one, [b"x"])
    with pytest.raises(WrongTopic):
        client.publish_batch(two, batch)
    assert client.publish_batch(one, batch) == 0  # the connection goes on


def test_a_consumer_that_vanishes_leaves_what_it_did_not_acknowledge(running: RunningBroker) -> None:
    with RawClient(running.port) as first:
        producer = first.producer("a")
        first.publish(producer, [b"0", b"1", b"2", b"3"])
        consumer = first.subscribe("a", "s")
        deliveries(first, 4)
        first.ack(consumer, (0, 1), (2, 3))
        with RawClient(running.port) as second, pytest.raises(SubscriptionBusy):
            second.subscribe("a", "s")
        first.socket.close()
    with RawClient(running.port) as third:
        while True:  # the broker may hear of the end a moment later
            try:
                third.subscribe("a", "s")
                break
            except SubscriptionBusy:
                continue
        assert deliveries(third, 2) == [(1, b"1"), (3, b"3")]


def test_late_acks_are_ignored(client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"x"])
    consumer = client.subscribe("a", "s")
    deliveries(client, 1)
    old = messages.Subscribed(consumer.handle, consumer.session + 1, 0, consumer.topic_id, 0)
    client.ack(old, (0, 1))
    facts = client.admin(messages.DescribeSubscription("a", "s"))
    assert facts["partitions"] == [
        {
            "topic": "/default/a",
            "position": 0,
            "end": 1,
            "lag": 1,
            "ranges": 0,
            "connected": True,
            "generation": 0,
            "late_acks": 1,
        }
    ]


def test_no_delivery_without_credit(client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"x" * 1000])
    client.publish(producer, [b"y" * 1000])
    client.publish(producer, [b"z" * 1000])
    consumer = client.subscribe("a", "s", credit=0)
    client.ask(Kind.PING, messages.Want(0), messages.Message)  # nothing but the answer comes
    client.flow(consumer, 1)
    assert [offset for offset, _ in deliveries(client, 1)] == [0]
    client.ask(Kind.PING, messages.Want(0), messages.Message)
    client.flow(consumer, 1)  # still overdrawn
    client.ask(Kind.PING, messages.Want(0), messages.Message)
    client.flow(consumer, 3000)
    assert [offset for offset, _ in deliveries(client, 2)] == [1, 2]


def test_start_positions(running: RunningBroker, client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"0", b"1"])
    running.clock.advance(100)
    client.publish(producer, [b"2"])
    assert client.subscribe("a", "earliest").position == 0
    assert client.subscribe("a", "latest", "latest").position == 3
    assert client.subscribe("a", "offset", "1").position == 1
    assert client.subscribe("a", "time", "2023-11-14T22:14:00").position == 2
    with pytest.raises(InvalidRequest):
        client.subscribe("a", "nonsense", "yesterday")


def test_fetch_reads_by_offset_and_leaves_no_trace(client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"0", b"1"])
    client.publish(producer, [b"2"])
    client.send(Kind.FETCH, 99, messages.encode(messages.Fetch("a", 0, 1, 1)))
    frame = client.expect(Kind.FETCHED)
    head = messages.decode(frame.control, messages.Fetched)
    assert (head.first, head.earliest, head.latest) == (0, 0, 3)
    assert open_batch(frame.attachment).payloads() == [b"0", b"1"]
    at_end = client.ask(Kind.FETCH, messages.Fetch("a", producer.topic_id, 3, 100), messages.Fetched)
    assert at_end.first == 3
    with pytest.raises(OffsetOutOfRange):
        client.ask(Kind.FETCH, messages.Fetch("a", 0, 4, 100), messages.Fetched)
    with pytest.raises(UnknownTopic):
        client.ask(Kind.FETCH, messages.Fetch("a", producer.topic_id + 1, 0, 100), messages.Fetched)
    assert client.ask(Kind.LIST, messages.List("subscriptions", "a"), messages.Listed).names == []


def test_offsets_by_time(running: RunningBroker, client: RawClient) -> None:
    producer = client.producer("a")
    start = running.clock.now_us()
    for _ in range(3):
        client.publish(producer, [b"x", b"y"])
        running.clock.advance(10)
    times = [0, start, start + 1, start + 10_000_000, start + 10_000_001, start + 99_000_000]
    found = client.ask(Kind.OFFSETS, messages.Offsets("a", times), messages.OffsetsAre)
    assert (found.earliest, found.latest) == (0, 6)
    assert found.at_times == [0, 0, 2, 2, 4, 6]


def test_partitioned_topics(client: RawClient) -> None:
    for number in range(3):
        client.producer(f"/default/p-part-{number}", partitions=3)
    found = client.ask(Kind.LOOKUP, messages.Lookup("p"), messages.LookedUp)
    assert found.partitions == ["/default/p-part-0", "/default/p-part-1", "/default/p-part-2"]
    assert found.is_partitioned
    with pytest.raises(TopicMismatch, match="3 partitions, not 4"):
        client.producer("/default/p-part-3", partitions=4)
    with pytest.raises((TopicMismatch, AlreadyExists)):
        client.producer("p")
    assert client.ask(Kind.LIST, messages.List("topics"), messages.Listed).names == ["/default/p"]
    client.admin(messages.DeleteTopic("p"))
    assert client.ask(Kind.LOOKUP, messages.Lookup("p"), messages.LookedUp).partitions == []


def test_another_kind_of_topic_than_asked_for_is_an_error(client: RawClient) -> None:
    client.producer("a")
    with pytest.raises(TopicMismatch):
        client.producer("a", is_reliable=False)


def test_a_recreated_topic_begins_anew(client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"old"])
    client.subscribe("a", "s")
    client.admin(messages.DeleteTopic("a"))
    with pytest.raises(UnknownTopic):
        client.publish(producer, [b"late"])
    again = client.producer("a")
    assert again.topic_id != producer.topic_id
    assert client.publish(again, [b"new"]) == 0
    client.subscribe("a", "s")
    assert deliveries(client, 1)[-1] == (0, b"new")


def test_namespaces(client: RawClient) -> None:
    with pytest.raises(UnknownNamespace):
        client.producer("/shop/a")
    client.admin(messages.CreateNamespace("shop", auto_create_topics=False))
    with pytest.raises(UnknownTopic):
        client.producer("/shop/a")
    client.admin(messages.CreateTopic("/shop/a", messages.TopicSettings()))
    client.producer("/shop/a")
    assert client.admin(messages.DescribeNamespace("shop"))["topics"] == 1
    with pytest.raises(InvalidRequest):
        client.admin(messages.DeleteNamespace("shop"))
    client.admin(messages.DeleteTopic("/shop/a"))
    client.admin(messages.DeleteNamespace("shop"))
    assert client.ask(Kind.LIST, messages.List("namespaces"), messages.Listed).names == ["default"]


def test_subscriptions_are_listed_and_deleted(client: RawClient) -> None:
    client.producer("a")
    consumer = client.subscribe("a", "s")
    assert client.ask(Kind.LIST, messages.List("subscriptions", "a"), messages.Listed).names == ["s"]
    with pytest.raises(InvalidRequest, match="has a consumer"):
        client.admin(messages.DeleteSubscription("a", "s"))
    client.ask(Kind.CONSUMER_CLOSE, messages.CloseHandle(consumer.handle), messages.Message)
    client.admin(messages.DeleteSubscription("a", "s"))
    with pytest.raises(UnknownSubscription):
        client.admin(messages.DescribeSubscription("a", "s"))


def test_subscribe_creates_no_topic(client: RawClient) -> None:
    with pytest.raises(UnknownTopic):
        client.subscribe("a", "s")


def test_progress_moves_a_subscription_without_consuming(client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"0", b"1", b"2"])
    client.ask(Kind.PROGRESS, messages.Progress("a", "job", 0), messages.Message)
    client.ask(Kind.PROGRESS, messages.Progress("a", "job", 2), messages.Message)
    facts = client.admin(messages.DescribeSubscription("a", "job"))
    partitions = facts["partitions"]
    assert isinstance(partitions, list)
    assert partitions[0]["position"] == 2
    with pytest.raises(InvalidRequest):
        client.ask(Kind.PROGRESS, messages.Progress("a", "job", 4), messages.Message)


def test_non_reliable_topics_hand_over_and_forget(client: RawClient) -> None:
    producer = client.producer("n", is_reliable=False)
    client.publish(producer, [b"nobody hears this"])
    consumer = client.subscribe("n", "s", credit=1)
    client.ask(Kind.PING, messages.Want(0), messages.Message)
    client.publish(producer, [b"heard"])
    client.publish(producer, [b"no credit left"])
    client.flow(consumer, 10_000)
    client.ask(Kind.PING, messages.Want(0), messages.Message)
    facts = client.admin(messages.DescribeTopic("n"))
    partitions = facts["partitions"]
    assert isinstance(partitions, list)
    assert partitions[0]["dropped"] == 1


def test_retention_by_topic(running: RunningBroker, client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"old"])
    client.admin(messages.SetRetention("a", messages.RetentionSettings(time_us=60_000_000)))
    running.clock.advance(2 * 3600)
    client.publish(producer, [b"new"])  # the old ledger ends by age
    running.keep_up()
    running.keep_up()
    found = client.ask(Kind.OFFSETS, messages.Offsets("a"), messages.OffsetsAre)
    assert (found.earliest, found.latest) == (1, 2)
    with pytest.raises(OffsetOutOfRange):
        client.ask(Kind.FETCH, messages.Fetch("a", 0, 0, 100), messages.Fetched)


def test_a_large_batch_needs_a_grant(client: RawClient) -> None:
    producer = client.producer("a")
    client.send(Kind.WANT, 0, messages.encode(messages.Want(1_000_200)))
    assert messages.decode(client.expect(Kind.GRANT).control, messages.Grant).bytes == 1_000_200
    batch = encode_batch(Records(payloads=[bytes(1_000_000)]), topic_id=producer.topic_id)
    assert client.publish_batch(producer, batch) == 0


def test_metrics_count(running: RunningBroker, client: RawClient) -> None:
    producer = client.producer("a")
    client.publish(producer, [b"x", b"y"])
    text = running.broker.metrics.lines(running.broker.gauges())
    assert "danube_published_messages_total 2\n" in text
    assert "danube_publish_seconds_count 1\n" in text
