"""Accepting cursor moves. A cursor is founded in the journal by its first move; before that it is where the
metadata says that the subscription starts."""

from collections.abc import Sequence

from pydanube.model import DanubeError
from pydanube.model.errors import InvalidAck

from .acceptance import Done, Entry
from .core import Core
from .cursor import Cursor
from .entries import CursorMove, encode_cursor
from .rounds import Kind


class Cursors:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._founding: set[tuple[int, int]] = set()

    def get(self, topic_id: int, subscription_id: int) -> Cursor | None:
        """The durable cursor; None until its first move is durable."""
        return self._core.topic(topic_id).cursors.get(subscription_id)

    def ack(
        self,
        topic_id: int,
        subscription_id: int,
        generation: int,
        ranges: Sequence[tuple[int, int]],
        done: Done,
        *,
        start: int,
    ) -> None:
        """Acknowledges ranges. `start` is where the subscription began, for its first ack of all."""
        core = self._core
        core.check_line()
        topic = core.topic(topic_id)
        for first, end in ranges:
            if not 0 <= first < end <= topic.end:
                raise InvalidAck(f"offsets {first} to {end} cannot be acknowledged: the topic ends at {topic.end}")
        if subscription_id not in topic.cursors and (topic_id, subscription_id) not in self._founding:
            self.reset(topic_id, subscription_id, generation, start, lambda _offset, _error: None)
        move = CursorMove(subscription_id, generation, tuple(ranges))
        self._submit(Kind.CURSOR_ACK, topic_id, move, done)

    def reset(
        self,
        topic_id: int,
        subscription_id: int,
        generation: int,
        position: int,
        done: Done,
        above: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Puts the cursor somewhere else, under a new generation: acks of the old one no longer count."""
        self._core.check_line()
        self._core.topic(topic_id)
        key = (topic_id, subscription_id)
        self._founding.add(key)

        def finished(offset: int, error: DanubeError | None) -> None:
            self._founding.discard(key)
            done(offset, error)

        move = CursorMove(subscription_id, generation, ((0, position), *above))
        self._submit(Kind.CURSOR_RESET, topic_id, move, finished)

    def drop(self, topic_id: int, subscription_id: int, done: Done) -> None:
        self._core.check_line()
        self._core.topic(topic_id)
        self._submit(Kind.CURSOR_DROP, topic_id, CursorMove(subscription_id, 0, ()), done)

    def _submit(self, kind: Kind, topic_id: int, move: CursorMove, done: Done) -> None:
        entry = Entry(kind, topic_id, encode_cursor(move))
        entry.done.append(done)
        self._core.submit(entry)
