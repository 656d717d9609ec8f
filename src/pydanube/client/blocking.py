"""The same objects without `await`: an event loop on a thread of its own does the work, callers wait for it.

There is no second client here. A wrapper hands every call to the one there is: coroutines are run to their end, async
iterators become iterators, clients, producers and consumers come back wrapped. Any thread may call.
"""

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from pydanube.model.errors import ClientClosed

from .client import Client, connect
from .consumer import Consumer
from .process import Home
from .producer import Producer

T = TypeVar("T")
_WRAPPED = (Client, Producer, Consumer)


class LoopThread:
    def __init__(self) -> None:
        self._home = Home()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="pydanube", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop and wait. Whoever interrupts the waiting cancels the work."""
        try:
            self._home.check()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException as error:
            work.close()
            if isinstance(error, RuntimeError):
                raise ClientClosed("the client is closed") from None
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    @property
    def is_stopped(self) -> bool:
        return self._loop.is_closed()

    def stop(self) -> None:
        if not self.is_stopped:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


class Blocking(Generic[T]):
    """One wrapped object. Its attributes are those of the object, without `await`."""

    def __init__(self, thread: LoopThread, target: T) -> None:
        self._thread = thread
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        if name == "close":
            return self._closing(value)
        return self._calling(value)

    def _calling(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if inspect.isasyncgenfunction(method):
                return BlockingIterator(self._thread, method(*arguments, **named))
            return self._wrapped(self._thread.run(_call(method, arguments, named)))

        return call

    def _closing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        call = self._calling(method)

        def close(*arguments: Any, **named: Any) -> None:
            if self._thread.is_stopped:
                return  # with everything that was open
            try:
                call(*arguments, **named)
            finally:
                if isinstance(self._target, Client):
                    self._thread.stop()

        return close

    def _wrapped(self, value: Any) -> Any:
        return Blocking(self._thread, value) if isinstance(value, _WRAPPED) else value

    def __iter__(self) -> Iterator[Any]:
        return BlockingIterator(self._thread, aiter(self._target))  # type: ignore[arg-type]

    def __enter__(self) -> "Blocking[T]":
        if isinstance(self._target, Client):
            self._thread.run(self._target.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(self._target, Client):
            try:
                self._thread.run(self._target.abandon())
            finally:
                self._thread.stop()
        else:
            self.close()

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"


class BlockingIterator(Iterator[T]):
    def __init__(self, thread: LoopThread, items: AsyncIterator[T]) -> None:
        self._thread = thread
        self._items = items

    def __next__(self) -> T:
        try:
            return self._thread.run(_next(self._items))
        except StopAsyncIteration:
            raise StopIteration from None


async def _call(method: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    result = method(*arguments, **named)
    return await result if inspect.isawaitable(result) else result


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


def connect_blocking(url: str) -> Blocking[Client]:
    """As `connect`, for programs without an event loop of their own, and for threads beside one."""
    thread = LoopThread()
    try:
        return Blocking(thread, thread.run(_made(url)))
    except BaseException:
        thread.stop()
        raise


async def _made(url: str) -> Client:
    return connect(url)
