"""The configuration file, the environment over it, and the document about both."""

import re
from pathlib import Path

import pytest
import yaml

from pydanube.broker import BrokerSettings
from pydanube.cli.config import SECTIONS, SETTINGS, Setting, Unit, settings_from
from pydanube.cli.errors import Refused
from pydanube.model.limits import MIB

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def refused(text: str = "", **environment: str) -> str:
    with pytest.raises(Refused) as caught:
        settings_from(text, environment, source="danube.yml")
    return f"{caught.value.message} -- {caught.value.advice}"


def test_nothing_gives_the_defaults() -> None:
    for text in ("", "# nothing", "journal:", "{}"):
        assert settings_from(text, {}) == BrokerSettings()


def test_a_file() -> None:
    text = """
    journal: {file_bytes: 64MiB, file_age: 10m, round_bytes: 1048576}
    retention: {time: forever, bytes: 1GiB, hold_unconsumed: false}
    limits: {message_bytes: 1MiB}
    """
    settings = settings_from(text, {})
    storage = settings.storage
    assert (storage.file_bytes, storage.file_age_us, storage.round_bytes) == (64 * MIB, 600_000_000, MIB)
    assert (settings.retention.time_us, settings.retention.bytes) == (None, 1 << 30)
    assert settings.retention.hold_unconsumed is False
    assert settings.message_bytes_max == MIB


def test_the_environment_goes_before_the_file() -> None:
    environment = {"DANUBE_RETENTION_TIME": "2d", "DANUBE_RETENTION_BYTES": "null", "DANUBE_URL": "danube://x"}
    settings = settings_from("retention: {time: 1d, bytes: 1GiB, hold_unconsumed: no}", environment)
    assert (settings.retention.time_us, settings.retention.bytes) == (2 * 86_400_000_000, None)
    assert settings.retention.hold_unconsumed is False
    assert settings_from("", {"DANUBE_RETENTION_HOLD_UNCONSUMED": "false"}).retention.hold_unconsumed is False


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_arrives_at_its_place(setting: Setting) -> None:
    default = setting.default
    value: int | bool = not default if setting.unit is Unit.TRUTH else setting.most or (default or 1 << 30) * 2
    if setting.most is not None:
        value = setting.most // 2
    if setting.name == "journal.round_bytes":
        value = (default or 0) // 2
    written = setting.write(value)
    from_file = settings_from(f"{setting.section}: {{{setting.key}: {written}}}", {})
    assert from_file != BrokerSettings()
    assert settings_from("", {setting.variable: written}) == from_file
    found: object = from_file
    for part in setting.place.split("."):
        found = getattr(found, part)
    assert found == value


def test_unknown_names_are_errors_that_name_the_nearest() -> None:
    assert refused("jornal: {}") == "danube.yml has an unknown section 'jornal' -- did you mean 'journal'?"
    found = refused("journal: {file_byte: 1MiB}")
    assert found == "danube.yml has an unknown key 'journal.file_byte' -- did you mean 'journal.file_bytes'?"
    assert "known are journal, ledger" in refused("x: {}")
    assert "did you mean 'DANUBE_CACHE_BYTES'?" in refused(DANUBE_CACHE_BYTE="1MiB")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("journal: {file_bytes: many}", "'many' is no size; write it like 64MiB -- the default is 256MiB"),
        ("journal: {file_bytes: [1]}", "[1] is no size"),
        ("journal: {file_bytes: true}", "True is no size"),
        ("journal: {file_bytes: null}", "None is no size"),
        ("journal: {file_age: 5}", "'5' is no time; write it like 5s"),
        ("journal: {file_bytes: 1MiB}", "is 1MiB -- it must be at least 16MiB; the default is 256MiB"),
        ("limits: {message_bytes: 5MiB}", "it must be at most 4MiB"),
        ("retention: {hold_unconsumed: maybe}", "'maybe' is neither true nor false -- the default is true"),
        ("journal: {file_bytes: 16MiB, round_bytes: 16MiB}", "file_bytes must be at least twice round_bytes"),
        ("journal: 5", "must hold keys and values under 'journal', not 5"),
        ("- journal", "must hold a mapping of sections"),
        ("journal: {", "is not YAML at line 1, column"),
    ],
)
def test_wrong_values(text: str, expected: str) -> None:
    found = refused(text)
    assert expected in found
    assert "danube.yml" in found


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    assert "in the environment variable DANUBE_CACHE_BYTES" in refused(DANUBE_CACHE_BYTES="x")


# The document.


def documented() -> str:
    (block,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return str(block)


def test_the_document_shows_every_setting_with_its_default_and_comment() -> None:
    sections = []
    for section in SECTIONS:
        lines = [f"{section}:"]
        for setting in SETTINGS:
            if setting.section == section:
                lines += [f"  # {setting.comment}", f"  {setting.key}: {setting.write(setting.default)}"]
        sections.append("\n".join(lines))
    assert documented() == "\n\n".join(sections) + "\n"
    assert yaml.safe_load(documented()).keys() == set(SECTIONS)
    assert settings_from(documented(), {}) == BrokerSettings()


def test_the_document_shows_every_variable_with_its_bounds() -> None:
    rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \| (.*?) \| (.*?) \| (.*?) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert rows == [
        (
            setting.name,
            setting.variable,
            setting.unit.value,
            setting.write(setting.least) if setting.least else "–",
            setting.write(setting.most) if setting.most is not None else "–",
        )
        for setting in SETTINGS
    ]
