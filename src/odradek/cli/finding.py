"""Findings: the result of one check of `odradek doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, with a drawback."""
    FAIL = "fail"
    """A broker, or what is named, does not work like this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check, with the way out if there is something to do."""

    check: str
    state: CheckStatus
    found: str
    what_to_do: str = ""


def ok(check: str, found: str, what_to_do: str = "") -> Finding:
    return Finding(check, CheckStatus.OK, found, what_to_do)


def warn(check: str, found: str, what_to_do: str) -> Finding:
    return Finding(check, CheckStatus.WARN, found, what_to_do)


def fail(check: str, found: str, what_to_do: str) -> Finding:
    return Finding(check, CheckStatus.FAIL, found, what_to_do)
