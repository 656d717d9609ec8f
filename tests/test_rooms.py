"""The arrows between rooms, and what pure code may touch. Both are read from the source; nothing is imported.

A room is a folder of the package. Imports point down only, rooms on one line do not know each other, and `testing`
may import anyone while no one imports it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "pydanube"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE

# From the ground up. Rooms that are not built yet have their place already.
LINES = (
    ("model",),
    ("records", "wire"),
    ("storage", "metadata", "registry", "security"),
    ("broker", "client"),
    ("admin", "console", "connect", "spark", "grpc"),
    ("cli",),
)
LEVELS = {room: level for level, rooms in enumerate(LINES) for room in rooms}
TESTING = "testing"
# `import pydanube` itself is the client's door, so only what stands above the client may use it.
TOP_LEVEL = LEVELS["client"]

# Pure: whole rooms, and files of the others.
PURE_ROOMS = ("model", "records", "wire")
PURE_FILES = {
    "storage": (
        "acceptance",
        "cache",
        "cursor",
        "entries",
        "file_header",
        "index",
        "ledger",
        "plan",
        "producers",
        "ranges",
        "report",
        "retention",
        "round_queue",
        "rounds",
        "settings",
        "state",
    ),
    "metadata": (
        "history",
        "keys.__init__",
        "keys.journal",
        "keys.namespaces",
        "keys.records",
        "keys.subscriptions",
        "keys.topics",
        "keyspace",
        "leases",
        "store",
        "transactions",
        "tree",
    ),
}
# What pure code may import: nothing in here knows of files, sockets, clocks, threads or chance.
HARMLESS = {
    *("__future__", "abc", "array", "bisect", "collections", "contextlib", "dataclasses", "enum", "functools", "heapq"),
    *("itertools", "math", "operator", "re", "string", "struct", "sys", "types", "typing", "unicodedata"),
    *("crc32c", "lz4", "msgspec", "numpy", "pyarrow", "zstandard"),
}
EXCEPTIONS = {
    ("model.clock", "time"),  # SystemClock: the one place that reads the real time
    ("records.compression", "threading"),  # thread-local contexts of zstd; no lock, no thread
}
WORLDLY_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}


class Import(NamedTuple):
    target: str  # dotted and absolute
    line: int


def module_name(path: Path) -> str:
    """Relative to the package: `storage.rounds`; an `__init__` is spelt out."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imports_of(module: str, tree: ast.AST) -> Iterator[Import]:
    """All imports, those inside functions and under TYPE_CHECKING included."""
    package = [PACKAGE, *module.split(".")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(f"{start}.{alias.name}", node.lineno)


def room_of(target: str) -> str | None:
    """The room that an import leads to; "" is the top package, None is somebody else's."""
    package, *rest = target.split(".")
    if package != PACKAGE:
        return None
    return rest[0] if rest and (rest[0] in LEVELS or rest[0] == TESTING) else ""


def wrong_arrows(module: str, source: str) -> list[str]:
    room = module.split(".")[0]
    if room == "__init__":
        level = TOP_LEVEL + 1
    elif room == TESTING:
        return []
    elif room in LEVELS:
        level = LEVELS[room]
    else:
        return [f"{module}: {room!r} has no place in the picture of rooms"]
    wrong = []
    for target, line in imports_of(module, ast.parse(source)):
        other = room_of(target)
        if other is None or other == room:
            continue
        if other == TESTING:
            wrong.append(f"{module}:{line} imports {target}: testing is for tests")
        elif (LEVELS[other] if other else TOP_LEVEL) >= level:
            wrong.append(f"{module}:{line} imports {target}: {room} may only look at the lines below its own")
    return wrong


def is_pure(module: str) -> bool:
    room, _, rest = module.partition(".")
    return room in PURE_ROOMS or rest in PURE_FILES.get(room, ())


def impurities(module: str, source: str) -> list[str]:
    tree = ast.parse(source)
    wrong = []
    for target, line in imports_of(module, tree):
        name, *rest = target.split(".")
        if name != PACKAGE:
            if name not in HARMLESS and (module, name) not in EXCEPTIONS:
                wrong.append(f"{module}:{line} imports {target}")
        elif not _leads_to_pure(rest):
            wrong.append(f"{module}:{line} imports {target}, which is not pure")
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = ((call.func.id, call.lineno) for call in calls if isinstance(call.func, ast.Name))
    wrong += [f"{module}:{line} calls {name}()" for name, line in named if name in WORLDLY_CALLS]
    return wrong


def _leads_to_pure(rest: list[str]) -> bool:
    """Whether `rest` names a pure file, or something in one."""
    starts = [".".join(rest[:length]) for length in range(1, len(rest) + 1)]
    return any(is_pure(start) or is_pure(f"{start}.__init__") for start in starts)


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=module_name)
def test_arrows_point_down(path: Path) -> None:
    assert wrong_arrows(module_name(path), path.read_text()) == []


@pytest.mark.parametrize("path", [path for path in sources() if is_pure(module_name(path))], ids=module_name)
def test_pure_code_is_pure(path: Path) -> None:
    assert impurities(module_name(path), path.read_text()) == []


def test_the_pure_files_exist() -> None:
    """A file that was renamed must not leave the check unseen."""
    known = {module_name(path) for path in sources()}
    listed = {f"{room}.{name}" for room, names in PURE_FILES.items() for name in names}
    assert listed - known == set()
    assert {module for module, _ in EXCEPTIONS} - known == set()


# The checker itself, on made-up source.


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.names", "from pydanube.records import Batch"),
        ("model.names", "import pydanube.storage"),
        ("records.batch", "from pydanube import wire"),
        ("records.batch", "from ..storage.rounds import Row"),
        ("records.batch", "from .. import broker"),
        ("storage.log", "from pydanube.metadata import keys"),
        ("storage.log", "def f():\n    from pydanube.broker import x"),
        ("storage.log", "if TYPE_CHECKING:\n    from pydanube.cli import x"),
        ("storage.deep.file", "from ...client import x"),
        ("storage.log", "import pydanube"),
        ("storage.log", "from pydanube import connect_blocking"),
        ("storage.log", "from pydanube.testing import faults"),
        ("cli.main", "from pydanube.testing.node import Node"),
        ("__init__", "from .testing import broker"),
        ("__init__", "from .cli import main"),
        ("broker.server", "from pydanube.client import connect"),
        ("spark.source", "from pydanube.connect import api"),
        ("attic.file", "import sys"),
    ],
)
def test_a_wrong_arrow_is_seen(module: str, source: str) -> None:
    assert len(wrong_arrows(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.names", "import os, asyncio\nfrom .errors import InvalidName\nfrom . import limits"),
        ("records.batch", "from pydanube.model import Buffer\nfrom ..model.errors import InvalidBatch"),
        ("metadata.keys.topics", "from pydanube.metadata.transactions import Put\nfrom ..store import Entry"),
        ("broker.server", "from pydanube import storage, wire\nimport pydanube.metadata.keys"),
        ("spark.source", "from pydanube.client import connect\nimport pydanube"),
        ("cli.main", "from pydanube.spark import source"),
        ("testing.node", "from pydanube.cli import main"),
        ("__init__", "from .client import connect\nfrom .model import errors"),
        ("storage.log", "import pydanubetools"),
    ],
)
def test_a_right_arrow_is_left_alone(module: str, source: str) -> None:
    assert wrong_arrows(module, source) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("storage.rounds", "import asyncio"),
        ("storage.rounds", "import os.path"),
        ("storage.rounds", "from pathlib import Path"),
        ("storage.rounds", "from random import Random"),
        ("storage.rounds", "import socket as s"),
        ("storage.rounds", "def f():\n    import threading"),
        ("storage.rounds", "import time"),
        ("model.names", "import time"),
        ("records.batch", "import threading"),
        ("storage.rounds", "from .files import OsFiles"),
        ("storage.rounds", "from pydanube.storage import Log"),
        ("storage.rounds", "from . import journal"),
        ("metadata.keys.topics", "from pydanube.metadata.sqlite import SqliteStore"),
        ("metadata.tree", "from .memory import MemoryStore"),
        ("storage.rounds", "def f(name):\n    return open(name)"),
        ("storage.rounds", "print('here')"),
    ],
)
def test_an_impurity_is_seen(module: str, source: str) -> None:
    assert is_pure(module)
    assert len(impurities(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.clock", "import time"),
        ("records.compression", "import threading"),
        (
            "storage.state",
            "from . import entries\nfrom .rounds import Kind\nimport msgspec\nfrom collections import deque",
        ),
        ("storage.state", "from pydanube.model import Buffer\nfrom pydanube.records import read_header"),
        ("metadata.keys.topics", "from .records import Record\nfrom pydanube.metadata.transactions import Put"),
        ("storage.state", "files.open(name)"),
    ],
)
def test_pure_source_is_left_alone(module: str, source: str) -> None:
    assert is_pure(module)
    assert impurities(module, source) == []
