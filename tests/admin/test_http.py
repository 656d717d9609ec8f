"""The HTTP port of a broker in this process."""

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pydanube.admin.disk import DiskTimes, TimedFiles
from pydanube.admin.http import HttpServer
from pydanube.admin.process import process_gauges
from pydanube.model.errors import AddressUnusable
from pydanube.storage.journal import TEMPORARY
from pydanube.testing import broker
from pydanube.testing.broker import RunningBroker

SECONDS = 10


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker() as found:
        yield found


@pytest.fixture
def disk() -> DiskTimes:
    return DiskTimes()


@pytest.fixture
def server(running: RunningBroker, disk: DiskTimes) -> Iterator[HttpServer]:
    started = running.run(lambda: HttpServer.start(running.broker, disk, "127.0.0.1", 0))
    yield started
    running.run(started.close)


def get(server: HttpServer, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=SECONDS) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read().decode()


def test_health(server: HttpServer) -> None:
    status, _, text = get(server, "/healthz")
    assert (status, text) == (200, "ok\n")


def test_readiness_follows_the_broker(server: HttpServer, running: RunningBroker) -> None:
    assert get(server, "/readyz")[0] == 200
    running.broker.is_ready = False
    assert get(server, "/readyz")[0] == 503
    assert get(server, "/healthz")[0] == 200


def test_metrics(server: HttpServer, disk: DiskTimes) -> None:
    disk.sync_seconds.add(0.0004)
    status, kind, text = get(server, "/metrics")
    assert status == 200
    assert kind.startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["danube_published_messages_total"] == "0"
    assert values["danube_journal_sync_seconds_count"] == "1"
    assert float(values["danube_process_resident_bytes"]) > 1 << 20
    named = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(named) == len(set(named)), "a metric is there twice"


def test_other_paths(server: HttpServer) -> None:
    assert get(server, "/nothing")[0] == 404


@pytest.mark.parametrize(("host", "reason"), [("127.0.0.1", "Address already in use$"), ("nowhere.invalid", "")])
def test_a_port_that_cannot_be_had(running: RunningBroker, disk: DiskTimes, host: str, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(AddressUnusable, match=f"{host}:{port} cannot be listened on: {reason}"):
            running.run(lambda: HttpServer.start(running.broker, disk, host, port))


def test_what_the_disk_does_is_measured(tmp_path: Path) -> None:
    files = TimedFiles(tmp_path)
    for name in (TEMPORARY, "other"):
        file = files.create(name)
        file.write_at(0, [b"a" * 1000, b"b" * 1000])
        file.sync()
        assert file.read_at(999, 2) == b"ab"
        file.close()
    files.close()
    assert 'danube_journal_round_bytes_bucket{le="1024"} 0' in files.times.lines()
    assert "danube_journal_round_bytes_sum 2000" in files.times.lines()
    assert "danube_journal_sync_seconds_count 1" in files.times.lines()


def test_a_system_without_proc(tmp_path: Path) -> None:
    assert process_gauges(tmp_path / "statm", tmp_path) == {}
