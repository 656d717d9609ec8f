"""Control bodies: those by msgpack, and those packed by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.model import ERRORS_BY_CODE, DanubeError
from pydanube.model.errors import ProtocolError
from pydanube.wire import decode, encode, error_from, error_reply, hot, messages

U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)

BODIES = [
    messages.Hello(1, "me", {"a": "b"}),
    messages.Welcome(1, "b", 2, 3, 4),
    messages.ErrorReply(5, "text"),
    messages.Lookup("/default/a"),
    messages.LookedUp("/default/a", ["/default/a-part-0"], True, False),
    messages.List("topics", "default", "a", 10),
    messages.Listed(["a"], True),
    messages.Administered({"a": [1, {"b": None}]}),
    messages.Offsets("/default/a", [1]),
    messages.OffsetsAre(1, 2, 3, [4]),
    messages.OpenProducer("/default/a", "p", messages.TopicSettings(False, 3, "memory"), 7, 8),
    messages.ProducerOpen(1, 2, 3, 4),
    messages.Want(1),
    messages.Grant(2),
    messages.CloseHandle(3),
    messages.Subscribe("/default/a", "s", "latest", "c", "shared"),
    messages.Subscribed(1, 2, 3, 4, 5),
    messages.Ack(1, 2, 3, [(4, 5)]),
    messages.Progress("/default/a", "s", 6),
    messages.Fetch("/default/a", 1, 2, 3),
    messages.Fetched(1, 2, 3, 4),
]
CHANGES = [
    messages.CreateTopic("/default/a", messages.TopicSettings()),
    messages.DeleteTopic("/default/a"),
    messages.DescribeTopic("/default/a"),
    messages.SetRetention("/default/a", messages.RetentionSettings(1, None, False)),
    messages.SetRetention("/default/a", None),
    messages.CreateNamespace("n"),
    messages.DescribeNamespace("n"),
    messages.SetNamespace("n", False),
    messages.DeleteNamespace("n"),
    messages.DescribeSubscription("/default/a", "s"),
    messages.DeleteSubscription("/default/a", "s"),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_bodies_round_trip(body: messages.Message) -> None:
    assert decode(encode(body), type(body)) == body
    assert decode(memoryview(encode(body)), type(body)) == body


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_changes_round_trip_by_their_tag(change: messages.Message) -> None:
    kind: Any = messages.Admin
    assert decode(encode(change), kind) == change


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_body_that_is_cut_is_an_error(body: messages.Message) -> None:
    data = encode(body)
    for cut in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(data[:cut], type(body))


def test_a_later_version_may_add_fields() -> None:
    data = encode(messages.Fetched(1, 2, 3, 4))
    longer = bytes([data[0] + 1]) + data[1:] + b"\x07"
    assert decode(longer, messages.Fetched) == messages.Fetched(1, 2, 3, 4)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_body_or_an_error(data: bytes) -> None:
    for body in BODIES:
        try:
            decode(data, type(body))
        except ProtocolError:
            continue


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x91\xa1\x80", messages.Lookup),  # text that is not UTF-8
        (b"\x91" + b"\x81\xa1a" * 100_000 + b"\xc0", messages.Administered),  # deeper than a stack
    ],
)
def test_malice_is_an_error_like_any_other(data: bytes, kind: type[messages.Message]) -> None:
    with pytest.raises(ProtocolError):
        decode(data, kind)


@given(st.lists(st.builds(hot.Published, U32, U64, I64), max_size=5))
def test_published(items: list[hot.Published]) -> None:
    assert hot.decode_published(hot.encode_published(items)) == items


@given(st.builds(hot.Deliver, U32, U32, U32, U64, st.lists(st.tuples(U64, U64), max_size=4).map(tuple)))
def test_deliver(deliver: hot.Deliver) -> None:
    assert hot.decode_deliver(hot.encode_deliver(deliver)) == deliver


@given(U32, U32)
def test_publish_and_flow(handle: int, count: int) -> None:
    assert hot.decode_publish(hot.encode_publish(handle)) == handle
    assert hot.decode_flow(hot.encode_flow(handle, count)) == (handle, count)


@given(st.binary(max_size=80))
def test_hot_bodies_of_a_wrong_length_are_errors(data: bytes) -> None:
    rights = {hot.decode_publish: len(data) == 4, hot.decode_flow: len(data) == 8}
    rights[hot.decode_published] = len(data) % 24 == 0
    count = int.from_bytes(data[12:16], "little")
    rights[hot.decode_deliver] = len(data) >= 24 and len(data) == 24 + 16 * count
    for read, is_right in rights.items():
        if is_right:
            read(data)
        else:
            with pytest.raises(ProtocolError):
                read(data)


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_errors_cross_the_wire_as_themselves(kind: type[DanubeError]) -> None:
    reply = decode(encode(error_reply(kind("what happened"))), messages.ErrorReply)
    error = error_from(reply)
    assert type(error) is kind
    assert str(error) == "what happened"


def test_an_unknown_error_keeps_its_code() -> None:
    error = error_from(messages.ErrorReply(9999, "news"))
    assert type(error) is DanubeError
    assert str(error) == "error 9999: news"
