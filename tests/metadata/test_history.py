"""The bounded history that watches read from."""

import pytest

from pydanube.metadata import Change, Entry, Event
from pydanube.metadata.history import History
from pydanube.model.errors import RevisionCompacted


def change(revision: int, value: bytes = b"") -> Change:
    return Change(revision, (Event("/k", revision, Entry("/k", value, 1, revision, revision, 0)),))


def test_changes_follow_each_other() -> None:
    history = History(10, bytes_max=10_000)
    assert history.after(10) is None
    for revision in (11, 12, 13):
        history.append(change(revision))
    assert [history.after(revision) for revision in (10, 11, 12, 13, 99)] == [
        change(11),
        change(12),
        change(13),
        None,
        None,
    ]
    with pytest.raises(RevisionCompacted, match="after revision 10, not after 9"):
        history.after(9)
    with pytest.raises(ValueError, match="cannot follow"):
        history.append(change(13))


def test_the_oldest_go_when_there_is_no_room() -> None:
    history = History(0, bytes_max=10_000)
    for revision in range(1, 11):
        history.append(change(revision, bytes(3000)))
    assert history.after(7) == change(8, bytes(3000))
    with pytest.raises(RevisionCompacted):
        history.after(6)
    history.append(change(11, bytes(20_000)))  # more than everything: not even this one is kept
    assert history.after(11) is None
    with pytest.raises(RevisionCompacted):
        history.after(10)


def test_a_gap_is_not_passed_over() -> None:
    history = History(0, bytes_max=10_000)
    history.append(change(1))
    history.append(change(3))
    assert history.after(2) == change(3)
    with pytest.raises(RevisionCompacted):
        history.after(1)
