"""`danube serve`: a broker in the foreground, until it is told to stop."""

import os
from pathlib import Path

import click

from .errors import Refused

PORTS = click.IntRange(0, 65535)


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("danube-data"),
    show_default="./danube-data",
    help="Where messages and metadata are kept.",
)
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A YAML file: see docs/configuration.md."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--native-port", type=PORTS, default=6651, show_default=True, help="For clients; 0 picks a free one.")
@click.option("--http-port", type=PORTS, default=8650, show_default=True, help="For health and metrics; 0 likewise.")
@click.option("--insecure", is_flag=True, help="Listen on other addresses than loopback, without authentication.")
@click.option(
    "--disk-lost",
    is_flag=True,
    help="Start with an empty journal beside known metadata: accepts that its messages are gone.",
)
def serve(
    data_dir: Path,
    config_file: Path | None,
    host: str,
    native_port: int,
    http_port: int,
    insecure: bool,
    disk_lost: bool,
) -> None:
    """Start a broker: everything in one process.

    Ctrl-C or SIGTERM stop it in good order: what was accepted is written and answered first. A second one ends it at
    once; nothing that was acknowledged is lost by that.
    """
    from pydanube.broker import check_exposure
    from pydanube.model.errors import InvalidRequest

    from .config import settings_from
    from .serving import Options, run

    try:
        check_exposure(host, insecure=insecure)
    except InvalidRequest as error:
        message = f"listening on {host} without authentication lets everybody in who can reach it"
        raise Refused(message, "leave --host away, or say --insecure if that is what you want") from error
    source = str(config_file) if config_file is not None else "the configuration"
    settings = settings_from(_read(config_file), os.environ, source=source)
    run(settings, Options(data_dir, host, native_port, http_port, disk_lost))


def _read(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Refused(f"the configuration {path} cannot be read: {reason}", "check the path after --config") from error
