"""Patterns of transactional ids: which are taken, what they match, and in how many steps."""

from __future__ import annotations

import re
from random import Random

import pytest

from odradek.coordinator.transaction.id_pattern import IdPattern, InvalidPattern


@pytest.mark.parametrize(
    "pattern",
    ["", "my-.*", "a{2", r"\Qa.b(\E*", r"\pL+\p{Greek}", r"\*+", "[*+]+", "(?P<n>a)", "a+?", r"\z"],
)
def test_patterns_of_re2_are_accepted(pattern: str) -> None:
    IdPattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "[a", "*", "\\", "a**", "a++", "(?=a)", "(?<!a)b", r"(a)\1", r"\q", "a" * 1_001),
        "((a{90}){90}){90}",
    ],
)
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        IdPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "matched", "other"),
    [
        ("my-.*", "my-app", "not-my-app"),
        (r"\Qa.b\E", "a.b", "axb"),
        (r"\pL+", "aβ", "a1"),
        (r"\p{Greek}\P{Greek}", "βb", "bβ"),
        (r"[^\p{Lu}]", "a", "A"),
        ("(?i)abc", "aBC", "abd"),
        (r"a\b-\d{2,3}", "a-123", "a-1234"),
        (r"^(a|bc)+$", "abca", "ab"),
        (r"a\z", "a", "ab"),
    ],
)
def test_a_pattern_matches_whole_ids(pattern: str, matched: str, other: str) -> None:
    assert IdPattern(pattern).matches(matched)
    assert not IdPattern(pattern).matches(other)


def test_patterns_match_as_pythons_do() -> None:
    random = Random(1)
    parts = ["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab|a)*", "b?", "a+", "(b{1,2}a)*", "^", "$"]
    for _ in range(300):
        text = "".join(random.choices(parts, k=random.randint(1, 5)))
        pattern, expected = IdPattern(text), re.compile(text)
        for _ in range(10):
            tried = "".join(random.choices("ab", k=random.randint(0, 6)))
            assert pattern.matches(tried) is bool(expected.fullmatch(tried)), (text, tried)


def test_a_pattern_that_backtracks_for_ever_elsewhere_is_matched_at_once() -> None:
    assert not IdPattern("(a+)+b").matches("a" * 5_000)
