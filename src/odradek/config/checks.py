"""What a setting's value must satisfy beyond its type.

A `Check` looks at a parsed value and answers with the problem, in the words Kafka's tools and users
know, or None. Its `text` says the same rule as a phrase for the reference page. Checks never change
a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """A rule: `problem(value)` is None where it holds; `text` is the rule as a phrase.

    For a list it looks at each element, unless it is about the `whole`.
    """

    text: str
    problem: Callable[[T], str | None]
    whole: bool = False


def at_least(low: float) -> Check[Any]:
    """Numbers of `low` and above."""
    return Check(f"at least {low}", lambda value: _below(value, low))


def between(low: float, high: float) -> Check[Any]:
    """Numbers from `low` to `high`, both included."""

    def problem(value: float) -> str | None:
        return _below(value, low) or (
            f"Value must be no more than {high}" if value > high else None
        )

    return Check(f"{low} to {high}", problem)


def _below(value: float, low: float) -> str | None:
    return f"Value must be at least {low}" if value < low else None


def between_or(low: int, high: int, special: int) -> Check[int]:
    """As `between`, and one value outside that means something else."""

    def problem(value: int) -> str | None:
        if value == special or low <= value <= high:
            return None
        return f"Value must be between {low} and {high} or equal to {special}"

    return Check(f"{low} to {high}, or {special}", problem)


def one_of(*choices: str) -> Check[str]:
    """Exactly one of the strings, in this case of letters."""

    def problem(value: str) -> str | None:
        return None if value in choices else f"String must be one of: {', '.join(choices)}"

    return Check("one of " + ", ".join(f"`{choice}`" for choice in choices), problem)


def refused(reasons: Mapping[T, str]) -> Check[T]:
    """Values that Kafka knows and this broker cannot honour: refused with the reason, never
    ignored.
    """
    listed = ", ".join(f"`{str(value).lower()}`" for value in reasons)
    return Check(f"not {listed} yet", lambda value: reasons.get(value))


def at_most_bytes(most: int) -> Check[str]:
    """Texts that take no more in UTF-8."""

    def problem(value: str) -> str | None:
        size = len(value.encode())
        return f"{size} bytes are too long" if size > most else None

    return Check(f"at most {most} bytes", problem)


def matching(pattern: str, problem: str, text: str) -> Check[str]:
    """Strings that the regular expression matches as a whole."""
    compiled = re.compile(pattern)
    return Check(text, lambda value: None if compiled.fullmatch(value) else problem)


def exactly_one(problem: str) -> Check[tuple[str, ...]]:
    """Lists of one element."""
    return Check("one entry", lambda value: None if len(value) == 1 else problem, whole=True)
