"""Producer sequences: a batch is the next one, a resend, or an error."""

import pytest

from pydanube.model.errors import DanubeError, OutOfSequence, ProducerFenced, UnknownProducer
from pydanube.model.limits import PRODUCER_BATCHES_IN_FLIGHT_MAX as WINDOW
from pydanube.storage.producers import UNKNOWN_SEQUENCE, Producer, Sent, find_resend

LAST = (1 << 32) - 1
FIRST = Sent(0, 3, 0xAA, 100)
SECOND = Sent(3, 2, 0xBB, 103)


def known(*sent: Sent, epoch: int = 4) -> Producer:
    producer = Producer(1, epoch, 0, 0, [])
    for number, batch in enumerate(sent):
        producer.record(epoch, batch, number)
    return producer


def ask(
    producer: Producer | None, sequence: int, *, count: int = 1, crc: int = 0, epoch: int = 4, pending: str = ""
) -> Sent | None:
    waiting = {"": [], "second": [(4, SECOND)], "takeover": [(5, Sent(0, 1, 0xCC, 105))]}[pending]
    return find_resend(producer, waiting, epoch, sequence, count, crc)


@pytest.mark.parametrize(
    ("producer", "sequence", "epoch", "pending"),
    [
        (None, 0, 0, ""),
        (known(FIRST), 3, 4, ""),
        (known(FIRST), 5, 4, "second"),
        (known(FIRST), 0, 5, ""),  # a new epoch begins at 0
        (known(FIRST), 1, 5, "takeover"),
        (known(Sent(LAST, 1, 1, 7)), 0, 4, ""),  # 2^32 - 1 is followed by 0
        (known(Sent(LAST - 1, 5, 1, 7)), 3, 4, ""),
    ],
)
def test_next(producer: Producer | None, sequence: int, epoch: int, pending: str) -> None:
    assert ask(producer, sequence, epoch=epoch, pending=pending) is None


@pytest.mark.parametrize(
    ("sequence", "count", "crc", "pending", "original"),
    [
        (0, 3, 0xAA, "", FIRST),
        (0, 3, 0xAA, "second", FIRST),
        (3, 2, 0xBB, "second", SECOND),
    ],
)
def test_resend(sequence: int, count: int, crc: int, pending: str, original: Sent) -> None:
    assert ask(known(FIRST), sequence, count=count, crc=crc, pending=pending) is original


@pytest.mark.parametrize(
    ("producer", "sequence", "epoch", "pending", "error"),
    [
        (None, 1, 0, "", UnknownProducer),
        (known(FIRST), 4, 4, "", OutOfSequence),  # a gap
        (known(FIRST), 2, 4, "", OutOfSequence),  # inside of a batch
        (known(FIRST), LAST, 4, "", OutOfSequence),
        (known(FIRST), 3, 4, "second", OutOfSequence),  # taken by another batch, though not yet durable
        (known(FIRST), 3, 3, "", ProducerFenced),
        (known(FIRST), 0, 4, "takeover", ProducerFenced),  # the takeover counts before it is durable
        (known(FIRST), 3, 5, "", OutOfSequence),  # a new epoch does not begin in the middle
    ],
)
def test_neither(producer: Producer | None, sequence: int, epoch: int, pending: str, error: type[DanubeError]) -> None:
    with pytest.raises(error):
        ask(producer, sequence, epoch=epoch, pending=pending)


@pytest.mark.parametrize(("count", "crc"), [(3, 0xAB), (2, 0xAA)])
def test_other_content_under_a_known_sequence(count: int, crc: int) -> None:
    with pytest.raises(OutOfSequence, match="identical"):
        ask(known(FIRST, SECOND), 0, count=count, crc=crc)


def test_as_many_batches_are_remembered_as_may_be_in_flight() -> None:
    batches = [Sent(number, 1, number, 1000 + number) for number in range(WINDOW + 1)]
    producer = known(*batches)
    for batch in batches[1:]:
        assert ask(producer, batch.first_sequence, crc=batch.crc) is batch
    with pytest.raises(OutOfSequence):
        ask(producer, 0)


def test_resend_over_the_wrap() -> None:
    batches = [Sent(LAST - 1, 1, 1, 7), Sent(LAST, 2, 2, 8), Sent(1, 1, 3, 10)]
    producer = known(*batches)
    assert producer.next_sequence == 2
    assert ask(producer, LAST, count=2, crc=2) is batches[1]


def test_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    producer = known(FIRST, SECOND)
    producer.record(5, Sent(0, 1, 0xDD, 105), 9)
    assert (producer.epoch, producer.next_sequence, producer.last_us) == (5, 1, 9)
    with pytest.raises(OutOfSequence):
        ask(producer, 3, count=2, crc=0xBB, epoch=5)


def test_after_damage_a_remembered_batch_is_answered_and_any_other_refused() -> None:
    producer = known(FIRST, SECOND)
    producer.next_sequence = UNKNOWN_SEQUENCE
    assert ask(producer, 3, count=2, crc=0xBB) is SECOND
    with pytest.raises(UnknownProducer):
        ask(producer, 5)
