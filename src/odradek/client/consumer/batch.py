"""What is committed for a partition: an offset, the leader epoch before it, and a note.

Batch: records that were handed out together, and what to commit when they were dealt with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import Generic, NamedTuple, SupportsIndex, TypeVar, overload

from odradek.client.consumer.record import Record
from odradek.model.topics import TopicPartition

NO_LEADER_EPOCH = -1
NUMBER = 'give a number, or seek() to the "start" or the "end"'


class OffsetAndMetadata(NamedTuple):
    """`offset` is that of the next record to read. `metadata` is the committer's own text."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH
    """Of the last record read, so that a truncated log is noticed; -1 unknown."""


def to_commit(given: object) -> OffsetAndMetadata:
    """An offset as it may be given to be committed, perhaps with more than itself. Raises
    `TypeError` and `ValueError`."""
    if isinstance(given, OffsetAndMetadata):
        return given._replace(offset=checked_offset(given.offset))
    return OffsetAndMetadata(checked_offset(given))


def checked_offset(offset: object) -> int:
    """An offset of a record. Raises `TypeError` and `ValueError`: what is below 0 has a meaning in
    the protocol, and another one in each of its requests."""
    if not isinstance(offset, SupportsIndex) or isinstance(offset, bool):
        raise TypeError(f"{offset!r} is no offset. What to do: {NUMBER}")
    number = index(offset)
    if number < 0:
        raise ValueError(f"offsets begin with 0; {number} is none. What to do: {NUMBER}")
    return number


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
