"""Named brokers, and which one a command talks to."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pydanube.cli.contexts import URL_DEFAULT, Contexts, contexts_file, resolve
from pydanube.cli.main import main


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DANUBE_URL", raising=False)
    return tmp_path


def context(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["context", *arguments])


def test_the_life_of_a_context() -> None:
    assert URL_DEFAULT in context("list").output
    assert "in use" in context("add", "here", "danube://127.0.0.1").output
    assert "in use" not in context("add", "there", "danube://example.org:7").output
    assert json.loads(context("list", "--json").output) == {
        "url": "danube://127.0.0.1",
        "current": "here",
        "contexts": {"here": "danube://127.0.0.1", "there": "danube://example.org:7"},
    }
    assert context("use", "there").exit_code == 0
    assert "*  there" in context("list").output
    assert context("remove", "there").exit_code == 0
    assert f"talk to {URL_DEFAULT}, the default" in context("list").output


def test_what_is_refused(own_folder: Path) -> None:
    for command in ("use", "remove"):
        result = context(command, "nobody")
        assert result.exit_code == 1
        assert result.stderr == "Error: There is no context nobody.\nKnown are: none yet.\n"
    assert context("add", "x", "kafka://somewhere").exit_code == 1
    assert context("add", "a/b", "danube://somewhere").exit_code == 2
    (own_folder / "danube").mkdir(exist_ok=True)
    (own_folder / "danube" / "contexts.json").write_text("{")
    damaged = context("list")
    assert damaged.exit_code == 1
    assert "cannot be read" in damaged.stderr


def test_who_goes_first() -> None:
    contexts = Contexts("a", {"a": "danube://a", "b": "danube://b"})
    environment = {"DANUBE_URL": "danube://variable"}
    assert resolve("danube://flag", environment, contexts) == "danube://flag"
    assert resolve("b", environment, contexts) == "danube://b"
    assert resolve(None, environment, contexts) == "danube://variable"
    assert resolve(None, {}, contexts) == "danube://a"
    assert resolve(None, {}, Contexts()) == URL_DEFAULT


def test_where_contexts_are_kept() -> None:
    home = Path("/home/me")
    assert contexts_file({}, home) == home / ".config" / "danube" / "contexts.json"
    assert contexts_file({"XDG_CONFIG_HOME": "relative"}, home) == contexts_file({}, home)
    assert contexts_file({"XDG_CONFIG_HOME": "/etc/me"}, home) == Path("/etc/me/danube/contexts.json")
