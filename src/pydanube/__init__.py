"""Danube in Python: publish/subscribe messaging and streaming."""

from .client import (
    Client,
    Consumer,
    Message,
    Producer,
    PublishErrors,
    ReceivedBatch,
    SentMessage,
    connect,
    connect_blocking,
)
from .model.errors import (
    BufferFull,
    ClientClosed,
    ConnectionLost,
    DanubeError,
    SubscriptionBusy,
    TopicMismatch,
    UnknownTopic,
)

__all__ = [
    "BufferFull",
    "Client",
    "ClientClosed",
    "ConnectionLost",
    "Consumer",
    "DanubeError",
    "Message",
    "Producer",
    "PublishErrors",
    "ReceivedBatch",
    "SentMessage",
    "SubscriptionBusy",
    "TopicMismatch",
    "UnknownTopic",
    "connect",
    "connect_blocking",
]
