"""`danube serve` as a process: how it starts, says where it is, stops, and refuses."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pydanube.cli.launch import BrokerProcess
from pydanube.cli.main import main
from pydanube.cli.ports import Ports, read_ports, write_ports
from pydanube.cli.serving import sentence
from pydanube.storage import Finding, Report

SECONDS = 30


def serve(data_dir: Path, *options: object) -> Result:
    """In this process: only for what is refused."""
    arguments = ["serve", "--data-dir", data_dir, "--native-port", 0, "--http-port", 0, *options]
    return CliRunner().invoke(main, [str(each) for each in arguments])


def assert_refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 1, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 2, result.stderr
    for part in parts:
        assert part in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_life(tmp_path: Path, number: signal.Signals) -> None:
    data_dir = tmp_path / "data"
    command = [sys.executable, "-m", "pydanube.cli", "serve", "--native-port=0", "--http-port=0"]
    with subprocess.Popen(
        [*command, f"--data-dir={data_dir}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        greeting = [process.stdout.readline() for _ in range(4)]
        ports = read_ports(data_dir)
        assert ports is not None
        assert ports.pid == process.pid
        assert "is up" in greeting[0]
        assert ports.url in greeting[1]
        assert ports.http_url in greeting[2]
        socket.create_connection(("127.0.0.1", ports.native)).close()
        process.send_signal(number)
        said, wrong = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert said.endswith("Stopped in good order.\n")
    assert wrong == ""
    assert read_ports(data_dir) is None
    assert (data_dir / "metadata.sqlite").exists()
    checked = CliRunner().invoke(main, ["journal", "check", str(data_dir)])
    assert checked.exit_code == 0


def test_a_second_signal_ends_it_at_once() -> None:
    program = """
import asyncio
from pydanube.cli.serving import _stop_signals

async def close_for_ever():
    with _stop_signals() as stop:
        print("ready", flush=True)
        await stop.wait()
        print("stopping", flush=True)
        await asyncio.Event().wait()

asyncio.run(close_for_ever())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 128 + signal.SIGTERM


def test_what_a_running_broker_keeps_others_from(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "a") as running:
        again = serve(tmp_path / "a")
        assert_refused(again, "Error 404: Another process is using the data folder", "another --data-dir")
        for option, port in (("--native-port", running.ports.native), ("--http-port", running.ports.http)):
            taken = serve(tmp_path / "b", option, port)
            assert_refused(taken, f"Error 114: 127.0.0.1:{port} cannot be listened on", "0 picks a free one")
        assert read_ports(tmp_path / "a") == running.ports
        assert read_ports(tmp_path / "b") is None


def test_ports_of_a_killed_broker_are_replaced(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as first:
        first.kill()
        assert read_ports(tmp_path) == first.ports
        with BrokerProcess(tmp_path, native_port=first.ports.native) as second:
            assert read_ports(tmp_path) == second.ports
            assert (second.ports.native, second.pid) != (first.ports.native, first.pid)
            assert second.ports.native == first.ports.native


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(serve(tmp_path / "file" / "data"), "Error 405: The data folder", "permissions")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert_refused(serve(tmp_path / "data"), "Error 405: The data folder", "permissions")


def test_newer_data(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as running:
        running.stop()
    with sqlite3.connect(tmp_path / "metadata.sqlite") as database:
        database.execute("PRAGMA user_version = 1000")
    database.close()
    assert_refused(serve(tmp_path), "Error 204:", "Use the version of danube that wrote the data")


def test_a_lost_disk(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as running:
        running.stop()
    for path in sorted((tmp_path / "journal").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert_refused(serve(tmp_path), "Error 406: The data folder is empty", "--disk-lost")
    with BrokerProcess(tmp_path, "--disk-lost") as running:
        assert running.stop() == 0


def test_other_addresses_have_to_be_asked_for(tmp_path: Path) -> None:
    assert_refused(serve(tmp_path, "--host", "0.0.0.0"), "lets everybody in", "--insecure")
    assert not (tmp_path / "journal").exists()
    with BrokerProcess(tmp_path, "--host", "0.0.0.0", "--insecure") as running:
        assert running.url.startswith("danube://127.0.0.1:")


def test_the_configuration_is_read_first(tmp_path: Path) -> None:
    config = tmp_path / "danube.yml"
    config.write_text("jurnal: {}")
    assert_refused(serve(tmp_path / "data", "--config", config), f"{config} has an unknown section", "'journal'?")
    assert_refused(serve(tmp_path / "data", "--config", tmp_path / "none"), "cannot be read: No such file")
    assert not (tmp_path / "data").exists()
    config.write_text("journal: {file_bytes: 32MiB}")
    with BrokerProcess(tmp_path / "data", "--config", str(config)):
        sizes = {path.stat().st_size for path in (tmp_path / "data" / "journal").glob("*.journal")}
        assert sizes == {32 << 20}


def test_a_broker_that_does_not_start_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="the broker did not start"):
        BrokerProcess(tmp_path / "file" / "data")


@pytest.mark.parametrize("finding", Finding)
def test_reports_are_sentences(finding: Finding) -> None:
    said = sentence(Report(finding, "000000000001.journal", 10, 20, topic_id=1))
    assert said[0].isupper()
    assert said.endswith(".")
    assert "000000000001.journal" in said


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "danube://127.0.0.1:1"), ("0.0.0.0", "danube://127.0.0.1:1"), ("::", "danube://[::1]:1")],
)
def test_ports_can_be_read_back(host: str, url: str, tmp_path: Path) -> None:
    ports = Ports(7, host, 1, 2)
    write_ports(tmp_path, ports)
    assert read_ports(tmp_path) == ports
    assert json.loads((tmp_path / "ports.json").read_text())["native"] == 1
    assert ports.url == url
