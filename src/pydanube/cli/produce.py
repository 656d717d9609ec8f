"""`danube produce`: lines, or made-up messages, into a topic."""

import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

import pydanube

from .errors import Refused
from .lines import Group, first, lines_of, made_up, paced
from .output import echo_json, plural, show_bytes
from .progress import Moving, moving
from .target import JSON, URL, with_client

_RATE_FROM = 1000  # messages: a rate of fewer means nothing


@click.command()
@click.argument("topic")
@click.option("--file", "path", type=click.Path(path_type=Path), help="Its lines, instead of those of standard input.")
@click.option("--key", help="A key for all of them: messages of one key stay in order.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="So many messages a second.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="So many messages at most.")
@click.option("--size", type=click.IntRange(1), metavar="BYTES", help="Made-up messages of this size, no lines.")
@URL
@JSON
def produce(
    topic: str,
    path: Path | None,
    key: str | None,
    rate: float | None,
    count: int | None,
    size: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Publish lines, or made-up messages.

    Lines are those of standard input, or of a file. A TOPIC that does not exist is created. What is counted is on disk,
    unless the topic stores nothing.

    \b
    echo hello | danube produce greetings
    danube produce load --size 1024 --count 100000
    """
    if path is not None and size is not None:
        raise click.UsageError("--file and --size exclude each other")
    is_typed = path is None and size is None and sys.stdin.isatty()
    if is_typed:
        click.echo("Type messages, one a line. Ctrl-D ends.", err=True)
    with _source(path, size, count) as groups, moving(f"to {topic}", count, silent=is_typed) as moved:

        async def work(client: pydanube.Client) -> float:
            return await _publish(client, topic, key, paced(first(groups, count), rate), moved)

        seconds = None
        with suppress(KeyboardInterrupt):
            seconds = with_client(url, work)
    if seconds is None:
        click.echo(f"Interrupted: {plural(moved.messages, 'message')} acknowledged.", err=True)
        sys.exit(130)
    reached = moved.messages / seconds
    if as_json:
        facts = {"topic": topic, "messages": moved.messages, "bytes": moved.bytes, "seconds": seconds}
        echo_json({**facts, "messages_per_second": reached, "mb_per_second": moved.bytes / seconds / 1e6})
    else:
        speed = f" in {seconds:.2f} s, {reached:,.0f}/s" if moved.messages >= _RATE_FROM else ""
        click.echo(f"{plural(moved.messages, 'message')} ({show_bytes(moved.bytes)}) published to {topic}{speed}.")


@contextmanager
def _source(path: Path | None, size: int | None, count: int | None) -> Iterator[AsyncIterator[Group]]:
    if size is not None:
        yield made_up(size, count)
        return
    if path is None:
        yield lines_of(sys.stdin.fileno())
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", "check the path after --file") from error
    try:
        yield lines_of(fd)
    finally:
        os.close(fd)


async def _publish(
    client: pydanube.Client, topic: str, key: str | None, groups: AsyncIterator[Group], moved: Moving
) -> float:
    producer = await client.producer(topic, reliable=await _is_reliable(client, topic))
    started = time.perf_counter()
    async for group in groups:
        await producer.send_many(group, keys=None if key is None else [key] * len(group))
        moved.add(len(group), sum(map(len, group)))
    return time.perf_counter() - started


async def _is_reliable(client: pydanube.Client, topic: str) -> bool:
    """What the topic is; a new one is reliable."""
    try:
        return bool((await client.describe_topic(topic))["reliable"])
    except pydanube.UnknownTopic:
        return True
