"""What every metadata store promises. A store's own tests inherit from `MetadataContract` and say how to open it.

No test relies on the number of the first revision or lease: they differ between stores.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import pytest

from pydanube.metadata import (
    Absent,
    Change,
    Compare,
    Delete,
    DeleteRange,
    Equals,
    Event,
    Get,
    MetadataStore,
    Present,
    Put,
    Transaction,
    Unchanged,
)
from pydanube.model.errors import LeaseNotFound, MetadataFailed, RevisionCompacted
from pydanube.testing.clock import ManualClock

HISTORY_BYTES = 64 << 10  # stores that keep their own history are opened with this much

Self = TypeVar("Self", bound="MetadataContract")


def scenario(test: Callable[[Self, MetadataStore], Awaitable[None]]) -> Callable[[Self, Path], None]:
    """Runs an async test on a store of its own. The time limit only ends a test that hangs."""

    def run(self: Self, tmp_path: Path) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), self.opened(tmp_path, self.clock) as store:
                await test(self, store)

        asyncio.run(main(), debug=True)

    return run


async def take(changes: AsyncIterator[Change], count: int) -> list[Change]:
    return [await anext(changes) for _ in range(count)]


def told(change: Change) -> dict[str, bytes | None]:
    return {event.key: None if event.entry is None else event.entry.value for event in change.events}


class MetadataContract(ABC):
    @pytest.fixture(autouse=True)
    def _make_clock(self) -> None:
        self.clock = ManualClock()

    @abstractmethod
    def opened(self, folder: Path, clock: ManualClock) -> AbstractAsyncContextManager[MetadataStore]: ...

    async def pass_time(self, store: MetadataStore, seconds: float) -> None:
        """Until every lease that is due has expired."""
        self.clock.advance(seconds)
        await store.get("any")

    async def outgrow_history(self, store: MetadataStore) -> None:
        """Until no change that was made before is kept."""
        for _ in range(8):
            await store.put("/filler", bytes(HISTORY_BYTES // 4))

    # Keys and revisions

    @scenario
    async def test_a_key_remembers_its_revisions(self, store: MetadataStore) -> None:
        first = await store.put("/a", b"1")
        second = await store.put("/a", b"2")
        entry = await store.get("/a")
        assert second == first + 1
        assert entry is not None
        assert (entry.key, entry.value) == ("/a", b"2")
        assert (entry.create_revision, entry.revision, entry.version, entry.lease) == (first, second, 2, 0)

    @scenario
    async def test_a_key_that_is_made_again_starts_anew(self, store: MetadataStore) -> None:
        await store.put("/a", b"1")
        await store.delete("/a")
        assert await store.get("/a") is None
        made = await store.put("/a", b"3")
        entry = await store.get("/a")
        assert entry is not None
        assert (entry.create_revision, entry.revision, entry.version) == (made, made, 1)

    @scenario
    async def test_only_what_changes_something_raises_the_revision(self, store: MetadataStore) -> None:
        revision = await store.put("/a", b"1")
        assert not await store.delete("/nothing")
        assert await store.get("/a") is not None
        refused = await store.transact(Transaction(when=(Absent("/a"),), then=(Put("/a", b"2"),)))
        assert (refused.succeeded, refused.revision) == (False, revision)
        assert (await store.range("/")).revision == revision
        assert await store.put("/a", b"1") == revision + 1  # the same value is a change too
        assert await store.delete("/a")
        assert (await store.range("/")).revision == revision + 2

    @scenario
    async def test_keys_and_values_may_be_anything(self, store: MetadataStore) -> None:
        keys = ["a", "é", "日本", "\U0001f600", "\uffff", "with\0zero", "  ", "%_*?[", "/"]
        for key in keys:
            await store.put(key, key.encode() + b"\0\xff")
        assert [entry.key for entry in (await store.range("")).entries] == sorted(keys, key=str.encode)
        for key in keys:
            entry = await store.get(key)
            assert entry is not None
            assert entry.value == key.encode() + b"\0\xff"
        await store.put("empty", b"")
        entry = await store.get("empty")
        assert entry is not None
        assert entry.value == b""

    @scenario
    async def test_a_large_value_comes_back_whole(self, store: MetadataStore) -> None:
        value = bytes(range(256)) * 4000
        await store.put("/large", value)
        entry = await store.get("/large")
        assert entry is not None
        assert entry.value == value

    # Transactions

    @scenario
    async def test_compares(self, store: MetadataStore) -> None:
        revision = await store.put("/a", b"1")
        holding: list[Compare] = [
            Present("/a"),
            Absent("/b"),
            Unchanged("/a", revision),
            Unchanged("/b", 0),
            Equals("/a", b"1"),
        ]
        failing: list[Compare] = [
            Absent("/a"),
            Present("/b"),
            Unchanged("/a", revision - 1),
            Unchanged("/a", 0),
            Unchanged("/b", revision),
            Equals("/a", b"2"),
            Equals("/b", b""),
        ]
        for compare in holding:
            assert (await store.transact(Transaction(when=(compare,)))).succeeded, compare
        for compare in failing:
            assert not (await store.transact(Transaction(when=(compare,)))).succeeded, compare
            mixed = Transaction(when=(*holding, compare), then=(Put("/c", b""),))
            assert not (await store.transact(mixed)).succeeded, compare
        assert await store.get("/c") is None

    @scenario
    async def test_a_transaction_is_one_revision_and_one_outcome(self, store: MetadataStore) -> None:
        await store.put("/gone/1", b"")
        await store.put("/gone/2", b"")
        before = await store.put("/old", b"old")
        wanted = Transaction(
            when=(Present("/old"),),
            then=(Get("/old"), Put("/new", b"new"), Delete("/missing"), DeleteRange("/gone/"), Get("/missing too")),
            otherwise=(Get("/new"), Put("/refused", b""), Delete("/old")),
        )
        done = await store.transact(wanted)
        assert (done.succeeded, done.revision, done.deleted) == (True, before + 1, 2)
        assert [entry and entry.value for entry in done.found] == [b"old", None]
        page = await store.range("")
        assert [(entry.key, entry.revision) for entry in page.entries] == [("/new", before + 1), ("/old", before)]
        await store.delete("/old")
        other = await store.transact(wanted)
        assert (other.succeeded, other.deleted) == (False, 0)
        assert [entry and entry.value for entry in other.found] == [b"new"]
        assert await store.get("/refused") is not None

    @scenario
    async def test_a_transaction_that_fails_leaves_nothing(self, store: MetadataStore) -> None:
        revision = await store.put("/a", b"1")
        with pytest.raises(LeaseNotFound):
            await store.transact(Transaction(then=(Delete("/a"), Put("/b", b"2"), Put("/c", b"3", lease=4242))))
        page = await store.range("")
        assert ([entry.key for entry in page.entries], page.revision) == (["/a"], revision)

    @scenario
    async def test_increments_by_compare_and_set_lose_none(self, store: MetadataStore) -> None:
        await store.put("/count", b"0")

        async def increment() -> None:
            while True:
                entry = await store.get("/count")
                assert entry is not None
                put = Put("/count", b"%d" % (int(entry.value) + 1))
                if (await store.transact(Transaction((Unchanged("/count", entry.revision),), (put,)))).succeeded:
                    return

        async def worker() -> None:
            for _ in range(10):
                await increment()

        await asyncio.gather(*(worker() for _ in range(10)))
        entry = await store.get("/count")
        assert entry is not None
        assert (entry.value, entry.version) == (b"100", 101)

    # Ranges

    @scenario
    async def test_a_range_is_ordered_and_only_the_prefix(self, store: MetadataStore) -> None:
        for key in ("/b/2", "/a", "/b/10", "/b", "/c", "/b/1", "/bb"):
            await store.put(key, key.encode())
        page = await store.range("/b/")
        assert [entry.key for entry in page.entries] == ["/b/1", "/b/10", "/b/2"]
        assert not page.more
        assert len((await store.range("")).entries) == 7
        assert (await store.range("/nothing")).entries == ()

    @scenario
    async def test_pages(self, store: MetadataStore) -> None:
        keys = [f"/k/{number:02}" for number in range(10)]
        await store.transact(Transaction(then=tuple(Put(key, b"") for key in keys)))
        await store.put("/z", b"")
        seen: list[str] = []
        pages, more = 0, True
        while more:
            page = await store.range("/k/", limit=5, after=seen[-1] if seen else "")
            seen += [entry.key for entry in page.entries]
            pages, more = pages + 1, page.more
        assert (seen, pages) == (keys, 2)
        assert [entry.key for entry in (await store.range("/k/", after="/a")).entries] == keys
        assert (await store.range("/k/", after="/k/09")).entries == ()
        assert (await store.range("/k/", after="/z")).entries == ()
        with pytest.raises(ValueError, match="at least one"):
            await store.range("/k/", limit=0)

    # Watches

    @scenario
    async def test_a_watch_from_the_past_gets_every_change_once(self, store: MetadataStore) -> None:
        start = await store.put("/w/a", b"0")
        await store.put("/w/a", b"1")
        await store.put("/other", b"")
        await store.delete("/w/a")
        async with store.watch("/w/", after_revision=start) as changes:
            past = await take(changes, 2)
            assert [(change.revision, told(change)) for change in past] == [
                (start + 1, {"/w/a": b"1"}),
                (start + 3, {"/w/a": None}),
            ]
            assert past[1].events == (Event("/w/a", start + 3, None),)
            await store.put("/w/b", b"2")
            assert told(await anext(changes)) == {"/w/b": b"2"}

    @scenario
    async def test_a_watch_from_now_waits_for_what_comes(self, store: MetadataStore) -> None:
        await store.put("/w", b"before")
        async with store.watch("/w") as changes:
            waiting = asyncio.create_task(take(changes, 2))
            await store.put("/x", b"")
            first = await store.put("/w", b"1")
            await store.put("/w", b"2")
            one, two = await waiting
            assert (one.revision, told(one), told(two)) == (first, {"/w": b"1"}, {"/w": b"2"})
            assert one.events[0].entry is not None
            assert one.events[0].entry.version == 2

    @scenario
    async def test_a_watch_gets_transactions_whole_and_in_order(self, store: MetadataStore) -> None:
        await store.put("/w/1", b"")
        await store.put("/w/2", b"")
        async with store.watch("/w/") as changes:
            done = await store.transact(
                Transaction(
                    then=(Put("/w/9", b"9"), Put("/x", b""), DeleteRange("/w/1"), Put("/w/0", b"0"), Delete("/w/2"))
                )
            )
            change = await anext(changes)
            assert change.revision == done.revision
            assert [event.key for event in change.events] == ["/w/9", "/w/1", "/w/0", "/w/2"]
            assert {event.revision for event in change.events} == {done.revision}

    @scenario
    async def test_an_interrupted_watch_loses_nothing(self, store: MetadataStore) -> None:
        async with store.watch("") as changes:
            waiting = asyncio.ensure_future(anext(changes))
            await store.get("/a")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await store.put("/a", b"1")
            assert told(await anext(changes)) == {"/a": b"1"}

    @scenario
    async def test_a_range_and_a_watch_join_without_a_gap(self, store: MetadataStore) -> None:
        async def write() -> None:
            for number in range(100):
                await store.put(f"/j/{number:03}", b"")
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        while len((page := await store.range("/j/")).entries) < 10:
            await asyncio.sleep(0)  # a store in memory never lets go by itself
        seen = [entry.key for entry in page.entries]
        async with store.watch("/j/", after_revision=page.revision) as changes:
            while len(seen) < 100:
                seen += [event.key for event in (await anext(changes)).events]
        await writing
        assert seen == [f"/j/{number:03}" for number in range(100)]

    @scenario
    async def test_a_watch_from_too_long_ago_is_refused(self, store: MetadataStore) -> None:
        old = await store.put("/w", b"1")
        await store.put("/w", b"2")
        await self.outgrow_history(store)
        with pytest.raises(RevisionCompacted):
            async with store.watch("/w", after_revision=old) as changes:
                await anext(changes)
        page = await store.range("/w")
        async with store.watch("/w", after_revision=page.revision) as changes:
            await store.put("/w", b"3")
            assert told(await anext(changes)) == {"/w": b"3"}

    @scenario
    async def test_a_watcher_that_is_too_slow_is_told(self, store: MetadataStore) -> None:
        async with store.watch("") as changes:
            await store.put("/w", b"1")
            await self.outgrow_history(store)
            with pytest.raises(RevisionCompacted):
                await take(changes, 100)

    @scenario
    async def test_closing_ends_watches_and_refuses_the_rest(self, store: MetadataStore) -> None:
        async with store.watch("") as changes:
            waiting = asyncio.ensure_future(anext(changes))
            await store.get("/a")
            await store.close()
            with pytest.raises(MetadataFailed):
                await waiting
        with pytest.raises(MetadataFailed):
            await store.get("/a")
        await store.close()

    # Leases

    @scenario
    async def test_keys_go_with_their_lease(self, store: MetadataStore) -> None:
        lease = await store.grant(10)
        await store.put("/broker/2", b"", lease)
        await store.put("/broker/1", b"", lease)
        await store.put("/stays", b"")
        revision = (await store.range("")).revision
        async with store.watch("") as changes:
            await self.pass_time(store, 9)
            assert len((await store.range("")).entries) == 3
            await self.pass_time(store, 1)
            assert [entry.key for entry in (await store.range("")).entries] == ["/stays"]
            change = await anext(changes)
            assert (change.revision, told(change)) == (revision + 1, {"/broker/1": None, "/broker/2": None})
        with pytest.raises(LeaseNotFound):
            await store.keep_alive(lease)
        with pytest.raises(LeaseNotFound):
            await store.put("/broker/1", b"", lease)

    @scenario
    async def test_a_lease_that_is_kept_alive_stays(self, store: MetadataStore) -> None:
        kept, forgotten = await store.grant(10), await store.grant(10)
        assert kept != forgotten
        assert 0 not in (kept, forgotten)
        await store.put("/kept", b"", kept)
        await store.put("/forgotten", b"", forgotten)
        for _ in range(5):
            await self.pass_time(store, 6)
            await store.keep_alive(kept)
        entry = await store.get("/kept")
        assert entry is not None
        assert entry.lease == kept
        assert await store.get("/forgotten") is None

    @scenario
    async def test_revoking(self, store: MetadataStore) -> None:
        lease, unused = await store.grant(10), await store.grant(10)
        revision = await store.put("/a", b"", lease)
        await store.revoke(unused)
        assert (await store.range("")).revision == revision
        await store.revoke(lease)
        assert await store.get("/a") is None
        for gone in (lease, unused, 4242):
            with pytest.raises(LeaseNotFound):
                await store.revoke(gone)

    @scenario
    async def test_a_key_leaves_its_lease_by_the_next_put(self, store: MetadataStore) -> None:
        old, new = await store.grant(10), await store.grant(1000)
        for key in ("/free", "/moved", "/made again"):
            await store.put(key, b"", old)
        await store.put("/free", b"")
        await store.put("/moved", b"", new)
        await store.delete("/made again")
        await store.put("/made again", b"")
        await self.pass_time(store, 10)
        assert [entry.key for entry in (await store.range("")).entries] == ["/free", "/made again", "/moved"]
        await store.revoke(new)
        assert [entry.key for entry in (await store.range("")).entries] == ["/free", "/made again"]

    @scenario
    async def test_a_lease_lasts_at_least_a_second(self, store: MetadataStore) -> None:
        with pytest.raises(ValueError, match="a lease lasts"):
            await store.grant(0)
