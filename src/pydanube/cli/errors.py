"""How a command fails: one sentence on what is wrong, one on what to do, exit status 1. Wrong usage is click's: 2."""

from typing import IO, Any

import click

from pydanube.model import DanubeError


class Failed(click.ClickException):
    """A DanubeError on its way to the terminal. `exit_code` is 1, as click has it."""

    def __init__(self, error: DanubeError) -> None:
        super().__init__(str(error))
        self._error = error

    def show(self, file: IO[Any] | None = None) -> None:
        label = f"Error {self._error.code}:" if self._error.code else "Error:"
        _show(label, self.message, self._error.advice, file)


class Refused(click.ClickException):
    """What the command line itself will not do, and the broker never heard of: a message and what to do about it."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice

    def show(self, file: IO[Any] | None = None) -> None:
        _show("Error:", self.message, self.advice, file)


def _show(label: str, message: str, advice: str, file: IO[Any] | None) -> None:
    click.echo(f"{click.style(label, fg='red', bold=True)} {as_sentence(message)}", file=file, err=file is None)
    click.echo(as_sentence(advice), file=file, err=file is None)


def as_sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    end = "" if text.endswith("?") else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


class SentenceGroup(click.Group):
    """A group whose commands may raise DanubeError."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DanubeError as error:
            raise Failed(error) from error
