"""The SQLite store keeps the contract, groups its commits, survives their failure and refuses what it cannot use."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.metadata.contract import HISTORY_BYTES, MetadataContract, told

from pydanube.metadata import MetadataStore, SqliteStore
from pydanube.metadata.sqlite_rows import APPLICATION_ID, SCHEMA_VERSION, SqliteRows
from pydanube.model.errors import (
    DataDamaged,
    DataFolderInUse,
    DataFolderUnusable,
    LeaseNotFound,
    MetadataFailed,
    UnsupportedVersion,
)
from pydanube.testing.clock import ManualClock


@asynccontextmanager
async def open_store(folder: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(folder / "metadata.db", clock, history_bytes_max=HISTORY_BYTES)
    try:
        yield store
    finally:
        await store.close()


class TestSqliteStore(MetadataContract):
    def opened(self, folder: Path, clock: ManualClock) -> AbstractAsyncContextManager[MetadataStore]:
        return open_store(folder, clock)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(main(), debug=True)


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()

    async def story() -> None:
        async with open_store(tmp_path, clock) as store:
            await store.put("/gone", b"")
            revision = await store.put("/a", b"1")
            lease = await store.grant(10)
            await store.put("/leased", b"", lease)
            revoked = await store.grant(10)
            await store.revoke(revoked)
            await store.delete("/gone")
            before = await store.range("")
            clock.advance(9)
        async with open_store(tmp_path, clock) as store:
            assert await store.range("") == before
            entry = await store.get("/a")
            assert entry is not None
            assert entry.revision == revision
            clock.advance(9)  # a lease has its full time anew
            await store.keep_alive(lease)
            with pytest.raises(LeaseNotFound):
                await store.keep_alive(revoked)
            assert await store.grant(10) not in (lease, revoked)
            assert await store.put("/b", b"") == before.revision + 1

    run(story)


def test_leases_expire_when_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pydanube.metadata.committer._NAP_SECONDS_MAX", 0.001)
    clock = ManualClock()

    async def story() -> None:
        async with open_store(tmp_path, clock) as store:
            await store.put("/leased", b"", await store.grant(20))
            async with store.watch("/leased") as changes:
                clock.advance(20)
                assert told(await anext(changes)) == {"/leased": None}

    run(story)


def test_what_comes_during_a_commit_is_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = 0
    all_came = threading.Event()
    commit = SqliteRows.commit

    def slow(self: SqliteRows) -> None:
        nonlocal commits
        commits += 1
        all_came.wait()
        commit(self)

    async def story() -> None:
        async with open_store(tmp_path, ManualClock()) as store:
            monkeypatch.setattr(SqliteRows, "commit", slow)
            puts = [asyncio.create_task(store.put(f"/{number}", b"")) for number in range(200)]
            await asyncio.sleep(0)
            all_came.set()
            assert await asyncio.gather(*puts) == list(range(1, 201))

    run(story)
    assert commits <= 2


def test_a_full_queue_makes_callers_wait(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_store(tmp_path, ManualClock()) as store:
            value = bytes(900 << 10)
            puts = [asyncio.create_task(store.put(f"/{number}", value)) for number in range(20)]
            await asyncio.sleep(0)
            puts[-1].cancel()  # while it waits for room
            results = await asyncio.gather(*puts, return_exceptions=True)
            assert results[:-1] == list(range(1, 20))
            assert isinstance(results[-1], asyncio.CancelledError)
            assert await store.put("/after", b"") == 20

    run(story)


def test_close_finishes_what_was_accepted(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_store(tmp_path, ManualClock()) as store:
            puts = [asyncio.create_task(store.put(f"/{number}", b"")) for number in range(100)]
            waiting = [asyncio.create_task(store.put(f"/w{number}", bytes(900 << 10))) for number in range(10)]
            await asyncio.sleep(0)
            await store.close()
            assert await asyncio.gather(*puts) == list(range(1, 101))
            results = await asyncio.gather(*waiting, return_exceptions=True)
        accepted = [result for result in results if isinstance(result, int)]
        assert {type(result) for result in results if not isinstance(result, int)} == {MetadataFailed}
        async with open_store(tmp_path, ManualClock()) as store:
            assert len((await store.range("")).entries) == 100 + len(accepted)

    run(story)


def test_a_failed_commit_fails_its_group_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = SqliteRows.commit

    def fail(_: SqliteRows) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def story() -> None:
        async with open_store(tmp_path, ManualClock()) as store:
            revision = await store.put("/a", b"1")
            async with store.watch("") as changes:
                monkeypatch.setattr(SqliteRows, "commit", fail)
                asked = [store.put("/a", b"2"), store.grant(10), store.get("/a"), store.delete("/a")]
                results = await asyncio.gather(*asked, return_exceptions=True)
                assert [type(result) for result in results] == [MetadataFailed] * 4
                monkeypatch.setattr(SqliteRows, "commit", commit)
                entry = await store.get("/a")
                assert entry is not None
                assert (entry.value, entry.revision) == (b"1", revision)
                with pytest.raises(LeaseNotFound):
                    await store.keep_alive(1)
                assert await store.put("/a", b"3") == revision + 1
                assert told(await anext(changes)) == {"/a": b"3"}

    run(story)


def test_a_full_disk_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = SqliteRows.begin
    pages_max = 20

    def bounded(self: SqliteRows, now_us: int) -> None:
        begin(self, now_us)
        self._connection.execute(f"PRAGMA max_page_count = {pages_max}")

    async def story() -> None:
        nonlocal pages_max
        monkeypatch.setattr(SqliteRows, "begin", bounded)
        async with open_store(tmp_path, ManualClock()) as store:
            await store.put("/small", b"1")
            with pytest.raises(MetadataFailed, match="full"):
                await store.put("/large", bytes(1 << 19))
            assert await store.put("/small", b"2") == 2
            pages_max = 1000
            assert await store.put("/large", bytes(1 << 19)) == 3

    run(story)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    second = (
        "import sqlite3, sys; from pathlib import Path; from pydanube.metadata.sqlite_rows import SqliteRows\n"
        "try: SqliteRows.open(Path(sys.argv[1]), 0)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )

    async def story() -> None:
        async with open_store(tmp_path, ManualClock()) as store:
            path = tmp_path / "metadata.db"
            answer = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", second, str(path)], capture_output=True, text=True, check=True
            )
            assert answer.stdout == f"DataFolderInUse another process is using {path}\n"
            with pytest.raises(DataFolderInUse):
                await SqliteStore.open(path, ManualClock())
            await store.put("/still", b"here")

    run(story)


def open_fails(path: Path, error: type[Exception]) -> str:
    message = ""

    async def story() -> None:
        nonlocal message
        with pytest.raises(error) as raised:
            await SqliteStore.open(path, ManualClock())
        message = str(raised.value)

    run(story)
    assert "\n" not in message
    assert str(path.parent) in message
    return message


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_bytes(b"not a database, but long enough to look at" * 100)
    open_fails(text, DataDamaged)

    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE addresses (name TEXT)")
    before = foreign.read_bytes()
    open_fails(foreign, DataDamaged)
    assert foreign.read_bytes() == before

    newer = tmp_path / "newer.db"
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    open_fails(newer, UnsupportedVersion)

    open_fails(tmp_path / "missing" / "metadata.db", DataFolderUnusable)
    folder = tmp_path / "folder.db"
    folder.mkdir()
    open_fails(folder, DataFolderUnusable)


def test_damage_inside_is_told(tmp_path: Path) -> None:
    async def fill() -> None:
        async with open_store(tmp_path, ManualClock()) as store:
            for number in range(50):
                await store.put(f"/{number}", bytes(1000))

    async def read() -> None:
        async with open_store(tmp_path, ManualClock()) as store:
            with pytest.raises(DataDamaged):
                await store.range("")

    run(fill)
    path = tmp_path / "metadata.db"
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    data[(root - 1) * page_bytes : root * page_bytes] = b"\xee" * page_bytes
    path.write_bytes(data)
    run(read)
