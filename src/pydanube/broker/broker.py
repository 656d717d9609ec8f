"""The broker: topics, subscriptions and sessions on one event loop. Plain objects; nothing runs per topic."""

import asyncio
import contextlib
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from pydanube.metadata import MetadataStore
from pydanube.metadata.keys import Durability
from pydanube.metadata.keys import Topic as TopicRecord
from pydanube.model import Clock, DanubeError, TopicId, TopicName
from pydanube.model.errors import StorageFailed, UnknownTopic
from pydanube.model.limits import FRAME_BYTES_MAX, MIB
from pydanube.storage import Files, Log, MemoryFiles, Retention, StorageSettings
from pydanube.wire import Frame

from . import questions
from .credit import CreditPool, Granted
from .directory import Directory
from .log_host import InlineHost, LogHost, ThreadHost
from .metrics import Metrics
from .opening import bury, open_log, raise_ceiling, reconcile
from .session import Session
from .settings import BrokerSettings
from .subscription import Subscription
from .topic import ReliableTopic, Topic, TransientTopic

_BATCH_HEADROOM = FRAME_BYTES_MAX - (4 * MIB)


def _ignore(_offset: int, _error: DanubeError | None) -> None:
    pass


class Broker:
    """Made by `start`. Whoever serves sockets makes a `Session` for each connection."""

    def __init__(self, settings: BrokerSettings, metadata: MetadataStore, clock: Clock, rng: Random, name: str) -> None:
        self.settings = settings
        self.name = name
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.metrics = Metrics()
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.directory = Directory(metadata, clock, rng)
        self.sessions: dict[int, Session] = {}
        self.topics: dict[TopicName, Topic] = {}
        self.subscriptions: dict[tuple[int, str], Subscription] = {}
        self.unflushed: set[Session] = set()  # with answers of the round that was just written
        self.woken: set[ReliableTopic] = set()  # with something new
        self._metadata = metadata
        self._rng = rng
        self._credit = CreditPool(settings.publish_bytes)
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="danube-read")
        self._tasks: set[asyncio.Task[None]] = set()
        self._session_numbers = 0
        self._hosts: dict[Durability, LogHost] = {}
        self._upkeep: asyncio.Task[None] | None = None
        self.is_ready = False

    @classmethod
    async def start(
        cls,
        settings: BrokerSettings,
        files: Files,
        metadata: MetadataStore,
        clock: Clock,
        rng: Random,
        *,
        name: str = "danube",
        disk_lost: bool = False,
        in_memory: bool = False,
    ) -> "Broker":
        """`in_memory`: the journal itself is in memory (tests), so there is no disk to wait for."""
        broker = cls(settings, metadata, clock, rng, name)
        log = await open_log(files, metadata, settings.storage, clock, rng, disk_lost=disk_lost)
        host = InlineHost if in_memory else ThreadHost
        broker._hosts[Durability.FSYNC] = host(log, broker.loop, broker.flush)
        await broker.directory.start()
        await reconcile(log, metadata, _ignore)
        broker._kick()
        broker._upkeep = broker.loop.create_task(broker._keep_up())
        broker.is_ready = True
        return broker

    @property
    def log(self) -> Log:
        return self._hosts[Durability.FSYNC].log

    def _host(self, durability: Durability) -> LogHost:
        if durability not in self._hosts:
            memory = StorageSettings(
                file_bytes=16 * MIB, reserve_bytes=MIB, cache_bytes=self.settings.storage.cache_bytes
            )
            log = Log.open(MemoryFiles(self.settings.memory_bytes), memory, self.clock, self._rng)
            self._hosts[durability] = InlineHost(log, self.loop, self.flush)
        return self._hosts[durability]

    # -- sessions -------------------------------------------------------------------------------------------------

    def new_session(self) -> Session:
        self._session_numbers += 1
        self.metrics.connections += 1
        return Session(self, self._session_numbers)

    def session_gone(self, session: Session) -> None:
        self.sessions.pop(session.number, None)
        self.unflushed.discard(session)
        self._give(self._credit.gone(session.number))

    def want(self, session: Session, count: int) -> None:
        self._give(self._credit.want(session.number, count))

    def answered(self, session: Session, granted: int) -> None:
        self._give(self._credit.answered(session.number, granted))

    def _give(self, grants: list[Granted]) -> None:
        for number, count in grants:
            session = self.sessions.get(number)
            if session is not None:
                session.grant(count)

    def after_read(self, session: Session) -> None:
        """A connection has handed over what it received: now the journal may begin with it."""
        self._kick()
        if session in self.unflushed:
            self.flush()

    def _kick(self) -> None:
        for host in self._hosts.values():
            host.kick()

    def flush(self) -> None:
        """Once a round, not once a batch: answers to producers, news for subscriptions."""
        sessions, self.unflushed = self.unflushed, set()
        for session in sessions:
            session.flush_published()
        topics, self.woken = self.woken, set()
        for topic in topics:
            topic.wake()
        self._kick()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answer(self, session: Session, frame: Frame) -> None:
        await questions.answer(self, session, frame)

    # -- topics ---------------------------------------------------------------------------------------------------

    async def topic(self, name: TopicName) -> Topic:
        known = self.topics.get(name)
        if known is not None:
            return known
        record = await self.directory.find(name)
        if record is None:
            raise UnknownTopic(f"there is no topic {name}")
        return self.load(name, record)

    def load(self, name: TopicName, record: TopicRecord) -> Topic:
        known = self.topics.get(name)
        if known is not None:
            return known
        bytes_max = self.settings.message_bytes_max + _BATCH_HEADROOM
        topic: Topic
        if record.durability is None:
            topic = TransientTopic(name, record.id, bytes_max)
        else:
            host = self._host(record.durability)
            topic = ReliableTopic(name, record.id, host, self.loop, self._readers, bytes_max)
        self.topics[name] = topic
        return topic

    def forget(self, name: TopicName) -> None:
        """The topic was deleted in the metadata."""
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        topic.is_deleted = True
        for key in [key for key in self.subscriptions if key[0] == topic.topic_id]:
            del self.subscriptions[key]

    def delete_stored(self, topic_id: TopicId, durability: Durability | None) -> None:
        if durability is not None:
            self._host(durability).log.upkeep.delete_topic(topic_id, _ignore)
            self._kick()

    # -- upkeep ---------------------------------------------------------------------------------------------------

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(self.settings.upkeep_seconds)
            await self.keep_up()

    async def keep_up(self) -> None:
        """Retention, old ledgers, files that can go, the ceiling, buried topics."""
        await raise_ceiling(self.log, self._metadata, self._rng)
        for durability, host in list(self._hosts.items()):
            host.log.upkeep.tick(_ignore)
            await self._retain(durability, host.log)
            with contextlib.suppress(StorageFailed):
                host.log.upkeep.delete_files()
        self._kick()
        await bury(self.log, self._metadata)

    async def _retain(self, durability: Durability, log: Log) -> None:
        """Asks the metadata only about topics that have something to let go: most have nothing, most of the time."""
        finished = {topic.topic_id for topic in log.core.state.topics.values() if topic.has_closed_ledger}
        if not finished:
            return
        for record in (await self.directory.topics()).values():
            if record.durability is not durability or record.id not in finished:
                continue
            chosen = record.retention
            retention = (
                self.settings.retention
                if chosen is None
                else Retention(chosen.time_us, chosen.bytes, chosen.hold_unconsumed)
            )
            if log.upkeep.may_let_go(record.id, retention):
                found = (await self.directory.subscriptions(record.id)).values()
                starts = {int(each.id): int(each.start) for each in found}
                with contextlib.suppress(UnknownTopic, StorageFailed):  # deleted meanwhile, or for later
                    log.upkeep.retain(record.id, retention, starts, _ignore)

    def gauges(self) -> dict[str, tuple[str, float]]:
        core = self.log.core
        return {
            "sessions": ("open connections", len(self.sessions)),
            "topics": ("topics in use", len(self.topics)),
            "stored_topics": ("topics in the journal", len(core.state.topics)),
            "cache_bytes": ("bytes in the tail cache", core.cache.bytes),
            "publish_credit_free_bytes": ("publish budget that is not granted", self._credit.free_bytes),
            "journal_round": ("the last durable round", core.last_round),
            "journal_file": ("the current journal file", core.catalog.current_number),
            "disk_full": ("1 while batches are refused for want of disk space", int(core.space.full)),
            "backlog_messages": ("messages not yet acknowledged, all subscriptions in use", self._backlog()),
        }

    def _backlog(self) -> int:
        return sum(
            max(0, subscription.topic.end - subscription.position)
            for subscription in self.subscriptions.values()
            if not subscription.topic.is_deleted
        )

    async def close(self) -> None:
        """In good order: no more questions, everything accepted is written and answered, then the end."""
        self.is_ready = False
        for session in list(self.sessions.values()):
            session.goodbye()
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for host in self._hosts.values():
            if isinstance(host, ThreadHost):
                await self.loop.run_in_executor(None, host.stop_thread)
        await asyncio.sleep(0)  # what the writer posted before it ended
        self.flush()
        for session in list(self.sessions.values()):
            session.close()
        for host in self._hosts.values():
            host.close()
        self._readers.shutdown()
        await self._metadata.close()
