"""A line on standard error that shows how far something has come and how fast; only where it is a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Moving:
    """Counts messages and bytes, and shows them if there is something to show them on."""

    def __init__(self, shown: "tuple[Progress, TaskID] | None" = None) -> None:
        self.messages = 0
        self.bytes = 0
        self._shown = shown

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size
        if self._shown is not None:
            progress, task = self._shown
            elapsed = progress.tasks[0].elapsed or 0.0
            rates = f"{self.messages / elapsed:,.0f}/s  {self.bytes / elapsed / 1e6:,.1f} MB/s" if elapsed else ""
            progress.update(task, completed=self.messages, rates=rates)

    def say(self, text: str, colour: str) -> None:
        """A line that stays, above the one that moves."""
        if self._shown is not None:
            self._shown[0].console.print(text, style=colour, markup=False)
        else:
            click.secho(text, fg=colour, err=True)


@contextmanager
def moving(what: str, total: int | None = None, *, silent: bool = False) -> Iterator[Moving]:
    if silent or not sys.stderr.isatty():
        yield Moving()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    count = "{task.completed:,.0f} messages" if total is None else "{task.completed:,.0f} of {task.total:,.0f}"
    columns = (TextColumn(what), BarColumn(bar_width=24), TextColumn(count), TextColumn("{task.fields[rates]}"))
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        yield Moving((progress, progress.add_task(what, total=total, rates="")))
