"""Batches as they were written once. Run with REWRITE_GOLDEN=1 to write them anew, which is a change of format."""

import os
from pathlib import Path

import pytest
from tests.records.samples import COMPRESSIBLE, EVERY_COLUMN, PLAIN, TOPIC_ID, WITH_NULLS

from pydanube.records import Codec, Records, check_batch, encode_batch, open_batch, stamp

GOLDEN = Path(__file__).parent.parent / "golden"

CASES: dict[str, tuple[Records, Codec]] = {
    "plain": (PLAIN, Codec.NONE),
    "all-columns": (EVERY_COLUMN, Codec.NONE),
    "nulls": (WITH_NULLS, Codec.NONE),
    "lz4": (COMPRESSIBLE, Codec.LZ4),
    "zstd": (COMPRESSIBLE, Codec.ZSTD),
}


def encode(records: Records, codec: Codec) -> bytes:
    data = encode_batch(
        records,
        topic_id=TOPIC_ID,
        producer_id=77,
        producer_epoch=2,
        first_sequence=41,
        schema_id=5,
        schema_version=6,
        first_publish_time_us=1_600_000_000_000_000,
        deliver_at_us=1_800_000_000_000_000,
        codec=codec,
    )
    stamp(data, 1000, 4, 1_700_000_000_000_000)
    return bytes(data)


def golden(name: str) -> bytes:
    path = GOLDEN / f"batch-v1-{name}.bin"
    if os.environ.get("REWRITE_GOLDEN") == "1":
        path.write_bytes(encode(*CASES[name]))
    return path.read_bytes()


@pytest.mark.parametrize("name", [name for name, (_, codec) in CASES.items() if codec == Codec.NONE])
def test_same_bytes_are_written(name: str) -> None:
    assert encode(*CASES[name]) == golden(name)


@pytest.mark.parametrize("name", CASES)
def test_old_bytes_are_read(name: str) -> None:
    data = golden(name)
    records, codec = CASES[name]
    header = check_batch(data, topic_id=TOPIC_ID)
    assert header.codec == codec
    assert (header.base_offset, header.ledger_epoch, header.append_time_us) == (1000, 4, 1_700_000_000_000_000)
    assert (header.producer_id, header.producer_epoch, header.first_sequence) == (77, 2, 41)
    assert (header.schema_id, header.schema_version, header.deliver_at_us) == (5, 6, 1_800_000_000_000_000)
    assert open_batch(data).records() == records
