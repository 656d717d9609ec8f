"""`danube namespace`: create, list, show, set, delete."""

from typing import Any

import click

import pydanube

from .facts import NamespaceFacts, namespace_facts
from .output import agree, console, echo_json, show_time, table
from .target import JSON, URL, with_client

AUTO_CREATE_HELP = "Whether a producer creates a topic that is not there."


@click.group()
def namespace() -> None:
    """Create, list, show, change and delete namespaces.

    A namespace is the first part of a topic's name: /namespace/name.
    """


@namespace.command()
@click.argument("name")
@click.option("--auto-create/--no-auto-create", default=True, show_default=True, help=AUTO_CREATE_HELP)
@URL
@JSON
def create(name: str, auto_create: bool, url: str | None, as_json: bool) -> None:
    """Create a namespace."""

    async def work(client: pydanube.Client) -> dict[str, Any]:
        await client.create_namespace(name, auto_create_topics=auto_create)
        return await client.describe_namespace(name)

    _show(with_client(url, work), as_json)


@namespace.command("list")
@URL
@JSON
def list_(url: str | None, as_json: bool) -> None:
    """List all namespaces."""

    async def work(client: pydanube.Client) -> list[dict[str, Any]]:
        return [await client.describe_namespace(name) for name in await client.list_namespaces()]

    found = with_client(url, work)
    if as_json:
        echo_json(found)
        return
    shown = table("Namespaces", "namespace", ">topics", "producers create topics", "created (UTC)")
    for each in map(namespace_facts, found):
        shown.add_row(each.namespace, f"{each.topics:,}", _yes(each), show_time(each.created_us))
    console().print(shown)


@namespace.command()
@click.argument("name")
@URL
@JSON
def show(name: str, url: str | None, as_json: bool) -> None:
    """Show one namespace."""
    _show(with_client(url, lambda client: client.describe_namespace(name)), as_json)


@namespace.command("set")
@click.argument("name")
@click.option("--auto-create/--no-auto-create", default=None, help=AUTO_CREATE_HELP)
@URL
@JSON
def set_(name: str, auto_create: bool | None, url: str | None, as_json: bool) -> None:
    """Change a namespace."""
    if auto_create is None:
        raise click.UsageError("say --auto-create or --no-auto-create")

    async def work(client: pydanube.Client) -> dict[str, Any]:
        await client.set_namespace(name, auto_create_topics=auto_create)
        return await client.describe_namespace(name)

    _show(with_client(url, work), as_json)


@namespace.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@URL
@JSON
def delete(name: str, yes: bool, url: str | None, as_json: bool) -> None:
    """Delete a namespace. It must have no topics."""

    async def work(client: pydanube.Client) -> None:
        await client.describe_namespace(name)
        agree(f"Delete namespace {name}?", yes=yes)
        await client.delete_namespace(name)

    with_client(url, work)
    if as_json:
        echo_json({"namespace": name, "deleted": True})
    else:
        click.echo(f"Namespace {name} is deleted.")


def _show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        echo_json(facts)
        return
    found = namespace_facts(facts)
    click.echo(f"{click.style(found.namespace, bold=True)}  created {show_time(found.created_us)} UTC")
    click.echo(f"topics                   {found.topics:,}")
    click.echo(f"producers create topics  {_yes(found)}")


def _yes(found: NamespaceFacts) -> str:
    return "yes" if found.auto_create_topics else "no"
