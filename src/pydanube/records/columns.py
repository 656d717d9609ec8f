"""Columns on their way into a batch, in the shape that the layout wants, whoever they come from.

The encoder makes them from Python values, `slice_batch` and its kin from the bytes of other batches. Validity is
given as flags (one byte 0 or 1 per record, see bitmaps.py); flags without a zero mean the same as none.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from pydanube.model import Buffer

# Anything whose bytes are int64 or uint16 values in the machine's order: an array, or a view of one.
Numbers: TypeAlias = "array[int] | memoryview | bytes"


class Values(NamedTuple):
    """Variable-length values: `pieces` joined are their bytes, which `offsets` (one more than values) divide."""

    offsets: list[int]
    pieces: Sequence[Buffer]


class AttributeColumn(NamedTuple):
    offsets: list[int]  # in entries
    keys: Values
    values: Values


@dataclass(slots=True)
class Columns:
    """By column (one of the bits in header.py). Flags of a column that is all null count as none of the column."""

    count: int
    values: dict[int, Values]
    times: "dict[int, Numbers]" = field(default_factory=dict)
    attributes: AttributeColumn | None = None
    slots: "Numbers | None" = None  # uint16, present with the key
    flags: dict[int, bytes] = field(default_factory=dict)


def offsets_of(lengths: Iterable[int]) -> list[int]:
    return [*accumulate(lengths, initial=0)]
