"""What lies where in the metadata: keys, values, and the transactions that change them."""

from .journal import KEY as JOURNAL_KEY
from .journal import JournalIdentity, adopt_journal, claim_journal, found_journal, journal_identity, raise_ceiling
from .namespaces import PREFIX as NAMESPACES_PREFIX
from .namespaces import (
    Namespace,
    change_namespace,
    create_namespace,
    delete_namespace,
    namespace_key,
    parse_namespace_key,
)
from .records import decode
from .subscriptions import PREFIX as SUBSCRIPTIONS_PREFIX
from .subscriptions import (
    Subscription,
    create_subscription,
    delete_subscription,
    parse_subscription_key,
    subscription_key,
    subscriptions_prefix,
)
from .topics import PREFIX as TOPICS_PREFIX
from .topics import (
    TOMBSTONES_PREFIX,
    Durability,
    Tombstone,
    Topic,
    TopicRetention,
    change_topic,
    create_topic,
    delete_topic,
    drop_tombstone,
    parse_tombstone_key,
    parse_topic_key,
    tombstone_key,
    topic_key,
)

__all__ = [
    "JOURNAL_KEY",
    "NAMESPACES_PREFIX",
    "SUBSCRIPTIONS_PREFIX",
    "TOMBSTONES_PREFIX",
    "TOPICS_PREFIX",
    "Durability",
    "JournalIdentity",
    "Namespace",
    "Subscription",
    "Tombstone",
    "Topic",
    "TopicRetention",
    "adopt_journal",
    "change_namespace",
    "change_topic",
    "claim_journal",
    "create_namespace",
    "create_subscription",
    "create_topic",
    "decode",
    "delete_namespace",
    "delete_subscription",
    "delete_topic",
    "drop_tombstone",
    "found_journal",
    "journal_identity",
    "namespace_key",
    "parse_namespace_key",
    "parse_subscription_key",
    "parse_tombstone_key",
    "parse_topic_key",
    "raise_ceiling",
    "subscription_key",
    "subscriptions_prefix",
    "tombstone_key",
    "topic_key",
]
