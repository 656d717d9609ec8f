"""Arrow's validity bitmaps (least significant bit first, 1 = valid) and flags, one byte 0 or 1 per record.

Flags are what Python handles well. Both directions go through one large integer, whose conversion from and to
base 2 is linear and runs in C.
"""

from pydanube.model import Buffer
from pydanube.model.errors import InvalidBatch

_TO_DIGITS = bytes.maketrans(b"\x00\x01", b"01")
_FROM_DIGITS = bytes.maketrans(b"01", b"\x00\x01")


def bitmap_bytes(count: int) -> int:
    """Without the padding to 8."""
    return (count + 7) // 8


def pack_flags(flags: bytes) -> bytes:
    digits = flags.translate(_TO_DIGITS)[::-1]
    return int(digits or b"0", 2).to_bytes(bitmap_bytes(len(flags)), "little")


def unpack_bitmap(bitmap: Buffer, count: int) -> bytes:
    digits = format(int.from_bytes(bitmap, "little"), f"0{count}b").encode()
    return digits[::-1].translate(_FROM_DIGITS)[:count]


def check_bitmap(bitmap: Buffer, count: int) -> None:
    """Refuse set bits behind the last record, which would make a count of bits a lie."""
    if count % 8 and bitmap[-1] >> count % 8:
        raise InvalidBatch("a validity bitmap has bits set behind its last record")
