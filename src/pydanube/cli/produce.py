"""`danube produce`: lines, or made-up messages, into a topic."""

import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import pydanube

from .errors import Refused
from .lines import Group, first, lines_of, made_up, paced
from .output import echo_json, show_bytes
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
    """Publish lines of a file or of standard input, or made-up messages.

    A TOPIC that does not exist is created. Each message is on disk when it is counted.

    \b
    echo hello | danube produce greetings
    danube produce load --size 1024 --count 100000
    """
    if path is not None and size is not None:
        raise click.UsageError("--file and --size exclude each other")
    with _source(path) as fd, moving(f"to {topic}", count) as moved:
        if size is None and fd == sys.stdin.fileno() and sys.stdin.isatty():
            click.echo("Type messages, one a line. Ctrl-D ends.", err=True)

        async def work(client: pydanube.Client) -> float:
            groups = lines_of(fd) if size is None else made_up(size, count)
            return await _publish(client, topic, key, paced(first(groups, count), rate), moved)

        try:
            seconds = with_client(url, work)
        except KeyboardInterrupt:
            click.echo(f"Interrupted: {moved.messages:,} messages were acknowledged.", err=True)
            sys.exit(130)
    rates = {"messages_per_second": moved.messages / seconds, "mb_per_second": moved.bytes / seconds / 1e6}
    if as_json:
        echo_json({"topic": topic, "messages": moved.messages, "bytes": moved.bytes, "seconds": seconds, **rates})
    else:
        plural = "" if moved.messages == 1 else "s"
        speed = f" in {seconds:.2f} s, {rates['messages_per_second']:,.0f}/s" if moved.messages >= _RATE_FROM else ""
        click.echo(f"{moved.messages:,} message{plural} ({show_bytes(moved.bytes)}) published to {topic}{speed}.")


@contextmanager
def _source(path: Path | None) -> Iterator[int]:
    if path is None:
        yield sys.stdin.fileno()
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", "check the path after --file") from error
    try:
        yield fd
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
