"""Every entry of a journal as a line, damaged ones included."""

import contextlib
import struct
from collections.abc import Iterator

import msgspec

from pydanube.model import Buffer, DanubeError
from pydanube.records import Batch, read_header

from . import entries
from .entries import PARK_HEAD_BYTES
from .file_header import FILE_HEADER_BYTES, decode_file_header, file_name, number_of
from .files import File, Files
from .rounds import GIVES_OFFSETS, Kind, Row, salt_seed
from .scan import FoundDamage, FoundRound, scan_rounds

_BATCH_AT: dict[int, int] = {Kind.BATCH: 0, Kind.PARK: PARK_HEAD_BYTES}  # where a batch begins in its entry


def kind_name(kind: int) -> str:
    """For people; a kind that this program does not know is shown by its number."""
    try:
        return Kind(kind).name.lower().replace("_", " ")
    except ValueError:
        return f"kind {kind}"


# -- every entry as a line ----------------------------------------------------------------------------------------


class DumpedEntry(msgspec.Struct, frozen=True):
    """One entry of a round, or a stretch of bytes (without a round) in which none can be read."""

    file: str
    position: int
    length: int
    crc_ok: bool
    kind: str
    round_number: int | None = None
    topic_id: int | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    record_count: int = 0
    detail: str = ""
    payloads: list[bytes | None] | None = None


def dump_folder(files: Files, *, topic_id: int | None = None, with_payloads: bool = False) -> Iterator[DumpedEntry]:
    """Everything in the journal in the order in which it was written; of one topic only, if asked for."""
    for number in sorted(number for number in map(number_of, files.list()) if number is not None):
        name = file_name(number)
        try:
            with contextlib.closing(files.open(name)) as file:
                for dumped in _dump_file(files, number, file, with_payloads):
                    # Bytes that cannot be read may have been anyone's.
                    if topic_id is None or dumped.topic_id == topic_id or dumped.round_number is None:
                        yield dumped
        except FileNotFoundError:
            continue  # deleted by a broker at work
        except OSError as error:
            yield DumpedEntry(name, 0, 0, False, "unreadable", detail=f"the file cannot be read: {error.strerror}")


def _dump_file(files: Files, number: int, file: File, with_payloads: bool) -> Iterator[DumpedEntry]:
    name, end, next_number = file_name(number), file.size(), None
    header, _ = decode_file_header(file.read_at(0, FILE_HEADER_BYTES))
    if header is None:
        yield DumpedEntry(name, 0, end, False, "unreadable", detail="both headers of the file are damaged")
        return
    with contextlib.suppress(OSError), contextlib.closing(files.open(file_name(number + 1))) as follower:
        next_header, _ = decode_file_header(follower.read_at(0, FILE_HEADER_BYTES))
        if next_header is not None and next_header.previous_end <= end:
            end, next_number = next_header.previous_end, next_header.first_round
    for found in scan_rounds(file, FILE_HEADER_BYTES, end, salt_seed(header.salt), next_number=next_number):
        if isinstance(found, FoundRound):
            yield from _dump_round(name, found, with_payloads)
        elif isinstance(found, FoundDamage):
            detail = "no round can be read here"
            yield DumpedEntry(name, found.position, found.end - found.position, False, "unreadable", detail=detail)
        elif found.last > found.position:
            detail = "an incomplete round at the end"
            yield DumpedEntry(name, found.position, found.last - found.position, False, "unreadable", detail=detail)


def _dump_round(name: str, found: FoundRound, with_payloads: bool) -> Iterator[DumpedEntry]:
    head = found.head
    if not found.rows:
        detail = f"says that round {head.synced_through} is durable"
        yield DumpedEntry(name, found.position, head.length, found.is_whole, "mark", head.number, detail=detail)
    for number, row in enumerate(found.rows):
        crc_ok = number not in found.damaged
        gives = row.kind in GIVES_OFFSETS
        body = found.body(row)
        detail = _detail(row, body) if crc_ok else "the entry is damaged"
        payloads = None
        if with_payloads and crc_ok and row.kind in _BATCH_AT:
            try:
                payloads = Batch(memoryview(body)[_BATCH_AT[row.kind] :]).payloads()
            except DanubeError as error:
                detail = str(error)
        yield DumpedEntry(
            name,
            found.position + row.position,
            row.length,
            crc_ok,
            kind_name(row.kind),
            head.number,
            row.topic_id or None,
            row.first_offset if gives or row.kind == Kind.TRIM else None,
            row.first_offset + row.record_count if gives else None,
            row.record_count,
            detail,
            payloads,
        )


def _detail(row: Row, body: Buffer) -> str:
    try:
        return _describe(row, body)
    except (DanubeError, struct.error, msgspec.MsgspecError):
        return "its content is not legible"


def _describe(row: Row, body: Buffer) -> str:
    """What the row does not say already."""
    kind = row.kind
    if kind in (Kind.CURSOR_ACK, Kind.CURSOR_RESET, Kind.CURSOR_DROP):
        move = entries.decode_cursor(body)
        ranges = ", ".join(f"{first} to {end}" for first, end in move.ranges)
        return f"subscription {move.subscription_id:016x}, generation {move.generation}" + (ranges and f", {ranges}")
    if kind == Kind.BATCH:
        header = read_header(body)
        idempotent = f"producer {header.producer_id:016x}, sequence {header.first_sequence}"
        return idempotent if header.producer_id else ""
    if kind == Kind.PARK:
        return f"parked as {entries.decode_park_head(body).parked_id:016x}"
    if kind == Kind.RELEASE:
        return "released: " + ", ".join(f"{item.parked_id:016x}" for item in entries.decode_released(body)[0])
    if kind == Kind.DISCARD:
        return ", ".join(f"{parked_id:016x}" for parked_id in entries.decode_ids(body))
    if kind == Kind.SESSION:
        return f"writer epoch {entries.decode_ids(body)[0]}"
    if kind == Kind.WRITER:
        writer = entries.decode_writer(body)
        return f"writer {writer.writer}, version {writer.version}"
    if kind == Kind.DAMAGE:
        first, end = entries.decode_ids(body)
        return f"offsets {first} to {end} are lost"
    return ""
