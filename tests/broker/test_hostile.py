"""Hostile input on the native port: an error or a closed connection for the guilty one, nothing for everybody else."""

import random
import resource
import socket
import struct
from collections.abc import Iterator

import pytest
import zstandard

from pydanube.model.errors import InvalidBatch, ProtocolError
from pydanube.records import Codec, Records, encode_batch
from pydanube.testing import RunningBroker, broker
from pydanube.wire import Kind, frame_parts, hot, messages

from .raw import Closed, RawClient


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker() as found:
        yield found


@pytest.fixture
def neighbour(running: RunningBroker) -> Iterator[RawClient]:
    """Somebody else, who must not notice anything."""
    with RawClient(running.port) as client:
        producer = client.producer("neighbour")
        client.publish(producer, [b"before"])
        yield client
        assert client.publish(producer, [b"after"]) == 1


def ends_with_error(client: RawClient) -> None:
    """One error for the connection as a whole, then the end."""
    with pytest.raises((ProtocolError, Closed, ConnectionError)):
        client.expect(Kind.PONG)


@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(running: RunningBroker, seed: int) -> None:
    rng = random.Random(seed)
    with RawClient(running.port, hello=seed % 2 == 0) as client:
        client.socket.sendall(b"\xff" + rng.randbytes(rng.randrange(64, 5000)))
        ends_with_error(client)


@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize(
    "head",
    [
        struct.pack("<IBBHII", 0xFFFFFFF8, Kind.PUBLISH, 0, 0, 1, 4),
        struct.pack("<IBBHII", 16, 200, 0, 0, 1, 0),
        struct.pack("<IBBHII", 16, Kind.PING, 1, 0, 1, 0),
        struct.pack("<IBBHII", 8, Kind.PING, 0, 0, 1, 0),
        struct.pack("<IBBHII", 24, Kind.PING, 0, 0, 1, 1000),
        struct.pack("<IBBHII", 0, Kind.PING, 0, 0, 1, 0),
        struct.pack("<IBBHII", 16, Kind.DELIVER, 0, 0, 1, 0),
    ],
    ids=["giant", "unknown kind", "flags", "too short", "control too long", "empty", "not for clients to send"],
)
def test_frames_that_are_none(running: RunningBroker, head: bytes) -> None:
    with RawClient(running.port) as client:
        client.socket.sendall(head)
        ends_with_error(client)


@pytest.mark.usefixtures("neighbour")
def test_before_the_greeting_nothing_else_is_allowed(running: RunningBroker) -> None:
    with RawClient(running.port, hello=False) as client:
        client.send(Kind.PING, 1, b"")
        ends_with_error(client)
    with RawClient(running.port, hello=False) as client:
        client.socket.sendall(struct.pack("<IBBHII", 32 << 10, Kind.HELLO, 0, 0, 1, 20_000))
        ends_with_error(client)


@pytest.mark.usefixtures("neighbour")
def test_control_bodies_that_lie(running: RunningBroker) -> None:
    for kind in (Kind.PRODUCER, Kind.SUBSCRIBE, Kind.ACK, Kind.ADMIN, Kind.FETCH, Kind.PUBLISH, Kind.FLOW):
        with RawClient(running.port) as client:
            client.send(kind, 1, b"\xc1\xc1\xc1")
            ends_with_error(client)


@pytest.mark.usefixtures("neighbour")
def test_more_than_the_credit(running: RunningBroker) -> None:
    with RawClient(running.port) as client:
        producer = client.producer("a")
        batch = encode_batch(Records(payloads=[bytes(200_000)]), topic_id=producer.topic_id)
        client.send(Kind.PUBLISH, 1, hot.encode_publish(producer.handle), [batch])
        ends_with_error(client)


@pytest.mark.usefixtures("neighbour")
def test_a_batch_that_is_none_costs_only_itself(running: RunningBroker) -> None:
    with RawClient(running.port) as client:
        producer = client.producer("a")
        for garbage in (bytes(96), random.Random(1).randbytes(400), b""):
            with pytest.raises(InvalidBatch):
                client.publish_batch(producer, garbage)
        assert client.publish(producer, [b"fine"]) == 0


@pytest.mark.usefixtures("neighbour")
def test_a_decompression_bomb_is_stored_unopened_and_refused_by_readers(running: RunningBroker) -> None:
    """The broker never decompresses; what it stores is bounded by what the batch declares."""
    with RawClient(running.port) as client:
        producer = client.producer("a")
        bomb = bytearray(encode_batch(Records(payloads=[bytes(60_000)]), topic_id=producer.topic_id, codec=Codec.ZSTD))
        declared = struct.unpack_from("<I", bomb, 36)[0]
        struct.pack_into("<I", bomb, 36, 1 << 31)  # claims two gigabytes
        with pytest.raises(InvalidBatch):
            client.publish_batch(producer, bomb)
        assert declared < 1 << 20
        assert len(zstandard.ZstdCompressor().compress(bytes(1 << 20))) < 1 << 12  # what a bomb looks like


@pytest.mark.usefixtures("neighbour")
def test_a_frame_that_drips_in_byte_by_byte(running: RunningBroker) -> None:
    with RawClient(running.port) as client:
        question = messages.encode(messages.Lookup("neighbour"))
        for byte in b"".join(map(bytes, frame_parts(Kind.LOOKUP, 77, question))):
            client.socket.sendall(bytes([byte]))
        assert client.expect(Kind.LOOKED_UP).request == 77


@pytest.mark.usefixtures("neighbour")
def test_half_a_frame_and_gone(running: RunningBroker) -> None:
    for cut in (1, 8, 15, 20):
        with RawClient(running.port) as client:
            whole = b"".join(map(bytes, frame_parts(Kind.LOOKUP, 1, messages.encode(messages.Lookup("a" * 50)))))
            client.socket.sendall(whole[:cut])


@pytest.mark.usefixtures("neighbour")
def test_too_many_questions_at_once(running: RunningBroker) -> None:
    with RawClient(running.port) as client:
        question = messages.encode(messages.Lookup("neighbour"))
        for number in range(1, 2001):
            client.send(Kind.LOOKUP, number, question)
        answered = {client.receive().request for _ in range(2000)}
        assert answered == set(range(1, 2001))  # each has an answer, be it an error


@pytest.mark.usefixtures("neighbour")
def test_a_thousand_idle_connections_cost_little(running: RunningBroker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    idle = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(1000)]
    with RawClient(running.port) as client:
        client.ask(Kind.PING, messages.Want(0), messages.Message)
        assert len(running.broker.sessions) >= 1000
    for each in idle:
        each.close()


@pytest.mark.usefixtures("neighbour")
def test_a_consumer_that_never_reads_stops_nobody(running: RunningBroker) -> None:
    with RawClient(running.port) as deaf, RawClient(running.port) as client:
        producer = client.producer("a")
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.publish(producer, [b"first"])
        deaf.subscribe("a", "deaf", credit=1 << 31)
        for number in range(600):  # far more than all socket buffers hold
            assert client.publish(producer, [bytes(50_000)]) == number + 1
        session = max(running.broker.sessions.values(), key=lambda each: each.outbound_bytes)
        assert session.outbound_bytes < 12 << 20
