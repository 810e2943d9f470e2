"""One answer made of the answers of several shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from odradek.coordinator.turn import Reply
from odradek.model.errors import ErrorCode

T = TypeVar("T")


class Gathering(Generic[T]):
    """Calls `whole` once, with the parts in the order in which they were asked for."""

    def __init__(self, count: int, whole: Callable[[list[T]], None]) -> None:
        self._parts: list[T | None] = [None] * count
        self._missing = count
        self._whole = whole
        if count == 0:
            whole([])

    def part(self, index: int, refusal: Callable[[ErrorCode], T]) -> Reply[T]:
        """The way back for one part."""
        return Reply(lambda response: self._arrived(index, response), refusal)

    def _arrived(self, index: int, response: T) -> None:
        self._parts[index] = response
        self._missing -= 1
        if self._missing == 0:
            self._whole([part for part in self._parts if part is not None])
