"""Topics, subscriptions and the journal's identity: what their transactions allow and refuse."""

import pytest

from pydanube import metadata
from pydanube.metadata import Entry, KeyTree, Put, Transaction, TransactionResult, keys
from pydanube.model import Offset, SubscriptionId, TopicId, TopicName
from pydanube.model.errors import DataDamaged, UnsupportedVersion

NAME = TopicName("default", "orders")
TOPIC = keys.Topic(id=TopicId((1 << 64) - 2), created_us=1, durability=keys.Durability.FSYNC)


@pytest.fixture
def tree() -> KeyTree:
    tree = KeyTree()
    tree.apply(keys.create_namespace("default", keys.Namespace(created_us=0)))
    return tree


def do(tree: KeyTree, transaction: Transaction) -> TransactionResult:
    return tree.apply(transaction).result


def entry(tree: KeyTree, key: str) -> Entry:
    found = tree.find(key)
    assert found is not None
    return found


def test_values_are_written_like_this_for_ever() -> None:
    subscription = keys.Subscription(id=SubscriptionId(7), start=Offset(42), created_us=3)
    assert TOPIC.encode() == (
        b'{"id":18446744073709551614,"created_us":1,"durability":"fsync","partitions":0,"retention":null,"format":1}'
    )
    assert subscription.encode() == b'{"id":7,"start":42,"created_us":3,"format":1}'
    assert keys.Tombstone(topic="/default/orders", deleted_us=9).encode() == (
        b'{"topic":"/default/orders","deleted_us":9,"format":1}'
    )
    assert keys.Namespace(created_us=5).encode() == b'{"created_us":5,"auto_create_topics":true,"format":1}'
    assert keys.journal_identity(b"\x00\xab", Offset(6)).encode() == (
        b'{"id":"00ab","ceiling":6,"floor":0,"is_founded":false,"format":1}'
    )


def test_keys_lead_both_ways() -> None:
    assert keys.topic_key(NAME) == "/topics/default/orders"
    assert keys.parse_topic_key("/topics/default/orders") == NAME
    assert keys.tombstone_key(TOPIC.id) == "/tombstones/fffffffffffffffe"
    assert keys.parse_tombstone_key("/tombstones/fffffffffffffffe") == TOPIC.id
    assert keys.subscription_key(TopicId(10), "s") == "/subscriptions/000000000000000a/s"
    assert keys.parse_subscription_key("/subscriptions/000000000000000a/s") == (10, "s")
    with pytest.raises(ValueError, match="64 bits"):
        keys.tombstone_key(TopicId(1 << 64))


def test_a_name_is_given_once(tree: KeyTree) -> None:
    assert do(tree, keys.create_topic(NAME, TOPIC)).succeeded
    refused = do(tree, keys.create_topic(NAME, keys.Topic(id=TopicId(5), created_us=2, durability=None)))
    assert not refused.succeeded
    namespace, topic = refused.found
    assert namespace is not None
    assert topic is not None
    assert keys.decode(topic, keys.Topic) == TOPIC
    missing = do(tree, keys.create_topic(TopicName("nowhere", "orders"), TOPIC))
    assert (missing.succeeded, missing.found) == (False, (None, None))


def test_a_deleted_topic_leaves_a_tombstone_and_frees_its_name(tree: KeyTree) -> None:
    do(tree, keys.create_topic(NAME, TOPIC))
    key = keys.topic_key(NAME)
    made = entry(tree, key)
    subscription = keys.Subscription(id=SubscriptionId(7), start=Offset(42), created_us=3)
    create = keys.create_subscription(key, made.revision, TOPIC.id, "s", subscription)
    assert do(tree, create).succeeded
    assert not do(tree, create).succeeded
    assert keys.decode(entry(tree, keys.subscription_key(TOPIC.id, "s")), keys.Subscription) == subscription

    assert do(tree, keys.delete_topic(NAME, TOPIC, made.revision, deleted_us=9)).succeeded
    assert tree.keys_under(keys.subscriptions_prefix(TOPIC.id)) == []
    tombstone = keys.decode(entry(tree, keys.tombstone_key(TOPIC.id)), keys.Tombstone)
    assert tombstone == keys.Tombstone(topic="/default/orders", deleted_us=9)

    other = keys.Topic(id=TopicId(5), created_us=2, durability=None)
    assert not other.is_reliable
    assert do(tree, keys.create_topic(NAME, other)).succeeded
    assert not do(tree, keys.delete_topic(NAME, TOPIC, made.revision, deleted_us=9)).succeeded
    assert not do(tree, create).succeeded  # by somebody who has not heard of the deletion
    assert do(tree, keys.drop_tombstone(TOPIC.id)).deleted == 1


def test_a_subscription_is_deleted_by_revision(tree: KeyTree) -> None:
    do(tree, keys.create_topic(NAME, TOPIC))
    key = keys.topic_key(NAME)
    create = keys.create_subscription(
        key,
        entry(tree, key).revision,
        TOPIC.id,
        "s",
        keys.Subscription(id=SubscriptionId(7), start=Offset(0), created_us=3),
    )
    made = do(tree, create).revision
    assert not do(tree, keys.delete_subscription(TOPIC.id, "s", made - 1)).succeeded
    assert do(tree, keys.delete_subscription(TOPIC.id, "s", made)).succeeded


def test_the_ceiling_only_rises(tree: KeyTree) -> None:
    identity = keys.journal_identity(b"\x01" * 16, Offset(1000))
    assert do(tree, keys.claim_journal(identity)).succeeded
    assert not do(tree, keys.claim_journal(identity)).succeeded
    revision = tree.revision
    assert do(tree, keys.raise_ceiling(identity, revision, Offset(2000))).succeeded
    assert not do(tree, keys.raise_ceiling(identity, revision, Offset(3000))).succeeded
    raised = keys.decode(entry(tree, keys.JOURNAL_KEY), keys.JournalIdentity)
    with pytest.raises(ValueError, match="must not fall"):
        keys.raise_ceiling(raised, tree.revision, Offset(1999))


def test_another_journal_begins_above_the_ceiling(tree: KeyTree) -> None:
    identity = keys.journal_identity(b"\x01" * 16, Offset(1000))
    do(tree, keys.claim_journal(identity))
    assert do(tree, keys.found_journal(identity, tree.revision)).succeeded
    founded = keys.decode(entry(tree, keys.JOURNAL_KEY), keys.JournalIdentity)
    assert (founded.is_founded, founded.id, founded.ceiling) == (True, identity.id, 1000)
    with pytest.raises(ValueError, match="must be above"):
        keys.adopt_journal(founded, tree.revision, b"\x02" * 16, Offset(1000))
    assert do(tree, keys.adopt_journal(founded, tree.revision, b"\x02" * 16, Offset(2000))).succeeded
    adopted = keys.decode(entry(tree, keys.JOURNAL_KEY), keys.JournalIdentity)
    assert (adopted.id, adopted.floor, adopted.ceiling, adopted.is_founded) == ("02" * 16, 1000, 2000, False)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b'{"format":2,"created_us":5}', UnsupportedVersion),
        (b'{"format":2}', UnsupportedVersion),
        (b'{"format":1,"created_us":5,"more":1}', DataDamaged),
        (b'{"format":1}', DataDamaged),
        (b'{"created_us":5}', DataDamaged),
        (b"", DataDamaged),
    ],
)
def test_what_cannot_be_read_is_refused(tree: KeyTree, value: bytes, error: type[Exception]) -> None:
    do(tree, Transaction(then=(Put("/namespaces/new", value),)))
    with pytest.raises(error, match="/namespaces/new"):
        keys.decode(entry(tree, "/namespaces/new"), keys.Namespace)


@pytest.mark.parametrize("door", [metadata, keys])
def test_the_doors_show_what_they_name(door: object) -> None:
    names = getattr(door, "__all__")  # noqa: B009  (the type of a door is only known as an object)
    assert all(hasattr(door, name) for name in names)
    assert list(names) == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
