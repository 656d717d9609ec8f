"""The way to the broker for as long as a client lives: connections come and go, those who use them move along."""

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from pydanube.model.errors import ClientClosed, ConnectionLost, DanubeError, Remedy
from pydanube.wire import Kind, messages

from .address import Address
from .connection import Connection, Question
from .process import Home
from .retry import Backoff
from .tasks import Tasks

DIAL_S_MAX = 5.0  # for one address, greeting included
WAIT_S_MAX = 120.0  # for a connection, by a question that has none
_HARMLESS = (Kind.LOOKUP, Kind.LIST, Kind.OFFSETS)  # may be asked again when their answer is lost
A = TypeVar("A")


class Member(Protocol):
    """Lives on a connection and moves to the next one."""

    async def attach(self, connection: Connection) -> None: ...
    def detach(self, error: DanubeError) -> None: ...
    def fail(self, error: DanubeError) -> None:
        """It could not move: this is the end of it."""


class Link:
    def __init__(self, addresses: Sequence[Address], name: str) -> None:
        self.home = Home()
        self.tasks = Tasks()
        self.name = name
        self.address: Address | None = None
        self.welcome: messages.Welcome | None = None
        self._addresses = addresses
        self._connection: Connection | None = None
        self._members: list[Member] = []
        self._up = asyncio.Event()
        self._starting = asyncio.Lock()
        self._is_closed = False

    async def start(self) -> None:
        """The first connection, or ConnectionLost after one try of every address. Harmless when it is there."""
        self.home.check()
        async with self._starting:
            if self._is_closed:
                raise ClientClosed("the client is closed")
            if self.welcome is None:
                first = await self._dial()
                self._use(first)
                self.tasks.start(self._keep(first))

    async def connection(self) -> Connection:
        """A connection that is open, awaited for a while if there is none just now."""
        await self.start()
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while self._connection is None or not self._connection.is_open:
                    if self._is_closed:
                        raise ClientClosed("the client is closed")
                    self._up.clear()
                    await self._up.wait()
        except TimeoutError:
            raise ConnectionLost(f"no broker has answered for {WAIT_S_MAX:.0f} s") from None
        return self._connection

    async def ask(self, question: Question[A], message: messages.Message) -> A:
        while True:
            connection = await self.connection()
            try:
                return await connection.ask(question, message)
            except ConnectionLost:
                if question.kind not in _HARMLESS:
                    raise

    async def join(self, member: Member) -> None:
        """Attach the member, which stays attached through reconnects from then on; raises if it cannot be."""
        while True:
            connection = await self.connection()
            try:
                await member.attach(connection)
            except ConnectionLost:
                continue
            if connection.is_open:
                self._members.append(member)
                return

    def leave(self, member: Member) -> None:
        if member in self._members:
            self._members.remove(member)

    def reattach(self, member: Member) -> None:
        """The member wants to be attached anew, on the same connection."""
        if self._connection is not None and self._connection.is_open:
            self.tasks.start(self._move(member, self._connection))

    async def close(self) -> None:
        self._is_closed = True
        self._up.set()
        await self.tasks.close()
        if self._connection is not None:
            self._connection.close()
            await self._connection.closed
            self._connection = None

    # -- the connection --------------------------------------------------------------------------------------------

    async def _keep(self, connection: Connection) -> None:
        """Wait for the end of a connection, make the next one, and so on."""
        backoff = Backoff(random.random)
        while True:
            error = await asyncio.shield(connection.closed)
            self._connection = None
            for member in list(self._members):
                member.detach(error)
            backoff.reset()
            while True:
                await asyncio.sleep(backoff.next_s())
                try:
                    connection = await self._dial()
                    break
                except ConnectionLost:
                    continue
            self._use(connection)
            for member in list(self._members):
                self.tasks.start(self._move(member, connection))

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        self.welcome = connection.welcomed.result()
        self._up.set()

    async def _dial(self) -> Connection:
        reasons = []
        for address in self._addresses:
            try:
                async with asyncio.timeout(DIAL_S_MAX):
                    connection = await self._dial_one(address)
                self.address = address
                return connection
            except TimeoutError:
                reasons.append(f"{address}: no answer within {DIAL_S_MAX:.0f} s")
            except (OSError, DanubeError) as error:
                reasons.append(f"{address}: {error}")
        raise ConnectionLost("no broker can be reached: " + "; ".join(reasons))

    async def _dial_one(self, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self.name), address.host, address.port)
        try:
            await connection.welcomed
        except BaseException:
            connection.close()
            raise
        return connection

    # -- the members -----------------------------------------------------------------------------------------------

    async def _move(self, member: Member, connection: Connection) -> None:
        backoff = Backoff(random.random)
        while connection.is_open and member in self._members:
            try:
                await member.attach(connection)
                return
            except ConnectionLost:
                return  # the next connection will have it
            except DanubeError as error:
                if error.remedy not in (Remedy.RETRY, Remedy.LOOKUP):
                    self.leave(member)
                    member.fail(error)
                    return
            await asyncio.sleep(backoff.next_s())
