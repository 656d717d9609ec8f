"""What goes in comes out, through every codec."""

import pytest
from hypothesis import given
from tests.records.samples import CODECS, TOPIC_ID, any_records, some_batch, stored

from pydanube.model.errors import BatchTooLarge, InvalidBatch
from pydanube.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, KEY_BYTES_MAX
from pydanube.records import Batch, Codec, Records, check_batch, encode_batch, key_slot, open_batch


@given(any_records(), CODECS)
def test_records_come_back(records: Records, codec: Codec) -> None:
    batch = some_batch(records, codec=codec)
    assert len(batch) == len(records.payloads)
    assert batch.records() == stored(records)


@given(any_records(), CODECS)
def test_slots_and_validity_are_readable_without_the_body(records: Records, codec: Codec) -> None:
    batch = some_batch(records, codec=codec)
    keys = stored(records).keys
    slots, validity = batch.key_slots(), batch.key_validity
    if keys is None:
        assert slots is None
        assert validity is None
        return
    assert slots is not None
    assert slots.tolist() == [0 if key is None else key_slot(key) for key in keys]
    assert (validity is None) == (None not in keys)
    if validity is not None:
        assert [bool(validity[i // 8] >> i % 8 & 1) for i in range(len(keys))] == [key is not None for key in keys]


@pytest.mark.parametrize("codec", list(Codec))
def test_100_000_records(codec: Codec) -> None:
    payloads = [None if i % 7 == 0 else b"%d" % i for i in range(100_000)]
    keys = [None if i % 5 == 0 else f"key {i % 1000}" for i in range(100_000)]
    batch = some_batch(Records(payloads, keys), codec=codec)
    assert batch.payloads() == payloads
    assert batch.keys() == keys


def test_no_records_can_be_encoded_but_do_not_enter() -> None:
    data = encode_batch(Records([]), topic_id=1)
    assert Batch(data).payloads() == []
    with pytest.raises(InvalidBatch, match="no records"):
        check_batch(data)


def test_time_of_the_head_stands_for_a_missing_column() -> None:
    batch = some_batch(Records([b"a", b"b"]), first_publish_time_us=123)
    assert batch.publish_times_us() == [123, 123]
    assert batch.records().publish_times_us is None
    assert some_batch(Records([b"a", b"b"], publish_times_us=[5, 6])).header.first_publish_time_us == 5


def test_payloads_may_be_views() -> None:
    batch = some_batch(Records([memoryview(b"abc")[1:], bytearray(b"de"), None]))
    assert batch.payloads() == [b"bc", b"de", None]


def test_an_uncompressed_batch_is_viewed_not_copied() -> None:
    data = encode_batch(Records([b"a" * 100], keys=["k"]), topic_id=TOPIC_ID)
    batch = open_batch(data)
    slots = batch.key_slots()
    assert slots is not None
    assert slots.obj is data
    assert batch.body().obj is data


@pytest.mark.parametrize("codec", list(Codec))
def test_views_of_larger_items_are_refused(codec: Codec) -> None:
    with pytest.raises(InvalidBatch, match="larger than a byte"):
        encode_batch(Records([memoryview(bytes(800)).cast("H")]), topic_id=1, codec=codec)


@pytest.mark.parametrize(
    "records",
    [
        Records([b""], keys=["\ud800"]),
        Records([b""], attributes=[{"a": "\udfff"}]),
        Records([b""], attributes=[{"a": None}]),  # type: ignore[dict-item]
        Records([b""], producer_names=["x", "y"]),
        Records([b"", b""], keys=["only one"]),
        Records([b""], publish_times_us=[]),
        Records([b""], event_times_us=[1 << 63]),
    ],
)
def test_records_that_make_no_batch(records: Records) -> None:
    with pytest.raises(InvalidBatch):
        encode_batch(records, topic_id=1)


def test_numbers_out_of_range() -> None:
    with pytest.raises(InvalidBatch, match="range"):
        encode_batch(Records([b""]), topic_id=-1)
    with pytest.raises(InvalidBatch, match="range"):
        encode_batch(Records([b""]), topic_id=1, schema_version=1 << 16)


def test_limits() -> None:
    largest = BATCH_BYTES_MAX - 112  # head, sizes, two offsets
    assert len(encode_batch(Records([bytes(largest)]), topic_id=1)) == BATCH_BYTES_MAX
    for codec in Codec:  # the limit is one for the batch as it would be without compression
        assert some_batch(Records([bytes(largest)]), codec=codec).payloads() == [bytes(largest)]
        with pytest.raises(BatchTooLarge):
            encode_batch(Records([bytes(largest + 1)]), topic_id=1, codec=codec)
    with pytest.raises(BatchTooLarge, match="records"):
        encode_batch(Records([b""] * (BATCH_RECORDS_MAX + 1)), topic_id=1)
    with pytest.raises(BatchTooLarge, match="key"):
        encode_batch(Records([b""], keys=["k" * (KEY_BYTES_MAX + 1)]), topic_id=1)
    many_large_keys = Records([b""] * 3, keys=["k" * KEY_BYTES_MAX] * 3)
    assert some_batch(many_large_keys).records() == many_large_keys
