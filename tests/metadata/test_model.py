"""Random operations: SQLite gives the same answers and the same changes as the tree in memory, also over restarts."""

import asyncio
import tempfile
from pathlib import Path
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pydanube.metadata import (
    Absent,
    Change,
    Compare,
    Delete,
    DeleteRange,
    Equals,
    Get,
    KeyTree,
    Operation,
    Present,
    Put,
    SqliteStore,
    Transaction,
    Unchanged,
)
from pydanube.model.errors import LeaseNotFound
from pydanube.testing.clock import ManualClock

# Few keys and values, near to each other in the order of bytes, so that operations meet.
KEYS = st.sampled_from(["a", "a/", "a/1", "a/2", "a/é", "a/\U0001f600", "a/\uffff", "a0", "b"])
PREFIXES = st.sampled_from(["", "a", "a/", "a/1", "b", "c"])
VALUES = st.sampled_from([b"", b"1", b"2"])
LEASES = st.integers(0, 3)
Step: TypeAlias = tuple[str, object]


def compares() -> SearchStrategy[Compare]:
    unchanged = st.builds(Unchanged, KEYS, st.integers(0, 12))
    return st.one_of(st.builds(Absent, KEYS), st.builds(Present, KEYS), unchanged, st.builds(Equals, KEYS, VALUES))


def operations() -> SearchStrategy[Operation]:
    return st.one_of(
        st.builds(Get, KEYS),
        st.builds(Put, KEYS, VALUES, LEASES),
        st.builds(Put, KEYS, VALUES),
        st.builds(Delete, KEYS),
        st.builds(DeleteRange, PREFIXES),
    )


@st.composite
def transactions(draw: st.DrawFn) -> Transaction | None:
    try:
        return Transaction(
            when=tuple(draw(st.lists(compares(), max_size=2))),
            then=tuple(draw(st.lists(operations(), max_size=3))),
            otherwise=tuple(draw(st.lists(operations(), max_size=2))),
        )
    except ValueError:
        return None  # it touches a key twice


STEPS = st.one_of(
    st.tuples(st.just("transact"), transactions()),
    st.tuples(st.just("range"), st.tuples(PREFIXES, st.integers(1, 4), st.one_of(st.just(""), KEYS))),
    st.tuples(st.just("grant"), st.integers(1, 5)),
    st.tuples(st.just("keep_alive"), LEASES),
    st.tuples(st.just("revoke"), LEASES),
    st.tuples(st.just("advance"), st.integers(1, 3)),
    st.tuples(st.just("restart"), st.none()),
)


class Model:
    def __init__(self) -> None:
        self.tree = KeyTree()
        self.changes: list[Change] = []

    def do(self, name: str, argument: object, now_us: int) -> object:
        self.changes += self.tree.expire(now_us)
        match name, argument:
            case "transact", Transaction() as transaction:
                result, change = self.tree.apply(transaction)
                self.changes += [change] if change else []
                return result
            case "range", (str(prefix), int(limit), str(after)):
                return self.tree.page(prefix, limit, after)
            case "grant", int(seconds):
                return self.tree.grant(seconds * 1_000_000, now_us)
            case "keep_alive", int(lease):
                self.tree.keep_alive(lease, now_us)
            case "revoke", int(lease):
                change = self.tree.revoke(lease)
                self.changes += [change] if change else []
        return None

    def restart(self, now_us: int) -> None:
        for lease in range(1, self.tree.last_lease + 1):
            if lease in self.tree.leases:
                self.tree.keep_alive(lease, now_us)


async def do(store: SqliteStore, name: str, argument: object) -> object:
    match name, argument:
        case "transact", Transaction() as transaction:
            return await store.transact(transaction)
        case "range", (str(prefix), int(limit), str(after)):
            return await store.range(prefix, limit=limit, after=after)
        case "grant", int(seconds):
            return await store.grant(seconds)
        case "keep_alive", int(lease):
            await store.keep_alive(lease)
        case "revoke", int(lease):
            await store.revoke(lease)
    return None


async def compare(path: Path, steps: list[Step]) -> None:
    clock, model = ManualClock(), Model()
    store = await SqliteStore.open(path, clock)
    opened_at, seen = 0, 0
    for name, argument in [*steps, ("restart", None)]:
        if name == "advance":
            assert isinstance(argument, int)
            clock.advance(argument)
        elif name == "restart":
            await store.range("")  # what is due now goes before the restart, in both
            model.do("range", ("", 1, ""), clock.now_us())
            async with store.watch("", after_revision=opened_at) as changes:
                for expected in model.changes[seen:]:
                    assert await anext(changes) == expected
            opened_at, seen = model.tree.revision, len(model.changes)
            await store.close()
            store = await SqliteStore.open(path, clock)
            model.restart(clock.now_us())
        elif argument is not None:
            wanted: object
            got: object
            try:
                wanted = model.do(name, argument, clock.now_us())
            except LeaseNotFound as error:
                wanted = str(error)
            try:
                got = await do(store, name, argument)
            except LeaseNotFound as error:
                got = str(error)
            assert got == wanted
    await store.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_sqlite_and_the_tree_agree(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder) / "metadata.db", steps))
