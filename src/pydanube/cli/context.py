"""`danube context`: names for brokers, and which of them is meant when none is named."""

import os

import click

from pydanube.client.address import parse_url

from .contexts import URL_VARIABLE, Contexts, load, own_contexts_file, resolve, save
from .errors import Refused
from .output import console, echo_json, table


@click.group()
def context() -> None:
    """Name brokers, and choose the one that commands talk to.

    A command talks to the broker after --url (a URL or a context's name), else to that in DANUBE_URL, else to the
    context in use, else to the one on this machine.
    """


@context.command()
@click.argument("name")
@click.argument("url")
def add(name: str, url: str) -> None:
    """Give the broker at URL a NAME. The first one is used at once."""
    parse_url(url)
    path = own_contexts_file()
    contexts = load(path)
    if "/" in name:
        raise click.BadParameter("a context's name has no slash", param_hint="NAME")
    contexts.urls[name] = url
    contexts.current = contexts.current or name
    save(path, contexts)
    click.echo(f"{name} is {url}{', and in use' if contexts.current == name else ''}.")


@context.command()
@click.argument("name")
def use(name: str) -> None:
    """Talk to the broker of that NAME from now on."""
    path = own_contexts_file()
    contexts = load(path)
    _check(contexts, name)
    contexts.current = name
    save(path, contexts)
    click.echo(f"Commands talk to {name} now: {contexts.urls[name]}.")
    if os.environ.get(URL_VARIABLE):
        click.echo(f"{URL_VARIABLE} is set and goes before it.", err=True)


@context.command()
@click.argument("name")
def remove(name: str) -> None:
    """Forget a NAME."""
    path = own_contexts_file()
    contexts = load(path)
    _check(contexts, name)
    del contexts.urls[name]
    if contexts.current == name:
        contexts.current = None
    save(path, contexts)
    click.echo(f"{name} is forgotten.")


@context.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def list_(as_json: bool) -> None:
    """Show all names, and which broker is in use."""
    contexts = load(own_contexts_file())
    used = resolve(None, os.environ, contexts)
    if as_json:
        echo_json({"url": used, "current": contexts.current, "contexts": contexts.urls})
        return
    if contexts.urls:
        shown = table("Contexts", "", "name", "url")
        for name, url in sorted(contexts.urls.items()):
            shown.add_row("*" if name == contexts.current else "", name, url)
        console().print(shown)
    click.echo(f"Commands talk to {used}, {_why(contexts)}.")


def _why(contexts: Contexts) -> str:
    if os.environ.get(URL_VARIABLE):
        return f"from {URL_VARIABLE}"
    if contexts.current is not None:
        return f"context {contexts.current}"
    return "the default"


def _check(contexts: Contexts, name: str) -> None:
    if name not in contexts.urls:
        known = ", ".join(sorted(contexts.urls)) or "none yet"
        raise Refused(f"there is no context {name}", f"known are: {known}")
