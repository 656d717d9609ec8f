"""The one grammar of names: topics, namespaces, subscriptions.

A topic is written ``/namespace/name``; a name without a slash means ``/default/name``. A part consists of
letters and digits of any script, ``_`` and ``-``: what Danube's own clients accept, so that both lanes see the
same topics. Partition N of a partitioned topic is the topic ``/namespace/name-part-N``; that ending is reserved.
"""

import re
import unicodedata
from typing import NamedTuple

from .errors import InvalidName
from .limits import NAME_BYTES_MAX

DEFAULT_NAMESPACE = "default"

_PART = re.compile(r"\w[\w-]*")
_PARTITION = re.compile(r"(?P<base>.+)-part-(?P<number>0|[1-9][0-9]{0,5})")


class TopicName(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"/{self.namespace}/{self.name}"

    @property
    def base(self) -> "TopicName":
        """The partitioned topic that this partition belongs to, or the topic itself."""
        match = _PARTITION.fullmatch(self.name)
        return TopicName(self.namespace, match["base"]) if match else self

    @property
    def partition(self) -> int | None:
        match = _PARTITION.fullmatch(self.name)
        return int(match["number"]) if match else None

    def with_partition(self, number: int) -> "TopicName":
        if self.partition is not None:
            raise InvalidName(f"topic {self} is a partition already and cannot be divided again")
        return parse_topic(f"{self}-part-{number}")


def _check_part(kind: str, text: str) -> str:
    if not text:
        raise InvalidName(f"a {kind} name must not be empty")
    if len(text.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise InvalidName(f"{kind} name {text[:20]!r}… is longer than {NAME_BYTES_MAX} bytes")
    if not _PART.fullmatch(text):
        raise InvalidName(
            f"{kind} name {text!r} may contain only letters, digits, '_' and '-', and must not begin with '-'"
        )
    if unicodedata.normalize("NFC", text) != text:
        raise InvalidName(f"{kind} name {text!r} must be in Unicode normal form C")
    return text


def parse_namespace(text: str) -> str:
    return _check_part("namespace", text)


def parse_subscription(text: str) -> str:
    return _check_part("subscription", text)


def parse_topic(text: str) -> TopicName:
    if "/" not in text:
        return TopicName(DEFAULT_NAMESPACE, _check_part("topic", text))
    parts = text.split("/")
    if len(parts) != 3 or parts[0]:
        raise InvalidName(f"topic {text!r} must be written /namespace/name, or name alone")
    return TopicName(_check_part("namespace", parts[1]), _check_part("topic", parts[2]))
