"""The life of a broker process: folder, metadata, broker, ports; then waiting for a signal; then the same backwards."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

import click
import uvloop

from pydanube.admin.disk import TimedFiles
from pydanube.admin.http import HttpServer
from pydanube.broker import Broker, BrokerSettings, NativeServer
from pydanube.metadata.sqlite import SqliteStore
from pydanube.model import SystemClock
from pydanube.storage import Finding, Report

from .ports import Ports, remove_ports, write_ports

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MEANINGS = {
    Finding.TORN_TAIL: "The last write before the stop was never acknowledged and has been cut off",
    Finding.CORRUPTION: "Stored data is damaged",
    Finding.REPAIRED: "One of two copies was damaged; nothing is lost",
    Finding.MISSING_FILE: "A journal file is missing",
    Finding.CHECKPOINT: "A checkpoint is damaged; nothing is lost, the start only takes longer",
    Finding.INDEX: "An index is damaged; nothing is lost",
    Finding.ORPHAN: "The journal has a topic that the metadata does not know",
}
_LOSSES = (Finding.CORRUPTION, Finding.MISSING_FILE)


class Options(NamedTuple):
    data_dir: Path
    host: str
    native_port: int
    http_port: int
    disk_lost: bool


def run(settings: BrokerSettings, options: Options) -> None:
    uvloop.run(_serve(settings, options))


async def _serve(settings: BrokerSettings, options: Options) -> None:
    with _stop_signals() as stop:
        async with contextlib.AsyncExitStack() as stack:
            ports = await _start(settings, options, stack)
            _greet(options, ports)
            await stop.wait()
            click.echo("Stopping: no more connections, what was accepted is being written.")
        click.echo("Stopped in good order.")


async def _start(settings: BrokerSettings, options: Options, stack: contextlib.AsyncExitStack) -> Ports:
    """What is started here is ended by the stack, last things first, also when a later one fails to start."""
    data_dir, clock = options.data_dir, SystemClock()
    files = TimedFiles(data_dir / "journal")  # locks the folder, before anything in it is touched
    stack.callback(files.close)
    remove_ports(data_dir)  # of a broker that was killed
    metadata = await SqliteStore.open(data_dir / "metadata.sqlite", clock)
    stack.push_async_callback(metadata.close)
    broker = await Broker.start(settings, files, metadata, clock, Random(), disk_lost=options.disk_lost)
    stack.push_async_callback(broker.close)
    for report in broker.log.reports:
        click.secho(sentence(report), fg="red" if report.finding in _LOSSES else "yellow", err=True)
    http = await HttpServer.start(broker, files.times, options.host, options.http_port)
    stack.push_async_callback(http.close)
    native = await NativeServer.start(broker, options.host, options.native_port)
    stack.push_async_callback(native.close)
    ports = Ports(os.getpid(), options.host, native.port, http.port)
    write_ports(data_dir, ports)
    stack.callback(remove_ports, data_dir)
    return ports


def sentence(report: Report) -> str:
    advice = ". 'danube journal check' lists what is concerned" if report.finding in _LOSSES else ""
    return f"{_MEANINGS[report.finding]}: {report}{advice}."


def _greet(options: Options, ports: Ports) -> None:
    click.echo(f"Danube {version('pydanube')} is up. Ctrl-C stops it.")
    click.echo(f"  clients  {click.style(ports.url, bold=True)}")
    click.echo(f"  HTTP     {ports.http_url}  (/healthz /readyz /metrics)")
    click.echo(f"  data     {options.data_dir}")


@contextlib.contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """An event for the first signal; the second ends the process.

    Plain handlers and not those of the loop: they also run while recovery, or anything else, keeps the loop busy.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    heard = 0

    def hear(number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        heard += 1
        if heard > 1:
            os._exit(128 + number)
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
