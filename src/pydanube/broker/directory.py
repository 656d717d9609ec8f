"""Names to topics: what the metadata says, kept for the topics that are in use.

A partitioned topic is its partitions, `name-part-0` and up, each a topic of its own that knows how many there are.
"""

from random import Random

import msgspec

from pydanube.metadata import Entry, MetadataStore, keys
from pydanube.metadata.keys import Durability
from pydanube.metadata.transactions import Absent, DeleteRange, Present, Put, Transaction
from pydanube.model import DEFAULT_NAMESPACE, Clock, Offset, SubscriptionId, TopicId, TopicName
from pydanube.model.errors import (
    AlreadyExists,
    InvalidRequest,
    MetadataFailed,
    TopicMismatch,
    UnknownNamespace,
    UnknownSubscription,
    UnknownTopic,
)
from pydanube.wire.messages import TopicSettings

from .opening import all_entries

PARTITIONS_MAX = 100  # all are created in one transaction


class Directory:
    def __init__(self, metadata: MetadataStore, clock: Clock, rng: Random) -> None:
        self._metadata = metadata
        self._clock = clock
        self._rng = rng

    async def start(self) -> None:
        await self._metadata.transact(keys.create_namespace(DEFAULT_NAMESPACE, self._new_namespace()))
        for name, topic in (await self.topics()).items():
            if topic.durability is Durability.MEMORY:
                await self._renew(name, topic)

    async def _renew(self, name: TopicName, topic: keys.Topic) -> None:
        """What lies in memory only begins anew with every start, under a new id: old offsets mean nothing any more."""
        key = keys.topic_key(name)
        renewed = msgspec.structs.replace(topic, id=TopicId(self.new_id()))
        puts = (Put(key, renewed.encode()), DeleteRange(keys.subscriptions_prefix(topic.id)))
        await self._metadata.transact(Transaction(when=(Present(key),), then=puts))

    def new_id(self) -> int:
        return self._rng.getrandbits(64) or 1

    # -- topics ---------------------------------------------------------------------------------------------------

    async def find(self, name: TopicName) -> keys.Topic | None:
        entry = await self._metadata.get(keys.topic_key(name))
        return None if entry is None else keys.decode(entry, keys.Topic)

    async def partitions(self, name: TopicName) -> list[tuple[TopicName, keys.Topic]]:
        """The topic itself, or its partitions in order; nothing if there is no such topic."""
        topic = await self.find(name)
        if topic is not None:
            return [(name, topic)]
        if name.partition is not None:
            return []
        first = await self.find(name.with_partition(0))
        if first is None:
            return []
        found = [(name.with_partition(0), first)]
        for number in range(1, first.partitions):
            partition = name.with_partition(number)
            topic = await self.find(partition)
            if topic is not None:
                found.append((partition, topic))
        return found

    async def create(self, name: TopicName, settings: TopicSettings) -> None:
        if name.partition is not None:
            raise InvalidRequest(f"{name} is the name of a partition; create {name.base} with partitions instead")
        if not 0 <= settings.partitions <= PARTITIONS_MAX:
            raise InvalidRequest(f"a topic has at most {PARTITIONS_MAX} partitions, not {settings.partitions}")
        durability = _durability(settings)
        names = [name.with_partition(number) for number in range(settings.partitions)] or [name]
        topics = [
            keys.Topic(
                id=TopicId(self.new_id()),
                created_us=self._clock.now_us(),
                durability=durability,
                partitions=settings.partitions,
            )
            for _ in names
        ]
        other = [name] if settings.partitions else [name.with_partition(0)]  # neither may be there already
        when = [Present(keys.namespace_key(name.namespace))]
        absent = [Absent(keys.topic_key(each)) for each in (*names, *other)]
        puts = [Put(keys.topic_key(each), topic.encode()) for each, topic in zip(names, topics, strict=True)]
        result = await self._metadata.transact(Transaction(when=(*when, *absent), then=tuple(puts)))
        if not result.succeeded:
            if await self._metadata.get(keys.namespace_key(name.namespace)) is None:
                raise UnknownNamespace(f"there is no namespace {name.namespace}")
            raise AlreadyExists(f"topic {name} exists already")

    async def find_or_create(self, name: TopicName, settings: TopicSettings) -> keys.Topic:
        """For a producer. The topic must be what it asks for; it is created where the namespace allows that."""
        topic = await self.find(name)
        if topic is None:
            await self._check_auto_create(name)
            try:
                await self.create(name.base, settings)
            except AlreadyExists:
                await self._explain_conflict(name.base, settings)
            topic = await self.find(name)
            if topic is None:
                raise UnknownTopic(f"topic {name.base} has no partition {name}")
        _check_settings(name, topic, settings)
        return topic

    async def _check_auto_create(self, name: TopicName) -> None:
        entry = await self._metadata.get(keys.namespace_key(name.namespace))
        if entry is None:
            raise UnknownNamespace(f"there is no namespace {name.namespace}")
        if not keys.decode(entry, keys.Namespace).auto_create_topics:
            raise UnknownTopic(f"there is no topic {name}, and namespace {name.namespace} creates none by itself")

    async def _explain_conflict(self, base: TopicName, settings: TopicSettings) -> None:
        """Somebody else created it meanwhile, or it is there with another number of partitions."""
        found = await self.partitions(base)
        if found and found[0][1].partitions != settings.partitions:
            raise TopicMismatch(f"topic {base} has {_count(found[0][1].partitions)}, not {_count(settings.partitions)}")

    async def delete(self, name: TopicName) -> list[tuple[TopicName, keys.Topic]]:
        if name.partition is not None:
            raise InvalidRequest(f"{name} is a partition; delete {name.base} as a whole")
        found = await self.partitions(name)
        if not found:
            raise UnknownTopic(f"there is no topic {name}")
        for each, topic in found:
            entry = await self._metadata.get(keys.topic_key(each))
            if entry is not None:
                deleted_us = self._clock.now_us()
                await self._metadata.transact(keys.delete_topic(each, topic, entry.revision, deleted_us=deleted_us))
        return found

    async def set_retention(self, name: TopicName, retention: keys.TopicRetention | None) -> None:
        found = await self.partitions(name)
        if not found:
            raise UnknownTopic(f"there is no topic {name}")
        for each, topic in found:
            entry = await self._metadata.get(keys.topic_key(each))
            if entry is not None:
                changed = msgspec.structs.replace(topic, retention=retention)
                await self._metadata.transact(keys.change_topic(each, changed, entry.revision))

    async def topics(self, namespace: str = "") -> dict[TopicName, keys.Topic]:
        prefix = f"{keys.TOPICS_PREFIX}{namespace}/" if namespace else keys.TOPICS_PREFIX
        entries = await all_entries(self._metadata, prefix)
        return {keys.parse_topic_key(entry.key): keys.decode(entry, keys.Topic) for entry in entries}

    # -- subscriptions --------------------------------------------------------------------------------------------

    async def subscription(self, topic_id: TopicId, name: str) -> keys.Subscription | None:
        entry = await self._metadata.get(keys.subscription_key(topic_id, name))
        return None if entry is None else keys.decode(entry, keys.Subscription)

    async def subscribe(self, topic: TopicName, topic_id: TopicId, name: str, start: int) -> keys.Subscription:
        """The subscription of that name; created if it is new, to start there."""
        key = keys.topic_key(topic)
        entry = await self._metadata.get(key)
        if entry is None or keys.decode(entry, keys.Topic).id != topic_id:
            raise UnknownTopic(f"there is no topic {topic}")
        subscription = keys.Subscription(
            id=SubscriptionId(self.new_id()), start=Offset(start), created_us=self._clock.now_us()
        )
        await self._metadata.transact(keys.create_subscription(key, entry.revision, topic_id, name, subscription))
        found = await self.subscription(topic_id, name)
        if found is None:
            raise MetadataFailed(f"subscription {name} on {topic} could not be created; try again")
        return found

    async def subscriptions(self, topic_id: TopicId) -> dict[str, keys.Subscription]:
        entries = await all_entries(self._metadata, keys.subscriptions_prefix(topic_id))
        return {keys.parse_subscription_key(entry.key)[1]: keys.decode(entry, keys.Subscription) for entry in entries}

    async def delete_subscription(self, topic_id: TopicId, name: str) -> keys.Subscription:
        entry = await self._metadata.get(keys.subscription_key(topic_id, name))
        if entry is None:
            raise UnknownSubscription(f"there is no subscription {name}")
        await self._metadata.transact(keys.delete_subscription(topic_id, name, entry.revision))
        return keys.decode(entry, keys.Subscription)

    # -- namespaces -----------------------------------------------------------------------------------------------

    def _new_namespace(self, *, auto_create_topics: bool = True) -> keys.Namespace:
        return keys.Namespace(created_us=self._clock.now_us(), auto_create_topics=auto_create_topics)

    async def _namespace(self, name: str) -> Entry:
        entry = await self._metadata.get(keys.namespace_key(name))
        if entry is None:
            raise UnknownNamespace(f"there is no namespace {name}")
        return entry

    async def create_namespace(self, name: str, *, auto_create_topics: bool) -> None:
        namespace = self._new_namespace(auto_create_topics=auto_create_topics)
        result = await self._metadata.transact(keys.create_namespace(name, namespace))
        if not result.succeeded:
            raise AlreadyExists(f"namespace {name} exists already")

    async def namespace(self, name: str) -> keys.Namespace:
        return keys.decode(await self._namespace(name), keys.Namespace)

    async def set_namespace(self, name: str, *, auto_create_topics: bool) -> None:
        entry = await self._namespace(name)
        known = keys.decode(entry, keys.Namespace)
        changed = keys.Namespace(created_us=known.created_us, auto_create_topics=auto_create_topics)
        await self._metadata.transact(keys.change_namespace(name, changed, entry.revision))

    async def delete_namespace(self, name: str) -> None:
        entry = await self._namespace(name)
        if name == DEFAULT_NAMESPACE:
            raise InvalidRequest("the default namespace cannot be deleted")
        topics = await self.topics(name)
        if topics:
            raise InvalidRequest(f"namespace {name} still has {len(topics)} topics")
        await self._metadata.transact(keys.delete_namespace(name, entry.revision))

    async def namespaces(self) -> list[str]:
        entries = await all_entries(self._metadata, keys.NAMESPACES_PREFIX)
        return [keys.parse_namespace_key(entry.key) for entry in entries]


def _durability(settings: TopicSettings) -> Durability | None:
    if not settings.is_reliable:
        return None
    try:
        durability = Durability(settings.durability)
    except ValueError:
        raise InvalidRequest(f"durability is fsync or memory, not {settings.durability!r}") from None
    if durability is Durability.STORE:
        raise InvalidRequest("durability store needs an object store, which this broker does not have")
    return durability


def _check_settings(name: TopicName, topic: keys.Topic, settings: TopicSettings) -> None:
    if topic.is_reliable != settings.is_reliable:
        kind = "reliable" if topic.is_reliable else "non-reliable"
        raise TopicMismatch(f"topic {name} is {kind}, and the producer asks for the other kind")
    if topic.partitions != settings.partitions:
        raise TopicMismatch(f"topic {name.base} has {_count(topic.partitions)}, not {_count(settings.partitions)}")


def _count(partitions: int) -> str:
    return f"{partitions} partitions" if partitions else "no partitions"
