"""The batch: columns of messages as bytes, encoded once by the producer and read in place by everyone else.

Pure: no files, sockets, clock or chance. The format is drawn in docs/formats.md, "The batch".
"""

from .batch import Batch, open_batch
from .check import check_batch
from .compression import Codec
from .encode import Records, encode_batch
from .header import HEADER_BYTES, STAMP_BYTES, BatchHeader, read_header, restamped, stamp, stamp_bytes
from .keys import key_slot, partition_of
from .merge import merge
from .select import gather, slice_batch

__all__ = [
    "HEADER_BYTES",
    "STAMP_BYTES",
    "Batch",
    "BatchHeader",
    "Codec",
    "Records",
    "check_batch",
    "encode_batch",
    "gather",
    "key_slot",
    "merge",
    "open_batch",
    "partition_of",
    "read_header",
    "restamped",
    "slice_batch",
    "stamp",
    "stamp_bytes",
]
