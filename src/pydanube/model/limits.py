"""Every limit in one table, checked against each other at import.

Sizes are bytes. A limit that crosses the wire or the disk is a promise to old data: raise it, never lower it.
"""

KIB = 1 << 10
MIB = 1 << 20

MESSAGE_BYTES_MAX = 4 * MIB  # payload, key and attributes of one message together
BATCH_BYTES_MAX = MESSAGE_BYTES_MAX + 64 * KIB  # also of a body after decompression
BATCH_RECORDS_MAX = 1 << 18
FRAME_BYTES_MAX = BATCH_BYTES_MAX + 1 * KIB
ROUND_BYTES_MAX = 8 * MIB  # soft: one frame that is larger still makes a round of its own
ROUND_ENTRIES_MAX = 1 << 16

NAME_BYTES_MAX = 200
KEY_BYTES_MAX = 64 * KIB

# Batches of one producer on one topic that may be unacknowledged at once; also how many the broker remembers,
# so that a resend is always answered with the original's offset.
PRODUCER_BATCHES_IN_FLIGHT_MAX = 32
PRODUCERS_PER_TOPIC_MAX = 10_000

ACK_RANGE_BYTES_MAX = 1 * MIB  # acknowledged ranges above a hole, per subscription
ACK_RANGE_BYTES_EACH = 16

CACHE_BYTES = 48 * MIB
JOURNAL_FILE_BYTES = 256 * MIB
LEDGER_BYTES_MAX = 256 * MIB
STAGING_BYTES_MAX = 1024 * MIB

INDEX_STRIDE_BYTES = 64 * KIB  # at most this much of a journal file is walked to find a batch


def _check() -> None:
    if BATCH_BYTES_MAX < MESSAGE_BYTES_MAX + KEY_BYTES_MAX:
        raise ValueError("a batch must have room for one largest message and its key")
    if FRAME_BYTES_MAX < BATCH_BYTES_MAX + KIB:
        raise ValueError("a frame must have room for one largest batch and its head")
    if ROUND_BYTES_MAX < FRAME_BYTES_MAX:
        raise ValueError("a round must have room for one largest frame")
    if JOURNAL_FILE_BYTES < 4 * ROUND_BYTES_MAX:
        raise ValueError("a journal file must have room for several rounds")
    if BATCH_RECORDS_MAX * 4 > BATCH_BYTES_MAX:
        raise ValueError("the offsets of a fullest batch must fit into a largest batch")


_check()
