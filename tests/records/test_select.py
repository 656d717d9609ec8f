"""Slices, selections and merges against what Python does with lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.samples import CODECS, any_records, rows, some_batch

from pydanube.model.errors import BatchTooLarge
from pydanube.model.limits import BATCH_RECORDS_MAX
from pydanube.records import Batch, Codec, Records, gather, merge, slice_batch

PUBLISHED_US = 5_000_000


def opened_rows(data: bytearray) -> list[tuple[object, ...]]:
    batch = Batch(data)
    return rows(batch.records(), batch.header.first_publish_time_us)


@given(any_records(), CODECS, st.data())
def test_slice(records: Records, codec: Codec, data: st.DataObject) -> None:
    count = len(records.payloads)
    first = data.draw(st.integers(0, count))
    end = data.draw(st.integers(first, count))
    batch = some_batch(
        records,
        codec=codec,
        base_offset=100,
        producer_id=9,
        first_sequence=2**32 - 2,
        first_publish_time_us=PUBLISHED_US,
    )
    result = slice_batch(batch, first, end)
    assert opened_rows(result) == rows(records, PUBLISHED_US)[first:end]
    header = Batch(result).header
    assert (header.base_offset, header.ledger_epoch) == (100 + first, 3)
    assert header.append_time_us == batch.header.append_time_us
    assert (header.producer_id, header.first_sequence) == (9, (2**32 - 2 + first) % 2**32)


@given(any_records(), CODECS, st.data())
def test_gather(records: Records, codec: Codec, data: st.DataObject) -> None:
    count = len(records.payloads)
    indexes = data.draw(st.lists(st.integers(0, count - 1), max_size=20)) if count else []
    batch = some_batch(
        records, codec=codec, base_offset=100, producer_id=9, first_sequence=7, first_publish_time_us=PUBLISHED_US
    )
    result = gather(batch, indexes)
    source = rows(records, PUBLISHED_US)
    assert opened_rows(result) == [source[index] for index in indexes]
    header = Batch(result).header
    assert (header.base_offset, header.topic_id) == (100, batch.header.topic_id)
    assert (header.producer_id, header.producer_epoch, header.first_sequence) == (0, 0, 0)


def test_a_slice_without_nulls_is_the_batch_that_never_had_any() -> None:
    with_nulls = Records([None, b"x"], [None, "k"], None, [None, 1], [None, {}], [None, "p"])
    without = Records([b"x"], ["k"], None, [1], [{}], ["p"])
    expected = some_batch(without, base_offset=11, first_sequence=1)
    assert slice_batch(some_batch(with_nulls, base_offset=10), 1, 2) == expected.view
    only_nulls = some_batch(Records([None]), base_offset=10)
    assert slice_batch(some_batch(with_nulls, base_offset=10), 0, 1) == only_nulls.view


def test_gather_every_second() -> None:
    batch = some_batch(Records([b"0", b"1", b"2", b"3", b"4"]))
    assert Batch(gather(batch, range(0, 5, 2))).payloads() == [b"0", b"2", b"4"]


@given(st.lists(st.tuples(any_records(records_max=5), CODECS, st.sampled_from([1, 2])), min_size=1, max_size=4), CODECS)
def test_merge(parts: list[tuple[Records, Codec, int]], codec: Codec) -> None:
    batches: list[Batch] = []
    expected: list[tuple[object, ...]] = []
    for records, part_codec, published_us in parts:
        batches.append(
            some_batch(
                records,
                codec=part_codec,
                base_offset=50 + len(expected),
                producer_id=4,
                first_sequence=8,
                first_publish_time_us=published_us,
            )
        )
        expected += rows(records, published_us)
    result = merge(batches, codec)
    assert opened_rows(result) == expected
    header = Batch(result).header
    assert header.base_offset == 50
    assert (header.producer_id, header.first_sequence) == (0, 0)


def test_merge_takes_a_publish_time_column_only_when_times_differ() -> None:
    def part(base_offset: int, published_us: int) -> Batch:
        return some_batch(Records([b"x"]), base_offset=base_offset, first_publish_time_us=published_us)

    assert Batch(merge([part(0, 1), part(1, 1)])).records().publish_times_us is None
    assert Batch(merge([part(0, 1), part(1, 2)])).records().publish_times_us == [1, 2]


def test_what_does_not_belong_together_is_not_merged() -> None:
    first = some_batch(Records([b"a", b"b"]), base_offset=10, schema_id=1)
    for other in (
        some_batch(Records([b"c"]), base_offset=13, schema_id=1),
        some_batch(Records([b"c"]), base_offset=12, schema_id=2),
        some_batch(Records([b"c"]), base_offset=12, schema_id=1, schema_version=1),
        some_batch(Records([b"c"]), base_offset=12, schema_id=1, deliver_at_us=1),
    ):
        with pytest.raises(ValueError, match=r"merged|follow"):
            merge([first, other])
    with pytest.raises(ValueError, match="no batches"):
        merge([])


def test_merge_keeps_to_the_limits() -> None:
    half = BATCH_RECORDS_MAX // 2 + 1
    with pytest.raises(BatchTooLarge):
        merge([some_batch(Records([b""] * half)), some_batch(Records([b""] * half), base_offset=half)])


@pytest.mark.parametrize(("first", "end"), [(-1, 1), (0, 4), (2, 1)])
def test_slices_outside_of_the_batch(first: int, end: int) -> None:
    with pytest.raises(IndexError):
        slice_batch(some_batch(Records([b""] * 3)), first, end)


@pytest.mark.parametrize("index", [-1, 3])
def test_selections_outside_of_the_batch(index: int) -> None:
    with pytest.raises(IndexError):
        gather(some_batch(Records([b""] * 3)), [0, index])
