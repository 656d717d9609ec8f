"""Positions and identities. All are plain integers at run time; the types keep them apart."""

from typing import NamedTuple, NewType

Offset = NewType("Offset", int)  # of a message in a topic, u64
TopicId = NewType("TopicId", int)  # random incarnation number, u64, never reused
SubscriptionId = NewType("SubscriptionId", int)  # the same for subscriptions
ProducerId = NewType("ProducerId", int)  # the same for producers; 0: not idempotent
RoundNumber = NewType("RoundNumber", int)  # of a round in a journal, u64, from 1
Epoch = NewType("Epoch", int)  # of a writer, u32

SEQUENCE_MODULUS = 1 << 32


class LogEnds(NamedTuple):
    """How far a topic has come, by stage. Acks and readers stop at `durable`, local deletion at `archived`."""

    archived: Offset
    durable: Offset
    accepted: Offset


class OffsetRange(NamedTuple):
    first: int
    end: int  # exclusive
