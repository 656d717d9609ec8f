"""`danube consume`: the messages of a topic, to standard output."""

import re
import sys
from contextlib import suppress
from datetime import datetime

import click

import pydanube

from .errors import Refused
from .facts import SubscriptionFacts, subscription_facts, topic_facts
from .formats import Format, make_format
from .target import URL, with_client

_BATCH_MESSAGES = 1000  # printed before they are acknowledged


class Ending:
    """Says when everything that was there at the beginning has come. Pure."""

    def __init__(self, facts: SubscriptionFacts) -> None:
        self._left = {part.topic: part.lag for part in facts.partitions if part.lag}
        self._end = {part.topic: part.end for part in facts.partitions}
        self._seen: dict[str, int] = {}

    @property
    def is_reached(self) -> bool:
        return not self._left

    def count(self, topic: str, partition: int | None, offsets: list[int]) -> None:
        name = topic if partition is None else f"{topic}-part-{partition}"
        # After a reconnect messages may come a second time, in order again.
        fresh = [offset for offset in offsets if self._seen.get(name, -1) < offset < self._end[name]]
        self._seen[name] = max(self._seen.get(name, -1), offsets[-1])
        if name in self._left:
            self._left[name] -= len(fresh)
            if self._left[name] <= 0 or self._seen[name] >= self._end[name] - 1:
                del self._left[name]


def parse_from(text: str) -> str | int | datetime:
    """For click: `type=parse_from`."""
    if text in ("earliest", "latest"):
        return text
    if re.fullmatch("[0-9]+", text):
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("say earliest, latest, an offset, or a time like 2026-01-31T12:00:00Z") from None


@click.command()
@click.argument("topic")
@click.option("--subscription", required=True, metavar="NAME", help="Remembers what was consumed; made if it is new.")
@click.option(
    "--from",
    "start",
    type=parse_from,
    default="earliest",
    show_default=True,
    metavar="earliest|latest|OFFSET|TIME",
    help="Where a new subscription begins. One that is there goes on where it is.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many messages.")
@click.option("--exit-at-end", is_flag=True, help="End when everything is consumed that is there now.")
@click.option(
    "--format",
    "format_name",
    default="text",
    show_default=True,
    metavar="text|json|hex|PATTERN",
    help=r"A pattern has fields %k key, %v payload, %o offset, %p partition, %t topic, %T time: '%k\t%v\n'.",
)
@URL
def consume(
    topic: str,
    subscription: str,
    start: str | int | datetime,
    count: int | None,
    exit_at_end: bool,
    format_name: str,
    url: str | None,
) -> None:
    """Print the messages of a topic.

    What was printed is acknowledged, and does not come again for this subscription. Ctrl-C ends it.

    \b
    danube consume greetings --subscription me
    danube consume orders --subscription audit --exit-at-end --format json
    """
    try:
        shape = make_format(format_name, for_terminal=sys.stdout.isatty())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None

    async def work(client: pydanube.Client) -> None:
        consumer = await client.subscribe(topic, subscription, start=start)
        ending = await _ending(client, topic, subscription) if exit_at_end else None
        await _print(consumer, shape, count, ending)
        with suppress(pydanube.ConnectionLost):  # what was not acknowledged in time comes again, as always
            await consumer.flush_acks()

    try:
        with_client(url, work)
    except KeyboardInterrupt:
        click.echo(err=True)
        sys.exit(130)


async def _ending(client: pydanube.Client, topic: str, subscription: str) -> Ending:
    if not topic_facts(await client.describe_topic(topic)).reliable:
        raise Refused(f"topic {topic} stores nothing, so it has no end", "leave --exit-at-end away, or use --count")
    return Ending(subscription_facts(await client.describe_subscription(topic, subscription)))


async def _print(consumer: pydanube.Consumer, shape: Format, count: int | None, ending: Ending | None) -> None:
    """By the batch: print, then acknowledge. What was taken and not printed goes back."""
    if ending is not None and ending.is_reached:
        return
    out, left = sys.stdout.buffer, count
    async for batch in consumer.batches(max_messages=_BATCH_MESSAGES):
        messages = batch.messages[:left]
        out.write(b"".join(map(shape, messages)))
        out.flush()
        await consumer.ack(messages)
        if left is not None:
            left -= len(messages)
        if ending is not None:
            ending.count(batch.topic, batch.partition, [message.offset for message in messages])
        if left == 0 or (ending is not None and ending.is_reached):
            return
