"""Errors that users see, grouped by what the caller should do about them.

The code is stable, crosses the wire and is never given to another error; the text is free. `Remedy` is what a
program does without reading the text. Codes are numbered by room: 1xx names and requests, 2xx batches,
3xx producers, 4xx storage, 5xx metadata, 6xx client.
"""

from enum import Enum
from typing import ClassVar


class Remedy(Enum):
    RETRY = "retry"  # the same request may succeed later
    LOOKUP = "lookup"  # ask again who owns the topic
    FIX = "fix"  # the request is wrong: change it
    STOP = "stop"  # an operator has to act


class DanubeError(Exception):
    """The root. Every subclass that is raised has a code, a remedy and one sentence on what to do."""

    code: ClassVar[int] = 0
    remedy: ClassVar[Remedy] = Remedy.STOP
    advice: ClassVar[str] = "see the broker's log"


class InvalidName(DanubeError):
    code, remedy = 101, Remedy.FIX
    advice = "use letters, digits, '_' and '-'; topics are written /namespace/name"


class UnknownTopic(DanubeError):
    code, remedy = 102, Remedy.FIX
    advice = "create the topic first, or check its name"


class OffsetOutOfRange(DanubeError):
    """The offset asked for is not there: below the first that is kept, or above the end."""

    code, remedy = 103, Remedy.FIX
    advice = "ask for the first and last offsets and start between them"


class InvalidAck(DanubeError):
    code, remedy = 104, Remedy.FIX
    advice = "acknowledge only messages that were delivered"


class UnknownSubscription(DanubeError):
    code, remedy = 105, Remedy.FIX
    advice = "create the subscription first, or check its name"


class ProtocolError(DanubeError):
    """The peer sent something that the protocol does not allow; the connection is closed."""

    code, remedy = 106, Remedy.STOP
    advice = "use a client of a version that fits the broker; another program may be talking to this port"


class NotAllowed(DanubeError):
    code, remedy = 107, Remedy.FIX
    advice = "check the credentials and what they permit"


class AlreadyExists(DanubeError):
    code, remedy = 108, Remedy.FIX
    advice = "choose another name, or use what is there"


class TopicMismatch(DanubeError):
    """The topic exists with other settings than asked for."""

    code, remedy = 109, Remedy.FIX
    advice = "ask for the settings that the topic has, or delete and create it again"


class SubscriptionBusy(DanubeError):
    code, remedy = 110, Remedy.RETRY
    advice = "an exclusive subscription has one consumer at a time; close the other one, or use another subscription"


class InvalidRequest(DanubeError):
    code, remedy = 111, Remedy.FIX
    advice = "see the documentation of the call"


class UnknownNamespace(DanubeError):
    code, remedy = 112, Remedy.FIX
    advice = "create the namespace first, or check its name"


class MessageTooLarge(DanubeError):
    code, remedy = 113, Remedy.FIX
    advice = "send a smaller message, or raise limits.message_bytes"


class AddressUnusable(DanubeError):
    code, remedy = 114, Remedy.STOP
    advice = "stop what is using the port, or choose another one (0 picks a free one)"


class InvalidBatch(DanubeError):
    """Bytes that are not a batch, or a batch that lies about itself."""

    code, remedy = 201, Remedy.FIX
    advice = "encode the batch with this library's encoder; if it was, the bytes were damaged on the way"


class BatchTooLarge(InvalidBatch):
    code = 202
    advice = "send fewer or smaller messages in one batch"


class WrongTopic(InvalidBatch):
    """A batch that was encoded for another topic: a buffer was reused or sent to the wrong place."""

    code = 203
    advice = "encode the batch anew for the topic that it is sent to"


class UnsupportedVersion(DanubeError):
    """Data written by a newer version of this software."""

    code, remedy = 204, Remedy.STOP
    advice = "use the version of danube that wrote the data, or a newer one"


class MissingCodec(DanubeError):
    code, remedy = 205, Remedy.STOP
    advice = "install the package that the message names"


class OutOfSequence(DanubeError):
    code, remedy = 301, Remedy.FIX
    advice = "send a producer's batches in order and resend them byte-identical"


class UnknownProducer(DanubeError):
    """The broker has forgotten this producer, so it cannot tell a resend from a new batch."""

    code, remedy = 302, Remedy.FIX
    advice = "open the producer again: it then starts with a new id"


class ProducerFenced(DanubeError):
    code, remedy = 303, Remedy.STOP
    advice = "another producer of the same name has taken over; close this one"


class StorageFailed(DanubeError):
    """A write or sync failed; nothing of it was acknowledged."""

    code, remedy = 401, Remedy.RETRY
    advice = "check the disk; what was not acknowledged can be sent again"


class DiskFull(StorageFailed):
    code = 402
    advice = "free disk space or shorten retention; publishing goes on by itself when there is room"


class DataDamaged(DanubeError):
    """Stored bytes fail their checksum."""

    code, remedy = 403, Remedy.STOP
    advice = "run 'danube journal check' on the data folder; other topics and offsets are not affected"

    def __init__(self, message: str, first_offset: int | None = None, end_offset: int | None = None) -> None:
        super().__init__(message)
        self.first_offset = first_offset  # the messages concerned, where they are known
        self.end_offset = end_offset


class DataFolderInUse(DanubeError):
    code, remedy = 404, Remedy.STOP
    advice = "stop the other process, or use another --data-dir"


class DataFolderUnusable(DanubeError):
    code, remedy = 405, Remedy.STOP
    advice = "check the folder's path, owner and permissions"


class JournalMismatch(DanubeError):
    """The journal in the folder is not the one that the metadata belongs to."""

    code, remedy = 406, Remedy.STOP
    advice = "put the right data folder back, or accept the loss of its messages with --disk-lost"


class StagingFull(StorageFailed):
    code = 407
    advice = "commit or discard what is staged, or raise staging.max_bytes"


class StagedLost(DanubeError):
    """A release names parked batches that are gone; nothing was released."""

    code, remedy = 408, Remedy.RETRY
    advice = "stage the batches again"


class StorageClosed(StorageFailed):
    code = 409
    advice = "the broker is shutting down; try again when it is back"


class Overloaded(StorageFailed):
    """More is waiting for the disk than may wait; nothing of this request was taken."""

    code = 410
    advice = "wait for earlier requests to be answered"


class MetadataFailed(DanubeError):
    code, remedy = 501, Remedy.RETRY
    advice = "check the metadata store"


class RevisionCompacted(DanubeError):
    """A watch asked for changes that are no longer kept."""

    code, remedy = 502, Remedy.RETRY
    advice = "read the range again and watch from the revision that it returns"


class LeaseNotFound(DanubeError):
    code, remedy = 503, Remedy.RETRY
    advice = "the lease has expired: grant a new one and register again"


class ConnectionLost(DanubeError):
    """The connection to the broker ended before the answer came."""

    code, remedy = 601, Remedy.RETRY
    advice = "check that the broker is running and can be reached"


class BufferFull(DanubeError):
    code, remedy = 602, Remedy.RETRY
    advice = "wait for flush(), or use send(), which waits by itself"


class ClientClosed(DanubeError):
    code, remedy = 603, Remedy.FIX
    advice = "open a new client"


class UsedAfterFork(DanubeError):
    code, remedy = 604, Remedy.FIX
    advice = "connect in the process that uses the connection: call connect() after the fork"


def _collect(root: type[DanubeError]) -> dict[int, type[DanubeError]]:
    table: dict[int, type[DanubeError]] = {}
    waiting = [root]
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if kind is not root:
            if kind.code in table:
                raise ValueError(f"error code {kind.code} is taken by {table[kind.code].__name__}")
            table[kind.code] = kind
    return table


ERRORS_BY_CODE = _collect(DanubeError)
