"""The demonstration, made short: the broker is really killed."""

import pytest

from pydanube.cli import demo


def test_the_demonstration(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "MESSAGES", 20_000)
    monkeypatch.setattr(demo, "BATCH", 100)
    with pytest.raises(SystemExit) as ended:
        demo.main()
    said = capsys.readouterr()
    assert ended.value.code == 0
    assert "All 20,000 acknowledged messages are there, once and in order." in said.out
    assert "kill -9" in said.err
    assert "Started again" in said.err
