"""The store in memory keeps the contract, and needs no event loop."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.metadata.contract import HISTORY_BYTES, MetadataContract, told

from pydanube.metadata import MemoryStore, MetadataStore, Put, Transaction
from pydanube.testing.clock import ManualClock

T = TypeVar("T")


class TestMemoryStore(MetadataContract):
    def opened(self, folder: Path, clock: ManualClock) -> AbstractAsyncContextManager[MetadataStore]:  # noqa: ARG002
        return self._opened(clock)

    @asynccontextmanager
    async def _opened(self, clock: ManualClock) -> AsyncIterator[MetadataStore]:
        store = MemoryStore(clock, history_bytes_max=HISTORY_BYTES)
        yield store
        await store.close()


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs it as a simulator does: it must not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("the store suspended")


def test_nothing_suspends_or_needs_a_loop() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)

    async def story() -> list[dict[str, bytes | None]]:
        lease = await store.grant(5)
        await store.transact(Transaction(then=(Put("/a", b"1", lease), Put("/b", b"2"))))
        await store.keep_alive(lease)
        start = (await store.range("/")).revision
        clock.advance(5)
        store.expire()
        await store.delete("/b")
        async with store.watch("/", after_revision=start) as changes:
            return [told(await anext(changes)), told(await anext(changes))]

    assert finish(story()) == [{"/a": None}, {"/b": None}]
    finish(store.close())
