"""`danube doctor`: one line for each thing that a broker needs of its machine."""

import sys
from pathlib import Path

import click

from .output import echo_json

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=Path("danube-data"),
    show_default="./danube-data",
    help="Where the broker keeps its data, or will: that disk is measured.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def doctor(data_dir: Path, as_json: bool) -> None:
    """Check whether this machine can run a broker well.

    Writes a file of 64 MiB beside the data to measure the disk, and removes it. Exit status 1: something fails.
    """
    from . import checks

    folder = checks.existing_folder(data_dir)
    found = [
        checks.check_python(),
        checks.check_clock(),
        checks.check_open_files(),
        checks.check_port("native-port", 6651, data_dir),
        checks.check_port("http-port", 8650, data_dir),
        checks.check_space(folder),
        *checks.check_disk(folder),
    ]
    is_well = all(check.level is not checks.Level.FAIL for check in found)
    if as_json:
        echo_json({"ok": is_well, "checks": found})
    else:
        for check in found:
            level = click.style(f"{check.level.value:<4}", fg=_COLOURS[check.level.value])
            click.echo(f"{level}  {check.name:<11}  {check.text}")
    sys.exit(0 if is_well else 1)
