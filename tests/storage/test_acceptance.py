"""Accepting batches: offsets, resends that are under way, ledgers that are full, and what a failed round takes back."""

from dataclasses import replace

import pytest
from tests.storage.rig import SETTINGS, Outcome, Rig, batch

from pydanube.model import DanubeError
from pydanube.model.errors import (
    OutOfSequence,
    Overloaded,
    ProducerFenced,
    StorageClosed,
    StorageFailed,
    UnknownProducer,
    UnknownTopic,
)
from pydanube.model.limits import PRODUCER_BATCHES_IN_FLIGHT_MAX
from pydanube.records import read_header
from pydanube.storage import Opening, Release

TOPIC = 7
ME = 55  # a producer


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_offsets_are_given_in_order_and_answered_when_durable(rig: Rig) -> None:
    first, second = rig.send(TOPIC, b"a", b"b"), rig.send(TOPIC, b"c")
    other = rig.send(8, b"d")
    assert rig.log.ends(TOPIC) == (0, 0, 3)
    assert (first.heard, second.heard, other.heard) == ([], [], [])
    assert rig.log.read(TOPIC, 0, 1000) == []
    rig.writer.run()
    assert (first.offset, second.offset, other.offset) == (0, 2, 0)
    assert rig.log.ends(TOPIC) == (0, 3, 3)
    assert rig.values(TOPIC) == {0: b"a", 1: b"b", 2: b"c"}


def test_batch_is_stamped_with_offset_epoch_and_time(rig: Rig) -> None:
    rig.publish(TOPIC, b"a")
    rig.clock.advance(1)
    rig.publish(TOPIC, b"b")
    (_, stored) = rig.log.read(TOPIC, 0, 1000)
    header = read_header(stored.data)
    assert (header.base_offset, header.ledger_epoch) == (1, rig.log.journal.writer_epoch)
    assert header.append_time_us == rig.clock.now_us()


def test_append_time_never_goes_back(rig: Rig) -> None:
    rig.publish(TOPIC, b"a")
    rig.clock.advance(-100)
    rig.publish(TOPIC, b"b")
    first, second = (read_header(stored.data).append_time_us for stored in rig.log.read(TOPIC, 0, 1000))
    assert second == first


def test_bytes_that_may_not_be_written_are_copied(rig: Rig) -> None:
    data, header = batch(TOPIC, b"a")
    rig.publish(TOPIC, b"first")
    rig.log.append(TOPIC, memoryview(data), header, Outcome())
    rig.writer.run()
    assert read_header(data).base_offset == 0
    writable = bytearray(data)
    rig.log.append(TOPIC, writable, header, Outcome())
    assert read_header(writable).base_offset == 2


# -- producers --------------------------------------------------------------------------------------------------------


def test_resend_of_a_durable_batch_is_answered_with_its_offset(rig: Rig) -> None:
    rig.publish(TOPIC, b"other")
    rig.publish(TOPIC, b"a", b"b", producer_id=ME)
    rig.publish(TOPIC, b"c", producer_id=ME, first_sequence=2)
    assert rig.send(TOPIC, b"a", b"b", producer_id=ME).offset == 1
    assert rig.log.ends(TOPIC).accepted == 4


def test_resend_of_a_batch_under_way_is_answered_when_that_is_durable(rig: Rig) -> None:
    first = rig.send(TOPIC, b"a", producer_id=ME)
    again = rig.send(TOPIC, b"a", producer_id=ME)
    rig.send(TOPIC, b"b", producer_id=ME, first_sequence=1)
    assert (first.heard, again.heard) == ([], [])
    rig.writer.run()
    assert (first.offset, again.offset) == (0, 0)
    assert rig.values(TOPIC) == {0: b"a", 1: b"b"}


def test_resend_falls_with_its_original(rig: Rig) -> None:
    first = rig.send(TOPIC, b"a", producer_id=ME)
    again = rig.send(TOPIC, b"a", producer_id=ME)
    rig.disk.faults.sync_eio = 1.0
    rig.writer.run()
    assert isinstance(first.error, StorageFailed)
    assert isinstance(again.error, StorageFailed)


@pytest.mark.parametrize(
    ("head", "values", "error"),
    [
        ({"first_sequence": 2}, [b"gap"], OutOfSequence),
        ({"first_sequence": 0}, [b"other"], OutOfSequence),
        ({"first_sequence": 1, "producer_epoch": 0}, [b"old"], ProducerFenced),
        ({"first_sequence": 1, "producer_epoch": 2}, [b"middle"], OutOfSequence),
        ({"first_sequence": 1, "producer_id": 66}, [b"who"], UnknownProducer),
    ],
)
@pytest.mark.parametrize("durable", [True, False])
def test_refused(rig: Rig, durable: bool, head: dict[str, int], values: list[bytes], error: type[DanubeError]) -> None:
    rig.send(TOPIC, b"a", producer_id=ME, producer_epoch=1)
    if durable:
        rig.writer.run()
    with pytest.raises(error):
        rig.send(TOPIC, *values, **{"producer_id": ME, "producer_epoch": 1} | head)
    rig.writer.run()
    assert rig.values(TOPIC) == {0: b"a"}


def test_new_epoch_starts_at_zero_and_fences_the_old_one(rig: Rig) -> None:
    rig.publish(TOPIC, b"a", producer_id=ME, producer_epoch=1)
    rig.send(TOPIC, b"b", producer_id=ME, producer_epoch=2)
    with pytest.raises(ProducerFenced):
        rig.send(TOPIC, b"c", producer_id=ME, producer_epoch=1, first_sequence=1)
    rig.writer.run()
    assert rig.publish(TOPIC, b"d", producer_id=ME, producer_epoch=2, first_sequence=1) == 2


def test_sequences_wrap(rig: Rig) -> None:
    last = (1 << 32) - 2
    producer_topic = rig.log.core.topic(TOPIC)
    rig.publish(TOPIC, b"begin", producer_id=ME)
    producer_topic.producers[ME].next_sequence = last
    assert rig.publish(TOPIC, b"x", b"y", b"z", producer_id=ME, first_sequence=last) == 1
    assert rig.publish(TOPIC, b"next", producer_id=ME, first_sequence=1) == 4
    assert rig.send(TOPIC, b"x", b"y", b"z", producer_id=ME, first_sequence=last).offset == 1


def test_all_batches_in_flight_can_be_resent_after_a_restart(rig: Rig) -> None:
    for number in range(PRODUCER_BATCHES_IN_FLIGHT_MAX + 1):
        rig.publish(TOPIC, b"%d" % number, producer_id=ME, first_sequence=number)
    rig.restart()
    for number in range(1, PRODUCER_BATCHES_IN_FLIGHT_MAX + 1):
        assert rig.send(TOPIC, b"%d" % number, producer_id=ME, first_sequence=number).offset == number
    with pytest.raises(OutOfSequence):
        rig.send(TOPIC, b"0", producer_id=ME)
    assert rig.publish(TOPIC, b"on", producer_id=ME, first_sequence=PRODUCER_BATCHES_IN_FLIGHT_MAX + 1) == 33


def test_failed_round_rolls_acceptance_back(rig: Rig) -> None:
    rig.publish(TOPIC, b"a", producer_id=ME)
    lost = rig.send(TOPIC, b"lost", producer_id=ME, first_sequence=1)
    on_top = rig.send(TOPIC, b"on top", producer_id=ME, first_sequence=2)
    rig.disk.faults.write_eio = 1.0
    rig.writer.run()
    assert isinstance(lost.error, StorageFailed)
    assert isinstance(on_top.error, StorageFailed)
    assert rig.log.ends(TOPIC) == (0, 1, 1)
    rig.disk.faults.write_eio = 0.0
    with pytest.raises(OutOfSequence):
        rig.send(TOPIC, b"on top", producer_id=ME, first_sequence=2)
    assert rig.publish(TOPIC, b"other", producer_id=ME, first_sequence=1) == 1
    assert rig.values(TOPIC) == {0: b"a", 1: b"other"}


def test_producer_that_was_idle_for_long_is_forgotten_with_a_checkpoint(rig: Rig) -> None:
    rig.publish(TOPIC, b"a", producer_id=ME)
    rig.clock.advance(rig.settings.producer_forget_us / 1e6)
    rig.publish(TOPIC, b"b", producer_id=66)
    rig.checkpoint()
    with pytest.raises(UnknownProducer):
        rig.send(TOPIC, b"c", producer_id=ME, first_sequence=1)
    assert rig.publish(TOPIC, b"d", producer_id=66, first_sequence=1) == 2


# -- ledgers ----------------------------------------------------------------------------------------------------------


def ledgers(rig: Rig) -> list[tuple[int, int, bool]]:
    return [(ledger.first, ledger.end, ledger.closed) for ledger in rig.log.core.state.topics[TOPIC].ledgers]


def test_ledger_rolls_by_size() -> None:
    rig = Rig(settings=replace(SETTINGS, ledger_bytes=500))
    for _ in range(4):
        rig.send(TOPIC, bytes(100))  # a bit more than 200 bytes each
    rig.writer.run()
    assert ledgers(rig) == [(0, 2, True), (2, 4, False)]
    assert all(ledger.bytes <= 500 for ledger in rig.log.core.state.topics[TOPIC].ledgers)


def test_ledger_rolls_by_age(rig: Rig) -> None:
    rig.publish(TOPIC, b"a")
    rig.clock.advance(rig.settings.ledger_age_us / 1e6 - 1)
    rig.publish(TOPIC, b"b")
    rig.clock.advance(1)
    rig.publish(TOPIC, b"c")
    assert ledgers(rig) == [(0, 2, True), (2, 3, False)]


def test_ledger_of_a_quiet_topic_is_closed_when_its_time_is_up(rig: Rig) -> None:
    rig.publish(TOPIC, b"a")
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert ledgers(rig) == [(0, 1, False)]
    rig.clock.advance(rig.settings.ledger_age_us / 1e6)
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert ledgers(rig) == [(0, 1, True)]


def test_ledger_whose_close_failed_is_closed_later(rig: Rig) -> None:
    rig.publish(TOPIC, b"a")
    rig.clock.advance(rig.settings.ledger_age_us / 1e6)
    rig.disk.faults.sync_eio = 1.0
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    rig.disk.faults.sync_eio = 0.0
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert ledgers(rig) == [(0, 1, True)]


def test_ledger_rolls_with_the_session(rig: Rig) -> None:
    rig.publish(TOPIC, b"a")
    epoch = rig.log.journal.writer_epoch
    rig.restart()
    assert ledgers(rig) == [(0, 1, True)]
    rig.publish(TOPIC, b"b")
    assert ledgers(rig) == [(0, 1, True), (1, 2, False)]
    assert [ledger.epoch for ledger in rig.log.core.state.topics[TOPIC].ledgers] == [epoch, epoch + 1]


# -- limits -----------------------------------------------------------------------------------------------------------


def test_what_may_wait_is_bounded_in_bytes(rig: Rig) -> None:
    length = batch(TOPIC, bytes(4000))[1].length
    sent = SETTINGS.pending_bytes // length
    for _ in range(sent):
        rig.send(TOPIC, bytes(4000))
    with pytest.raises(Overloaded):
        rig.send(TOPIC, bytes(4000))
    rig.log.cursors.reset(TOPIC, 1, 0, 0, Outcome())  # acknowledgements are taken all the same
    rig.writer.run()
    assert rig.publish(TOPIC, b"again") == sent


def test_one_batch_may_be_larger_than_what_may_wait() -> None:
    rig = Rig(settings=replace(SETTINGS, pending_bytes=1000))
    assert rig.publish(TOPIC, bytes(2000)) == 0


def test_offsets_stay_below_the_ceiling() -> None:
    rig = Rig(opening=Opening(ceiling=2))
    rig.publish(TOPIC, b"a", b"b")
    with pytest.raises(StorageFailed, match="ceiling"):
        rig.send(TOPIC, b"c")
    assert rig.log.offset_highest == 2
    rig.log.raise_ceiling(3)
    assert rig.publish(TOPIC, b"c") == 2


def test_ceiling_holds_for_released_batches() -> None:
    rig = Rig(opening=Opening(ceiling=1))
    rig.park(50, TOPIC, b"a", b"b")
    with pytest.raises(StorageFailed, match="ceiling"):
        rig.log.parking.release(Release([50]), Outcome())
    assert 50 in rig.log.core.state.parked


def test_closed_log_takes_nothing(rig: Rig) -> None:
    rig.writer.close()
    with pytest.raises(StorageClosed):
        rig.send(TOPIC, b"a")
    with pytest.raises(StorageClosed):
        rig.log.cursors.reset(TOPIC, 1, 0, 0, Outcome())


def test_deleted_topic_takes_nothing(rig: Rig) -> None:
    rig.publish(TOPIC, b"a")
    rig.log.upkeep.delete_topic(TOPIC, Outcome())
    for _ in range(2):  # while the delete is under way, and when it is durable
        with pytest.raises(UnknownTopic):
            rig.send(TOPIC, b"b")
        with pytest.raises(UnknownTopic):
            rig.log.read(TOPIC, 0, 1000)
        rig.writer.run()
