"""With the client alone installed, the command says what is missing."""

import sys

import pytest

from pydanube.cli.entry import main


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "pydanube.cli.main", raising=False)
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "'click'" in capsys.readouterr().err
