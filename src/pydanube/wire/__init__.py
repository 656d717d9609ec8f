"""The native protocol, without any IO: frames, control bodies, legal moves. One codec for both ends."""

from . import hot, messages
from .frames import HEAD_BYTES, Frame, Kind, frame_parts
from .inbound import Inbound
from .messages import PROTOCOL_VERSION, decode, encode, error_from, error_reply
from .moves import BROKER_MAY_SEND, CLIENT_MAY_SEND, HELLO_BYTES_MAX, Receiver, State

__all__ = [
    "BROKER_MAY_SEND",
    "CLIENT_MAY_SEND",
    "HEAD_BYTES",
    "HELLO_BYTES_MAX",
    "PROTOCOL_VERSION",
    "Frame",
    "Inbound",
    "Kind",
    "Receiver",
    "State",
    "decode",
    "encode",
    "error_from",
    "error_reply",
    "frame_parts",
    "hot",
    "messages",
]
