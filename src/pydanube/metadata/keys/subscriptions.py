"""/subscriptions/<topic id>/<name>

Under the topic's id, not its name: a new topic of an old name begins without subscriptions.
"""

from pydanube.metadata.transactions import Absent, Delete, Put, Transaction, Unchanged
from pydanube.model import Offset, SubscriptionId, TopicId

from .records import Record, hex_id

PREFIX = "/subscriptions/"


class Subscription(Record, frozen=True):
    id: SubscriptionId
    start: Offset  # resolved when it was created: "latest" must not mean something else after a restart
    created_us: int


def subscriptions_prefix(topic: TopicId) -> str:
    return f"{PREFIX}{hex_id(topic)}/"


def subscription_key(topic: TopicId, name: str) -> str:
    return subscriptions_prefix(topic) + name


def parse_subscription_key(key: str) -> tuple[TopicId, str]:
    topic, name = key.removeprefix(PREFIX).split("/")
    return TopicId(int(topic, 16)), name


def create_subscription(
    topic_key: str, topic_revision: int, topic: TopicId, name: str, subscription: Subscription
) -> Transaction:
    """Refused if the name is taken, or if the topic has changed: it may be deleted, or another one by now."""
    key = subscription_key(topic, name)
    return Transaction(
        when=(Unchanged(topic_key, topic_revision), Absent(key)), then=(Put(key, subscription.encode()),)
    )


def delete_subscription(topic: TopicId, name: str, revision: int) -> Transaction:
    key = subscription_key(topic, name)
    return Transaction(when=(Unchanged(key, revision),), then=(Delete(key),))
