"""Where the brokers are: `danube://host:6651,host2`. The first that answers is used."""

import re
from typing import NamedTuple

from pydanube.model.errors import InvalidRequest

PORT_DEFAULT = 6651
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[\w.-]+))(?::(?P<port>[0-9]{1,5}))?")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str) -> list[Address]:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme != "danube":
        raise InvalidRequest(f"a broker's address is written danube://host:{PORT_DEFAULT}, not {url!r}")
    return [_parse_address(part, url) for part in rest.rstrip("/").split(",")]


def _parse_address(text: str, url: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"] or PORT_DEFAULT) if match else 0
    if match is None or not 0 < port < 1 << 16:
        raise InvalidRequest(f"{text!r} in {url!r} is no host with a port")
    return Address(match["six"] or match["host"], port)
