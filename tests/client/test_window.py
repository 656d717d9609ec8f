"""The window of a producer against a model of a broker: whatever is lost or refused, order and numbers hold."""

from hypothesis import given
from hypothesis import strategies as st

from pydanube.client.batching import Parcel
from pydanube.client.window import Verdict, Window
from pydanube.model.errors import DiskFull, InvalidBatch, OutOfSequence, ProducerFenced, UnknownProducer
from pydanube.model.limits import PRODUCER_BATCHES_IN_FLIGHT_MAX


def parcel(count: int = 1, deadline: float = 1.0) -> Parcel:
    made = Parcel(0, deadline)
    made.count = count
    return made


def fill(window: Window, count: int) -> list[Parcel]:
    parcels = [parcel() for _ in range(count)]
    window.queued.extend(parcels)
    return parcels


def send(window: Window, request: int) -> Parcel | None:
    if window.next_flight() is None:
        if window.next_queued() is None:
            return None
        window.encoded()
    flight = window.next_flight()
    assert flight is not None
    window.sent(request)
    return flight


def test_at_most_32_questions() -> None:
    window = Window(is_idempotent=True)
    parcels = fill(window, 40)
    sent = [send(window, request) for request in range(1, 50)]
    assert [each for each in sent if each] == parcels[:PRODUCER_BATCHES_IN_FLIGHT_MAX]
    assert window.published(parcels[0])
    assert send(window, 99) is parcels[32]


def test_verdicts() -> None:
    for error, verdict in [
        (DiskFull(""), Verdict.AGAIN),
        (OutOfSequence(""), Verdict.RENEW),
        (UnknownProducer(""), Verdict.RENEW),
        (InvalidBatch(""), Verdict.RENEW),
        (ProducerFenced(""), Verdict.STOP),
    ]:
        window = Window(is_idempotent=True)
        (only,) = fill(window, 1)
        send(window, 1)
        assert window.refused(only, 1, error) is verdict


def test_without_sequences_one_fails_alone() -> None:
    window = Window(is_idempotent=False)
    first, second = fill(window, 2)
    send(window, 1)
    send(window, 2)
    assert window.refused(first, 1, DiskFull("")) is Verdict.FAIL_ONE
    assert window.disconnected() == [second]
    assert window.is_empty


def test_a_given_up_try_may_still_succeed() -> None:
    window = Window(is_idempotent=True)
    first, second = fill(window, 2)
    send(window, 1)
    send(window, 2)
    assert window.refused(second, 2, OutOfSequence("")) is Verdict.AGAIN
    assert window.next_flight() is None  # the fate of the first one is open
    assert window.published(first)
    assert send(window, 3) is second
    second.is_done = window.published(second)
    assert second.is_done
    assert window.is_empty


def test_time_over() -> None:
    window = Window(is_idempotent=True)
    early, later, last = parcel(deadline=1.0), parcel(deadline=5.0), parcel(deadline=6.0)
    window.queued.extend([early, later, last])
    send(window, 1)
    assert window.overdue(0.5) == []
    assert window.overdue(1.0) == [early]
    assert window.next_sequence == 0
    assert list(window.queued) == [later, last]
    assert window.overdue(5.5) == [later]


@given(st.data())
def test_against_a_model(data: st.DataObject) -> None:
    """The broker takes batches in sequence, loses connections, refuses now and then; everything is stored once and in
    order, and every question is answered or lost."""
    window = Window(is_idempotent=True)
    parcels = [parcel(data.draw(st.integers(1, 3))) for _ in range(data.draw(st.integers(1, 12)))]
    window.queued.extend(parcels)
    stored: list[Parcel] = []
    sequences: dict[int, int] = {}
    open_questions: list[tuple[int, Parcel]] = []
    request = 0
    faults = 20
    while not window.is_empty:
        choices = ["send"] if window.next_flight() or window.next_queued() else []
        choices += ["answer"] if open_questions else []
        choices += ["drop", "refuse"] if faults and open_questions else []
        choice = data.draw(st.sampled_from(choices))
        if choice == "send":
            request += 1
            if window.next_flight() is None:
                sequences[id(window.queued[0])] = window.next_sequence
                window.encoded()
            flight = window.next_flight()
            assert flight is not None
            window.sent(request)
            open_questions.append((request, flight))
            continue
        if choice == "drop":
            faults -= 1
            # Some of what was sent was stored before the connection went.
            for _, flight in open_questions[: data.draw(st.integers(0, len(open_questions)))]:
                if flight not in stored and stored == parcels[: len(stored)] and parcels[len(stored)] is flight:
                    stored.append(flight)
            open_questions.clear()
            assert window.disconnected() == []
            continue
        number, flight = open_questions.pop(0)
        if flight in stored:
            if window.published(flight):
                flight.is_done = True
        elif parcels[len(stored)] is not flight:
            assert window.refused(flight, number, OutOfSequence("")) in (Verdict.AGAIN, Verdict.IGNORE)
        elif choice == "refuse":
            faults -= 1
            assert window.refused(flight, number, DiskFull("")) in (Verdict.AGAIN, Verdict.IGNORE)
        else:
            stored.append(flight)
            assert window.published(flight)
            flight.is_done = True
    assert stored == parcels
    at = 0
    for each in parcels:
        assert sequences[id(each)] == at
        at += each.count
