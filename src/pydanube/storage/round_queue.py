"""What waits for the next round, filled fairly over the topics.

Entries of one topic keep their order and lie side by side in a round, so that a reader fetches a topic's part in
one piece. When more waits than a round takes, every topic gets its share in turn, so a busy one delays nobody.
"""

from collections import Counter, deque
from typing import Generic, NamedTuple, Protocol, TypeVar

from pydanube.model.limits import ROUND_ENTRIES_MAX


class Sized(Protocol):
    @property
    def topic_id(self) -> int: ...
    @property
    def length(self) -> int: ...


E = TypeVar("E", bound=Sized)


class _Share(NamedTuple):
    """A topic's share in a group: its entries, and how many of the topic wait before them."""

    ahead: int
    own: int


class RoundQueue(Generic[E]):
    def __init__(self, round_bytes_max: int) -> None:
        self._round_bytes_max = round_bytes_max
        self._waiting: dict[int, deque[E]] = {}  # topics in the order of their turn
        self._groups: deque[dict[int, _Share]] = deque()  # atomic groups, oldest first, by topic
        self.bytes = 0
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, entry: E) -> None:
        waiting = self._waiting.get(entry.topic_id)
        if waiting is None:
            waiting = self._waiting[entry.topic_id] = deque()
        waiting.append(entry)
        self.bytes += entry.length
        self.count += 1

    def add_group(self, entries: list[E]) -> None:
        """Entries that must share a round. What waits before them on the same topics has to come along, so the
        next round is not cut; the bytes that may wait are bounded elsewhere."""
        for entry in entries:
            self.add(entry)
        if len(entries) > 1:
            counts = Counter(entry.topic_id for entry in entries)
            self._groups.append(
                {topic_id: _Share(len(self._waiting[topic_id]) - own, own) for topic_id, own in counts.items()}
            )

    def take(self) -> list[E]:
        """The next round's entries."""
        if self.count <= ROUND_ENTRIES_MAX and (self._groups or self.bytes <= self._round_bytes_max):
            return self.clear()
        return self._take_group() if self._groups else self._take_fairly()

    def _take_group(self) -> list[E]:
        """More entries than a round may have: the oldest group, or some of what waits before it."""
        group = self._groups[0]
        fits = sum(share.ahead + share.own for share in group.values()) <= ROUND_ENTRIES_MAX
        taken: list[E] = []
        for topic_id, share in group.items():
            wanted = share.ahead + share.own if fits else min(share.ahead, ROUND_ENTRIES_MAX - len(taken))
            taken.extend(self._pop(topic_id) for _ in range(wanted))
            for later in self._groups:
                if topic_id in later:
                    later[topic_id] = later[topic_id]._replace(ahead=later[topic_id].ahead - wanted)
        if fits:
            self._groups.popleft()
        return taken

    def _pop(self, topic_id: int) -> E:
        waiting = self._waiting[topic_id]
        entry = waiting.popleft()
        if not waiting:
            del self._waiting[topic_id]
        self.bytes -= entry.length
        self.count -= 1
        return entry

    def _take_fairly(self) -> list[E]:
        share = max(1, self._round_bytes_max // len(self._waiting))
        budget = self._round_bytes_max
        slots = ROUND_ENTRIES_MAX
        taken: list[E] = []
        for topic_id in list(self._waiting):
            if budget <= 0 or slots <= 0:
                break
            waiting = self._waiting.pop(topic_id)
            allowed = min(share, budget)
            while waiting and allowed > 0 and slots > 0:
                entry = waiting.popleft()
                allowed -= entry.length
                budget -= entry.length
                slots -= 1
                self.bytes -= entry.length
                self.count -= 1
                taken.append(entry)
            if waiting:
                self._waiting[topic_id] = waiting  # at the end of the line: the next round begins with the others
        return taken

    def clear(self) -> list[E]:
        """Empties the queue and returns what was in it."""
        rest = [entry for waiting in self._waiting.values() for entry in waiting]
        self._waiting.clear()
        self._groups.clear()
        self.bytes = self.count = 0
        return rest
