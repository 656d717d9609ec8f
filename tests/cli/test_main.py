"""The command as a whole: help, versions, wrong usage, and how it fails."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from pydanube.cli.errors import SentenceGroup
from pydanube.cli.main import COMMANDS, main
from pydanube.cli.output import show_bytes, to_json
from pydanube.model.errors import ERRORS_BY_CODE, DanubeError, DataFolderInUse


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name, (text, _) in COMMANDS.items():
        assert name in result.output
        assert text in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_says_what_it_does(name: str) -> None:
    result = CliRunner().invoke(main, [name, "-h"])
    assert result.exit_code == 0
    assert COMMANDS[name][0].rstrip(".") in result.output


def test_help_imports_neither_rich_nor_storage() -> None:
    program = (
        "import sys\nfrom pydanube.cli.main import main\nmain(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'rich' or 'storage' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


def test_the_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("danube ")


@pytest.mark.parametrize("arguments", [["nonsense"], ["journal", "nonsense"], ["--nonsense"], ["journal", "check"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr
    assert not result.stdout


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_every_error_becomes_two_sentences(kind: type[DanubeError]) -> None:
    @click.group(cls=SentenceGroup)
    def group() -> None: ...

    @group.command()
    def fail() -> None:
        raise kind("something is wrong")

    result = CliRunner().invoke(group, ["fail"])
    assert result.exit_code == 1
    assert not result.stdout
    wrong, advice = result.stderr.splitlines()
    assert wrong == f"Error {kind.code}: Something is wrong."
    assert advice[0].isupper() or not advice[0].isalpha()
    assert advice.endswith(".")


def test_an_error_keeps_its_cause() -> None:
    @click.group(cls=SentenceGroup)
    def group() -> None: ...

    @group.command()
    def fail() -> None:
        raise DataFolderInUse("in use")

    with pytest.raises(click.ClickException) as caught:
        group.main(["fail"], standalone_mode=False)
    assert isinstance(caught.value.__cause__, DataFolderInUse)


def test_sizes_for_people() -> None:
    shown = [show_bytes(count) for count in (0, 1023, 1024, 1536, 256 << 20, 5 << 40)]
    assert shown == ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "256.0 MiB", "5.0 TiB"]


def test_ids_in_json_are_text() -> None:
    value = {"topic_id": (1 << 64) - 1, "list": [{"producer_id": 1, "epoch": 2}], "journal_id": "00ff"}
    expected = (
        b'{"topic_id":"ffffffffffffffff","list":[{"producer_id":"0000000000000001","epoch":2}],"journal_id":"00ff"}'
    )
    assert to_json(value) == expected
