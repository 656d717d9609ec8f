"""Where many messages are divided, and what a parcel makes of them."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.client.batching import MESSAGE_BYTES_MORE, Columns, Identity, Parcel, check_message
from pydanube.model import DanubeError
from pydanube.model.errors import InvalidRequest, MessageTooLarge
from pydanube.records import Codec, open_batch

PAYLOADS = st.lists(st.integers(0, 300).map(bytes), max_size=200)


@given(PAYLOADS, st.integers(1, 2000), st.integers(1, 60), st.booleans())
def test_division(payloads: list[bytes], batch_bytes: int, batch_count: int, with_keys: bool) -> None:
    keys: list[str | None] | None = ["k" * (at % 5) or None for at in range(len(payloads))] if with_keys else None
    columns = Columns([*payloads], keys, None, None)
    at = 0
    for first, end, size in columns.divide(batch_bytes, batch_count):
        assert first == at
        assert first < end <= first + batch_count
        exact = sum(len(payloads[i]) + len((keys[i] or "") if keys else "") for i in range(first, end))
        assert size == exact + MESSAGE_BYTES_MORE * (end - first)
        assert exact <= batch_bytes or end == first + 1
        at = end
    assert at == len(payloads)


@given(st.integers(1, 50), st.integers(1, 5000))
def test_batches_of_like_messages_are_well_filled(size: int, count: int) -> None:
    parts = [*Columns([bytes(size)] * count, None, None, None).divide(1000, 100_000)]
    for first, end, _ in parts[:-1]:
        assert (end - first) * size > 1000 * 3 // 4 - size


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=8),
            st.none() | st.text(alphabet="abc", max_size=3),
            st.none() | st.dictionaries(st.text("xy", max_size=2), st.text("z", max_size=2), max_size=2),
            st.none() | st.integers(-5, 5),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_a_parcel_holds_what_was_added(
    rows: list[tuple[bytes, str | None, Mapping[str, str] | None, int | None]],
) -> None:
    parcel = Parcel(123, 0.0)
    for payload, key, attributes, event_time_us in rows:
        parcel.add(payload, key, attributes, event_time_us, 10)
    assert (parcel.count, parcel.bytes) == (len(rows), 10 * len(rows))
    parcel.encode(Identity(1, 2, 3), 4, Codec.NONE, "me")
    batch = open_batch(parcel.data)
    header = batch.header
    assert (header.topic_id, header.producer_id, header.producer_epoch, header.first_sequence) == (1, 2, 3, 4)
    nothing = [None] * len(rows)
    decoded = zip(
        batch.payloads(),
        batch.keys() or nothing,
        batch.attributes() or nothing,
        batch.event_times_us() or nothing,
        strict=True,
    )
    assert [*decoded] == rows
    assert batch.publish_times_us() == [123] * len(rows)
    assert batch.producer_names() == ["me"] * len(rows)


class Heard:
    def __init__(self) -> None:
        self.news: list[object] = []

    def published(self, first_offset: int) -> None:
        self.news.append(first_offset)

    def failed(self, error: DanubeError) -> None:
        self.news.append(error)


def test_receipts_are_told_once() -> None:
    parcel, heard = Parcel(0, 0.0), Heard()
    parcel.receipts.append(heard)
    parcel.published(9)
    assert (heard.news, parcel.is_done) == ([9], True)


def test_checks() -> None:
    assert check_message(bytearray(b"ab"), "ö", {"a": "b"}, 100) == (b"ab", 2 + 2 + 2 + MESSAGE_BYTES_MORE)
    assert check_message(memoryview(b"ab"), None, None, 2)[0] == b"ab"
    with pytest.raises(MessageTooLarge):
        check_message(b"ab", "c", None, 2)
    with pytest.raises(InvalidRequest):
        Columns([b""], None, [None, None], None).check()
