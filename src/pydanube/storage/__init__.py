"""Storage: rounds in a journal, ledgers, cursors, producer sequences, parked batches, checkpoints, recovery."""

from .acceptance import Done
from .cache import StoredBatch
from .cursor import Cursor
from .entries import ParkedHead
from .files import File, Files, MemoryFiles, OsFiles
from .ledger import Ledger
from .log import Log, Opening
from .parking import Release
from .plan import Slice, Tier
from .report import Finding, Report
from .retention import Retention
from .settings import StorageSettings
from .writer import InlineWriter, ThreadWriter

__all__ = [
    "Cursor",
    "Done",
    "File",
    "Files",
    "Finding",
    "InlineWriter",
    "Ledger",
    "Log",
    "MemoryFiles",
    "Opening",
    "OsFiles",
    "ParkedHead",
    "Release",
    "Report",
    "Retention",
    "Slice",
    "StorageSettings",
    "StoredBatch",
    "ThreadWriter",
    "Tier",
]
