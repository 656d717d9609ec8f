"""What a transaction asks: compares, and what to do when they hold and when they do not.

Everything is checked when the transaction is made, so that each store may rely on it and a mistake shows where it was
made. The bounds are etcd's own with its default settings, less some room for its envelope.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

TRANSACTION_OPERATIONS_MAX = 128  # compares, and operations of either outcome
TRANSACTION_BYTES_MAX = 1 << 20


class Absent(Struct, frozen=True, tag=True):
    key: str


class Present(Struct, frozen=True, tag=True):
    key: str


class Unchanged(Struct, frozen=True, tag=True):
    """The key's last put had this revision; 0 means that there is no such key."""

    key: str
    revision: int


class Equals(Struct, frozen=True, tag=True):
    """The key is there with exactly this value."""

    key: str
    value: bytes


class Get(Struct, frozen=True, tag=True):
    key: str


class Put(Struct, frozen=True, tag=True):
    key: str
    value: bytes
    lease: int = 0


class Delete(Struct, frozen=True, tag=True):
    key: str


class DeleteRange(Struct, frozen=True, tag=True):
    prefix: str


Compare: TypeAlias = Absent | Present | Unchanged | Equals
Operation: TypeAlias = Get | Put | Delete | DeleteRange


class Transaction(Struct, frozen=True):
    when: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Operation, ...] = ()

    def __post_init__(self) -> None:
        for compare in self.when:
            _check_key(compare.key)
        if len(self.when) > TRANSACTION_OPERATIONS_MAX:
            raise ValueError(f"a transaction has at most {TRANSACTION_OPERATIONS_MAX} compares, not {len(self.when)}")
        _check_operations(self.then)
        _check_operations(self.otherwise)
        if self.size_bytes > TRANSACTION_BYTES_MAX:
            raise ValueError(f"a transaction has at most {TRANSACTION_BYTES_MAX} bytes, not {self.size_bytes}")

    @property
    def size_bytes(self) -> int:
        """Keys and values together."""
        return sum(map(_size_bytes, (*self.when, *self.then, *self.otherwise)))


def _size_bytes(part: Compare | Operation) -> int:
    match part:
        case Put(key, value) | Equals(key, value):
            return len(key.encode()) + len(value)
        case DeleteRange(prefix):
            return len(prefix.encode())
        case _:
            return len(part.key.encode())


def _check_key(key: str) -> None:
    if not key:
        raise ValueError("a key must not be empty")
    key.encode()  # UnicodeEncodeError, a ValueError too, for what is no text


def _check_operations(operations: tuple[Operation, ...]) -> None:
    if len(operations) > TRANSACTION_OPERATIONS_MAX:
        raise ValueError(f"a transaction does at most {TRANSACTION_OPERATIONS_MAX} things, not {len(operations)}")
    for operation in operations:
        if isinstance(operation, DeleteRange):
            operation.prefix.encode()
        else:
            _check_key(operation.key)
    _refuse_overlap(operations)


def _refuse_overlap(operations: Iterable[Operation]) -> None:
    """With two operations on one key the order would matter, and stores would have to agree on what it means."""
    touched = sorted((op.prefix, True) if isinstance(op, DeleteRange) else (op.key, False) for op in operations)
    # What a prefix covers follows right behind it, and a key that equals it right before it: neighbours are enough.
    for (text, is_prefix), (following, _) in pairwise(touched):
        if following == text or (is_prefix and following.startswith(text)):
            raise ValueError(f"a transaction must not touch {following!r} twice")
