"""A broker in this process, and commands that talk to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pydanube.cli.main import main
from pydanube.testing import broker

Danube = Callable[..., Result]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Commands find it without being told, and no context of the user's gets in the way."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with broker() as running:
        monkeypatch.setenv("DANUBE_URL", running.url)
        yield running.url


@pytest.fixture
def danube(url: str) -> Danube:
    """Runs a command; it has to succeed unless another exit status is expected."""
    assert url

    def run(*arguments: object, status: int = 0) -> Result:
        result = CliRunner().invoke(main, [str(each) for each in arguments])
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    return run
