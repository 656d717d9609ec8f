"""Where a key leads: to a slot for dispatch inside a topic, to a partition among topics."""

from crc32c import crc32c

_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_FNV_MASK = (1 << 64) - 1


def key_slot(key: str) -> int:
    """The slot of a record in the routing section, 0 to 65,535."""
    return int(crc32c(key.encode())) & 0xFFFF


def partition_of(key: str, partitions: int) -> int:
    """The partition of a keyed message: FNV-1a 64 modulo the count, as Danube's own clients compute it."""
    digest = _FNV_BASIS
    for byte in key.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & _FNV_MASK
    return digest % partitions
