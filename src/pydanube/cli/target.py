"""The broker that a command talks to: the option for it, and running something with a client."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import click

import pydanube

from .contexts import load, own_contexts_file, resolve

T = TypeVar("T")

URL = click.option(
    "--url",
    metavar="URL",
    help="The broker, as danube://host:6651 or by the name of a context. [default: DANUBE_URL, the context in use]",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def chosen_url(url: str | None) -> str:
    return resolve(url, os.environ, load(own_contexts_file()))


def run(work: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it is installed; the client alone does not need it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    result: T = uvloop.run(work)
    return result


def with_client(url: str | None, work: Callable[[pydanube.Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with pydanube.connect(chosen_url(url)) as client:
            return await work(client)

    return run(connected())
