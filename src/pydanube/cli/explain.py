"""`danube explain CODE`: what an error code means and what to do about it."""

import inspect
import re

import click

from pydanube.model import DanubeError
from pydanube.model.errors import Remedy

from .errors import Refused, as_sentence
from .output import echo_json

_ROOMS = {1: "names and requests", 2: "batches", 3: "producers", 4: "storage", 5: "metadata", 6: "the client"}
_REMEDIES = {
    Remedy.RETRY: "The same request may succeed later; clients try again by themselves where that is safe.",
    Remedy.LOOKUP: "Ask again which broker serves the topic; clients do that by themselves.",
    Remedy.FIX: "The request is wrong: it fails again until it is changed.",
    Remedy.STOP: "Somebody has to act: trying again does not help.",
}


def known_errors() -> dict[int, type[DanubeError]]:
    """By code, those of the client included: the table in the model only knows its own."""
    import pydanube.client.errors  # noqa: F401 - defines more of them

    found: dict[int, type[DanubeError]] = {}
    waiting: list[type[DanubeError]] = [DanubeError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.code:
            found[kind.code] = kind
    return dict(sorted(found.items()))


@click.command()
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, or a list of them without CODE.")
def explain(code: str | None, as_json: bool) -> None:
    """Say what an error code means and what to do about it.

    CODE is the number that the error shows, or its name. Without it, all codes are listed.
    """
    errors = known_errors()
    if code is None:
        _list(list(errors.values()), as_json)
        return
    by_name = {kind.__name__.lower(): kind for kind in errors.values()}
    kind = errors.get(int(code)) if code.isdecimal() else by_name.get(code.lower())
    if kind is None:
        raise Refused(f"there is no error {code}", "'danube explain' lists all codes")
    if as_json:
        echo_json(_facts(kind))
        return
    click.secho(f"{kind.code} {kind.__name__}", bold=True)
    click.echo(f"{as_sentence(_meaning(kind))}\n")
    click.echo(f"What to do:  {as_sentence(kind.advice)}")
    click.echo(f"Remedy:      {kind.remedy.value}. {_REMEDIES[kind.remedy]}")
    click.echo(f"Concerns:    {_ROOMS[kind.code // 100]}.")


def _list(kinds: list[type[DanubeError]], as_json: bool) -> None:
    if as_json:
        echo_json([_facts(kind) for kind in kinds])
        return
    from .output import console, table

    shown = table("Error codes", ">code", "name", "remedy", "what to do")
    shown.columns[-1].no_wrap = False
    for kind in kinds:
        shown.add_row(f"{kind.code}", kind.__name__, kind.remedy.value, kind.advice)
    console().print(shown)


def _facts(kind: type[DanubeError]) -> dict[str, object]:
    return {
        "code": kind.code,
        "name": kind.__name__,
        "meaning": as_sentence(_meaning(kind)),
        "remedy": kind.remedy.value,
        "advice": as_sentence(kind.advice),
    }


def _meaning(kind: type[DanubeError]) -> str:
    """Its own docstring; where the name says it all, the name's words."""
    own = kind.__dict__.get("__doc__")
    if own:
        return " ".join(inspect.cleandoc(own).split())
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
