"""The client: publish, subscribe, read, administer. Async first; `connect_blocking` gives the same without `await`."""

from .admin import TopicOffsets
from .blocking import connect_blocking
from .client import Client, Health, connect
from .consumer import Consumer
from .errors import PublishErrors
from .producer import Producer
from .received import Message, ReceivedBatch
from .sent import SentMany, SentMessage

__all__ = [
    "Client",
    "Consumer",
    "Health",
    "Message",
    "Producer",
    "PublishErrors",
    "ReceivedBatch",
    "SentMany",
    "SentMessage",
    "TopicOffsets",
    "connect",
    "connect_blocking",
]
