"""What all commands share in showing results: JSON, sizes, ids, tables on the terminal. rich is imported when used."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH_MIN = 120  # a narrower terminal wraps long lines: better than ids that are cut


def to_json(value: object) -> bytes:
    """One line of JSON. Ids are 64 random bits: as hexadecimal text they look as everywhere else, and survive readers
    whose numbers end at 2^53."""
    return msgspec.json.encode(_with_text_ids(msgspec.to_builtins(value)))


def _with_text_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: show_id(each) if key.endswith("_id") and isinstance(each, int) else _with_text_ids(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_with_text_ids(each) for each in value]
    return value


def echo_json(value: object) -> None:
    click.echo(to_json(value).decode())


def show_id(number: int) -> str:
    return f"{number:016x}"


def show_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def show_time(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def console(*, stderr: bool = False) -> "Console":
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    made.width = max(made.width, WIDTH_MIN)
    return made


def table(title: str, *columns: str) -> "Table":
    """Columns whose name begins with '>' are numbers: aligned to the right."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        made.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=True)
    return made


def agree(question: str, *, yes: bool) -> None:
    """Asks before something is lost, where somebody is there to answer: scripts are not stopped."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)


def parse_topic_id(text: str) -> int:
    """A topic id as messages show it. For click: `type=parse_topic_id`."""
    try:
        number = int(text, 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 64:
        raise click.BadParameter(f"{text!r} is not a topic id: up to 16 hexadecimal digits")
    return number
