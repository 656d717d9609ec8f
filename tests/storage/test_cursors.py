"""Accepting cursor moves: what waits for the disk is bounded, and batches never keep acks out."""

import pytest

from pydanube.model.errors import Overloaded

from .rig import Outcome, Rig

TOPIC, SUBSCRIPTION = 0xA, 0x5


def fill(rig: Rig) -> int:
    """Acknowledges until no more is taken; returns how many acks were."""
    for number in range(1_000_000):
        try:
            rig.log.cursors.ack(TOPIC, SUBSCRIPTION, 0, [(0, 1)], Outcome(), start=0)
        except Overloaded:
            return number
    pytest.fail("acks that wait for the disk are not bounded")


def test_acks_that_wait_are_bounded_and_go_on_when_written() -> None:
    rig = Rig()
    rig.publish(TOPIC, b"a", b"b")
    assert fill(rig) > 100
    rig.writer.run()
    rig.ack(TOPIC, SUBSCRIPTION, 1, 2)
    cursor = rig.log.cursors.get(TOPIC, SUBSCRIPTION)
    assert cursor is not None
    assert cursor.position == 2


def test_waiting_batches_do_not_keep_acks_out() -> None:
    rig = Rig()
    rig.publish(TOPIC, b"a")
    refused = False
    for _ in range(100_000):
        try:
            rig.send(TOPIC, bytes(1000))
        except Overloaded:
            refused = True
            break
    assert refused
    rig.log.cursors.ack(TOPIC, SUBSCRIPTION, 0, [(0, 1)], Outcome(), start=0)
