"""Sockets: where the broker meets the network. Listens on loopback unless it is told otherwise."""

import asyncio
from ipaddress import ip_address

from pydanube.model.errors import AddressUnusable, InvalidRequest

from .broker import Broker


def check_exposure(host: str, *, insecure: bool) -> None:
    """Another address than loopback lets anyone in who can reach it: that has to be asked for in so many words."""
    if insecure or host == "localhost":
        return
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise InvalidRequest(
            f"listening on {host} without authentication lets everybody in; say --insecure if that is what you want"
        )


class NativeServer:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @classmethod
    async def start(cls, broker: Broker, host: str, port: int) -> "NativeServer":
        try:
            server = await broker.loop.create_server(broker.new_session, host, port, backlog=1024)
        except OSError as error:
            raise AddressUnusable(f"{host}:{port} cannot be listened on: {error.strerror}") from error
        return cls(server)

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Takes no more connections; those that are open are the broker's."""
        self._server.close()
