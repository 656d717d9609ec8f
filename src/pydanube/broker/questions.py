"""What clients ask besides publishing and acknowledging: each question is a function that sends its own answer."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydanube.metadata.keys import TopicRetention
from pydanube.model import DanubeError, TopicId, TopicName, parse_namespace, parse_subscription, parse_topic
from pydanube.model.errors import InvalidRequest, ProtocolError, UnknownSubscription, UnknownTopic
from pydanube.model.limits import FRAME_BYTES_MAX, KIB
from pydanube.storage import StoredBatch
from pydanube.wire import Frame, Kind, decode, encode, messages

from .subscription import Subscription
from .topic import ReliableTopic, TransientTopic

if TYPE_CHECKING:
    from .broker import Broker
    from .session import Session

_FETCH_BYTES_MAX = FRAME_BYTES_MAX - KIB


async def answer(broker: "Broker", session: "Session", frame: Frame) -> None:
    question = _QUESTIONS.get(frame.kind)
    if question is None:
        raise ProtocolError(f"{frame.kind.name} is not a question")
    await question(broker, session, frame)


async def _lookup(broker: "Broker", session: "Session", frame: Frame) -> None:
    name = parse_topic(decode(frame.control, messages.Lookup).topic)
    found = await broker.directory.partitions(name)
    reply = messages.LookedUp(
        str(name),
        [str(each) for each, _ in found],
        bool(found) and found[0][1].partitions > 0 and name.partition is None,
        bool(found) and found[0][1].is_reliable,
    )
    session.send(Kind.LOOKED_UP, frame.request, encode(reply))


async def _list(broker: "Broker", session: "Session", frame: Frame) -> None:
    asked = decode(frame.control, messages.List)
    if asked.what == "namespaces":
        names = await broker.directory.namespaces()
    elif asked.what == "topics":
        topics = await broker.directory.topics(parse_namespace(asked.under) if asked.under else "")
        names = sorted({str(name.base if topic.partitions else name) for name, topic in topics.items()})
    elif asked.what == "subscriptions":
        names = await _subscription_names(broker, parse_topic(asked.under))
    else:
        raise InvalidRequest(f"there is no list of {asked.what!r}")
    limit = max(1, min(asked.limit, 1000))
    rest = [name for name in names if name > asked.after]
    session.send(Kind.LISTED, frame.request, encode(messages.Listed(rest[:limit], len(rest) > limit)))


async def _subscription_names(broker: "Broker", name: TopicName) -> list[str]:
    found = await broker.directory.partitions(name)
    if not found:
        raise UnknownTopic(f"there is no topic {name}")
    names: set[str] = set()
    for each, record in found:
        topic = broker.load(each, record)
        if isinstance(topic, TransientTopic):
            names.update(topic.subscriptions)
        else:
            names.update(await broker.directory.subscriptions(TopicId(topic.topic_id)))
    return sorted(names)


async def _offsets(broker: "Broker", session: "Session", frame: Frame) -> None:
    asked = decode(frame.control, messages.Offsets)
    topic = await broker.topic(parse_topic(asked.topic))
    if isinstance(topic, TransientTopic):
        reply = messages.OffsetsAre(topic.topic_id, topic.end, topic.end, [topic.end] * len(asked.times_us))
    else:
        log = topic.host.log
        at = [log.offset_at_time(topic.topic_id, time_us) for time_us in asked.times_us]
        reply = messages.OffsetsAre(topic.topic_id, topic.first, topic.end, at)
    session.send(Kind.OFFSETS_ARE, frame.request, encode(reply))


async def _producer(broker: "Broker", session: "Session", frame: Frame) -> None:
    asked = decode(frame.control, messages.OpenProducer)
    name = parse_topic(asked.topic)
    record = await broker.directory.find_or_create(name, asked.settings)
    topic = broker.load(name, record)
    handle = session.add_producer(topic)
    producer_id = asked.producer_id or broker.directory.new_id()
    reply = messages.ProducerOpen(handle, topic.topic_id, producer_id, asked.epoch)
    session.send(Kind.PRODUCER_OPEN, frame.request, encode(reply))


async def _subscribe(broker: "Broker", session: "Session", frame: Frame) -> None:
    asked = decode(frame.control, messages.Subscribe)
    name, subscription = parse_topic(asked.topic), parse_subscription(asked.subscription)
    if asked.type != "exclusive":
        raise InvalidRequest(f"subscription type {asked.type!r} is not known; exclusive is")
    topic = await broker.topic(name)
    handle = session.next_handle()
    if isinstance(topic, TransientTopic):
        consumer = topic.join(subscription, session, handle)
        session.add_consumer(handle, consumer)
        reply = messages.Subscribed(handle, consumer.session, consumer.generation, topic.topic_id, consumer.position)
    else:
        found = await _open_subscription(broker, topic, subscription, asked.start)
        found.join(session, handle)
        session.add_consumer(handle, found)
        reply = messages.Subscribed(handle, found.session, found.generation, topic.topic_id, found.position)
    session.send(Kind.SUBSCRIBED, frame.request, encode(reply))


async def _open_subscription(broker: "Broker", topic: ReliableTopic, name: str, start: str) -> Subscription:
    key = (topic.topic_id, name)
    if key not in broker.subscriptions:
        record = await broker.directory.subscription(TopicId(topic.topic_id), name)
        if record is None:
            at = _resolve(topic, start)
            record = await broker.directory.subscribe(topic.name, TopicId(topic.topic_id), name, at)
        if key not in broker.subscriptions:  # somebody else may have been quicker
            broker.subscriptions[key] = Subscription(
                topic, name, record.id, record.start, broker.settings.delivery_bytes
            )
    return broker.subscriptions[key]


def _resolve(topic: ReliableTopic, start: str) -> int:
    """Where a new subscription begins: a word, an offset, or a time."""
    if start == "earliest":
        return topic.first
    if start == "latest":
        return topic.end
    if start.isdigit():
        return min(max(int(start), topic.first), topic.end)
    try:
        time = datetime.fromisoformat(start)
    except ValueError:
        raise InvalidRequest(f"a start is earliest, latest, an offset or an ISO 8601 time, not {start!r}") from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return topic.host.log.offset_at_time(topic.topic_id, int(aware.timestamp() * 1_000_000))


async def _progress(broker: "Broker", session: "Session", frame: Frame) -> None:
    asked = decode(frame.control, messages.Progress)
    topic = await broker.topic(parse_topic(asked.topic))
    if isinstance(topic, TransientTopic):
        raise InvalidRequest(f"topic {topic.name} stores nothing, so there is no position on it")
    if asked.position > topic.end:
        raise InvalidRequest(f"position {asked.position} is behind the end {topic.end} of {topic.name}")
    found = await _open_subscription(broker, topic, parse_subscription(asked.subscription), str(asked.position))
    moved = broker.loop.create_future()
    if asked.position > found.position:
        ranges = [(found.position, asked.position)]
        found.ack(found.session, found.generation, ranges, lambda error: _settle(moved, error))
        topic.host.kick()
        await moved
    session.send(Kind.DONE, frame.request, b"")


def _settle(future: "asyncio.Future[None]", error: DanubeError | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


async def _fetch(broker: "Broker", session: "Session", frame: Frame) -> None:
    asked = decode(frame.control, messages.Fetch)
    topic = await broker.topic(parse_topic(asked.topic))
    if isinstance(topic, TransientTopic):
        raise InvalidRequest(f"topic {topic.name} stores nothing, so there is nothing to read")
    if asked.topic_id and asked.topic_id != topic.topic_id:
        raise UnknownTopic(f"topic {topic.name} was deleted and created again")
    await session.drained.wait()  # a client that does not read its answers gets no more of them
    found: asyncio.Future[list[StoredBatch]] = broker.loop.create_future()

    def done(batches: list[StoredBatch], error: DanubeError | None) -> None:
        if not found.done():
            if error is None:
                found.set_result(batches)
            else:
                found.set_exception(error)

    topic.read(asked.offset, max(1, min(asked.bytes_max, _FETCH_BYTES_MAX)), done)
    batches = await found
    first = batches[0].first_offset if batches else asked.offset
    reply = messages.Fetched(topic.topic_id, first, topic.first, topic.end)
    broker.metrics.fetched_bytes += sum(len(batch.data) for batch in batches)
    session.send(Kind.FETCHED, frame.request, encode(reply), [batch.data for batch in batches])


# -- administration -----------------------------------------------------------------------------------------------


async def _admin(broker: "Broker", session: "Session", frame: Frame) -> None:
    asked: messages.Admin = decode(frame.control, messages.Admin)  # type: ignore[arg-type]
    facts = await administer(broker, asked)
    session.send(Kind.ADMINISTERED, frame.request, encode(messages.Administered(facts)))


async def administer(broker: "Broker", asked: messages.Admin) -> dict[str, object]:
    directory = broker.directory
    match asked:
        case messages.CreateTopic(topic, settings):
            await directory.create(parse_topic(topic), settings)
        case messages.DeleteTopic(topic):
            await _delete_topic(broker, parse_topic(topic))
        case messages.DescribeTopic(topic):
            return await _describe_topic(broker, parse_topic(topic))
        case messages.SetRetention(topic, retention):
            chosen = None
            if retention is not None:
                chosen = TopicRetention(retention.time_us, retention.bytes, retention.hold_unconsumed)
            await directory.set_retention(parse_topic(topic), chosen)
        case messages.CreateNamespace(name, auto_create):
            await directory.create_namespace(parse_namespace(name), auto_create_topics=auto_create)
        case messages.DescribeNamespace(name):
            namespace = await directory.namespace(parse_namespace(name))
            topics = await directory.topics(name)
            return {
                "namespace": name,
                "auto_create_topics": namespace.auto_create_topics,
                "created_us": namespace.created_us,
                "topics": len({str(each.base) if topic.partitions else str(each) for each, topic in topics.items()}),
            }
        case messages.SetNamespace(name, auto_create):
            await directory.set_namespace(parse_namespace(name), auto_create_topics=auto_create)
        case messages.DeleteNamespace(name):
            await directory.delete_namespace(parse_namespace(name))
        case messages.DescribeSubscription(topic, subscription):
            return await _describe_subscription(broker, parse_topic(topic), parse_subscription(subscription))
        case messages.DeleteSubscription(topic, subscription):
            await _delete_subscription(broker, parse_topic(topic), parse_subscription(subscription))
    return {}


async def _delete_topic(broker: "Broker", name: TopicName) -> None:
    for each, record in await broker.directory.delete(name):
        topic = broker.topics.get(each)
        broker.forget(each)
        broker.delete_stored(TopicId(topic.topic_id if topic is not None else record.id), record.durability)


async def _describe_topic(broker: "Broker", name: TopicName) -> dict[str, object]:
    found = await broker.directory.partitions(name)
    if not found:
        raise UnknownTopic(f"there is no topic {name}")
    partitions: list[dict[str, object]] = []
    for each, record in found:
        topic = broker.load(each, record)
        facts: dict[str, object] = {"topic": str(each), "id": f"{topic.topic_id:016x}", "end": topic.end}
        if isinstance(topic, ReliableTopic):
            state = topic.host.log.core.state.topics.get(topic.topic_id)
            facts["first"] = topic.first
            facts["bytes"] = sum(ledger.bytes for ledger in state.ledgers) if state is not None else 0
            facts["ledgers"] = len(state.ledgers) if state is not None else 0
        else:
            facts["dropped"] = topic.dropped
        partitions.append(facts)
    first = found[0][1]
    retention = first.retention
    return {
        "topic": str(name),
        "reliable": first.is_reliable,
        "durability": first.durability.value if first.durability is not None else None,
        "partitions": partitions,
        "is_partitioned": first.partitions > 0,
        "created_us": first.created_us,
        "retention": None
        if retention is None
        else {"time_us": retention.time_us, "bytes": retention.bytes, "hold_unconsumed": retention.hold_unconsumed},
        "subscriptions": await _subscription_names(broker, name),
    }


async def _describe_subscription(broker: "Broker", name: TopicName, subscription: str) -> dict[str, object]:
    partitions: list[dict[str, object]] = []
    for each, record in await broker.directory.partitions(name):
        topic = broker.load(each, record)
        if isinstance(topic, TransientTopic):
            if subscription in topic.subscriptions:
                partitions.append({"topic": str(each), "connected": True})
            continue
        known = await broker.directory.subscription(TopicId(topic.topic_id), subscription)
        if known is None:
            continue
        found = await _open_subscription(broker, topic, subscription, "latest")
        cursor = found.window.cursor
        partitions.append(
            {
                "topic": str(each),
                "position": cursor.position,
                "end": topic.end,
                "lag": topic.end - cursor.position - sum(b - a for a, b in cursor.above.items()),
                "ranges": len(cursor.above),
                "connected": found.window.has_consumer,
                "generation": cursor.generation,
                "late_acks": found.late_acks,
            }
        )
    if not partitions:
        raise UnknownSubscription(f"there is no subscription {subscription} on {name}")
    return {"subscription": subscription, "topic": str(name), "type": "exclusive", "partitions": partitions}


async def _delete_subscription(broker: "Broker", name: TopicName, subscription: str) -> None:
    deleted = 0
    for each, record in await broker.directory.partitions(name):
        topic = broker.load(each, record)
        if isinstance(topic, TransientTopic):
            continue
        active = broker.subscriptions.get((topic.topic_id, subscription))
        if active is not None and active.window.has_consumer:
            raise InvalidRequest(f"subscription {subscription} on {each} has a consumer; close it first")
        if await broker.directory.subscription(TopicId(topic.topic_id), subscription) is None:
            continue
        known = await broker.directory.delete_subscription(TopicId(topic.topic_id), subscription)
        broker.subscriptions.pop((topic.topic_id, subscription), None)
        topic.host.log.cursors.drop(topic.topic_id, known.id, lambda _offset, _error: None)
        topic.host.kick()
        deleted += 1
    if not deleted:
        raise UnknownSubscription(f"there is no subscription {subscription} on {name}")


_QUESTIONS: dict[Kind, Callable[["Broker", "Session", Frame], Awaitable[None]]] = {
    Kind.LOOKUP: _lookup,
    Kind.LIST: _list,
    Kind.OFFSETS: _offsets,
    Kind.PRODUCER: _producer,
    Kind.SUBSCRIBE: _subscribe,
    Kind.PROGRESS: _progress,
    Kind.FETCH: _fetch,
    Kind.ADMIN: _admin,
}
