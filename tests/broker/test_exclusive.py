"""The exclusive window, driven by random events: safety after each, liveness in the end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pydanube.broker.dispatch import ExclusiveWindow
from pydanube.storage import Cursor, StoredBatch


def batch(first: int, end: int, size: int = 100) -> StoredBatch:
    return StoredBatch(first, end, bytes(size))


def test_delivers_in_order_within_its_credit() -> None:
    window = ExclusiveWindow(Cursor(0), 10)
    assert window.read_from() is None  # nobody is there
    window.on_join()
    assert window.read_from() is None  # no credit
    window.on_credit(150)
    assert window.read_from() == 0
    delivery = window.on_batches([batch(0, 4), batch(4, 10), batch(10, 12)])
    assert delivery is not None
    assert [each.first_offset for each in delivery.batches] == [0, 4]  # the second one overdraws, the third must wait
    assert window.read_from() is None


def test_what_was_acknowledged_in_the_middle_is_left_out_after_a_reconnect() -> None:
    window = ExclusiveWindow(Cursor(0), 10)
    window.on_join()
    window.on_credit(1000)
    window.on_batches([batch(0, 10)])
    assert window.on_ack(0, [(0, 2), (4, 6)])
    window.on_leave()
    window.on_join()
    window.on_credit(1000)
    assert window.read_from() == 2
    delivery = window.on_batches([batch(0, 10)])
    assert delivery is not None
    assert delivery.without == ((0, 2), (4, 6))


def test_an_ack_from_before_a_reset_does_not_count() -> None:
    window = ExclusiveWindow(Cursor(0, generation=3), 10)
    assert not window.on_ack(2, [(0, 5)])
    assert window.cursor.position == 0


def test_lost_messages_are_passed_over() -> None:
    window = ExclusiveWindow(Cursor(0), 10)
    window.on_join()
    window.on_credit(1000)
    window.on_lost(0, 6)
    assert window.read_from() == 6
    assert window.cursor.position == 6


class ExclusiveMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ends = [0]  # batch boundaries of the topic
        self.window = ExclusiveWindow(Cursor(0), 0)
        self.acked: set[int] = set()
        self.in_flight: list[int] = []
        self.credit = 0

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        self.ends.append(self.ends[-1] + count)
        self.window.on_end(self.ends[-1])

    @precondition(lambda self: not self.window.has_consumer)
    @rule()
    def join(self) -> None:
        self.window.on_join()
        self.credit = 0

    @precondition(lambda self: self.window.has_consumer)
    @rule()
    def leave(self) -> None:
        self.window.on_leave()
        self.in_flight.clear()

    @precondition(lambda self: self.window.has_consumer)
    @rule(count=st.integers(1, 400))
    def give_credit(self, count: int) -> None:
        self.window.on_credit(count)
        self.credit += count

    @rule()
    def pump(self) -> None:
        offset = self.window.read_from()
        if offset is None:
            return
        assert self.credit > 0
        assert self.window.has_consumer
        assert offset not in self.acked
        bounds = [(a, b) for a, b in zip(self.ends, self.ends[1:], strict=False) if b > offset]
        delivery = self.window.on_batches([batch(a, b) for a, b in bounds[:3]])
        assert delivery is not None
        left_out = {at for a, b in delivery.without for at in range(a, b)}
        for each in delivery.batches:
            assert self.credit > 0, "more than one batch was sent on an overdrawn credit"
            self.credit -= len(each.data)
            for at in range(each.first_offset, each.end_offset):
                if at in left_out:
                    assert at in self.acked
                else:
                    assert at not in self.acked, "an acknowledged message came again"
                    assert not self.in_flight or at > self.in_flight[-1], "out of order"
                    self.in_flight.append(at)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.in_flight))
        assert self.window.on_ack(0, [(offset, offset + 1)])
        self.acked.add(offset)

    @invariant()
    def cursor_is_what_was_acknowledged(self) -> None:
        assert all(at in self.acked for at in range(self.window.cursor.position))
        for a, b in self.window.cursor.above.items():
            assert self.acked.issuperset(range(a, b))

    def teardown(self) -> None:
        """Once nothing disturbs, everything is delivered and acknowledged."""
        if self.window.has_consumer:
            self.leave()
        self.join()
        for _ in range(len(self.ends) + 1):
            self.give_credit(1000)
            self.pump()
        for offset in self.in_flight:
            self.window.on_ack(0, [(offset, offset + 1)])
        assert self.window.cursor.position == self.ends[-1]


TestExclusive = ExclusiveMachine.TestCase
TestExclusive.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
