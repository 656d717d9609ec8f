"""`danube journal check` and `danube journal dump`, on whole and on damaged folders."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.cli.samples import PARKED, SUBSCRIPTION, TOPICS, Messages, write_sample

from pydanube.cli import journal as journal_commands
from pydanube.cli.main import main
from pydanube.storage import OsFiles

FIRST = "000000000001.journal"


@pytest.fixture
def stored() -> Messages:
    return {}


@pytest.fixture
def data_dir(tmp_path: Path, stored: Messages) -> Path:
    files = OsFiles(tmp_path / "journal")
    stored.update(write_sample(files))
    files.close()
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["journal", *map(str, arguments)])


def parsed(result: Result) -> Any:
    return json.loads(result.stdout)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def damage(folder: Path, name: str = FIRST) -> None:
    """Inside the first batch: messages of the first topic."""
    entry = next(each for each in lines(run("dump", folder, "--json")) if each["kind"] == "batch")
    path = folder / "journal" / name
    data = bytearray(path.read_bytes())
    data[entry["position"] + 50] ^= 1
    path.write_bytes(data)


def test_check_of_a_whole_folder(data_dir: Path) -> None:
    result = run("check", data_dir)
    assert result.exit_code == 0
    assert result.stdout.endswith("Whole.\n")
    for text in (FIRST, "Files", "Checkpoints", "Topics", *(f"{topic_id:016x}" for topic_id in TOPICS)):
        assert text in result.stdout
    assert "…" not in result.stdout, "something was cut"
    assert run("check", data_dir / "journal").stdout == result.stdout


def test_check_as_json(data_dir: Path, stored: Messages) -> None:
    result = run("check", data_dir, "--json")
    assert result.exit_code == 0
    found = parsed(result)
    assert found["whole"] is True
    assert found["findings"] == []
    assert {topic["topic_id"]: topic["end_offset"] for topic in found["topics"]} == {
        f"{topic_id:016x}": len(values) for topic_id, values in stored.items()
    }
    cursors = [cursor for topic in found["topics"] for cursor in topic["cursors"]]
    assert {cursor["subscription_id"] for cursor in cursors} == {f"{SUBSCRIPTION:016x}"}


def test_check_of_a_damaged_folder(data_dir: Path) -> None:
    damage(data_dir)
    result = run("check", data_dir)
    assert result.exit_code == 1
    assert result.stdout.endswith("Damaged: 1 finding.\n")
    assert f"corruption in {FIRST}" in result.stdout
    assert f"topic {TOPICS[0]:016x}, offsets 0 to 1" in result.stdout
    as_json = run("check", data_dir, "--json")
    assert as_json.exit_code == 1
    found = parsed(as_json)
    assert found["whole"] is False
    (finding,) = found["findings"]
    assert (finding["finding"], finding["file"], finding["topic_id"]) == ("corruption", FIRST, f"{TOPICS[0]:016x}")


def test_check_of_a_folder_in_use(data_dir: Path) -> None:
    files = OsFiles(data_dir / "journal")
    result = run("check", data_dir)
    files.close()
    assert result.exit_code == 0
    assert "in use by another process" in result.stdout
    assert "being written" in result.stdout


def test_a_folder_whose_name_looks_like_markup(data_dir: Path) -> None:
    (data_dir / "[red]x").mkdir()
    (data_dir / "journal").rename(data_dir / "[red]x" / "journal")
    result = run("check", data_dir / "[red]x")
    assert result.exit_code == 0
    assert "[red]x" in result.stdout


def test_check_after_a_kill(tmp_path: Path) -> None:
    files = OsFiles(tmp_path)
    write_sample(files, close=False)
    files.close()
    newest = max(tmp_path.glob("*.journal"))
    entry = lines(run("dump", tmp_path, "--json"))[-1]
    data = bytearray(newest.read_bytes())
    data[entry["position"] + entry["length"] - 1] ^= 1
    newest.write_bytes(data)
    result = run("check", tmp_path)
    assert result.exit_code == 0
    assert "torn tail" in result.stdout
    assert "the next start cuts it off" in result.stdout


def test_long_tables_are_cut_and_say_so(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_commands, "ROWS_MAX", 1)
    result = run("check", data_dir)
    assert "and 2 more topics: --json shows all of them" in result.stdout


@pytest.mark.parametrize("command", ["check", "dump"])
def test_folders_that_cannot_be_read(command: str, tmp_path: Path) -> None:
    nowhere = run(command, tmp_path / "nowhere")
    assert nowhere.exit_code == 1
    assert nowhere.stderr.splitlines()[0] == f"Error 405: There is no folder {tmp_path / 'nowhere'}."
    empty = run(command, tmp_path)
    assert empty.exit_code == 1
    assert "There is no journal in" in empty.stderr
    assert not empty.stdout


def test_dump(data_dir: Path) -> None:
    result = run("dump", data_dir)
    assert result.exit_code == 0
    heading, *rest = result.stdout.splitlines()
    assert heading.split() == ["file", "round", "kind", "topic", "offsets", "bytes", "crc"]
    assert rest[0].split()[:3] == [FIRST, "1", "session"]
    assert all(" ok" in line for line in rest)
    assert any(f"parked as {PARKED:016x}" in line for line in rest)
    assert "a1-0" not in result.stdout


def test_dump_with_payloads(data_dir: Path, stored: Messages) -> None:
    shown = run("dump", data_dir, "--payloads").stdout
    assert all(value.decode() in shown for values in stored.values() for value in values)
    entries = lines(run("dump", data_dir, "--payloads", "--json"))
    for topic_id, values in stored.items():
        batches = [each for each in entries if each["kind"] == "batch" and each["topic_id"] == f"{topic_id:016x}"]
        assert [base64.b64decode(value) for each in batches for value in each["payloads"]] == values


@pytest.mark.parametrize("written", [f"{TOPICS[1]:016x}", f"{TOPICS[1]:x}", f"0x{TOPICS[1]:X}"])
def test_dump_of_one_topic(data_dir: Path, written: str) -> None:
    entries = lines(run("dump", data_dir, "--topic", written, "--json"))
    assert entries
    assert {each["topic_id"] for each in entries} == {f"{TOPICS[1]:016x}"}


@pytest.mark.parametrize("written", ["", "orders", "0", "1" * 17, "-1"])
def test_dump_of_something_else(data_dir: Path, written: str) -> None:
    result = run("dump", data_dir, "--topic", written)
    assert result.exit_code == 2
    assert "is not a topic id" in result.stderr


def test_dump_of_a_damaged_folder(data_dir: Path) -> None:
    damage(data_dir)
    result = run("dump", data_dir, "--payloads")
    assert result.exit_code == 0
    (bad,) = [line for line in result.stdout.splitlines() if "BAD" in line]
    assert "the entry is damaged" in bad
    assert [each["crc_ok"] for each in lines(run("dump", data_dir, "--json"))].count(False) == 1


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (None, "null"),
        (b"", ""),
        ("größe".encode(), "größe"),
        (b"\xff\x00", "0xff00"),
        (b"a\nb", "0x610a62"),
        (b"x" * 203, "x" * 200 + " … 3 bytes more"),
    ],
)
def test_payloads_for_people(payload: bytes | None, shown: str) -> None:
    assert journal_commands._show_payload(payload) == shown
