"""The entry check: is this one whole batch whose declared sizes agree with each other and with the limits?

It never touches a single record, so that it costs a few microseconds and a checksum. What it leaves open, the
offsets and the text, is checked by whoever decodes.
"""

from crc32c import crc32c

from pydanube.model import Buffer
from pydanube.model.errors import BatchTooLarge, InvalidBatch, UnsupportedVersion, WrongTopic
from pydanube.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX

from .compression import CODECS_KNOWN, Codec
from .header import (
    COLUMNS_KNOWN,
    COLUMNS_NULLABLE,
    CRC,
    FORMAT_VERSION,
    HEADER_BYTES,
    PAYLOAD,
    RESERVED_AT,
    STAMP_BYTES,
    BatchHeader,
    read_header,
)
from .layout import SIZES, Layout, lay_out, padded


def check_batch(view: Buffer, *, topic_id: int | None = None, batch_bytes_max: int = BATCH_BYTES_MAX) -> BatchHeader:
    """Check one batch that comes from a producer or from disk, checksum included."""
    header = _check_length(view, batch_bytes_max)
    # Before all else that is read: damage shall be called damage, and not a newer version or another topic.
    if crc32c(memoryview(view)[STAMP_BYTES:]) != header.crc:
        raise InvalidBatch("the batch does not match its checksum")
    _check_structure(view, header, batch_bytes_max)
    if header.record_count == 0:
        raise InvalidBatch("the batch has no records")
    if topic_id is not None and header.topic_id != topic_id:
        raise WrongTopic(f"the batch was encoded for topic id {header.topic_id:016x}, not for {topic_id:016x}")
    return header


def check_layout(view: Buffer) -> tuple[BatchHeader, Layout]:
    """The same without the checksum, for bytes that have passed it, with the positions of the arrays."""
    header = _check_length(view, BATCH_BYTES_MAX)
    return header, _check_structure(view, header, BATCH_BYTES_MAX)


def _check_length(view: Buffer, batch_bytes_max: int) -> BatchHeader:
    header = read_header(view)
    if header.length != len(view):
        raise InvalidBatch(f"the batch declares {header.length} bytes, there are {len(view)}")
    if header.length > batch_bytes_max:
        raise BatchTooLarge(f"the batch has {header.length} bytes, the limit is {batch_bytes_max}")
    return header


def _check_structure(view: Buffer, header: BatchHeader, batch_bytes_max: int) -> Layout:
    if header.format_version != FORMAT_VERSION:
        if header.format_version > FORMAT_VERSION:
            raise UnsupportedVersion(f"the batch has format version {header.format_version}, known is {FORMAT_VERSION}")
        raise InvalidBatch(f"there is no format version {header.format_version}")
    columns, nulls, count = header.columns, header.nulls, header.record_count
    if header.codec >= CODECS_KNOWN:
        raise InvalidBatch(f"there is no codec {header.codec}")
    if columns > COLUMNS_KNOWN or not columns & PAYLOAD:
        raise InvalidBatch(f"there is no set of columns {columns:#x}")
    if nulls & ~(columns & COLUMNS_NULLABLE):
        raise InvalidBatch(f"columns {columns:#x} cannot have the validity bitmaps {nulls:#x}")
    if CRC.unpack_from(view, RESERVED_AT) != (0,):
        raise InvalidBatch("the reserved bytes of the head are not zero")
    if count > BATCH_RECORDS_MAX:
        raise BatchTooLarge(f"the batch has {count} records, the limit is {BATCH_RECORDS_MAX}")
    if header.codec == Codec.NONE:
        if header.body_bytes != header.body_bytes_raw:
            raise InvalidBatch("the body is not compressed and declares two different lengths")
    elif header.body_bytes >= header.body_bytes_raw:
        raise InvalidBatch("the body is compressed and not shorter for it")

    sizes = SIZES[columns]
    if HEADER_BYTES + sizes.size > header.length:
        raise InvalidBatch(f"{header.length} bytes are too few for a batch with the columns {columns:#x}")
    layout = lay_out(columns, nulls, count, sizes.unpack_from(view, HEADER_BYTES))
    # A batch keeps to the limit as it would be without compression, so that every part of it can be a batch again.
    if layout.body + header.body_bytes_raw > batch_bytes_max:
        raise BatchTooLarge(f"a body of {header.body_bytes_raw} bytes is too large, the limit is {batch_bytes_max}")
    if layout.body_bytes_raw != header.body_bytes_raw:
        raise InvalidBatch(f"the columns need {layout.body_bytes_raw} bytes, the body has {header.body_bytes_raw}")
    if padded(layout.body + header.body_bytes) != header.length:
        raise InvalidBatch(
            f"{layout.body} bytes before a body of {header.body_bytes} do not make a batch of {header.length}"
        )
    return layout
