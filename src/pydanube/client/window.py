"""The batches of one producer on one topic, from full to answered: what is sent next, what is sent again, what fails.

    queued ──encode──▶ flights: [ sent, not answered | not sent (again) ] ──answer──▶ done

Sequences are given when a batch is encoded, so from then on its place is fixed: batches go out in this order, are
resent byte-identical in this order, and when one of them fails for good, those behind it fail with it, because the
broker would never take a batch behind a gap. A producer without sequences resends nothing: what it cannot know the
outcome of has failed.
"""

from collections import deque
from enum import Enum

from pydanube.model import SEQUENCE_MODULUS
from pydanube.model.errors import DanubeError, OutOfSequence, ProducerFenced, Remedy
from pydanube.model.limits import PRODUCER_BATCHES_IN_FLIGHT_MAX

from .batching import Parcel


class Verdict(Enum):
    """What an error for a batch means."""

    IGNORE = "ignore"  # it is about a try that was given up already
    AGAIN = "again"  # send from here on again, after a while
    FAIL_ONE = "fail one"  # it has failed by itself
    RENEW = "renew"  # everything encoded fails; open the producer with a new id
    STOP = "stop"  # the producer is finished


class Window:
    def __init__(self, is_idempotent: bool) -> None:
        self._is_idempotent = is_idempotent
        self.queued: deque[Parcel] = deque()
        self.flights: deque[Parcel] = deque()
        self.next_sequence = 0
        self._sent = 0  # flights[:_sent] are on their way
        self._unanswered = 0  # questions on this connection, tries that were given up included
        self._is_settling = False  # nothing is sent until all questions are answered

    @property
    def is_empty(self) -> bool:
        return not self.flights and not self.queued

    @property
    def batches(self) -> int:
        return len(self.flights) + len(self.queued)

    def last(self) -> Parcel | None:
        """The one that is answered after all others."""
        if self.queued:
            return self.queued[-1]
        return self.flights[-1] if self.flights else None

    def next_flight(self) -> Parcel | None:
        """The encoded batch to be sent next, if one may be."""
        if self._is_settling or self._unanswered >= PRODUCER_BATCHES_IN_FLIGHT_MAX or self._sent == len(self.flights):
            return None
        return self.flights[self._sent]

    def next_queued(self) -> Parcel | None:
        """The batch to be encoded next, if it could then be sent as far as this window goes."""
        room = not self._is_settling and self._unanswered < PRODUCER_BATCHES_IN_FLIGHT_MAX
        return self.queued[0] if self.queued and room and self._sent == len(self.flights) else None

    def encoded(self) -> None:
        """The first queued one has its bytes and its sequence."""
        parcel = self.queued.popleft()
        self.flights.append(parcel)
        self.next_sequence = (self.next_sequence + parcel.count) % SEQUENCE_MODULUS

    def sent(self, request: int) -> None:
        self.flights[self._sent].request = request
        self._sent += 1
        self._unanswered += 1

    def published(self, parcel: Parcel) -> bool:
        """Whether this is news. It may come for a try that was given up: stored is stored."""
        self._answered()
        if parcel.is_done:
            return False
        at = self.flights.index(parcel)  # the first, nearly always
        del self.flights[at]
        if at < self._sent:
            self._sent -= 1
        return True

    def refused(self, parcel: Parcel, request: int, error: DanubeError) -> Verdict:
        self._answered()
        if parcel.is_done or parcel.request != request:
            return Verdict.IGNORE
        if isinstance(error, ProducerFenced):
            return Verdict.STOP
        if not self._is_idempotent:
            self.flights.remove(parcel)
            self._sent -= 1
            return Verdict.FAIL_ONE
        at = self.flights.index(parcel)
        # Out of sequence behind others is a consequence of theirs, whose answer may be on its way still.
        if error.remedy is Remedy.RETRY or (isinstance(error, OutOfSequence) and at > 0):
            self._unsend(at)
            self._is_settling = self._unanswered > 0
            return Verdict.AGAIN
        return Verdict.RENEW

    def disconnected(self) -> list[Parcel]:
        """The connection is gone with all its questions; returns what has failed by that."""
        self._unanswered = 0
        self._is_settling = False
        lost = [] if self._is_idempotent else [self.flights.popleft() for _ in range(self._sent)]
        if self._is_idempotent:
            self._unsend(0)
        self._sent = 0
        return lost

    def renew(self) -> list[Parcel]:
        """The next batches come from a producer that the broker does not know; returns what has failed by that."""
        failed = list(self.flights)
        self.flights.clear()
        self._sent = 0
        self.next_sequence = 0
        return failed

    def overdue(self, now: float) -> list[Parcel]:
        """What has failed because its time is over. If a flight is among them, the window has to be renewed."""
        failed = self.renew() if self.flights and self.flights[0].deadline <= now else []
        while self.queued and self.queued[0].deadline <= now:
            failed.append(self.queued.popleft())
        return failed

    def abandon(self) -> list[Parcel]:
        failed = [*self.flights, *self.queued]
        self.flights.clear()
        self.queued.clear()
        self._sent = 0
        return failed

    def _answered(self) -> None:
        self._unanswered -= 1
        if self._unanswered == 0:
            self._is_settling = False

    def _unsend(self, at: int) -> None:
        for index in range(at, self._sent):
            self.flights[index].request = 0
        self._sent = min(self._sent, at)
