"""Slots and partitions against published vectors."""

import pytest

from pydanube.records import key_slot, partition_of


def test_slot_is_the_lower_half_of_a_crc32c() -> None:
    assert key_slot("123456789") == 0xE3069283 & 0xFFFF
    assert key_slot("") == 0


@pytest.mark.parametrize(
    ("key", "digest"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_partition_is_fnv1a_64(key: str, digest: int) -> None:
    assert partition_of(key, 1 << 64) == digest
    assert partition_of(key, 7) == digest % 7
