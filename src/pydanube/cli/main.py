"""The command `danube`: a table of its parts. A part is imported when it is called, so that help is quick."""

from importlib import import_module

import click

from .errors import SentenceGroup

# Name, what its help says in the list, and where it is. A line here and a file beside this one make a new command.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": (
        "Start a broker: everything in one process.",
        "pydanube.cli.serve:serve",
    ),
    "produce": ("Publish lines, or made-up messages.", "pydanube.cli.produce:produce"),
    "consume": ("Print the messages of a topic.", "pydanube.cli.consume:consume"),
    "topic": ("Create, list, show and delete topics; how long they keep.", "pydanube.cli.topic:topic"),
    "subscription": ("List, show and delete subscriptions.", "pydanube.cli.subscription:subscription"),
    "namespace": ("Create, list, show, change and delete namespaces.", "pydanube.cli.namespace:namespace"),
    "bench": ("Measure a broker: throughput and latency.", "pydanube.cli.bench:bench"),
    "context": ("Name brokers, and choose the one that commands talk to.", "pydanube.cli.context:context"),
    "explain": ("Say what an error code means and what to do about it.", "pydanube.cli.explain:explain"),
    "doctor": ("Check whether this machine can run a broker well.", "pydanube.cli.doctor:doctor"),
    "journal": ("Look into a data folder: is it whole, what is in it.", "pydanube.cli.journal:journal"),
}


class LazyGroup(SentenceGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][1].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (text, _) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pydanube", prog_name="danube", message="%(prog)s %(version)s")
def main() -> None:
    """Danube: publish/subscribe messaging and streaming; an acknowledged message is on disk."""
