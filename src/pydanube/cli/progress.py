"""A line on standard error that shows how far something has come and how fast; only where it is a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .output import console

if TYPE_CHECKING:
    from rich.progress import Progress


class Moving:
    """Counts messages and bytes, and shows them if there is something to show them on."""

    def __init__(self, progress: "Progress | None" = None, task: int = 0) -> None:
        self.messages = 0
        self.bytes = 0
        self._progress = progress
        self._task = task

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size
        if self._progress is not None:
            from rich.progress import TaskID

            elapsed = self._progress.tasks[self._task].elapsed or 0.0
            rates = f"{self.messages / elapsed:,.0f}/s  {self.bytes / elapsed / 1e6:,.1f} MB/s" if elapsed else ""
            self._progress.update(TaskID(self._task), completed=self.messages, rates=rates)


@contextmanager
def moving(what: str, total: int | None = None) -> Iterator[Moving]:
    if not sys.stderr.isatty():
        yield Moving()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    count = MofNCompleteColumn() if total is not None else TextColumn("{task.completed:,.0f} messages")
    columns = (TextColumn("{task.description}"), BarColumn(), count, TextColumn("{task.fields[rates]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console(stderr=True), transient=True) as progress:
        yield Moving(progress, progress.add_task(what, total=total, rates=""))
