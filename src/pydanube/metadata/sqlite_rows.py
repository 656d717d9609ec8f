"""A keyspace in one SQLite file. Used by one thread; the file belongs to one process.

    entries    key (UTF-8, so that the order is the order of bytes), value, create_revision, revision, version, lease
    leases     id, ttl_us: only the length is kept. After a restart every lease has its full time anew, because the
               time that passed while nobody could renew it must not count against its holder.
    counters   one row: revision, last_lease

The file is in WAL mode with `synchronous=FULL`: COMMIT returns when the log is synced. `locking_mode=EXCLUSIVE` keeps
other processes out and needs no shared memory beside the file.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path

from pydanube.model.errors import (
    DanubeError,
    DataDamaged,
    DataFolderInUse,
    DataFolderUnusable,
    MetadataFailed,
    UnsupportedVersion,
)

from .keyspace import Keyspace
from .leases import Leases
from .store import Change, Entry, RangeResult

APPLICATION_ID = 0x44_41_4E_42  # "DANB"; in the file for ever
SCHEMA_VERSION = 1

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE entries (
    key BLOB PRIMARY KEY, value BLOB NOT NULL, create_revision INTEGER NOT NULL, revision INTEGER NOT NULL,
    version INTEGER NOT NULL, lease INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX entries_by_lease ON entries (lease) WHERE lease != 0;
CREATE TABLE leases (id INTEGER PRIMARY KEY, ttl_us INTEGER NOT NULL);
CREATE TABLE counters (revision INTEGER NOT NULL, last_lease INTEGER NOT NULL);
INSERT INTO counters VALUES (0, 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_COLUMNS = "key, value, create_revision, revision, version, lease"
_LAST = b"\xff"  # behind every key, as UTF-8 has no such byte


def explain_failure(error: Exception, path: Path) -> DanubeError:
    """What an error of SQLite's means to whoever asked for something."""
    if _kind(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return DataDamaged(f"{path} is damaged, or is not a metadata database: {error}")
    return MetadataFailed(f"{path} could not be read or written: {error}")


def _explain_opening(error: sqlite3.Error, path: Path) -> DanubeError:
    match _kind(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return DataFolderInUse(f"another process is using {path}")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return DataFolderUnusable(f"{path} cannot be opened for writing: {error}")
        case _:
            return explain_failure(error, path)


def _kind(error: Exception) -> int:
    """The low byte of SQLite's code; the rest of it is circumstances. Other errors have no code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


class SqliteRows(Keyspace):
    """Open with `open`. Between `begin` and `commit` everything is one transaction of SQLite's, whatever it does."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.is_stale = True  # the counters and leases in memory are not what the file says
        self._saved = (0, 0)  # the counters as the file has them
        # Opened on one thread and used on another, never by two at a time.
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)

    @classmethod
    def open(cls, path: Path, now_us: int) -> "SqliteRows":
        if not path.parent.is_dir():
            raise DataFolderUnusable(f"there is no folder {path.parent}")
        try:
            rows = cls(path)
        except sqlite3.Error as error:
            raise _explain_opening(error, path) from error
        try:
            rows._prepare()
            rows.begin(now_us)
            rows.commit()
        except sqlite3.Error as error:
            rows.close()
            raise _explain_opening(error, path) from error
        except DanubeError:
            rows.close()
            raise
        return rows

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("BEGIN IMMEDIATE")  # a second process stops here
        application = execute("PRAGMA application_id").fetchone()[0]
        version = execute("PRAGMA user_version").fetchone()[0]
        is_empty = execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        execute("ROLLBACK")
        is_new = is_empty and (application, version) == (0, 0)
        if not is_new and application != APPLICATION_ID:
            raise DataDamaged(f"{self.path} is a database, but not one with the metadata of a broker")
        if version > SCHEMA_VERSION:
            raise UnsupportedVersion(
                f"{self.path} has version {version} of the schema, this software knows {SCHEMA_VERSION}"
            )
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        if is_new:
            self._connection.executescript(_SCHEMA)

    def begin(self, now_us: int) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        if self.is_stale:
            counters = self._connection.execute("SELECT revision, last_lease FROM counters").fetchone()
            self.revision, self.last_lease = self._saved = counters
            self.leases = Leases()
            for lease, ttl_us in self._connection.execute("SELECT id, ttl_us FROM leases"):
                self.leases.add(lease, ttl_us, now_us)
            self.is_stale = False

    def commit(self) -> None:
        counters = (self.revision, self.last_lease)
        if counters != self._saved:
            self._connection.execute("UPDATE counters SET revision = ?, last_lease = ?", counters)
        self._connection.execute("COMMIT")
        self._saved = counters

    def roll_back(self) -> None:
        self.is_stale = True
        with suppress(sqlite3.Error):  # the error that brought us here may have rolled back already
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def find(self, key: str) -> Entry | None:
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM entries WHERE key = ?", (key.encode(),)).fetchone()
        return None if row is None else _entry(row)

    def page(self, prefix: str, limit: int, after: str) -> RangeResult:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entries WHERE key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?",
            (prefix.encode(), prefix.encode() + _LAST, after.encode(), limit + 1),
        ).fetchall()
        return RangeResult(tuple(map(_entry, rows[:limit])), self.revision, more=len(rows) > limit)

    def keys_under(self, prefix: str) -> list[str]:
        rows = self._connection.execute(
            "SELECT key FROM entries WHERE key >= ? AND key < ? ORDER BY key",
            (prefix.encode(), prefix.encode() + _LAST),
        )
        return [key.decode() for (key,) in rows]

    def keys_leased(self, lease: int) -> list[str]:
        rows = self._connection.execute("SELECT key FROM entries WHERE lease = ? AND lease != 0 ORDER BY key", (lease,))
        return [key.decode() for (key,) in rows]

    def write(self, change: Change) -> None:
        for event in change.events:
            if (entry := event.entry) is None:
                self._connection.execute("DELETE FROM entries WHERE key = ?", (event.key.encode(),))
            else:
                self._connection.execute(
                    f"INSERT OR REPLACE INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        entry.key.encode(),
                        entry.value,
                        entry.create_revision,
                        entry.revision,
                        entry.version,
                        entry.lease,
                    ),
                )

    def write_lease(self, lease: int, ttl_us: int) -> None:
        self._connection.execute("INSERT INTO leases VALUES (?, ?)", (lease, ttl_us))

    def erase_lease(self, lease: int) -> None:
        self._connection.execute("DELETE FROM leases WHERE id = ?", (lease,))


def _entry(row: tuple[bytes, bytes, int, int, int, int]) -> Entry:
    key, value, create_revision, revision, version, lease = row
    return Entry(key.decode(), value, create_revision, revision, version, lease)
