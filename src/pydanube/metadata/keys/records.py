"""How values are written: JSON with a format number, so that people can read them and old software refuses new ones.

A record of a known format has exactly the known fields. So what is read and written back never loses one, and a new
field is a new format.
"""

from typing import TypeVar

import msgspec

from pydanube.metadata.store import Entry
from pydanube.model.errors import DataDamaged, UnsupportedVersion

FORMAT = 1


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


class _AnyFormat(msgspec.Struct):
    format: int


AnyRecord = TypeVar("AnyRecord", bound=Record)


def decode(entry: Entry, kind: type[AnyRecord]) -> AnyRecord:
    try:
        found = msgspec.json.decode(entry.value, type=_AnyFormat).format
        if found > FORMAT:
            raise UnsupportedVersion(f"the metadata at {entry.key} has format {found}, this software knows {FORMAT}")
        return msgspec.json.decode(entry.value, type=kind)
    except msgspec.MsgspecError as error:
        raise DataDamaged(f"the metadata at {entry.key} cannot be read: {error}") from error


def hex_id(number: int) -> str:
    """A u64 as it stands in keys: 16 digits, so that the order of keys is the order of numbers."""
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{number} does not fit into 64 bits")
    return f"{number:016x}"
