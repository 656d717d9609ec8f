"""The nouns: names, positions, errors, limits, the clock. Imports nothing of the project."""

from . import errors, limits
from .buffers import Buffer
from .clock import Clock, SystemClock
from .errors import ERRORS_BY_CODE, DanubeError, Remedy
from .names import DEFAULT_NAMESPACE, TopicName, parse_namespace, parse_subscription, parse_topic
from .positions import (
    SEQUENCE_MODULUS,
    Epoch,
    LogEnds,
    Offset,
    OffsetRange,
    ProducerId,
    RoundNumber,
    SubscriptionId,
    TopicId,
)

__all__ = [
    "DEFAULT_NAMESPACE",
    "ERRORS_BY_CODE",
    "SEQUENCE_MODULUS",
    "Buffer",
    "Clock",
    "DanubeError",
    "Epoch",
    "LogEnds",
    "Offset",
    "OffsetRange",
    "ProducerId",
    "Remedy",
    "RoundNumber",
    "SubscriptionId",
    "SystemClock",
    "TopicId",
    "TopicName",
    "errors",
    "limits",
    "parse_namespace",
    "parse_subscription",
    "parse_topic",
]
