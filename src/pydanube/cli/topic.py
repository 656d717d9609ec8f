"""`danube topic`: create, list, show, delete, retention."""

import asyncio
from typing import Any

import click

import pydanube

from .facts import Retention, TopicFacts, topic_facts
from .output import agree, console, echo_json, plural, show_bytes, show_time, table
from .target import JSON, URL, with_client
from .units import parse_size, parse_time_us, write_size, write_time

_AT_ONCE = 100  # questions under way; a broker answers 256 of one connection


@click.group()
def topic() -> None:
    """Create, list, show and delete topics; how long they keep.

    A topic is written /namespace/name; a name alone means /default/name.
    """


@topic.command()
@click.argument("name", metavar="TOPIC")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="Divide it; the order then holds per key.")
@click.option("--non-reliable", is_flag=True, help="Store nothing: who listens gets it, at most once.")
@click.option(
    "--durability",
    type=click.Choice(["fsync", "memory"]),
    default="fsync",
    show_default=True,
    help="When a message counts as stored: synced to disk, or in memory (scratch topics).",
)
@URL
@JSON
def create(
    name: str, partitions: int | None, non_reliable: bool, durability: str, url: str | None, as_json: bool
) -> None:
    """Create a TOPIC."""

    async def work(client: pydanube.Client) -> dict[str, Any]:
        await client.create_topic(name, reliable=not non_reliable, partitions=partitions, durability=durability)
        return await client.describe_topic(name)

    facts = with_client(url, work)
    if as_json:
        echo_json(facts)
        return
    made = topic_facts(facts)
    divided = f", {plural(len(made.partitions), 'partition')}" if made.is_partitioned else ""
    click.echo(f"{made.topic} is there: {made.kind}{divided}.")


@topic.command("list")
@click.option("--namespace", default="", metavar="NAMESPACE", help="Only the topics of one.")
@URL
@JSON
def list_(namespace: str, url: str | None, as_json: bool) -> None:
    """List topics, with what is in them."""

    async def work(client: pydanube.Client) -> list[dict[str, Any]]:
        names = await client.list_topics(namespace)
        found: list[dict[str, Any]] = []
        for first in range(0, len(names), _AT_ONCE):
            asked = (client.describe_topic(name) for name in names[first : first + _AT_ONCE])
            for answer in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(answer, dict):
                    found.append(answer)
                elif not isinstance(answer, pydanube.UnknownTopic):  # deleted meanwhile
                    raise answer
        return found

    found = with_client(url, work)
    if as_json:
        echo_json(found)
        return
    if not found:
        click.echo("There are no topics yet: 'danube produce TOPIC' or 'danube topic create TOPIC' makes one.")
        return
    shown = table("Topics", "topic", "kind", ">partitions", ">messages", ">bytes", ">subscriptions")
    for each in map(topic_facts, found):
        shown.add_row(
            each.topic,
            each.kind,
            f"{len(each.partitions):,}" if each.is_partitioned else "–",
            f"{each.messages:,}" if each.reliable else "–",
            show_bytes(each.bytes) if each.reliable else "–",
            f"{len(each.subscriptions):,}",
        )
    console().print(shown)


@topic.command()
@click.argument("name", metavar="TOPIC")
@URL
@JSON
def show(name: str, url: str | None, as_json: bool) -> None:
    """Show a TOPIC: its settings, its partitions, who is subscribed."""
    facts = with_client(url, lambda client: client.describe_topic(name))
    if as_json:
        echo_json(facts)
        return
    found = topic_facts(facts)
    click.echo(f"{click.style(found.topic, bold=True)}  {found.kind}, created {show_time(found.created_us)} UTC")
    if found.reliable:
        click.echo(f"keeps          {say_retention(found.retention)}")
    click.echo(f"subscriptions  {', '.join(found.subscriptions) or 'none'}\n")
    _show_partitions(found)


def _show_partitions(found: TopicFacts) -> None:
    if not found.reliable:
        shown = table("", "partition" if found.is_partitioned else "topic", ">published", ">dropped")
        for each in found.partitions:
            shown.add_row(each.topic, f"{each.end:,}", f"{each.dropped:,}")
    else:
        place = "partition" if found.is_partitioned else "topic"
        shown = table("", place, ">messages", ">first", ">end", ">bytes", ">ledgers", "id")
        for each in found.partitions:
            shown.add_row(
                each.topic,
                f"{each.end - each.first:,}",
                f"{each.first:,}",
                f"{each.end:,}",
                show_bytes(each.bytes),
                f"{each.ledgers:,}",
                each.id,
            )
    shown.title = None
    console().print(shown)


def say_retention(retention: Retention | None) -> str:
    if retention is None:
        return "what the broker's configuration says"
    time = "for ever" if retention.time_us is None else f"for {write_time(retention.time_us)}"
    if retention.time_us == 0:
        time = "until consumed"
    size = "" if retention.bytes is None else f", at most {write_size(retention.bytes)} a partition"
    held = ", and longer what a subscription has not acknowledged" if retention.hold_unconsumed else ""
    return f"messages {time}{size}{held}"


@topic.command()
@click.argument("name", metavar="TOPIC")
@click.option("--yes", is_flag=True, help="Do not ask.")
@URL
@JSON
def delete(name: str, yes: bool, url: str | None, as_json: bool) -> None:
    """Delete a TOPIC with its messages and subscriptions, for ever."""

    async def work(client: pydanube.Client) -> TopicFacts:
        found = topic_facts(await client.describe_topic(name))
        losses = f"{plural(found.messages, 'message')} and {plural(len(found.subscriptions), 'subscription')}"
        agree(f"Delete {found.topic} with {losses}?", yes=yes)
        await client.delete_topic(name)
        return found

    found = with_client(url, work)
    if as_json:
        echo_json({"topic": found.topic, "deleted": True, "messages": found.messages})
    else:
        click.echo(f"{found.topic} is deleted.")


@topic.command()
@click.argument("name", metavar="TOPIC")
@click.option(
    "--time", "time", metavar="TIME", help="How long messages are kept: 7d, 12h, 0s (until consumed), forever."
)
@click.option("--bytes", "size", metavar="SIZE", help="How much is kept: 10GiB, or none for no limit.")
@click.option(
    "--hold-unconsumed/--no-hold-unconsumed",
    "hold",
    default=None,
    help="Whether messages that a subscription has not acknowledged stay in any case.",
)
@click.option("--default", "is_default", is_flag=True, help="The broker's configuration decides again.")
@URL
@JSON
def retention(
    name: str,
    time: str | None,
    size: str | None,
    hold: bool | None,
    is_default: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Show or set how long a TOPIC keeps its messages.

    What is not named stays as the topic has it; a topic that followed the broker's configuration so far then has no
    other limit.
    """
    is_change = time is not None or size is not None or hold is not None
    if is_default and is_change:
        raise click.UsageError("--default goes alone")

    async def work(client: pydanube.Client) -> dict[str, Any]:
        if is_default:
            await client.reset_retention(name)
        elif is_change:
            known = topic_facts(await client.describe_topic(name)).retention or Retention(None, None, True)
            await client.set_retention(
                name,
                time_us=known.time_us if time is None else _time(time),
                bytes=known.bytes if size is None else _size(size),
                hold_unconsumed=known.hold_unconsumed if hold is None else hold,
            )
        return await client.describe_topic(name)

    facts = with_client(url, work)
    if as_json:
        echo_json({"topic": facts["topic"], "retention": facts["retention"]})
    else:
        click.echo(f"{facts['topic']} keeps {say_retention(topic_facts(facts).retention)}.")


def _time(text: str) -> int | None:
    try:
        return None if text == "forever" else parse_time_us(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--time") from None


def _size(text: str) -> int | None:
    try:
        return None if text == "none" else parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bytes") from None
