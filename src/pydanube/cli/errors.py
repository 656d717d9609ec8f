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
        click.echo(f"{click.style(label, fg='red', bold=True)} {_sentence(self.message)}", file=file, err=file is None)
        click.echo(_sentence(self._error.advice), file=file, err=file is None)


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


class SentenceGroup(click.Group):
    """A group whose commands may raise DanubeError."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DanubeError as error:
            raise Failed(error) from error
