"""The common interface of the libraries; see the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from clients.records import Sent

PATIENCE_S = 60
"""The patience for an expected event on a busy machine."""
PATIENCE_MS = PATIENCE_S * 1000
LONG_WAIT_MS = 2 * PATIENCE_MS
"""The wait of a fetch without records: longer than a test waits."""
LARGE = 2_000_000
SMALL_FETCH = 1000

Row = tuple[int, Sent]
"""A partition and its record."""


class Producing(Protocol):
    def send(self, topic: str, rows: Sequence[Row]) -> list[int]:
        """Return the offsets, once all are acknowledged by all replicas."""


class Consuming(Protocol):
    def read(self, count: int) -> list[Row]:
        """Return the next records, in order within each partition."""


class Administering(Protocol):
    def create(self, topic: str, partitions: int, **config: str) -> None: ...

    def grow(self, topic: str, partitions: int) -> None: ...

    def partitions(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""

    def setting(self, topic: str, name: str) -> str: ...

    def delete(self, topic: str) -> None: ...


class Library(ABC):
    """One client library."""

    name: str
    null_headers = True
    """True if it can send a header with a null value."""

    @abstractmethod
    def producer(
        self, bootstrap: str, codec: str = "none", idempotent: bool = False
    ) -> AbstractContextManager[Producing]: ...

    @abstractmethod
    def consumer(
        self, bootstrap: str, topic: str, partitions: int = 1, max_wait_ms: int = 500
    ) -> AbstractContextManager[Consuming]: ...

    @abstractmethod
    def admin(self, bootstrap: str) -> AbstractContextManager[Administering]: ...


def dotted(config: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in config.items()}
