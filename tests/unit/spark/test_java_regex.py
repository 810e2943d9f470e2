"""Java regular expressions on topic names. The expected matches are those of Java 17
(`Pattern.compile(…).matcher(name).find()`).
"""

import pytest

from odradek.spark.java_regex import compile_java

NAMES = ("flights", "flights.delays", "my-flights", "Flights_2", "x.y", "aa-bb", "aa-aa")


def found(pattern: str) -> set[str]:
    compiled = compile_java(pattern)
    return {name for name in NAMES if compiled.search(name)}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("flights", {"flights", "flights.delays", "my-flights"}),
        (".*", set(NAMES)),
        ("", set(NAMES)),
        ("^flights$", {"flights"}),
        (r"flights\z", {"flights", "my-flights"}),
        (r"flights\Z", {"flights", "my-flights"}),
        ("(?i)flights", {"flights", "flights.delays", "my-flights", "Flights_2"}),
        ("(?i:F)lights_", {"Flights_2"}),
        (r"\Qflights.d\E", {"flights.delays"}),
        (r"^\Qx.y", {"x.y"}),
        (r"^\Qa[\Ea|y$", {"x.y"}),
        (r"(?<twice>\w\w)-\k<twice>", {"aa-aa"}),
        (r"(?<=my-)flights", {"my-flights"}),
        (r"(?<!-)flights$", {"flights"}),
        (r"^\p{Lu}", {"Flights_2"}),
        (r"\P{Alpha}$", {"Flights_2"}),
        (r"[\P{Alnum}2]\p{Digit}", {"Flights_2"}),
        (r"^[^\P{L}]+$", {"flights"}),
        (r"^\pL\pP\pL$", {"x.y"}),
        (r"\P{ASCII}", set()),
        (r"[\]\[.]y", {"x.y"}),
        (r"[^a-z]\w+s$", {"flights.delays", "my-flights"}),
        (r"^a++-b", {"aa-bb"}),
        (r"^(?>a+)-", {"aa-bb", "aa-aa"}),
    ],
)
def test_a_pattern_finds_what_java_finds(pattern, expected):
    assert found(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("[a-z&&[^b]]", "&& at 4 within a character class"),
        ("[a[bc]]", r"\[ at 2 within a character class"),
        (r"\p{Klingon}", "no character class 'Klingon'"),
        ("a(?i)b", "flags"),
        ("(", "unterminated"),
    ],
)
def test_a_construct_that_differs_in_python_is_refused(pattern, complaint):
    with pytest.raises(ValueError, match=complaint):
        compile_java(pattern)
