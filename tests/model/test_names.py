"""The grammar of names."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.model import DEFAULT_NAMESPACE, TopicName, parse_namespace, parse_subscription, parse_topic
from pydanube.model.errors import InvalidName
from pydanube.model.limits import NAME_BYTES_MAX

LONGEST = "a" * NAME_BYTES_MAX

GOOD_PARTS = [
    "a",
    "0",
    "_",
    "orders",
    "Orders",
    "orders-2024",
    "orders_2024",
    "a-",
    "_-_",
    "größe",
    "заказы",
    "注文",
    "٣",
    LONGEST,
]
BAD_PARTS = [
    "",
    " ",
    "-",
    "-a",
    "a b",
    "a.b",
    ".",
    "..",
    "a/b",
    "a\\b",
    "a:b",
    "a*",
    "a\n",
    "\na",
    "a\0",
    "a\u200b",  # zero-width space
    "a\u0301",  # a letter and its accent as two: not normal form C
    "\u212b",  # the ångström sign, which is another letter in normal form C
    "\ud800",
    "😀",
    LONGEST + "a",
    "ö" * (NAME_BYTES_MAX // 2) + "a",  # the bound is in bytes
]

TOPICS = [
    ("orders", "default", "orders"),
    ("/default/orders", "default", "orders"),
    ("/shop/orders-1", "shop", "orders-1"),
    ("/Shop/Orders", "Shop", "Orders"),
    (f"/{LONGEST}/{LONGEST}", LONGEST, LONGEST),
]
BAD_TOPICS = [
    "",
    "/",
    "//",
    "/a",
    "a/b",
    "/a/b/",
    "/a/b/c",
    "//b",
    "/a/",
    "/a/-b",
    "/a.b/c",
    "/a/b c",
    " /a/b",
    "/a/b ",
]

PARTITIONS = [
    ("orders-part-0", "orders", 0),
    ("orders-part-17", "orders", 17),
    ("orders-part-999999", "orders", 999_999),
    ("a-part-1-part-2", "a-part-1", 2),
    ("orders-part-01", "orders-part-01", None),
    ("orders-part-1000000", "orders-part-1000000", None),
    ("orders-part-", "orders-part-", None),
    ("orders-part-x", "orders-part-x", None),
    ("orders-part-٣", "orders-part-٣", None),
    ("part-0", "part-0", None),
]


@pytest.mark.parametrize("text", GOOD_PARTS)
def test_good_parts(text: str) -> None:
    assert parse_namespace(text) == text
    assert parse_subscription(text) == text
    assert parse_topic(text) == TopicName(DEFAULT_NAMESPACE, text)


@pytest.mark.parametrize("text", BAD_PARTS)
def test_bad_parts(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_namespace(text)
    with pytest.raises(InvalidName):
        parse_subscription(text)
    with pytest.raises(InvalidName):
        parse_topic(text)
    with pytest.raises(InvalidName):
        parse_topic(f"/{text}/a")
    with pytest.raises(InvalidName):
        parse_topic(f"/a/{text}")


@pytest.mark.parametrize(("text", "namespace", "name"), TOPICS)
def test_topics(text: str, namespace: str, name: str) -> None:
    assert parse_topic(text) == (namespace, name)


@pytest.mark.parametrize("text", BAD_TOPICS)
def test_bad_topics(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_topic(text)


@pytest.mark.parametrize(("text", "base", "number"), PARTITIONS)
def test_partitions(text: str, base: str, number: int | None) -> None:
    topic = parse_topic(text)
    assert topic.partition == number
    assert topic.base == parse_topic(base)


def test_dividing_a_topic() -> None:
    topic = parse_topic("/shop/orders").with_partition(3)
    assert str(topic) == "/shop/orders-part-3"
    assert topic.base == parse_topic("/shop/orders")
    with pytest.raises(InvalidName):
        topic.with_partition(0)
    with pytest.raises(InvalidName):
        parse_topic(LONGEST).with_partition(0)


def test_the_error_names_the_text() -> None:
    with pytest.raises(InvalidName, match=r"'or ders'"):
        parse_topic("or ders")


@given(st.text() | st.from_regex(r"/?\w[\w-]*(/\w[\w-]*)?", fullmatch=True))
def test_what_is_parsed_parses_to_itself(text: str) -> None:
    try:
        topic = parse_topic(text)
    except InvalidName:
        return
    assert parse_topic(str(topic)) == topic
    assert str(topic) == unicodedata.normalize("NFC", str(topic))
    assert text in (str(topic), topic.name)
    if topic.partition is not None:
        assert topic.base.name == topic.name.removesuffix(f"-part-{topic.partition}")


@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,150}", fullmatch=True), st.integers(0, 999_999))
def test_a_partition_leads_back(name: str, number: int) -> None:
    topic = parse_topic(name)
    if topic.partition is None:
        part = topic.with_partition(number)
        assert (part.base, part.partition) == (topic, number)
