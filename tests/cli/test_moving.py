"""`danube produce` and `danube consume` against a broker."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Danube

from pydanube.cli.consume import Ending, parse_from
from pydanube.cli.facts import CursorFacts, SubscriptionFacts
from pydanube.cli.formats import make_format
from pydanube.cli.lines import Splitter
from pydanube.client.received import NO_ORIGIN, Message

SECONDS = 30


def consumed(danube: Danube, topic: str, *options: object) -> list[str]:
    output = danube("consume", topic, "--subscription", "s", "--exit-at-end", *options).stdout
    return str(output).splitlines()


def test_lines_of_a_file(danube: Danube, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\r\ntwo\n\nfour")
    assert danube("produce", "a", "--file", path).stdout == "4 messages (10 B) published to a.\n"
    assert consumed(danube, "a") == ["one", "two", "", "four"]
    assert consumed(danube, "a") == [], "what was consumed does not come again"
    danube("produce", "a", "--file", path, "--count", 1, "--key", "k")
    assert consumed(danube, "a", "--format", r"%k=%v@%o\n") == ["k=one@4"]
    missing = danube("produce", "a", "--file", tmp_path / "none", status=1)
    assert "cannot be read: No such file" in missing.stderr


@pytest.mark.parametrize("options", [[], ["--count", "3"]])
def test_lines_of_standard_input(danube: Danube, options: list[str]) -> None:
    command = [sys.executable, "-m", "pydanube.cli", "produce", "a", *options]
    done = subprocess.run(
        command, input=b"x\ny\nz\n" + b"w\n" * (1000 if options else 0), capture_output=True, timeout=SECONDS
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert consumed(danube, "a") == ["x", "y", "z"]


def test_an_endless_input_is_left_alone_after_the_count(url: str) -> None:
    assert url
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "pydanube.cli", "produce", "a", "--count", "2"],
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(reading)
        os.write(writing, b"1\n2\n3\n")
        said, wrong = process.communicate(timeout=SECONDS)
        os.close(writing)
    assert (process.returncode, said, wrong) == (0, b"2 messages (2 B) published to a.\n", b"")


def test_made_up_messages(danube: Danube) -> None:
    danube("topic", "create", "parts", "--partitions", 4)
    facts = json.loads(danube("produce", "parts", "--size", 20, "--count", 25_000, "--json").stdout)
    assert (facts["messages"], facts["bytes"]) == (25_000, 500_000)
    lines = consumed(danube, "parts")
    assert {len(line) for line in lines} == {20}
    assert sorted(int(line.split()[0]) for line in lines) == list(range(25_000))
    danube("produce", "a", "--size", 1, "--file", "x", status=2)


def test_a_rate_changes_nothing_but_the_time(danube: Danube) -> None:
    assert "100 messages" in danube("produce", "a", "--size", 10, "--count", 100, "--rate", 100_000).stdout
    assert len(consumed(danube, "a")) == 100


def test_counting_and_going_on(danube: Danube) -> None:
    danube("produce", "a", "--size", 10, "--count", 10)
    first = danube("consume", "a", "--subscription", "s", "--count", 3, "--format", "%o ").stdout
    assert first == "0 1 2 "
    assert consumed(danube, "a", "--format", r"%o\n") == [str(offset) for offset in range(3, 10)]
    later = danube("consume", "a", "--subscription", "t", "--from", 8, "--exit-at-end", "--format", "%o ").stdout
    assert later == "8 9 "


def test_formats(danube: Danube, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"text\n\xff\x00\n")
    danube("produce", "a", "--file", path)
    text, binary = map(json.loads, consumed(danube, "a", "--format", "json"))
    assert (text["payload"], text["topic"], text["offset"], text["key"]) == ("text", "/default/a", 0, None)
    assert binary["payload_base64"] == "/wA="
    hexadecimal = danube("consume", "a", "--subscription", "h", "--exit-at-end", "--format", "hex").stdout
    assert hexadecimal == "74657874\nff00\n"
    raw = danube("consume", "a", "--subscription", "r", "--exit-at-end").stdout_bytes
    assert raw == b"text\n\xff\x00\n"
    for wrong in ("xml", "%x", "%"):
        danube("consume", "a", "--subscription", "s", "--format", wrong, status=2)


def message(payload: bytes, **more: object) -> Message:
    facts: dict[str, object] = {
        "key": None,
        "offset": 7,
        "topic": "/default/a",
        "partition": 2,
        "attributes": {},
        "producer": None,
    }
    facts |= {"publish_time_us": 0, "event_time_us": None, "schema_id": 0, "origin": NO_ORIGIN}
    return Message(payload, **(facts | more))  # type: ignore[arg-type]


def test_patterns() -> None:
    shape = make_format(r"%t/%p:%o %k\t%v %T %%\\n", for_terminal=True)
    expected = b"/default/a/2:7 key\tvalue 1970-01-01T00:00:00+00:00 %\\n"
    assert shape(message(b"value", key="key")) == expected


def test_a_terminal_is_not_played_tricks_on() -> None:
    shape = make_format("text", for_terminal=True)
    assert shape(message(b"a\x1b[2Jb\tc\xff")) == b"a\\x1b[2Jb\tc\\xff\n"
    assert shape(message("für".encode())) == "für\n".encode()


def test_what_cannot_be_consumed(danube: Danube) -> None:
    assert "There is no topic" in danube("consume", "none", "--subscription", "s", status=1).stderr
    danube("topic", "create", "ticks", "--non-reliable")
    result = danube("consume", "ticks", "--subscription", "s", "--exit-at-end", status=1)
    assert "stores nothing" in result.stderr
    danube("consume", "ticks", status=2)
    danube("consume", "ticks", "--subscription", "s", "--from", "yesterday", status=2)


def test_where_to_begin() -> None:
    assert parse_from("earliest") == "earliest"
    assert parse_from("17") == 17
    assert parse_from("2026-01-31T12:00:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    with pytest.raises(click.BadParameter, match=re.escape("earliest, latest, an offset, or a time")):
        parse_from("-1")


def facts_of(*partitions: CursorFacts) -> SubscriptionFacts:
    return SubscriptionFacts("s", "/default/a", "exclusive", list(partitions))


def test_the_end_of_what_was_there() -> None:
    assert Ending(facts_of(CursorFacts("/default/a", True, 5, 5, 0))).is_reached
    ending = Ending(facts_of(CursorFacts("/default/a", True, 0, 6, 4)))  # 1 and 5 are acknowledged already
    ending.count("/default/a", None, [0, 2])
    ending.count("/default/a", None, [0, 2])  # again, after a reconnect
    ending.count("/default/a", None, [3])
    assert not ending.is_reached
    ending.count("/default/a", None, [4, 6])  # 6 is new
    assert ending.is_reached


def test_the_end_of_partitions() -> None:
    parts = [CursorFacts(f"/default/a-part-{number}", True, 0, 2, 2) for number in range(2)]
    ending = Ending(facts_of(*parts))
    ending.count("/default/a", 1, [0, 1])
    assert not ending.is_reached
    ending.count("/default/a", 0, [1])  # 0 was lost to damage
    assert ending.is_reached


@pytest.mark.parametrize("cut", range(10))
def test_lines_may_be_cut_anywhere(cut: int) -> None:
    data, splitter = b"ab\r\n\nc\nde", Splitter()
    assert splitter.feed(data[:cut]) + splitter.feed(data[cut:]) + splitter.end() == [b"ab", b"", b"c", b"de"]
