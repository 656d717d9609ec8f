"""The broker's settings: data, validated once."""

from dataclasses import dataclass, field

from pydanube.model.limits import KIB, MESSAGE_BYTES_MAX, MIB
from pydanube.storage import Retention, StorageSettings


@dataclass(frozen=True)
class BrokerSettings:
    storage: StorageSettings = field(default_factory=StorageSettings)
    retention: Retention = field(default_factory=Retention)
    memory_bytes: int = 256 * MIB  # of topics with durability memory, all together
    message_bytes_max: int = MESSAGE_BYTES_MAX
    publish_bytes: int = 32 * MIB  # granted to producers at a time, the whole broker
    standing_credit_bytes: int = 64 * KIB  # that every connection has without asking
    delivery_bytes: int = 1 * MIB  # in one frame to a consumer, at most, unless one batch is larger
    outbound_bytes_max: int = 8 * MIB  # waiting in a socket before nothing more is sent to it
    questions_max: int = 256  # of one connection that are not answered yet
    hello_seconds: float = 5.0
    upkeep_seconds: float = 10.0
    close_seconds: float = 10.0
