"""/namespaces/<name>"""

from pydanube.metadata.transactions import Absent, Put, Transaction

from .records import Record

PREFIX = "/namespaces/"


class Namespace(Record, frozen=True):
    created_us: int


def namespace_key(name: str) -> str:
    return PREFIX + name


def create_namespace(name: str, namespace: Namespace) -> Transaction:
    key = namespace_key(name)
    return Transaction(when=(Absent(key),), then=(Put(key, namespace.encode()),))
