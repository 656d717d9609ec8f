"""The command line of the bench."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pydanube.cli.launch import BrokerProcess
from pydanube.cli.output import console, echo_json, table
from pydanube.cli.target import JSON, chosen_url

from .figures import Figures

Command = Callable[..., None]
BATCH_BYTES = 256 << 10
DEFAULT_BYTES = 512 << 20
DEFAULT_COUNT_MAX = 3_000_000


@click.group()
def bench() -> None:
    """Measure a broker: throughput and latency.

    Without --url a broker is started for it in a temporary folder. Producers and consumers are processes of their own,
    and every message that was moved is checked: each one, once, in order. Otherwise there are no figures.
    """


SIZE = click.option("--size", type=click.IntRange(8), default=128, show_default=True, help="Bytes of a message.")
BATCH = click.option("--batch", type=click.IntRange(1), help="Messages of a batch.  [default: 256 KiB of them]")
PRODUCERS = click.option("--producers", type=click.IntRange(1), default=1, show_default=True, help="At least --topics.")
CONSUMERS = click.option(
    "--consumers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="At least --topics; each gets everything of its topic.",
)
TOPICS = click.option("--topics", type=click.IntRange(1), default=1, show_default=True)
COUNT = click.option("--count", type=click.IntRange(1), help="Messages.  [default: 3,000,000, or 512 MiB of them]")
DURABILITY = click.option("--durability", type=click.Choice(["fsync", "memory"]), default="fsync", show_default=True)
COMPRESSION = click.option("--compression", type=click.Choice(["lz4", "zstd"]), help="[default: none]")
BROKER = click.option("--url", metavar="URL", help="A broker that runs already.  [default: one of its own]")
THROUGHPUT = (SIZE, COUNT, BATCH, PRODUCERS, TOPICS, DURABILITY, COMPRESSION, BROKER, JSON)


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def _measure(
    work: str,
    *,
    url: str | None,
    as_json: bool,
    size: int,
    count: int,
    batch: int | None = None,
    producers: int = 1,
    consumers: int = 1,
    topics: int = 1,
    rate: int = 0,
    **chosen: Any,
) -> None:
    from .runs import Bench, Load

    def load(address: str) -> Load:
        return Load(
            url=address,
            size=size,
            messages=count,
            batch=batch or max(1, BATCH_BYTES // size),
            producers=max(producers, topics),  # a topic that nobody writes to, or reads, is not measured
            consumers=max(consumers, topics),
            topics=topics,
            rate=rate,
            **chosen,
        )

    if url is not None:
        figures = Bench(load(chosen_url(url))).run(work)
    else:
        with tempfile.TemporaryDirectory(prefix="danube-bench-") as folder, BrokerProcess(Path(folder)) as broker:
            figures = Bench(load(broker.url)).run(work)
    if as_json:
        echo_json(figures)
    else:
        _show(figures)


def _show(figures: Figures) -> None:
    columns = (
        "work",
        ">messages",
        ">bytes each",
        ">seconds",
        ">messages/s",
        ">MB/s",
        ">p50 ms",
        ">p99 ms",
        ">p99.9 ms",
    )
    shown = table("", *columns)
    shown.title = None
    latencies = (figures.p50_ms, figures.p99_ms, figures.p99_9_ms)
    shown.add_row(
        figures.work,
        f"{figures.messages:,}",
        f"{figures.size:,}",
        f"{figures.seconds:.2f}",
        f"{figures.messages_per_second:,.0f}",
        f"{figures.mb_per_second:,.1f}",
        *("–" if each is None else f"{each:.2f}" for each in latencies),
    )
    console().print(shown)
    if figures.latency_of is not None:
        click.echo(f"p50, p99, p99.9: {figures.latency_of}.")
    click.echo("All of it was checked: each message once and in order.")


def _count(count: int | None, size: int) -> int:
    return count or max(1, min(DEFAULT_COUNT_MAX, DEFAULT_BYTES // size))


@bench.command()
@_options(*THROUGHPUT)
def publish(size: int, count: int | None, **chosen: Any) -> None:
    """Publish in batches, as fast as the broker acknowledges."""
    _measure("publish", size=size, count=_count(count, size), **chosen)


@bench.command()
@_options(*THROUGHPUT, CONSUMERS)
def consume(size: int, count: int | None, **chosen: Any) -> None:
    """Consume what is stored, from its beginning."""
    _measure("consume", size=size, count=_count(count, size), **chosen)


@bench.command("end-to-end")
@_options(*THROUGHPUT, CONSUMERS)
def end_to_end(size: int, count: int | None, **chosen: Any) -> None:
    """Publish and consume at the same time."""
    _measure("end-to-end", size=size, count=_count(count, size), **chosen)


@bench.command()
@_options(SIZE, DURABILITY, COMPRESSION, BROKER, JSON)
@click.option("--count", type=click.IntRange(1), help="Messages.  [default: 6 seconds of them]")
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Messages a second.")
def latency(count: int | None, rate: int, **chosen: Any) -> None:
    """One message at a time, at an even rate: how long from sending to receiving."""
    _measure("latency", count=count or 6 * rate, rate=rate, **chosen)
