"""A log and its metadata joined, as a broker will join them: who is written first, and what a restart reconciles.

Create: metadata first, then the first round that names the id. Delete: the tombstone first, then the round; the
tombstone goes when no journal file mentions the id. The metadata knows the journal's id and a ceiling that offsets
stay below, so that a lost disk is noticed and no offset is given twice even then.
"""

from random import Random

from pydanube.metadata import Entry, MetadataStore, keys
from pydanube.model import Clock, DanubeError, Offset, SubscriptionId, TopicId, parse_topic
from pydanube.model.errors import JournalMismatch, MetadataFailed, UnknownTopic
from pydanube.storage import Files, InlineWriter, Log, Opening, Retention, StorageSettings

CEILING_STEP = 1 << 30


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
        identity, revision = await _identity(metadata, rng, ceiling_step)
        if disk_lost and identity.is_founded:
            ceiling = Offset(identity.ceiling + ceiling_step)
            await metadata.transact(keys.adopt_journal(identity, revision, rng.randbytes(16), ceiling))
            identity, revision = await _identity(metadata, rng, ceiling_step)
        opening = Opening(
            bytes.fromhex(identity.id),
            may_create=not identity.is_founded,
            ceiling=identity.ceiling,
            floor=0 if identity.is_founded else identity.floor,
        )
        log = Log.open(files, settings, clock, rng, opening)
        if not identity.is_founded:
            await metadata.transact(keys.found_journal(identity, revision))
        node = cls(log, metadata, clock, rng, ceiling_step)
        await node._reconcile()
        return node

    async def _reconcile(self) -> None:
        deleted = [keys.parse_tombstone_key(entry.key) for entry in await self._all(keys.TOMBSTONES_PREFIX)]
        alive = [keys.decode(entry, keys.Topic).id for entry in await self._all(keys.TOPICS_PREFIX)]
        for topic_id in deleted:
            self.log.upkeep.delete_topic(topic_id, ignore)
        self.log.upkeep.mark_orphans([*alive, *deleted], ignore)
        self.writer.run()

    async def _all(self, prefix: str) -> list[Entry]:
        found: list[Entry] = []
        more = True
        while more:
            page = await self._metadata.range(prefix, after=found[-1].key if found else "")
            found.extend(page.entries)
            more = page.more
        return found

    async def topics(self) -> dict[str, TopicId]:
        entries = await self._all(keys.TOPICS_PREFIX)
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
        entries = await self._all(keys.subscriptions_prefix(topic_id))
        decoded = (keys.decode(entry, keys.Subscription) for entry in entries)
        return {subscription.id: subscription.start for subscription in decoded}

    async def upkeep(self, retention: Retention) -> list[tuple[int, int]]:
        """What a broker does now and then; returns the topics and the first offsets that retention leaves them."""
        identity, revision = await _identity(self._metadata, self._rng, self._ceiling_step)
        if self.log.offset_highest + self._ceiling_step // 2 > identity.ceiling:
            ceiling = Offset(self.log.offset_highest + self._ceiling_step)
            await self._metadata.transact(keys.raise_ceiling(identity, revision, ceiling))
            self.log.raise_ceiling(ceiling)
        kept = []
        for topic_id in (await self.topics()).values():
            starts = await self.subscriptions(topic_id)
            kept.append((int(topic_id), self.log.upkeep.retain(topic_id, retention, starts, ignore)))
        self.log.upkeep.tick(ignore)
        self.writer.run()
        self.log.upkeep.delete_files()
        for forgotten in self.log.upkeep.forgotten_topics:
            await self._metadata.transact(keys.drop_tombstone(TopicId(forgotten)))
        self.log.upkeep.forgotten_topics.clear()
        return kept


async def _identity(metadata: MetadataStore, rng: Random, ceiling_step: int) -> tuple[keys.JournalIdentity, int]:
    entry = await metadata.get(keys.JOURNAL_KEY)
    if entry is None:
        identity = keys.journal_identity(rng.randbytes(16), Offset(ceiling_step))
        await metadata.transact(keys.claim_journal(identity))
        entry = await metadata.get(keys.JOURNAL_KEY)
        if entry is None:
            raise JournalMismatch("the metadata store did not keep the journal's identity")
    return keys.decode(entry, keys.JournalIdentity), entry.revision
