"""What a transaction refuses to be."""

import pytest

from pydanube.metadata import Absent, Delete, DeleteRange, Get, Operation, Put, Transaction


@pytest.mark.parametrize(
    "operations",
    [
        (Put("/a", b"1"), Put("/a", b"2")),
        (Put("/a", b"1"), Delete("/a")),
        (Delete("/a"), Delete("/a")),
        (Get("/a"), Put("/a", b"1")),
        (Put("/a/1", b"1"), DeleteRange("/a/")),
        (DeleteRange("/a/"), Put("/a/", b"")),
        (DeleteRange("/a/"), Get("/b"), DeleteRange("/a/1/")),
        (DeleteRange(""), Get("/b")),
    ],
)
def test_no_key_is_touched_twice(operations: tuple[Operation, ...]) -> None:
    with pytest.raises(ValueError, match="twice"):
        Transaction(then=operations)
    with pytest.raises(ValueError, match="twice"):
        Transaction(otherwise=operations)


def test_neighbours_and_the_other_outcome_are_not_the_same_key() -> None:
    Transaction(
        then=(DeleteRange("/a/"), Put("/a", b""), Put("/a0", b""), Delete("/b"), DeleteRange("/b/")),
        otherwise=(Put("/a", b""),),
    )


@pytest.mark.parametrize("key", ["", "\ud800"])
def test_a_key_is_text_and_not_empty(key: str) -> None:
    with pytest.raises(ValueError, match=r"empty|surrogates"):
        Transaction(then=(Put(key, b""),))
    with pytest.raises(ValueError, match=r"empty|surrogates"):
        Transaction(when=(Absent(key),))


def test_bounds() -> None:
    Transaction(then=(Put("k", bytes((1 << 20) - 1)),))
    with pytest.raises(ValueError, match="bytes"):
        Transaction(then=(Put("k", bytes(1 << 20)),))
    Transaction(then=tuple(Put(f"/{number}", b"") for number in range(128)))
    with pytest.raises(ValueError, match="at most 128"):
        Transaction(then=tuple(Put(f"/{number}", b"") for number in range(129)))
    with pytest.raises(ValueError, match="at most 128"):
        Transaction(when=tuple(Absent(f"/{number}") for number in range(129)))
