"""Why a value, or a part of it, is not what the schema says."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A value that cannot be converted; `path` says where, innermost first: `.name` of an
    object, `[0]` of an array, `['key']` of a map."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).removeprefix(".")
        return f"{where}: {self.reason}" if where else self.reason


class BrokenText(Refused):
    """A text that is no JSON."""


class Partial(Refused):
    """A value of which a part cannot be converted; `value` has the rest."""

    def __init__(self, value: Any, cause: Refused) -> None:
        super().__init__(cause.reason)
        self.value = value
        self.path = cause.path
