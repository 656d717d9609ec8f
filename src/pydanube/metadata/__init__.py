"""Cluster metadata: one small interface, the stores behind it, and what lies where in them."""

from . import keys
from .keyspace import Applied, Keyspace
from .memory import MemoryStore
from .sqlite import SqliteStore
from .store import Change, Entry, Event, MetadataStore, RangeResult, TransactionResult, Watch
from .transactions import (
    Absent,
    Compare,
    Delete,
    DeleteRange,
    Equals,
    Get,
    Operation,
    Present,
    Put,
    Transaction,
    Unchanged,
)
from .tree import KeyTree

__all__ = [
    "Absent",
    "Applied",
    "Change",
    "Compare",
    "Delete",
    "DeleteRange",
    "Entry",
    "Equals",
    "Event",
    "Get",
    "KeyTree",
    "Keyspace",
    "MemoryStore",
    "MetadataStore",
    "Operation",
    "Present",
    "Put",
    "RangeResult",
    "SqliteStore",
    "Transaction",
    "TransactionResult",
    "Unchanged",
    "Watch",
    "keys",
]
