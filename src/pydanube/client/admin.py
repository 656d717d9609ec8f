"""Questions about topics, namespaces and subscriptions: what the command line and the console ask."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pydanube.model import parse_topic
from pydanube.model.errors import UnknownTopic
from pydanube.wire import messages

from .connection import ADMIN, LIST, LOOKUP, OFFSETS
from .link import Link
from .times import microseconds


class TopicOffsets(NamedTuple):
    """Where one topic or partition begins and ends, and the first offset at or after each time asked for."""

    topic: str
    partition: int | None
    topic_id: int
    earliest: int
    latest: int
    at_times: list[int]


class Admin:
    """The part of a client that administers. Facts come as the broker tells them."""

    _link: Link

    async def create_topic(
        self, topic: str, *, reliable: bool = True, partitions: int | None = None, durability: str = "fsync"
    ) -> None:
        settings = messages.TopicSettings(reliable, partitions or 0, durability)
        await self._administer(messages.CreateTopic(str(parse_topic(topic)), settings))

    async def delete_topic(self, topic: str) -> None:
        await self._administer(messages.DeleteTopic(str(parse_topic(topic))))

    async def list_topics(self, namespace: str = "") -> list[str]:
        return await self._list("topics", namespace)

    async def describe_topic(self, topic: str) -> dict[str, object]:
        return await self._administer(messages.DescribeTopic(str(parse_topic(topic))))

    async def set_retention(
        self, topic: str, *, time_us: int | None = None, bytes: int | None = None, hold_unconsumed: bool = True
    ) -> None:
        """Keep messages for that long and up to that much; None: without that limit."""
        retention = messages.RetentionSettings(time_us, bytes, hold_unconsumed)
        await self._administer(messages.SetRetention(str(parse_topic(topic)), retention))

    async def reset_retention(self, topic: str) -> None:
        """The broker's default again."""
        await self._administer(messages.SetRetention(str(parse_topic(topic)), None))

    async def create_namespace(self, namespace: str, *, auto_create_topics: bool = True) -> None:
        await self._administer(messages.CreateNamespace(namespace, auto_create_topics))

    async def delete_namespace(self, namespace: str) -> None:
        await self._administer(messages.DeleteNamespace(namespace))

    async def list_namespaces(self) -> list[str]:
        return await self._list("namespaces", "")

    async def describe_namespace(self, namespace: str) -> dict[str, object]:
        return await self._administer(messages.DescribeNamespace(namespace))

    async def set_namespace(self, namespace: str, *, auto_create_topics: bool) -> None:
        await self._administer(messages.SetNamespace(namespace, auto_create_topics))

    async def list_subscriptions(self, topic: str) -> list[str]:
        return await self._list("subscriptions", str(parse_topic(topic)))

    async def describe_subscription(self, topic: str, subscription: str) -> dict[str, object]:
        return await self._administer(messages.DescribeSubscription(str(parse_topic(topic)), subscription))

    async def delete_subscription(self, topic: str, subscription: str) -> None:
        await self._administer(messages.DeleteSubscription(str(parse_topic(topic)), subscription))

    async def offsets(self, topic: str, times: Sequence[datetime | int] = ()) -> list[TopicOffsets]:
        """One entry for a topic, or one for each of its partitions."""
        times_us = [microseconds(time) for time in times]
        found = []
        for name in await self._partitions(topic):
            reply = await self._link.ask(OFFSETS, messages.Offsets(name, times_us))
            partition = parse_topic(name).partition
            found.append(TopicOffsets(name, partition, reply.topic_id, reply.earliest, reply.latest, reply.at_times))
        return found

    async def _partitions(self, topic: str) -> list[str]:
        looked_up = await self._lookup(topic)
        if not looked_up.partitions:
            raise UnknownTopic(f"there is no topic {looked_up.topic}")
        return looked_up.partitions

    async def _lookup(self, topic: str) -> messages.LookedUp:
        return await self._link.ask(LOOKUP, messages.Lookup(str(parse_topic(topic))))

    async def _administer(self, change: messages.Admin) -> dict[str, object]:
        return (await self._link.ask(ADMIN, change)).facts

    async def _list(self, what: str, under: str) -> list[str]:
        names: list[str] = []
        while True:
            page = await self._link.ask(LIST, messages.List(what, under, names[-1] if names else ""))
            names += page.names
            if not page.more:
                return names
