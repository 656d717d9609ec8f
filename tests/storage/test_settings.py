"""Settings are checked once, when they are made."""

from dataclasses import fields

import pytest

from pydanube.storage import StorageSettings


@pytest.mark.parametrize("name", [field.name for field in fields(StorageSettings)])
def test_every_setting_is_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        StorageSettings(**{name: 0})


def test_file_has_room_for_two_rounds() -> None:
    StorageSettings(file_bytes=200, round_bytes=100)
    with pytest.raises(ValueError, match="twice"):
        StorageSettings(file_bytes=199, round_bytes=100)
