"""`danube doctor`: each line, on a machine that is well and on one that is not."""

import json
import os
import resource
import shutil
import socket
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from pydanube.cli import checks
from pydanube.cli.checks import Level
from pydanube.cli.main import main
from pydanube.cli.ports import Ports, write_ports


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_SEQUENTIAL_BYTES", 1 << 20)


def test_a_line_for_each(tmp_path: Path) -> None:
    data_dir = tmp_path / "not" / "made" / "yet"
    result = CliRunner().invoke(main, ["doctor", "--data-dir", str(data_dir)])
    names = ["python", "clock", "files", "native-port", "http-port", "space", "write", "fdatasync"]
    assert [line.split()[1] for line in result.stdout.splitlines()] == names
    assert all(line.split()[0] in ("ok", "warn", "fail") for line in result.stdout.splitlines())
    found = json.loads(CliRunner().invoke(main, ["doctor", "--data-dir", str(data_dir), "--json"]).stdout)
    assert [check["name"] for check in found["checks"]] == names
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        assert checks.check_port("http-port", port, tmp_path).level is Level.WARN
        write_ports(tmp_path, Ports(7, "127.0.0.1", 1, port))
        served = checks.check_port("http-port", port, tmp_path)
        assert served.level is Level.OK
        assert "process 7" in served.text
    assert checks.check_port("http-port", port, tmp_path).level is Level.OK


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    result = CliRunner().invoke(main, ["doctor", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "cannot be written: Input/output error" in result.stdout


@pytest.mark.parametrize(
    ("milliseconds", "level"), [(0.001, Level.WARN), (0.2, Level.OK), (9.0, Level.OK), (20.0, Level.WARN)]
)
def test_how_fast_a_disk_syncs(
    milliseconds: float, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_sync_times_ms", lambda _fd: [milliseconds] * 100)
    assert checks.check_disk(tmp_path)[-1].level is level


@pytest.mark.parametrize(("free", "level"), [(1 << 20, Level.FAIL), (5 << 30, Level.WARN), (50 << 30, Level.OK)])
def test_free_space(free: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    assert checks.check_space(tmp_path).level is level


def test_other_things_that_may_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert checks.check_clock().level is Level.FAIL
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, 256))
    assert checks.check_open_files().level is Level.WARN
    monkeypatch.setattr(checks, "find_spec", lambda _name: None)
    assert "uvloop" in checks.check_python().text
