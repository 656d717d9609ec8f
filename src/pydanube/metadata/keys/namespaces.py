"""/namespaces/<name>"""

from pydanube.metadata.transactions import Absent, Delete, Put, Transaction, Unchanged

from .records import Record

PREFIX = "/namespaces/"


class Namespace(Record, frozen=True):
    created_us: int
    auto_create_topics: bool = True  # whether publishing to a topic that is not there creates it


def namespace_key(name: str) -> str:
    return PREFIX + name


def parse_namespace_key(key: str) -> str:
    return key.removeprefix(PREFIX)


def create_namespace(name: str, namespace: Namespace) -> Transaction:
    key = namespace_key(name)
    return Transaction(when=(Absent(key),), then=(Put(key, namespace.encode()),))


def change_namespace(name: str, namespace: Namespace, revision: int) -> Transaction:
    key = namespace_key(name)
    return Transaction(when=(Unchanged(key, revision),), then=(Put(key, namespace.encode()),))


def delete_namespace(name: str, revision: int) -> Transaction:
    """The caller has seen that it has no topics; creating one compares with the namespace's row."""
    key = namespace_key(name)
    return Transaction(when=(Unchanged(key, revision),), then=(Delete(key),))
