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

BATCH_BYTES = 256 << 10
DEFAULT_BYTES = 512 << 20
DEFAULT_COUNT_MAX = 3_000_000


@click.group()
def bench() -> None:
    """Measure a broker: throughput and latency.

    Without --url a broker is started for it in a temporary folder. Producers and consumers are processes of their own,
    and every message that was moved is checked: each one, once, in order. Otherwise there are no figures.
    """


def _options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option("--size", type=click.IntRange(8), default=128, show_default=True, help="Bytes of a message."),
        click.option("--count", type=click.IntRange(1), help="Messages.  [default: 3,000,000, or 512 MiB of them]"),
        click.option("--batch", type=click.IntRange(1), help="Messages of a batch.  [default: 256 KiB of them]"),
        click.option("--producers", type=click.IntRange(1), default=1, show_default=True),
        click.option("--consumers", type=click.IntRange(1), default=1, show_default=True),
        click.option("--topics", type=click.IntRange(1), default=1, show_default=True),
        click.option("--durability", type=click.Choice(["fsync", "memory"]), default="fsync", show_default=True),
        click.option("--compression", type=click.Choice(["lz4", "zstd"]), help="[default: none]"),
        click.option("--url", metavar="URL", help="A broker that runs already.  [default: one of its own]"),
        JSON,
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _measure(work: str, url: str | None, as_json: bool, count: int, batch: int | None, **chosen: Any) -> None:
    from .runs import Bench, Load

    batch = batch or max(1, BATCH_BYTES // chosen["size"])
    if chosen["topics"] > chosen["producers"]:
        chosen["producers"] = chosen["topics"]  # a topic that nobody writes to is not measured
    if url is not None:
        figures = Bench(Load(chosen_url(url), messages=count, batch=batch, **chosen)).run(work)
    else:
        with tempfile.TemporaryDirectory(prefix="danube-bench-") as folder, BrokerProcess(Path(folder)) as broker:
            figures = Bench(Load(broker.url, messages=count, batch=batch, **chosen)).run(work)
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
@_options
def publish(size: int, count: int | None, **chosen: Any) -> None:
    """Publish in batches, as fast as the broker acknowledges."""
    _measure("publish", size=size, count=_count(count, size), rate=0, **chosen)


@bench.command()
@_options
def consume(size: int, count: int | None, **chosen: Any) -> None:
    """Consume what is stored, from its beginning."""
    _measure("consume", size=size, count=_count(count, size), rate=0, **chosen)


@bench.command("end-to-end")
@_options
def end_to_end(size: int, count: int | None, **chosen: Any) -> None:
    """Publish and consume at the same time."""
    _measure("end-to-end", size=size, count=_count(count, size), rate=0, **chosen)


@bench.command()
@_options
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Messages a second.")
def latency(size: int, count: int | None, rate: int, **chosen: Any) -> None:
    """One message at a time, at an even rate: how long from sending to receiving."""
    _measure("latency", size=size, count=count or 6 * rate, rate=rate, **chosen)
