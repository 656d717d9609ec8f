"""The HTTP port: is the broker alive, is it ready, what does it measure. On the broker's own event loop.

/healthz   200 for as long as the loop runs
/readyz    200 while the broker serves, else 503
/metrics   for Prometheus
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pydanube.broker import Broker
from pydanube.model.errors import AddressUnusable

from .disk import DiskTimes
from .process import process_gauges

_CLOSE_SECONDS = 2


def make_app(broker: Broker, disk: DiskTimes) -> Starlette:
    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        if broker.is_ready:
            return PlainTextResponse("ready\n")
        return PlainTextResponse("the broker is starting or closing\n", status_code=503)

    async def metrics(_request: Request) -> Response:
        text = broker.metrics.lines(broker.gauges() | process_gauges()) + disk.lines()
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process around it, which closes this server too."""
        yield


class HttpServer:
    def __init__(self, listener: socket.socket, server: _Server, task: "asyncio.Task[None]") -> None:
        self._listener = listener
        self._server = server
        self._task = task
        self.port = int(listener.getsockname()[1])

    @classmethod
    async def start(cls, broker: Broker, disk: DiskTimes, host: str, port: int) -> "HttpServer":
        listener = _listen(host, port)
        config = uvicorn.Config(
            make_app(broker, disk),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
        server = _Server(config)
        return cls(listener, server, broker.loop.create_task(server.serve([listener])))

    async def close(self) -> None:
        self._server.should_exit = True
        await self._task
        self._listener.close()


def _listen(host: str, port: int) -> socket.socket:
    """Made here and not by uvicorn, which ends the process when a port is taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # What Python adds to the system's own words names the address a second time.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise AddressUnusable(f"{host}:{port} cannot be listened on: {reason}") from error
