"""What brokers tell of topics and subscriptions, with types. Facts that a newer broker adds are kept for --json."""

from typing import Any

import msgspec


class Retention(msgspec.Struct, frozen=True):
    time_us: int | None
    bytes: int | None
    hold_unconsumed: bool


class PartitionFacts(msgspec.Struct, frozen=True):
    topic: str
    id: str
    end: int
    first: int = 0
    bytes: int = 0
    ledgers: int = 0
    dropped: int = 0


class TopicFacts(msgspec.Struct, frozen=True):
    topic: str
    reliable: bool
    durability: str | None
    partitions: list[PartitionFacts]
    is_partitioned: bool
    created_us: int
    retention: Retention | None
    subscriptions: list[str]

    @property
    def kind(self) -> str:
        return f"reliable ({self.durability})" if self.reliable else "non-reliable"

    @property
    def messages(self) -> int:
        return sum(each.end - each.first for each in self.partitions) if self.reliable else 0

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.partitions)


class CursorFacts(msgspec.Struct, frozen=True):
    topic: str
    connected: bool
    position: int = 0
    end: int = 0
    lag: int = 0
    ranges: int = 0
    late_acks: int = 0


class SubscriptionFacts(msgspec.Struct, frozen=True):
    subscription: str
    topic: str
    type: str
    partitions: list[CursorFacts]

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)


class NamespaceFacts(msgspec.Struct, frozen=True):
    namespace: str
    auto_create_topics: bool
    created_us: int
    topics: int


def topic_facts(facts: dict[str, Any]) -> TopicFacts:
    return msgspec.convert(facts, TopicFacts)


def subscription_facts(facts: dict[str, Any]) -> SubscriptionFacts:
    return msgspec.convert(facts, SubscriptionFacts)


def namespace_facts(facts: dict[str, Any]) -> NamespaceFacts:
    return msgspec.convert(facts, NamespaceFacts)
