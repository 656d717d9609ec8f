"""Producer sequences: what makes a resent batch be stored once.

A producer numbers its records (modulo 2^32) and has a bounded number of batches in flight; the broker remembers
as many of its last batches. A batch is then one of: the next one, a resend of a remembered one (answered with
its offset), or an error. Sequences are part of the durable state; what was accepted and is not yet durable is
kept beside it by `acceptance.py` and forgotten when its round fails.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pydanube.model import SEQUENCE_MODULUS
from pydanube.model.errors import OutOfSequence, ProducerFenced, UnknownProducer
from pydanube.model.limits import PRODUCER_BATCHES_IN_FLIGHT_MAX


class Sent(NamedTuple):
    """A batch that was taken."""

    first_sequence: int
    record_count: int
    crc: int  # resends are byte-identical: this tells a resend from another batch under the same number
    base_offset: int


UNKNOWN_SEQUENCE = -1


class Producer(msgspec.Struct, array_like=True, gc=False):
    """The durable state of one producer on one topic."""

    producer_id: int
    epoch: int
    next_sequence: int  # UNKNOWN_SEQUENCE: damage took batches that may have been this producer's
    last_us: int
    sent: list[Sent]  # oldest first

    def record(self, epoch: int, sent: Sent, time_us: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.sent.clear()
        self.sent.append(sent)
        if len(self.sent) > PRODUCER_BATCHES_IN_FLIGHT_MAX:
            del self.sent[0]
        self.next_sequence = (sent.first_sequence + sent.record_count) % SEQUENCE_MODULUS
        self.last_us = time_us


def find_resend(
    producer: Producer | None,
    pending: Iterable[tuple[int, Sent]],
    epoch: int,
    first_sequence: int,
    count: int,
    crc: int,
) -> Sent | None:
    """The batch that this one repeats, or None if it is the next one; raises where it is neither.

    `pending` are the producer's accepted batches that are not yet durable, oldest first, each with its epoch.
    """
    known_epoch = -1 if producer is None else producer.epoch
    expected = None if producer is None else producer.next_sequence
    remembered = [] if producer is None else list(producer.sent)
    for pending_epoch, sent in pending:
        if pending_epoch != known_epoch:
            known_epoch = pending_epoch
            remembered.clear()
        remembered.append(sent)
        expected = (sent.first_sequence + sent.record_count) % SEQUENCE_MODULUS
    if epoch < known_epoch:
        raise ProducerFenced(f"the producer has epoch {known_epoch} by now; this batch has epoch {epoch}")
    if epoch > known_epoch:
        if first_sequence != 0:
            if expected is None:
                raise UnknownProducer("the broker does not know this producer, and its batch is not the first")
            raise OutOfSequence(f"a producer begins a new epoch with sequence 0, not {first_sequence}")
        return None
    if first_sequence == expected:
        return None
    for sent in reversed(remembered):
        if sent.first_sequence == first_sequence:
            if (sent.record_count, sent.crc) != (count, crc):
                raise OutOfSequence(
                    f"another batch was stored under sequence {first_sequence}; resends must be identical"
                )
            return sent
    if expected == UNKNOWN_SEQUENCE:
        raise UnknownProducer("messages were lost to damage, and with them what the broker knew of this producer")
    raise OutOfSequence(f"the batch has sequence {first_sequence}, but {expected} is the next")
