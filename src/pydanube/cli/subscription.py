"""`danube subscription`: list, show, delete."""

from typing import Any

import click

import pydanube

from .facts import SubscriptionFacts, subscription_facts
from .output import agree, console, echo_json, plural, table
from .target import JSON, URL, with_client


@click.group()
def subscription() -> None:
    """List, show and delete subscriptions.

    A subscription is a named place in a topic: it remembers what was acknowledged. 'danube consume' makes one.
    """


@subscription.command("list")
@click.argument("topic")
@URL
@JSON
def list_(topic: str, url: str | None, as_json: bool) -> None:
    """List the subscriptions of a TOPIC, and how far each has come."""

    async def work(client: pydanube.Client) -> list[dict[str, Any]]:
        names = await client.list_subscriptions(topic)
        return [await client.describe_subscription(topic, name) for name in names]

    found = with_client(url, work)
    if as_json:
        echo_json(found)
        return
    if not found:
        click.echo("Nobody is subscribed: 'danube consume TOPIC --subscription NAME' makes a subscription.")
        return
    shown = table("Subscriptions", "subscription", "type", "consumer", ">not acknowledged")
    for each in map(subscription_facts, found):
        is_connected = any(part.connected for part in each.partitions)
        shown.add_row(each.subscription, each.type, "connected" if is_connected else "none", f"{each.lag:,}")
    console().print(shown)


@subscription.command()
@click.argument("topic")
@click.argument("name")
@URL
@JSON
def show(topic: str, name: str, url: str | None, as_json: bool) -> None:
    """Show the subscription NAME on a TOPIC, for each partition."""
    facts = with_client(url, lambda client: client.describe_subscription(topic, name))
    if as_json:
        echo_json(facts)
        return
    found = subscription_facts(facts)
    click.echo(f"{click.style(found.subscription, bold=True)} on {found.topic}, {found.type}\n")
    shown = table("", "topic", ">position", ">end", ">not acknowledged", ">gaps", "consumer")
    shown.title = None
    for each in found.partitions:
        shown.add_row(
            each.topic,
            f"{each.position:,}",
            f"{each.end:,}",
            f"{each.lag:,}",
            f"{each.ranges:,}",
            "connected" if each.connected else "none",
        )
    console().print(shown)


@subscription.command()
@click.argument("topic")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@URL
@JSON
def delete(topic: str, name: str, dry_run: bool, yes: bool, url: str | None, as_json: bool) -> None:
    """Delete the subscription NAME on a TOPIC: its place is forgotten, messages are not touched."""

    async def work(client: pydanube.Client) -> SubscriptionFacts:
        found = subscription_facts(await client.describe_subscription(topic, name))
        if not dry_run:
            agree(f"Delete subscription {name} with {plural(found.lag, 'message')} not acknowledged?", yes=yes)
            await client.delete_subscription(topic, name)
        return found

    found = with_client(url, work)
    if as_json:
        facts = {"subscription": name, "topic": found.topic, "lag": found.lag}
        echo_json({**facts, "deleted": not dry_run, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"Would delete {name} on {found.topic} with {plural(found.lag, 'message')} not acknowledged.")
    else:
        click.echo(f"Subscription {name} on {found.topic} is deleted.")
