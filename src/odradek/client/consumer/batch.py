"""Batch: records that were handed out together, and what to commit when they were dealt with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

from odradek.client.consumer.offset_and_metadata import OffsetAndMetadata
from odradek.client.consumer.record import Record
from odradek.model.topics import TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class Batch(Sequence[Record[K, V]], Generic[K, V]):
    """A sequence of records, those of one partition in order."""

    __slots__ = ("offsets", "records")

    def __init__(
        self,
        records: list[Record[K, V]],
        offsets: dict[TopicPartition, OffsetAndMetadata],
    ) -> None:
        self.records = records
        self.offsets = offsets
        """By partition, the offset behind the last record: `commit` takes the batch."""

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record[K, V]]: ...
    def __getitem__(self, index: int | slice) -> Record[K, V] | list[Record[K, V]]:
        return self.records[index]

    def __iter__(self) -> Iterator[Record[K, V]]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"Batch({len(self.records)} records of {', '.join(map(str, self.offsets))})"
