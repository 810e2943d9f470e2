"""Gathering: what a call wants to have together before it returns.

    while not gathering.is_full and there is time:
        gathering.add()             what is there now
        wait for more               this is what faces differ in

One for records, one for columns. If the wait is broken off (Ctrl-C, a cancelled task) the face
has the positions moved back to where they were: `FetchCollector.undo`.

The application's thread only.
"""

from __future__ import annotations

from typing import Any, Protocol

from odradek.client.consumer.batch import Batch
from odradek.client.consumer.completed_fetch import Run
from odradek.client.consumer.fetch_collector import FetchCollector
from odradek.client.consumer.offset_and_metadata import OffsetAndMetadata
from odradek.client.consumer.record import Record
from odradek.model.topics import TopicPartition
from odradek.protocol.record_columns import RecordColumns

MAX_ARROW_BYTES = 256 * 1024 * 1024
"""Of data in one Arrow batch: far below the 2 GiB that its offsets can say."""


def limit_of(name: str, given: int, least: int = 1) -> int:
    """How much is to be gathered at most. Raises `ValueError`: fewer than `least` would be waited
    for in vain, or would not be waited for at all, again and again.
    """
    if given < least:
        raise ValueError(f"{name} cannot be {given}. What to do: give {least} or more")
    return given


class Gathering(Protocol):
    """What faces need of one."""

    def add(self) -> None:
        """Take what is there. Raises what fetches raise, when there is nothing before it."""
        ...

    @property
    def is_full(self) -> bool: ...

    @property
    def is_empty(self) -> bool: ...


class RecordGathering:
    """Up to `limit` records."""

    def __init__(self, collector: FetchCollector, limit: int) -> None:
        self.records: list[Record[Any, Any]] = []
        self._collector = collector
        self._limit = limit

    def add(self) -> None:
        self._collector.take(self.records, self._limit)

    @property
    def is_full(self) -> bool:
        return len(self.records) >= self._limit

    @property
    def is_empty(self) -> bool:
        return not self.records

    def batch(self) -> Batch[Any, Any]:
        """What was gathered."""
        return Batch(self.records, self._collector.handed_out())


class ColumnGathering:
    """Up to `limit` rows."""

    def __init__(self, collector: FetchCollector, limit: int, with_headers: bool = True) -> None:
        self.columns = RecordColumns(with_headers)
        self.runs: list[Run] = []
        self._collector = collector
        self._limit = limit

    def add(self) -> None:
        self._collector.take_columns(self.columns, self.runs, self._limit, MAX_ARROW_BYTES)

    @property
    def is_full(self) -> bool:
        return self.columns.count >= self._limit or self.columns.data_bytes > MAX_ARROW_BYTES

    @property
    def is_empty(self) -> bool:
        return self.columns.count == 0

    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit for the rows."""
        return self._collector.handed_out()
