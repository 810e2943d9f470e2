"""Parsing, validation and formatting of one setting."""

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
def test_text_is_parsed_by_the_rules_of_kafka(
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
def test_the_error_for_an_invalid_value_has_the_rule(
    setting: Setting[object], text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        setting.parse(text)
    assert problem in str(error.value)


def test_between_or_accepts_its_special_value() -> None:
    level = integer("level", -1, between_or(1, 9, -1), doc=DOC)
    assert level.parse("-1") == -1
    with pytest.raises(ConfigError, match="between 1 and 9 or equal to -1"):
        level.parse("0")


def test_the_error_for_an_unsupported_value_has_the_reason() -> None:
    policy = strings("policy", (), refused({"compact": "not in this version"}), doc=DOC)
    assert policy.parse("delete") == ("delete",)
    with pytest.raises(ConfigError, match="not in this version"):
        policy.parse("delete,compact")


def test_a_validator_of_whole_lists_gets_the_list() -> None:
    one = strings("one", ("a",), exactly_one("one, please"), doc=DOC)
    assert one.parse("a") == ("a",)
    for text in ("", "a,b"):
        with pytest.raises(ConfigError, match="one, please"):
            one.parse(text)


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [(FLAG, True, "true"), (LIST, ("a", "b"), "a,b"), (SHARE, 0.5, "0.5"), (SIZE, None, None)],
)
def test_values_are_formatted_as_text(
    setting: Setting[object], value: object, text: str | None
) -> None:
    assert setting.text(value) == text


def test_formatted_text_is_parsed_to_the_same_value() -> None:
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
def test_a_double_is_formatted_as_in_java(value: float, text: str) -> None:
    assert double("ratio", 1.0, doc=DOC).text(value) == text
