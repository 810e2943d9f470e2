"""Batch: records that were returned together. OffsetAndMetadata: an offset to commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import Generic, NamedTuple, SupportsIndex, TypeVar, overload

from odradek.client.consumer.record import Record
from odradek.model.topics import TopicPartition

NO_LEADER_EPOCH = -1
NUMBER = 'give a number, or seek() to the "start" or the "end"'


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the next record to read, and the committer's text."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH
    """Epoch of the last record read, which reveals a truncated log; -1 unknown."""


def to_commit(given: object) -> OffsetAndMetadata:
    """Return an offset to commit, given as an integer or as an `OffsetAndMetadata`. Raises
    `TypeError` and `ValueError`.
    """
    if isinstance(given, OffsetAndMetadata):
        return given._replace(offset=checked_offset(given.offset))
    return OffsetAndMetadata(checked_offset(given))


def checked_offset(offset: object) -> int:
    """Return `offset` as an int. Raises `TypeError` and `ValueError`: requests give negative
    offsets special meanings, each request its own.
    """
    if not isinstance(offset, SupportsIndex) or isinstance(offset, bool):
        raise TypeError(f"{offset!r} is no offset. What to do: {NUMBER}")
    number = index(offset)
    if number < 0:
        raise ValueError(f"offsets begin with 0; {number} is none. What to do: {NUMBER}")
    return number


K = TypeVar("K")
V = TypeVar("V")


class Batch(Sequence[Record[K, V]], Generic[K, V]):
    """A sequence of records; those of one partition are in order."""

    __slots__ = ("offsets", "records")

    def __init__(
        self,
        records: list[Record[K, V]],
        offsets: dict[TopicPartition, OffsetAndMetadata],
    ) -> None:
        self.records = records
        self.offsets = offsets
        """The offset behind the last record, by partition: what `commit` commits for the batch."""

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
