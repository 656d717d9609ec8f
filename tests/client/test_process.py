"""What a client does to its process: little when it is imported, nothing after a fork."""

import os
import subprocess
import sys

import pytest

import pydanube
from pydanube.model.errors import UsedAfterFork
from pydanube.testing import broker

HEAVY = ("pyarrow", "numpy", "grpc", "click", "rich", "lz4", "zstandard", "uvloop")


def test_the_import_is_light() -> None:
    code = f"import sys, pydanube; print([name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


AFTER_FORK = """
import asyncio, os, sys
import pydanube

def refused(call):
    try:
        result = call()
        if asyncio.iscoroutine(result):
            result.send(None)
    except pydanube.DanubeError as error:
        return type(error).__name__
    return "accepted"

async def main(url):
    async with pydanube.connect(url) as client:
        producer = await client.producer("forked")
        await producer.send(b"before")
        consumer = await client.subscribe("forked", "s", start="earliest")
        message = await anext(aiter(consumer))
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            calls = [
                lambda: producer.post(b"x"), lambda: producer.send(b"x"), lambda: producer.send_many([b"x"]),
                lambda: producer.flush(), lambda: consumer.ack(message), lambda: consumer.flush_acks(),
                lambda: client.health(), lambda: client.list_topics(), lambda: client.producer("other"),
            ]
            print(*sorted({refused(call) for call in calls}), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print((await producer.send(b"after")).offset)

asyncio.run(main(sys.argv[1]))
"""


def test_use_after_a_fork_is_an_error_and_harms_no_one() -> None:
    with broker() as running:
        run = subprocess.run(
            [sys.executable, "-c", AFTER_FORK, running.url], capture_output=True, text=True, timeout=30
        )
    assert (run.stdout.split(), run.stderr) == (["UsedAfterFork", "1"], "")


def test_the_blocking_client_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread does not exist in the child, where waiting for it would never end."""
    with broker() as running, pydanube.connect_blocking(running.url) as client:
        here = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: here + 1)
        with pytest.raises(UsedAfterFork):
            client.health()
        monkeypatch.undo()
        client.health()
