"""One setting: what texts it takes, and what it says of those it does not."""

from __future__ import annotations

import pytest

from odradek.config.setting import (
    ConfigError,
    Setting,
    at_least,
    between,
    between_or,
    boolean,
    choice,
    double,
    exactly_one,
    integer,
    long,
    one_of,
    refused,
    string,
    strings,
)

DOC = "A setting."
SIZE = integer("size", 5, at_least(1), doc=DOC)
AGE = long("age", 5, between(-1, 10), doc=DOC)
SHARE = double("share", 0.5, between(0, 1), doc=DOC)
FLAG = boolean("flag", False, doc=DOC)
COLOUR = choice("colour", "red", ("red", "blue"), doc=DOC)
LIST = strings("list", (), one_of("a", "b"), doc=DOC)


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (SIZE, "7", 7),
        (SIZE, " +7 ", 7),
        (SIZE, "2147483647", 2**31 - 1),
        (AGE, "-1", -1),
        (SHARE, "1e-1", 0.1),
        (SHARE, ".5", 0.5),
        (FLAG, "TRUE", True),
        (FLAG, " false", False),
        (COLOUR, " blue ", "blue"),
        (LIST, "", ()),
        (LIST, "a , b", ("a", "b")),
        (LIST, "b,b", ("b", "b")),
    ],
)
def test_texts_are_read_as_kafka_reads_them(
    setting: Setting[object], text: str, value: object
) -> None:
    assert setting.parse(text) == value


@pytest.mark.parametrize(
    ("setting", "text", "problem"),
    [
        (SIZE, "0", "Invalid value 0 for configuration size: Value must be at least 1"),
        (SIZE, "x", "Invalid value x for configuration size: Not a number of type INT"),
        (SIZE, "", "Not a number of type INT"),
        (SIZE, "2147483648", "Not a number of type INT"),
        (SIZE, "1_000", "Not a number of type INT"),
        (SIZE, "٣", "Not a number of type INT"),
        (SIZE, "9" * 5000, "Not a number of type INT"),
        (AGE, "11", "Value must be no more than 10"),
        (SHARE, "nan", "Not a number of type DOUBLE"),
        (SHARE, "inf", "Not a number of type DOUBLE"),
        (FLAG, "yes", "Expected value to be either true or false"),
        (COLOUR, "RED", "String must be one of: red, blue"),
        (LIST, "a,c", "Invalid value c for configuration list: String must be one of: a, b"),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule(
    setting: Setting[object], text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        setting.parse(text)
    assert problem in str(error.value)


def test_a_value_may_be_outside_the_range_if_it_means_something_else() -> None:
    level = integer("level", -1, between_or(1, 9, -1), doc=DOC)
    assert level.parse("-1") == -1
    with pytest.raises(ConfigError, match="between 1 and 9 or equal to -1"):
        level.parse("0")


def test_a_value_that_is_not_honoured_is_refused_with_the_reason() -> None:
    policy = strings("policy", (), refused({"compact": "not in this version"}), doc=DOC)
    assert policy.parse("delete") == ("delete",)
    with pytest.raises(ConfigError, match="not in this version"):
        policy.parse("delete,compact")


def test_a_rule_about_a_whole_list_looks_at_the_whole_list() -> None:
    one = strings("one", ("a",), exactly_one("one, please"), doc=DOC)
    assert one.parse("a") == ("a",)
    for text in ("", "a,b"):
        with pytest.raises(ConfigError, match="one, please"):
            one.parse(text)


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [(FLAG, True, "true"), (LIST, ("a", "b"), "a,b"), (SHARE, 0.5, "0.5"), (SIZE, None, None)],
)
def test_values_are_shown_as_text(
    setting: Setting[object], value: object, text: str | None
) -> None:
    assert setting.text(value) == text


def test_a_text_that_was_shown_is_read_back() -> None:
    name = string("name", "", doc=DOC)
    assert name.parse(name.text("plain") or "") == "plain"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1048576.0, "1048576.0"),
        (10_000_000.0, "1.0E7"),
        (12_345_678.5, "1.23456785E7"),
        (0.0001, "1.0E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0, "0.0"),
    ],
)
def test_a_double_is_shown_as_java_shows_it(value: float, text: str) -> None:
    assert double("ratio", 1.0, doc=DOC).text(value) == text
