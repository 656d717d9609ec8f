"""Limits hold against each other, and what they promise to old data does not shrink."""

import pytest

from pydanube.model import limits
from pydanube.records import HEADER_BYTES, Records, check_batch, encode_batch
from pydanube.storage import StorageSettings

# What data on disk and programs in use may count on. Raise a number here with its limit; never lower one.
PROMISED = {
    "MESSAGE_BYTES_MAX": 4 << 20,
    "BATCH_BYTES_MAX": (4 << 20) + (64 << 10),
    "BATCH_RECORDS_MAX": 1 << 18,
    "FRAME_BYTES_MAX": (4 << 20) + (65 << 10),
    "ROUND_BYTES_MAX": 8 << 20,
    "ROUND_ENTRIES_MAX": 1 << 16,
    "NAME_BYTES_MAX": 200,
    "KEY_BYTES_MAX": 64 << 10,
    "PRODUCER_BATCHES_IN_FLIGHT_MAX": 32,
    "PRODUCERS_PER_TOPIC_MAX": 10_000,
    "ACK_RANGE_BYTES_MAX": 1 << 20,
}

# A wrong value for one limit, each against another.
CONTRADICTIONS = {
    "BATCH_BYTES_MAX": limits.MESSAGE_BYTES_MAX,
    "FRAME_BYTES_MAX": limits.BATCH_BYTES_MAX,
    "ROUND_BYTES_MAX": limits.FRAME_BYTES_MAX - 1,
    "JOURNAL_FILE_BYTES": limits.ROUND_BYTES_MAX,
    "BATCH_RECORDS_MAX": limits.BATCH_BYTES_MAX,
}


@pytest.mark.parametrize(("name", "value"), PROMISED.items())
def test_promises(name: str, value: int) -> None:
    assert getattr(limits, name) >= value


@pytest.mark.parametrize(("name", "value"), CONTRADICTIONS.items())
def test_contradictions_are_refused(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits._check()
    monkeypatch.setattr(limits, name, value)
    with pytest.raises(ValueError, match=r"must (have room|fit)"):
        limits._check()


def test_all_limits_are_above_zero() -> None:
    numbers = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert all(isinstance(value, int) and value > 0 for value in numbers.values())


def test_the_largest_message_fits_into_a_batch() -> None:
    records = Records(payloads=[bytes(limits.MESSAGE_BYTES_MAX)])
    batch = encode_batch(records, topic_id=1)
    assert check_batch(batch).record_count == 1
    assert len(batch) > limits.MESSAGE_BYTES_MAX + HEADER_BYTES


def test_the_fullest_batch_is_a_batch() -> None:
    batch = encode_batch(Records(payloads=[b""] * limits.BATCH_RECORDS_MAX), topic_id=1)
    assert check_batch(batch).record_count == limits.BATCH_RECORDS_MAX


def test_storage_takes_the_limits_as_defaults() -> None:
    settings = StorageSettings()
    assert settings.round_bytes == limits.ROUND_BYTES_MAX
    assert settings.file_bytes == limits.JOURNAL_FILE_BYTES
    assert settings.cache_bytes == limits.CACHE_BYTES
    assert settings.pending_bytes >= settings.round_bytes + limits.FRAME_BYTES_MAX
    assert settings.reserve_bytes < settings.file_bytes
