"""`danube explain`."""

import json

import pytest
from click.testing import CliRunner, Result

from pydanube.cli.explain import known_errors
from pydanube.cli.main import main
from pydanube.model.errors import ERRORS_BY_CODE, DanubeError


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


@pytest.mark.parametrize("kind", known_errors().values(), ids=lambda kind: kind.__name__)
def test_every_code_is_explained(kind: type[DanubeError]) -> None:
    shown = explain(str(kind.code))
    assert shown.exit_code == 0
    assert shown.output.startswith(f"{kind.code} {kind.__name__}\n")
    assert kind.advice[1:].rstrip(".") in shown.output
    assert explain(kind.__name__.lower()).output == shown.output
    facts = json.loads(explain(str(kind.code), "--json").output)
    assert (facts["code"], facts["remedy"]) == (kind.code, kind.remedy.value)
    assert facts["meaning"].endswith(".")


def test_without_a_code_all_are_listed() -> None:
    listed = json.loads(explain("--json").output)
    assert {each["code"] for each in listed} >= set(ERRORS_BY_CODE)
    assert "StagingFull" in explain().output


@pytest.mark.parametrize("code", ["999", "nonsense", "²"])
def test_a_code_that_is_none(code: str) -> None:
    result = explain(code)
    assert result.exit_code == 1
    assert result.stderr == f"Error: There is no error {code}.\n'danube explain' lists all codes.\n"
