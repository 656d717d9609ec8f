"""A store in memory, for tests and simulations: the state machine itself, with nothing around it.

No method suspends, except a watch that waits for something to happen. Leases expire when an operation finds them
expired; where nothing else happens, `expire` does it.
"""

from pydanube.model import Clock

from .history import HISTORY_BYTES_MAX, History
from .store import RANGE_LIMIT, MetadataStore, RangeResult, TransactionResult, Watch, check_range, check_ttl
from .transactions import Transaction
from .tree import KeyTree
from .watching import Watches


class MemoryStore(MetadataStore):
    def __init__(self, clock: Clock, *, history_bytes_max: int = HISTORY_BYTES_MAX) -> None:
        self._clock = clock
        self._tree = KeyTree()
        self._watches = Watches(History(self._tree.revision, history_bytes_max))

    async def transact(self, transaction: Transaction) -> TransactionResult:
        self.expire()
        result, change = self._tree.apply(transaction)
        if change is not None:
            self._watches.publish([change])
        return result

    async def range(self, prefix: str, *, limit: int = RANGE_LIMIT, after: str = "") -> RangeResult:
        check_range(prefix, limit, after)
        self.expire()
        return self._tree.page(prefix, limit, after)

    def watch(self, prefix: str, *, after_revision: int | None = None) -> Watch:
        return self._watches.open(prefix, after_revision)

    async def grant(self, ttl_seconds: int) -> int:
        check_ttl(ttl_seconds)
        self.expire()
        return self._tree.grant(ttl_seconds * 1_000_000, self._clock.now_us())

    async def keep_alive(self, lease: int) -> None:
        self.expire()
        self._tree.keep_alive(lease, self._clock.now_us())

    async def revoke(self, lease: int) -> None:
        self.expire()
        change = self._tree.revoke(lease)
        if change is not None:
            self._watches.publish([change])

    def expire(self) -> None:
        self._watches.require_open()
        changes = self._tree.expire(self._clock.now_us())
        if changes:
            self._watches.publish(changes)

    async def close(self) -> None:
        self._watches.close()
