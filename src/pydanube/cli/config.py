"""The configuration: one YAML file, then the environment. Pure: text and a mapping in, settings out.

Every setting is in the table below, with its default and a comment; `docs/configuration.md` shows the same, and a test
compares them. Defaults are those of the code that uses them, never written a second time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from typing import Any

import yaml

from pydanube.broker import BrokerSettings
from pydanube.model.limits import FRAME_BYTES_MAX, KIB, MESSAGE_BYTES_MAX, MIB

from .errors import Refused
from .units import parse_size, parse_time_us, write_size, write_time

Value = int | bool | None
ENVIRONMENT_PREFIX = "DANUBE_"


class Unit(Enum):
    SIZE = "size"
    TIME = "time"
    TRUTH = "true or false"


@dataclass(frozen=True)
class Setting:
    section: str
    key: str
    unit: Unit
    place: str  # the field of BrokerSettings that it sets
    comment: str
    least: int = 0
    most: int | None = None
    none: str | None = None  # the word for "no limit", where there may be none

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"{ENVIRONMENT_PREFIX}{self.section}_{self.key}".upper()

    @property
    def default(self) -> Value:
        value: Any = BrokerSettings()
        for part in self.place.split("."):
            value = getattr(value, part)
        assert value is None or isinstance(value, int)
        return value

    def write(self, value: Value) -> str:
        """As it stands in the file."""
        if value is None:
            return self.none or "null"
        if self.unit is Unit.TRUTH:
            return "true" if value else "false"
        return write_size(value) if self.unit is Unit.SIZE else write_time(value)


SETTINGS = (
    Setting(
        *("journal", "file_bytes", Unit.SIZE, "storage.file_bytes"),
        "how large a journal file becomes; it is allocated as a whole",
        least=16 * MIB,
    ),
    Setting(
        *("journal", "file_age", Unit.TIME, "storage.file_age_us"),
        "a journal file that is older is followed by a new one, however small it is",
        least=1_000_000,
    ),
    Setting(
        *("journal", "round_bytes", Unit.SIZE, "storage.round_bytes"),
        "how much goes into one write and one fdatasync; at most half a journal file",
        least=64 * KIB,
    ),
    Setting(
        *("ledger", "max_bytes", Unit.SIZE, "storage.ledger_bytes"),
        "a topic's ledger closes when it is this large; retention removes whole closed ledgers",
        least=64 * KIB,
    ),
    Setting(
        *("ledger", "max_age", Unit.TIME, "storage.ledger_age_us"),
        "or when it is this old",
        least=1_000_000,
    ),
    Setting(
        *("cache", "bytes", Unit.SIZE, "storage.cache_bytes"),
        "memory for the newest batches of all topics; consumers that keep up read from it and not from the disk",
        least=1 * MIB,
    ),
    Setting(
        *("retention", "time", Unit.TIME, "retention.time_us"),
        "how long messages are kept; 0s: until they are consumed; forever",
        none="forever",
    ),
    Setting(
        *("retention", "bytes", Unit.SIZE, "retention.bytes"),
        "how much of a topic, or of a partition, is kept; null: no limit",
        none="null",
    ),
    Setting(
        *("retention", "hold_unconsumed", Unit.TRUTH, "retention.hold_unconsumed"),
        "whether messages that a subscription has not acknowledged stay, whatever time and bytes say",
    ),
    Setting(
        *("staging", "max_bytes", Unit.SIZE, "storage.staging_bytes"),
        "of batches that are stored and not visible yet, all topics together",
        least=1 * MIB,
    ),
    Setting(
        *("limits", "message_bytes", Unit.SIZE, "message_bytes_max"),
        "the largest message: payload, key and attributes together",
        least=1 * KIB,
        most=MESSAGE_BYTES_MAX,
    ),
    Setting(
        *("limits", "publish_bytes", Unit.SIZE, "publish_bytes"),
        "granted to all producers together and not answered yet; who wants more waits",
        least=FRAME_BYTES_MAX,
    ),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
SECTIONS = tuple(dict.fromkeys(setting.section for setting in SETTINGS))


def settings_from(text: str, environment: Mapping[str, str], *, source: str = "the configuration") -> BrokerSettings:
    """Defaults, overridden by a file's text, overridden by the environment. Refused: something in it is wrong."""
    chosen: dict[str, Value] = {}
    for setting, value in _of_file(text, source):
        chosen[setting.place] = _parse(setting, value, source)
    for setting, value in _of_environment(environment):
        chosen[setting.place] = _parse(setting, value, f"the environment variable {setting.variable}")
    try:
        return _put(BrokerSettings(), chosen)
    except ValueError as error:
        raise Refused(f"{source} does not fit together: {error}", "change one of the two settings") from error


def _of_file(text: str, source: str) -> Iterator[tuple[Setting, object]]:
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise Refused(f"{source} is not YAML{where}: {problem}", "docs/configuration.md shows a whole file") from error
    for section, keys in _mapping(tree, source, "a mapping of sections").items():
        if section not in SECTIONS:
            raise _unknown(f"{source} has an unknown section {section!r}", str(section), SECTIONS)
        for key, value in _mapping(keys, source, f"keys and values under {section!r}").items():
            setting = BY_NAME.get(f"{section}.{key}")
            if setting is None:
                name = f"{section}.{key}"
                raise _unknown(f"{source} has an unknown key {name!r}", name, BY_NAME)
            yield setting, value


def _mapping(value: object, source: str, wanted: str) -> dict[object, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(f"{source} must hold {wanted}, not {value!r}", "docs/configuration.md shows a whole file")
    return value


def _of_environment(environment: Mapping[str, str]) -> Iterator[tuple[Setting, object]]:
    by_variable = {setting.variable: setting for setting in SETTINGS}
    starts = tuple(f"{ENVIRONMENT_PREFIX}{section}_".upper() for section in SECTIONS)
    for variable, value in environment.items():
        if variable in by_variable:
            yield by_variable[variable], value
        elif variable.startswith(starts):  # others that begin alike belong to somebody else
            raise _unknown(f"the environment variable {variable} is no setting", variable, by_variable)


def _unknown(message: str, name: str, known: Mapping[str, object] | tuple[str, ...]) -> Refused:
    near = get_close_matches(name, list(known), 1, 0.5)
    return Refused(message, f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}")


def _parse(setting: Setting, value: object, source: str) -> Value:
    try:
        parsed = _value(setting, value)
    except ValueError as error:
        raise Refused(
            f"{setting.name} in {source}: {error}", f"the default is {setting.write(setting.default)}"
        ) from None
    bounds = []
    if parsed is not None and parsed < setting.least:
        bounds.append(f"at least {setting.write(setting.least)}")
    if parsed is not None and setting.most is not None and parsed > setting.most:
        bounds.append(f"at most {setting.write(setting.most)}")
    if bounds:
        raise Refused(
            f"{setting.name} in {source} is {setting.write(parsed)}",
            f"it must be {bounds[0]}; the default is {setting.write(setting.default)}",
        )
    return parsed


def _value(setting: Setting, value: object) -> Value:
    if setting.none is not None and (value is None or value in ("null", setting.none)):
        return None
    if setting.unit is Unit.TRUTH:
        known = {True: True, False: False, "true": True, "false": False}
        if not isinstance(value, bool | str) or value not in known:
            raise ValueError(f"{value!r} is neither true nor false")
        return known[value]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is no {setting.unit.value}")
    return parse_size(str(value)) if setting.unit is Unit.SIZE else parse_time_us(str(value))


def _put(settings: BrokerSettings, chosen: Mapping[str, Value]) -> BrokerSettings:
    storage = {place.removeprefix("storage."): value for place, value in chosen.items() if place.startswith("storage.")}
    retention = {
        place.removeprefix("retention."): value for place, value in chosen.items() if place.startswith("retention.")
    }
    top = {place: value for place, value in chosen.items() if "." not in place}
    return replace(
        settings,
        storage=replace(settings.storage, **storage),  # type: ignore[arg-type]
        retention=replace(settings.retention, **retention),  # type: ignore[arg-type]
        **top,  # type: ignore[arg-type]
    )
