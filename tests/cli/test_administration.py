"""`danube topic`, `danube namespace` and `danube subscription` against a broker."""

import json
import sys

import click
import pytest
from click.testing import Result
from tests.cli.conftest import Danube

from pydanube.cli import output
from pydanube.cli.facts import Retention
from pydanube.cli.topic import say_retention


def refused(result: Result, code: int) -> str:
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"Error {code}: ")
    return result.stderr


def test_the_life_of_a_topic(danube: Danube) -> None:
    assert "There are no topics yet" in danube("topic", "list").stdout
    assert danube("topic", "create", "orders").stdout == "/default/orders is there: reliable (fsync).\n"
    made = danube("topic", "create", "parts", "--partitions", 3, "--durability", "memory").stdout
    assert made == "/default/parts is there: reliable (memory), 3 partitions.\n"
    danube("produce", "orders", "--size", 10, "--count", 5)
    listed = json.loads(danube("topic", "list", "--json").stdout)
    assert [each["topic"] for each in listed] == ["/default/orders", "/default/parts"]
    shown = danube("topic", "list").stdout
    assert "/default/orders" in shown
    assert "reliable (memory)" in shown
    facts = json.loads(danube("topic", "show", "orders", "--json").stdout)
    assert facts["partitions"][0]["end"] == 5
    assert "/default/parts-part-2" in danube("topic", "show", "parts").stdout
    assert danube("topic", "delete", "orders", "--json").stdout.startswith('{"topic":"/default/orders","deleted":true')
    assert danube("topic", "delete", "parts").stdout == "/default/parts is deleted.\n"
    assert json.loads(danube("topic", "list", "--json").stdout) == []


def test_a_topic_that_stores_nothing(danube: Danube) -> None:
    facts = json.loads(danube("topic", "create", "ticks", "--non-reliable", "--json").stdout)
    assert facts["reliable"] is False
    danube("produce", "ticks", "--size", 10, "--count", 5)
    shown = danube("topic", "show", "ticks").stdout
    assert "non-reliable" in shown
    assert "keeps" not in shown
    assert "non-reliable" in danube("topic", "list", "--namespace", "default").stdout


def test_topics_that_are_not_there(danube: Danube) -> None:
    assert "There is no topic /default/none" in refused(danube("topic", "show", "none", status=1), 102)
    refused(danube("topic", "delete", "none", status=1), 102)
    refused(danube("topic", "retention", "none", status=1), 102)
    refused(danube("topic", "create", "a b", status=1), 101)
    danube("topic", "create", "a")
    refused(danube("topic", "create", "a", status=1), 108)


def test_retention(danube: Danube) -> None:
    danube("topic", "create", "a")
    assert "the broker's configuration" in danube("topic", "retention", "a").stdout
    danube("topic", "retention", "a", "--time", "5d", "--bytes", "1GiB")
    kept = json.loads(danube("topic", "retention", "a", "--no-hold-unconsumed", "--json").stdout)
    assert kept["retention"] == {"time_us": 5 * 86_400_000_000, "bytes": 1 << 30, "hold_unconsumed": False}
    said = danube("topic", "retention", "a", "--time", "forever", "--bytes", "none", "--hold-unconsumed").stdout
    assert "messages for ever, and longer" in said
    assert "messages for ever" in danube("topic", "show", "a").stdout
    assert "the broker's configuration" in danube("topic", "retention", "a", "--default").stdout
    for wrong in (("--time", "5"), ("--bytes", "x"), ("--default", "--time", "1d")):
        danube("topic", "retention", "a", *wrong, status=2)


def test_retention_in_words() -> None:
    assert say_retention(Retention(0, 1 << 20, False)) == "messages until consumed, at most 1MiB a partition"
    assert say_retention(Retention(3_600_000_000, None, False)) == "messages for 1h"


def test_the_life_of_a_namespace(danube: Danube) -> None:
    assert "no" in danube("namespace", "create", "shop", "--no-auto-create").stdout
    refused(danube("produce", "/shop/a", "--size", 1, "--count", 1, status=1), 102)
    assert json.loads(danube("namespace", "set", "shop", "--auto-create", "--json").stdout)["auto_create_topics"]
    danube("produce", "/shop/a", "--size", 1, "--count", 1)
    assert json.loads(danube("namespace", "show", "shop", "--json").stdout)["topics"] == 1
    assert "shop" in danube("namespace", "list").stdout
    assert len(json.loads(danube("namespace", "list", "--json").stdout)) == 2
    refused(danube("namespace", "delete", "shop", status=1), 111)
    danube("topic", "delete", "/shop/a")
    assert danube("namespace", "delete", "shop").stdout == "Namespace shop is deleted.\n"
    refused(danube("namespace", "show", "shop", status=1), 112)
    danube("namespace", "set", "default", status=2)


def test_the_life_of_a_subscription(danube: Danube) -> None:
    danube("produce", "orders", "--size", 10, "--count", 5)
    assert "Nobody is subscribed" in danube("subscription", "list", "orders").stdout
    danube("consume", "orders", "--subscription", "billing", "--count", 2)
    (facts,) = json.loads(danube("subscription", "list", "orders", "--json").stdout)
    assert facts["partitions"][0]["lag"] == 3
    assert "billing" in danube("subscription", "list", "orders").stdout
    assert "billing on /default/orders, exclusive" in danube("subscription", "show", "orders", "billing").stdout
    dry = json.loads(danube("subscription", "delete", "orders", "billing", "--dry-run", "--json").stdout)
    assert (dry["deleted"], dry["lag"]) == (False, 3)
    assert "Would delete" in danube("subscription", "delete", "orders", "billing", "--dry-run").stdout
    assert "is deleted" in danube("subscription", "delete", "orders", "billing").stdout
    refused(danube("subscription", "show", "orders", "billing", status=1), 105)


def test_nobody_is_there(danube: Danube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANUBE_URL", "danube://127.0.0.1:1")
    assert "No broker can be reached" in refused(danube("topic", "list", status=1), 601)


def test_somebody_at_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda question, **_: asked.append(question))
    output.agree("Really?", yes=True)
    assert asked == []
    output.agree("Really?", yes=False)
    assert asked == ["Really?"]
