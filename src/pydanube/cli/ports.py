"""`ports.json` in the data folder: where a running broker can be reached. It is there while the broker runs."""

import os
from pathlib import Path

import msgspec

NAME = "ports.json"


class Ports(msgspec.Struct, frozen=True):
    pid: int
    host: str
    native: int
    http: int

    @property
    def url(self) -> str:
        return f"danube://{_in_url(self.host)}:{self.native}"

    @property
    def http_url(self) -> str:
        return f"http://{_in_url(self.host)}:{self.http}"


def _in_url(host: str) -> str:
    """What a client on this machine writes: listening everywhere includes loopback."""
    named = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{named}]" if ":" in named else named


def write_ports(data_dir: Path, ports: Ports) -> None:
    """As a whole or not at all: whoever waits for the file never reads half of it."""
    temporary = data_dir / f"{NAME}.new"
    temporary.write_bytes(msgspec.json.encode(ports) + b"\n")
    os.replace(temporary, data_dir / NAME)


def read_ports(data_dir: Path) -> Ports | None:
    try:
        return msgspec.json.decode((data_dir / NAME).read_bytes(), type=Ports)
    except FileNotFoundError:
        return None


def remove_ports(data_dir: Path) -> None:
    (data_dir / NAME).unlink(missing_ok=True)
