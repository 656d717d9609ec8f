"""A room has one door: its `__init__` re-exports names, says which, and holds no logic."""

import ast
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"


def door_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).parent.parts)


DOORS = sorted(SOURCE.glob("pydanube/**/__init__.py"))


def faults_of(source: str) -> list[str]:
    """What is wrong with the source of a door."""
    faults = []
    imported: set[str] = set()
    promised: list[str] | None = None
    for at, node in enumerate(ast.parse(source).body):
        if at == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # the docstring
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            imported.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            promised = ast.literal_eval(node.value)
        else:
            faults.append(f"line {node.lineno} is more than a door: {ast.unparse(node)[:60]}")
    public = {name for name in imported if not name.startswith("_")}
    if promised is None and public:
        faults.append("there is no __all__")
    faults += [f"{name} is imported and not in __all__" for name in sorted(public.difference(promised or ()))]
    faults += [f"{name} is in __all__ and not imported" for name in promised or () if name not in public]
    if promised is not None and len(promised) != len(set(promised)):
        faults.append("a name is in __all__ twice")
    return faults


@pytest.mark.parametrize("path", DOORS, ids=door_name)
def test_doors(path: Path) -> None:
    assert faults_of(path.read_text()) == []


@pytest.mark.parametrize("path", DOORS, ids=door_name)
def test_what_a_door_promises_is_there(path: Path) -> None:
    door = importlib.import_module(door_name(path))
    for name in getattr(door, "__all__", ()):
        assert hasattr(door, name)


@pytest.mark.parametrize(
    "source",
    [
        "from .a import b",
        "from .a import b, c\n__all__ = ['b']",
        "from .a import b\n__all__ = ['b', 'c']",
        "from .a import b\n__all__ = ['b', 'b']",
        "from .a import b as c\n__all__ = ['b', 'c']",
        "import os",
        "from os import path\n__all__ = ['path']",
        "from ..model import errors\n__all__ = ['errors']",
        "def f():\n    pass",
        "LIMIT = 1",
        "if True:\n    from .a import b\n__all__ = []",
        "__all__ = []\n'not a docstring'",
    ],
)
def test_a_bad_door_is_seen(source: str) -> None:
    assert faults_of(source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        '"""A room that is entered by its files."""',
        '"""A room."""\nfrom . import d\nfrom .a import b, _c\n__all__ = ["b", "d"]',
        "from .a import KEY as A_KEY\n__all__ = ['A_KEY']",
    ],
)
def test_a_good_door_is_left_alone(source: str) -> None:
    assert faults_of(source) == []
