"""Parked batches: stored without offsets, given them later by reference.

One mechanism for two features to come: delayed batches (released when due) and staged batches (released together by
an idempotent commit of a writer). A release stands in one round, so it happens for all of its topics or for none.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pydanube.model import Buffer, DanubeError
from pydanube.model.errors import OutOfSequence, StagedLost, StagingFull
from pydanube.records import BatchHeader

from . import entries
from .acceptance import Acceptance, Done, Entry
from .appender import Appender
from .core import Core
from .entries import ParkedHead, Released, WriterMove
from .rounds import Kind
from .state import Parked


class Release(NamedTuple):
    """What a release is asked to do."""

    parked_ids: Sequence[int]
    writer: str = ""  # with a version: the release happens once, however often it is asked for
    version: int = 0


class Parking:
    def __init__(self, core: Core, appender: Appender) -> None:
        self._core = core
        self._appender = appender
        self._parking_bytes = 0
        self._releasing: set[int] = set()
        self._committing: dict[tuple[str, int], Entry] = {}

    def park(self, topic_id: int, batch: Buffer, header: BatchHeader, head: ParkedHead, done: Done) -> None:
        """Stores a batch that has passed `check_batch`. Parking under a known id replaces what was there."""
        core = self._core
        core.check_room(header.length)
        core.topic(topic_id)
        if head.parked_id in self._releasing:
            raise OutOfSequence(f"parked batch {head.parked_id:016x} is being released")
        if core.state.parked_bytes + self._parking_bytes + header.length > core.settings.staging_bytes:
            raise StagingFull(f"{core.state.parked_bytes} bytes are parked; {core.settings.staging_bytes} may be")
        body = entries.encode_park_head(head) + bytes(batch)
        entry = Entry(Kind.PARK, topic_id, body, count=header.record_count)
        self._parking_bytes += header.length

        def finished(offset: int, error: DanubeError | None) -> None:
            self._parking_bytes -= header.length
            done(offset, error)

        entry.done.append(finished)
        self._begin(entry)
        core.submit_group([entry])

    def _begin(self, entry: Entry) -> Acceptance:
        topic = self._core.topic(entry.topic_id)
        acceptance = self._core.acceptance(topic)
        acceptance.begin(entry)
        self._core.acceptances[entry.topic_id] = acceptance
        return acceptance

    def release(self, release: Release, done: Done) -> None:
        """Gives offsets to parked batches, topic by topic in the order of the ids. `done` hears 0: where they went is
        in `committed` for a writer, and in the topics' ends."""
        core = self._core
        core.check_open()
        if release.writer:
            known = core.state.writers.get(release.writer)
            if known is not None and release.version <= known.version:
                done(0, None)
                return
            under_way = self._committing.get((release.writer, release.version))
            if under_way is not None:
                under_way.done.append(done)
                return
        chosen = [self._find(parked_id) for parked_id in dict.fromkeys(release.parked_ids)]  # each once
        by_topic: dict[int, list[Parked]] = {}
        for parked in chosen:
            by_topic.setdefault(parked.topic_id, []).append(parked)
        counts = {topic_id: sum(parked.record_count for parked in batch) for topic_id, batch in by_topic.items()}
        for topic_id, count in counts.items():  # all checks before the first change
            self._appender.give_offsets(core.acceptance(core.topic(topic_id)), count)
        group = [self._release_topic(topic_id, batches) for topic_id, batches in by_topic.items()]
        if release.writer:
            group.append(self._writer_entry(release, group))
        if not group:
            done(0, None)
            return
        self._finish_with(group, release, done)
        core.submit_group(group)

    def _find(self, parked_id: int) -> Parked:
        parked = self._core.state.parked.get(parked_id)
        if parked is None or parked_id in self._releasing:
            raise StagedLost(f"parked batch {parked_id:016x} is not there")
        return parked

    def _release_topic(self, topic_id: int, batches: list[Parked]) -> Entry:
        core = self._core
        topic = core.topic(topic_id)
        acceptance = core.acceptance(topic)
        count = sum(parked.record_count for parked in batches)
        first = self._appender.give_offsets(acceptance, count)
        now_us = max(core.clock.now_us(), acceptance.last_us)
        self._appender.close_if_full(topic, acceptance, sum(parked.length for parked in batches), now_us)
        items = [
            Released(parked.parked_id, parked.file_number, parked.position, parked.length, parked.record_count)
            for parked in batches
        ]
        body = entries.encode_released(items, now_us)
        entry = Entry(Kind.RELEASE, topic_id, body, first=first, count=count, epoch=core.epoch)
        entry.parked = tuple(item.parked_id for item in items)
        self._releasing.update(entry.parked)
        self._appender.note_opened(topic_id, acceptance, now_us)
        acceptance.take(entry, now_us)
        core.acceptances[topic_id] = acceptance
        return entry

    def _writer_entry(self, release: Release, group: list[Entry]) -> Entry:
        ranges = tuple((entry.topic_id, entry.first, entry.first + entry.count) for entry in group)
        move = WriterMove(release.writer, release.version, ranges, self._core.clock.now_us())
        return Entry(Kind.WRITER, 0, entries.encode_writer(move))

    def _finish_with(self, group: list[Entry], release: Release, done: Done) -> None:
        key = (release.writer, release.version)
        last = group[-1]
        if release.writer:
            self._committing[key] = last

        def finished(_offset: int, error: DanubeError | None) -> None:
            self._committing.pop(key, None)
            for entry in group:
                self._releasing.difference_update(entry.parked)
            done(0, error)

        last.done.append(finished)

    def committed(self, writer: str) -> WriterMove | None:
        return self._core.state.writers.get(writer)

    def discard(self, parked_ids: Sequence[int], done: Done) -> None:
        """Forgets parked batches. What is unknown, released or being released is left alone."""
        core = self._core
        core.check_open()
        ids = [number for number in parked_ids if number in core.state.parked and number not in self._releasing]
        if not ids:
            done(0, None)
            return
        entry = Entry(Kind.DISCARD, 0, entries.encode_ids(ids))
        entry.done.append(done)
        self._releasing.update(ids)
        entry.done.append(lambda _offset, _error: self._releasing.difference_update(ids))
        core.submit(entry)

    def expired(self, now_us: int) -> list[int]:
        return [number for number, parked in self._core.state.parked.items() if parked.expires_us <= now_us]
