"""`danube journal`: looking into a data folder, also while a broker is using it. Nothing in it is changed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import console, echo_json, parse_topic_id, show_bytes, show_id, show_time, table

if TYPE_CHECKING:
    from pydanube.storage.check import Progress
    from pydanube.storage.dump import DumpedEntry
    from pydanube.storage.facts import FileFacts, Inspection, TopicFacts

PROGRESS_FROM_BYTES = 64 << 20  # what is smaller is read in a blink
ROWS_MAX = 40  # of a table on the terminal; --json has all
PAYLOAD_SHOWN_MAX = 200

DATA_DIR = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


@click.group()
def journal() -> None:
    """Look into a data folder: is it whole, what is in it.

    DIR is the data folder: the journal lies directly in it or in its sub-folder "journal". A broker may be using it;
    nothing is changed.
    """


@journal.command()
@DATA_DIR
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def check(folder: Path, as_json: bool) -> None:
    """Check every byte of the journal in DIR and say what is in it.

    Exit status 0: whole. 1: damaged, and each finding is listed.
    """
    from pydanube.storage import OsFiles
    from pydanube.storage.check import check_folder, find_journal, is_in_use

    place = find_journal(folder)
    with _progress(place) as progress:
        inspection = check_folder(OsFiles(place, read_only=True), in_use=is_in_use(place), progress=progress)
    if as_json:
        import msgspec

        echo_json({"whole": inspection.is_whole, "folder": str(place), **msgspec.to_builtins(inspection)})
    else:
        _show(place, inspection)
    sys.exit(0 if inspection.is_whole else 1)


@contextmanager
def _progress(place: Path) -> "Iterator[Progress | None]":
    size = sum(path.stat().st_size for path in place.glob("*.journal"))
    if size < PROGRESS_FROM_BYTES or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking", total=size)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(place: Path, inspection: "Inspection") -> None:
    from rich.markup import escape

    out = console()
    used = " (in use by another process)" if inspection.in_use else ""
    name = inspection.journal_id or "without a legible id"
    out.print(f"Journal [bold]{name}[/bold] in {escape(str(place))}{used}\n", soft_wrap=True)
    _show_files(inspection)
    if inspection.topics:
        _show_topics(inspection.topics)
    if inspection.other_files:
        names = ", ".join(f"{other.name} ({show_bytes(other.size_bytes)})" for other in inspection.other_files)
        out.print(f"Also in the folder: {escape(names)}\n", soft_wrap=True)
    for report in inspection.findings:
        out.print(f"[yellow]•[/yellow] {escape(str(report))}", soft_wrap=True)
    if not inspection.is_whole:
        count = len(inspection.findings)
        out.print(f"[bold red]Damaged:[/bold red] {count} finding{'s' if count > 1 else ''}.")
    elif inspection.findings:
        out.print("[bold green]Whole.[/bold green] The torn tail was never acknowledged; the next start cuts it off.")
    else:
        live = " Its last round may be incomplete: it is being written." if inspection.in_use else ""
        out.print(f"[bold green]Whole.[/bold green]{live}")


def _show_files(inspection: "Inspection") -> None:
    shown = table("Files", "file", ">size", ">used", ">rounds", ">first", ">last", ">entries", "index")
    for file in inspection.files[:ROWS_MAX]:
        shown.add_row(
            file.name,
            show_bytes(file.size_bytes),
            show_bytes(file.used_bytes),
            f"{file.rounds:,}",
            *_round_range(file),
            f"{file.entries:,}",
            "none" if file.index == "missing" else file.index,
        )
    console().print(shown, "")
    _say_left_out(len(inspection.files), "files")
    shown = table("Checkpoints", "file", ">size", ">after round", "written (UTC)")
    for checkpoint in inspection.checkpoints:
        facts = ("damaged", "")
        if checkpoint.round_number is not None and checkpoint.time_us is not None:
            facts = (f"{checkpoint.round_number:,}", show_time(checkpoint.time_us))
        shown.add_row(checkpoint.name, show_bytes(checkpoint.size_bytes), *facts)
    if inspection.checkpoints:
        console().print(shown, "")


def _round_range(file: "FileFacts") -> tuple[str, str]:
    if file.first_round is None or file.last_round is None:
        return "", ""
    return f"{file.first_round:,}", f"{file.last_round:,}"


def _show_topics(topics: "list[TopicFacts]") -> None:
    shown = table(
        "Topics", "topic", ">first", ">end", ">bytes", ">ledgers", ">cursors", ">producers", ">parked", ">lost"
    )
    for topic in topics[:ROWS_MAX]:
        lost = sum(end - first for first, end in topic.lost)
        shown.add_row(
            show_id(topic.topic_id),
            f"{topic.first_offset:,}",
            f"{topic.end_offset:,}",
            show_bytes(topic.bytes),
            f"{len(topic.ledgers):,}",
            f"{len(topic.cursors):,}",
            f"{len(topic.producers):,}",
            f"{topic.parked_batches:,}",
            f"[red]{lost:,}[/red]" if lost else "0",
        )
    console().print(shown, "")
    _say_left_out(len(topics), "topics")


def _say_left_out(count: int, what: str) -> None:
    if count > ROWS_MAX:
        click.echo(f"… and {count - ROWS_MAX:,} more {what}: --json shows all of them\n")


@journal.command()
@DATA_DIR
@click.option(
    "--topic",
    "topic_id",
    type=parse_topic_id,
    metavar="ID",
    help="Only the entries of this topic (its id, as 'check' shows it).",
)
@click.option("--payloads", "with_payloads", is_flag=True, help="Show the messages too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line; payloads are in base64.")
def dump(folder: Path, topic_id: int | None, with_payloads: bool, as_json: bool) -> None:
    """Print one line for every entry of the journal in DIR, in the order in which they were written."""
    from pydanube.storage import OsFiles
    from pydanube.storage.check import find_journal
    from pydanube.storage.dump import dump_folder

    files = OsFiles(find_journal(folder), read_only=True)
    if not as_json:
        click.echo(_LINE.format("file", "round", "kind", "topic", "offsets", "bytes", "crc", "").rstrip())
    for entry in dump_folder(files, topic_id=topic_id, with_payloads=with_payloads):
        if as_json:
            echo_json(entry)
        else:
            _print_entry(entry)


# Fixed columns and no table: a dump is long, and it is searched and cut by other programs.
_LINE = "{:<20} {:>9} {:<12} {:<16} {:>23} {:>9} {:<4} {}"


def _print_entry(entry: "DumpedEntry") -> None:
    offsets = "" if entry.first_offset is None else f"{entry.first_offset}"
    if entry.end_offset is not None:
        offsets += f"..{entry.end_offset}"
    line = _LINE.format(
        entry.file,
        "" if entry.round_number is None else entry.round_number,
        entry.kind,
        "" if entry.topic_id is None else show_id(entry.topic_id),
        offsets,
        entry.length,
        "ok" if entry.crc_ok else "BAD",
        entry.detail,
    ).rstrip()
    click.echo(line if entry.crc_ok else click.style(line, fg="red"))
    for number, payload in enumerate(entry.payloads or ()):
        offset = f"{(entry.first_offset or 0) + number}" if entry.first_offset is not None else "-"
        click.echo(f"{offset:>30}  {_show_payload(payload)}")


def _show_payload(payload: bytes | None) -> str:
    """Text where it is text, else hexadecimal; cut where it is long."""
    if payload is None:
        return "null"
    part = payload[:PAYLOAD_SHOWN_MAX]
    rest = f" … {len(payload) - len(part):,} bytes more" if len(part) < len(payload) else ""
    try:
        text = part.decode()
    except UnicodeDecodeError:
        text = ""
    shown = text if text.isprintable() and (text or not part) else f"0x{part.hex()}"
    return shown + rest
