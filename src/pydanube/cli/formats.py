"""How `danube consume` prints a message: text, JSON, hexadecimal, or as a pattern says. Pure."""

import base64
import re
from collections.abc import Callable

import msgspec

from pydanube.client import Message

Format = Callable[[Message], bytes]

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}
_FIELDS: dict[str, Callable[[Message], bytes]] = {
    "%k": lambda message: (message.key or "").encode(),
    "%v": lambda message: message.payload,
    "%o": lambda message: b"%d" % message.offset,
    "%p": lambda message: b"" if message.partition is None else b"%d" % message.partition,
    "%t": lambda message: message.topic.encode(),
    "%T": lambda message: message.publish_time.isoformat().encode(),
    "%%": lambda _message: b"%",
}
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160)) if chr(code) != "\t"}


def make_format(name: str, *, for_terminal: bool) -> Format:
    """ValueError: there is no such format."""
    if name == "text":
        return _terminal_text if for_terminal else _text
    if name == "json":
        return _json
    if name == "hex":
        return lambda message: message.payload.hex().encode() + b"\n"
    if "%" not in name:
        raise ValueError(f"{name!r} is neither text, json nor hex, and a pattern has a field such as %v")
    return _pattern(name)


def _text(message: Message) -> bytes:
    return message.payload + b"\n"


def _terminal_text(message: Message) -> bytes:
    """What would move the cursor or change colours is shown, not done."""
    return message.payload.decode(errors="backslashreplace").translate(_CONTROL).encode() + b"\n"


def _json(message: Message) -> bytes:
    facts: dict[str, object] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "key": message.key,
        "publish_time": message.publish_time,
        "event_time": message.event_time,
        "attributes": dict(message.attributes),
        "producer": message.producer,
    }
    try:
        facts["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        facts["payload_base64"] = base64.b64encode(message.payload).decode()
    return msgspec.json.encode(facts) + b"\n"


def _pattern(text: str) -> Format:
    parts: list[bytes | Callable[[Message], bytes]] = []
    for piece in re.split(r"(%.|\\.)", text, flags=re.DOTALL):
        if piece.startswith("%"):
            if piece not in _FIELDS:
                raise ValueError(f"{piece!r} is no field; known are {' '.join(_FIELDS)}")
            parts.append(_FIELDS[piece])
        elif piece:
            parts.append(_ESCAPES.get(piece, piece).encode())
    return lambda message: b"".join(part if isinstance(part, bytes) else part(message) for part in parts)
