"""/topics/<namespace>/<name> and /tombstones/<topic id>

A topic's name leads to its id. A deleted topic leaves its id behind as a tombstone until no journal file mentions it
any more; the name is free at once, for a topic with another id.
"""

from enum import Enum

from msgspec import Struct

from pydanube.metadata.transactions import Absent, Delete, DeleteRange, Get, Present, Put, Transaction, Unchanged
from pydanube.model import TopicId, TopicName

from .namespaces import namespace_key
from .records import Record, hex_id
from .subscriptions import subscriptions_prefix

PREFIX = "/topics/"
TOMBSTONES_PREFIX = "/tombstones/"


class Durability(Enum):
    """When a batch is acknowledged. The values are written to the store."""

    MEMORY = "memory"
    FSYNC = "fsync"
    STORE = "store"


class TopicRetention(Struct, frozen=True):
    time_us: int | None  # None: for ever
    bytes: int | None
    hold_unconsumed: bool


class Topic(Record, frozen=True):
    id: TopicId
    created_us: int
    durability: Durability | None  # None: a non-reliable topic, of which nothing is stored
    partitions: int = 0  # of the topic that this is a partition of; 0: it is none
    retention: TopicRetention | None = None  # None: the broker's default

    @property
    def is_reliable(self) -> bool:
        return self.durability is not None


class Tombstone(Record, frozen=True):
    topic: str  # the name it had, for people
    deleted_us: int


def topic_key(name: TopicName) -> str:
    return f"{PREFIX}{name.namespace}/{name.name}"


def parse_topic_key(key: str) -> TopicName:
    namespace, name = key.removeprefix(PREFIX).split("/")
    return TopicName(namespace, name)


def tombstone_key(topic: TopicId) -> str:
    return TOMBSTONES_PREFIX + hex_id(topic)


def parse_tombstone_key(key: str) -> TopicId:
    return TopicId(int(key.removeprefix(TOMBSTONES_PREFIX), 16))


def create_topic(name: TopicName, topic: Topic) -> Transaction:
    """Refused if the name is taken or the namespace is missing; `found` then holds the namespace and the topic."""
    namespace, key = namespace_key(name.namespace), topic_key(name)
    return Transaction(
        when=(Present(namespace), Absent(key)),
        then=(Put(key, topic.encode()),),
        otherwise=(Get(namespace), Get(key)),
    )


def delete_topic(name: TopicName, topic: Topic, revision: int, *, deleted_us: int) -> Transaction:
    """Takes the name and the subscriptions away and leaves a tombstone; refused if the topic is not that one now."""
    key = topic_key(name)
    tombstone = Tombstone(topic=str(name), deleted_us=deleted_us)
    return Transaction(
        when=(Unchanged(key, revision),),
        then=(
            Delete(key),
            Put(tombstone_key(topic.id), tombstone.encode()),
            DeleteRange(subscriptions_prefix(topic.id)),
        ),
    )


def drop_tombstone(topic: TopicId) -> Transaction:
    """For when no journal file mentions the id any more."""
    return Transaction(then=(Delete(tombstone_key(topic)),))


def change_topic(name: TopicName, topic: Topic, revision: int) -> Transaction:
    key = topic_key(name)
    return Transaction(when=(Unchanged(key, revision),), then=(Put(key, topic.encode()),))
