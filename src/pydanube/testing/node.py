"""A log and its metadata joined as the broker joins them, without sockets, sessions or an event loop: what the
simulator drives."""

from random import Random

from pydanube.broker.opening import CEILING_STEP, all_entries, bury, open_log, raise_ceiling, reconcile
from pydanube.metadata import MetadataStore, keys
from pydanube.model import Clock, DanubeError, Offset, SubscriptionId, TopicId, parse_topic
from pydanube.model.errors import MetadataFailed, UnknownTopic
from pydanube.storage import Files, InlineWriter, Log, Retention, StorageSettings


def ignore(_offset: int, _error: DanubeError | None) -> None:
    pass


class Node:
    """Made by `start`. Rounds are written by `writer.run()`."""

    def __init__(self, log: Log, metadata: MetadataStore, clock: Clock, rng: Random, ceiling_step: int) -> None:
        self.log = log
        self._ceiling_step = ceiling_step
        self.writer = InlineWriter(log)
        self._metadata = metadata
        self._clock = clock
        self._rng = rng

    @classmethod
    async def start(
        cls,
        files: Files,
        metadata: MetadataStore,
        settings: StorageSettings,
        clock: Clock,
        rng: Random,
        *,
        disk_lost: bool = False,
        ceiling_step: int = CEILING_STEP,
    ) -> "Node":
        log = await open_log(files, metadata, settings, clock, rng, disk_lost=disk_lost, ceiling_step=ceiling_step)
        node = cls(log, metadata, clock, rng, ceiling_step)
        await reconcile(log, metadata, ignore)
        node.writer.run()
        return node

    async def topics(self) -> dict[str, TopicId]:
        entries = await all_entries(self._metadata, keys.TOPICS_PREFIX)
        return {str(keys.parse_topic_key(entry.key)): keys.decode(entry, keys.Topic).id for entry in entries}

    async def create_topic(self, name: str) -> TopicId:
        parsed = parse_topic(name)
        namespace = keys.Namespace(created_us=self._clock.now_us())
        await self._metadata.transact(keys.create_namespace(parsed.namespace, namespace))
        topic_id = TopicId(self._rng.getrandbits(64) or 1)
        topic = keys.Topic(id=topic_id, created_us=self._clock.now_us(), durability=keys.Durability.FSYNC)
        result = await self._metadata.transact(keys.create_topic(parsed, topic))
        if not result.succeeded:
            found = result.found[1]
            if found is None:
                raise MetadataFailed(f"topic {name} could not be created")
            return keys.decode(found, keys.Topic).id
        return topic_id

    async def delete_topic(self, name: str) -> TopicId:
        parsed = parse_topic(name)
        entry = await self._metadata.get(keys.topic_key(parsed))
        if entry is None:
            raise UnknownTopic(f"there is no topic {name}")
        topic = keys.decode(entry, keys.Topic)
        await self._metadata.transact(keys.delete_topic(parsed, topic, entry.revision, deleted_us=self._clock.now_us()))
        self.log.upkeep.delete_topic(topic.id, ignore)
        return topic.id

    async def subscribe(self, topic: str, name: str, start: int) -> keys.Subscription:
        key = keys.topic_key(parse_topic(topic))
        entry = await self._metadata.get(key)
        if entry is None:
            raise UnknownTopic(f"there is no topic {topic}")
        topic_id = keys.decode(entry, keys.Topic).id
        subscription = keys.Subscription(
            id=SubscriptionId(self._rng.getrandbits(64)), start=Offset(start), created_us=self._clock.now_us()
        )
        await self._metadata.transact(keys.create_subscription(key, entry.revision, topic_id, name, subscription))
        found = await self._metadata.get(keys.subscription_key(topic_id, name))
        if found is None:
            raise MetadataFailed(f"subscription {name} could not be created")
        return keys.decode(found, keys.Subscription)

    async def subscriptions(self, topic_id: TopicId) -> dict[int, int]:
        """Subscription ids and where each began."""
        entries = await all_entries(self._metadata, keys.subscriptions_prefix(topic_id))
        decoded = (keys.decode(entry, keys.Subscription) for entry in entries)
        return {subscription.id: subscription.start for subscription in decoded}

    async def upkeep(self, retention: Retention) -> list[tuple[int, int]]:
        """What a broker does now and then; returns the topics and the first offsets that retention leaves them."""
        await raise_ceiling(self.log, self._metadata, self._rng, self._ceiling_step)
        kept = []
        for topic_id in (await self.topics()).values():
            starts = await self.subscriptions(topic_id)
            kept.append((int(topic_id), self.log.upkeep.retain(topic_id, retention, starts, ignore)))
        self.log.upkeep.tick(ignore)
        self.writer.run()
        self.log.upkeep.delete_files()
        await bury(self.log, self._metadata)
        return kept
