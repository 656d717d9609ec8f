"""Messages on their way into a batch, and where to divide many of them.

A parcel is filled message by message (`add`) or made from whole columns at once, encoded when its turn comes, and kept
as bytes until it is answered. Whoever waits for it leaves a receipt.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import NamedTuple, Protocol, TypeVar

from pydanube.model import Buffer
from pydanube.model.errors import BatchTooLarge, DanubeError, InvalidRequest, MessageTooLarge
from pydanube.model.limits import KEY_BYTES_MAX, KIB
from pydanube.records import Codec, Records, encode_batch

MESSAGE_BYTES_MORE = 8  # what a message counts beyond its payload: more or less its share of the columns
BATCH_BYTES_DEFAULT = 256 * KIB
BATCH_COUNT_DEFAULT = 10_000
T = TypeVar("T")


class Receipt(Protocol):
    """Told once what became of a parcel."""

    def published(self, first_offset: int) -> None: ...
    def failed(self, error: DanubeError) -> None: ...


class Identity(NamedTuple):
    """As whom batches are sent, from the broker's answer to PRODUCER."""

    topic_id: int
    producer_id: int
    epoch: int


class Parcel:
    __slots__ = (
        "_is_plain",
        "attributes",
        "awaited",
        "bytes",
        "count",
        "data",
        "deadline",
        "event_times_us",
        "is_done",
        "keys",
        "payloads",
        "publish_time_us",
        "receipts",
        "request",
    )

    def __init__(self, publish_time_us: int, deadline: float) -> None:
        self.payloads: list[Buffer] = []
        self.keys: list[str | None] | None = None
        self.attributes: list[Mapping[str, str] | None] | None = None
        self.event_times_us: list[int | None] | None = None
        self.count = 0
        self.bytes = 0
        self.publish_time_us = publish_time_us
        self.deadline = deadline
        self.receipts: list[Receipt] = []
        self.awaited = 0  # messages that somebody waits for; the others were posted
        self.data = bytearray()  # once it is encoded
        self.request = 0  # the question that it was sent with last; 0: it has to be sent
        self.is_done = False
        self._is_plain = True  # payloads only, so far

    def add(
        self,
        payload: bytes,
        key: str | None,
        attributes: Mapping[str, str] | None,
        event_time_us: int | None,
        size: int,
    ) -> None:
        """One message more, checked by `check_message`."""
        self.payloads.append(payload)
        count = self.count
        self.count = count + 1
        self.bytes += size
        if not self._is_plain or key is not None or attributes is not None or event_time_us is not None:
            self._is_plain = False
            self.keys = _extended(self.keys, count, key)
            self.attributes = _extended(self.attributes, count, attributes)
            self.event_times_us = _extended(self.event_times_us, count, event_time_us)

    def encode(self, identity: Identity, first_sequence: int, codec: Codec, producer_name: str | None) -> None:
        records = Records(
            payloads=self.payloads,
            keys=self.keys,
            event_times_us=self.event_times_us,
            attributes=self.attributes,
            producer_names=None if producer_name is None else [producer_name] * self.count,
        )
        self.data = encode_batch(
            records,
            topic_id=identity.topic_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            first_sequence=first_sequence,
            first_publish_time_us=self.publish_time_us,
            codec=codec,
        )
        self.payloads, self.keys, self.attributes, self.event_times_us = [], None, None, None

    def published(self, first_offset: int) -> None:
        self.is_done = True
        for receipt in self.receipts:
            receipt.published(first_offset)

    def failed(self, error: DanubeError) -> None:
        self.is_done = True
        for receipt in self.receipts:
            receipt.failed(error)


def _extended(column: list[T | None] | None, count: int, value: T | None) -> list[T | None]:
    extended: list[T | None] = [None] * count if column is None else column
    extended.append(value)
    return extended


def check_message(
    payload: Buffer, key: str | None, attributes: Mapping[str, str] | None, message_bytes_max: int
) -> tuple[bytes, int]:
    """The payload as bytes that nobody changes any more, and what the message counts.

    Here, and not when the batch is encoded: a message that cannot be sent must not take its neighbours along.
    """
    if type(payload) is not bytes:
        if not isinstance(payload, bytearray | memoryview | bytes):
            raise InvalidRequest(f"a payload is bytes, not {type(payload).__name__}")
        payload = bytes(payload)
    size = len(payload)
    if key is not None:
        key_bytes = _text_bytes("a key", key)
        if key_bytes > KEY_BYTES_MAX:
            raise BatchTooLarge(f"a key of {key_bytes} bytes is over the limit of {KEY_BYTES_MAX}")
        size += key_bytes
    if attributes is not None:
        for name, value in attributes.items():
            size += _text_bytes("an attribute's name", name) + _text_bytes("an attribute", value)
    if size > message_bytes_max:
        raise MessageTooLarge(f"a message of {size} bytes; at most {message_bytes_max} are allowed")
    return payload, size + MESSAGE_BYTES_MORE


def _text_bytes(what: str, text: str) -> int:
    if not isinstance(text, str):
        raise InvalidRequest(f"{what} is text, not {type(text).__name__}")
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} cannot be written as UTF-8: {error}") from None


class Columns(NamedTuple):
    """Many messages at once; a column that is None is empty for all of them."""

    payloads: list[Buffer]
    keys: list[str | None] | None
    attributes: list[Mapping[str, str] | None] | None
    event_times_us: list[int | None] | None

    def parcel(self, first: int, end: int, size: int, publish_time_us: int, deadline: float) -> Parcel:
        parcel = Parcel(publish_time_us, deadline)
        parcel.payloads = self.payloads[first:end]
        parcel.keys = None if self.keys is None else self.keys[first:end]
        parcel.attributes = None if self.attributes is None else self.attributes[first:end]
        parcel.event_times_us = None if self.event_times_us is None else self.event_times_us[first:end]
        parcel.count = end - first
        parcel.bytes = size
        parcel.awaited = parcel.count
        return parcel

    def pick(self, indexes: Sequence[int]) -> "Columns":
        return Columns(
            [self.payloads[index] for index in indexes],
            None if self.keys is None else [self.keys[index] for index in indexes],
            None if self.attributes is None else [self.attributes[index] for index in indexes],
            None if self.event_times_us is None else [self.event_times_us[index] for index in indexes],
        )

    def check(self) -> None:
        """Whether the columns fit together. What is in them is looked at by the encoder."""
        count = len(self.payloads)
        columns = (("keys", self.keys), ("attributes", self.attributes), ("event times", self.event_times_us))
        for name, column in columns:
            if column is not None and len(column) != count:
                raise InvalidRequest(f"{count} payloads and {len(column)} {name} do not fit together")

    def divide(self, batch_bytes: int, batch_count: int) -> Iterator[tuple[int, int, int]]:
        """First, end and size of each batch. A message that is larger than a batch should be has one of its own.

        Messages are often alike: taking a few less than fitted last time, and looking at their sum only, costs a third
        of an exact division.
        """
        count = len(self.payloads)
        first = guess = 0
        while first < count:
            end = min(first + guess, count)
            size = sum(self._sizes(first, end))
            if size > batch_bytes or (2 * size < batch_bytes and end < count and guess < batch_count):
                end, size = self._divide_exactly(first, min(first + batch_count, count), batch_bytes, 2 * guess)
                guess = end - first if end - first == batch_count else (end - first) * 7 // 8
            yield first, end, size + MESSAGE_BYTES_MORE * (end - first)
            first = end

    def _divide_exactly(self, first: int, end_max: int, batch_bytes: int, span: int) -> tuple[int, int]:
        """End and size of the batch that begins at `first`; `span` messages are looked at to begin with."""
        while True:
            span = max(span, 64)
            sizes = [*accumulate(self._sizes(first, min(first + span, end_max)))]
            if sizes[-1] > batch_bytes or first + span >= end_max:
                taken = max(1, bisect_right(sizes, batch_bytes))
                return first + taken, sizes[taken - 1]
            span *= 4

    def _sizes(self, first: int, end: int) -> Iterator[int]:
        """More or less: a text counts its characters."""
        sizes: Iterator[int] = map(len, self.payloads[first:end])
        if self.keys is not None:
            sizes = map(add, sizes, (len(key or "") for key in self.keys[first:end]))
        if self.attributes is not None:
            sizes = map(add, sizes, map(_attribute_bytes, self.attributes[first:end]))
        return sizes


def _attribute_bytes(attributes: Mapping[str, str] | None) -> int:
    return sum(len(name) + len(value) for name, value in attributes.items()) if attributes else 0
