"""The client without `await`, against a real broker in this process."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

import pydanube
from pydanube.model.errors import ClientClosed, ConnectionLost, InvalidRequest, UnknownTopic
from pydanube.testing import RunningBroker, broker


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as running:
        yield running


def test_everything_without_await(running: RunningBroker) -> None:
    with pydanube.connect_blocking(running.url) as client:
        producer = client.producer("blocking")
        assert producer.topic == "/default/blocking"
        assert producer.send(b"0").offset == 0
        assert producer.send_many([b"1", b"2"]).offsets == [1, 2]
        producer.post(b"3")
        producer.flush()
        consumer = client.subscribe("blocking", "s", start="earliest")
        assert consumer.state == "open"
        messages = iter(consumer)
        taken = [next(messages) for _ in range(2)]
        consumer.ack(taken)
        for batch in consumer.batches(max_messages=2, max_wait=5):
            assert batch.payloads == [b"2", b"3"]
            consumer.ack(batch)
            break
        consumer.flush_acks()
        consumer.close(drain=5)
        assert list(consumer) == []
        assert [payload for batch in client.read("blocking") for payload in batch.payloads] == [b"0", b"1", b"2", b"3"]
        assert client.describe_subscription("blocking", "s")["partitions"][0]["lag"] == 0
        producer.close()


def test_errors_are_the_same(running: RunningBroker) -> None:
    with pydanube.connect_blocking(running.url) as client:
        with pytest.raises(UnknownTopic):
            client.subscribe("there-is-none", "s")
        with pytest.raises(AttributeError):
            client.no_such_thing  # noqa: B018
    with pytest.raises(InvalidRequest):
        pydanube.connect_blocking("http://x")
    with pytest.raises(ConnectionLost), pydanube.connect_blocking("danube://127.0.0.1:1"):
        pass


def test_many_threads_share_a_client(running: RunningBroker) -> None:
    with pydanube.connect_blocking(running.url) as client:
        producer = client.producer("threads")
        offsets: list[int] = []

        def work() -> None:
            offsets.extend(producer.send(b"x").offset for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(offsets) == list(range(80))


def test_beside_a_running_loop(running: RunningBroker) -> None:
    async def work() -> int:
        with pydanube.connect_blocking(running.url) as client:
            return int(client.producer("beside").send(b"x").offset)

    assert asyncio.run(work()) == 0


def test_after_close(running: RunningBroker) -> None:
    client = pydanube.connect_blocking(running.url)
    producer = client.producer("closing")
    before = threading.active_count()
    client.close()
    assert threading.active_count() == before - 1
    with pytest.raises(ClientClosed):
        client.health()
    with pytest.raises(ClientClosed):
        producer.send(b"x")
    client.close()


def test_an_error_in_the_block_closes_it(running: RunningBroker) -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), pydanube.connect_blocking(running.url) as client:
        raise ZeroDivisionError
    assert threading.active_count() == before
    with pytest.raises(ClientClosed):
        client.health()
