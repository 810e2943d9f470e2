"""`consume -g` commits the records that were written out, also during a rebalance."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import pytest

from odradek import Record
from odradek.cli import consume_group
from odradek.cli.consume_group import UncommittedOffsets, read_as_member
from odradek.cli.output import Progress
from odradek.client.consumer.record import BatchInfo, TimestampType
from odradek.client.errors import CommitFailed, RebalanceInProgress
from odradek.model.topics import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int) -> Record[bytes, bytes]:
    return Record(BatchInfo("t", partition, 0, TimestampType.CREATE_TIME), offset, 0, None, b"v")


class FakeConsumer:
    """A fake consumer whose commits have the given outcomes."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = [*outcomes]
        self.committed: dict[TopicPartition, int] = {}
        self.batched: list[list[Record[bytes, bytes]]] = []
        self.polls = 0

    def subscribe(self, topics: Any, *, on_revoke: Any, on_lost: Any) -> None:
        self.on_revoke, self.on_lost = on_revoke, on_lost

    def batches(self, most: int, wait_s: float) -> Any:
        yield from self.batched

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        self.committed.update(offsets)

    def assignment(self) -> list[TopicPartition]:
        return [A, B]

    def pause(self, *partitions: TopicPartition) -> None:
        assert partitions == (A, B)

    def poll(self, timeout: float) -> None:
        self.polls += 1


class ListWriter:
    def __init__(self) -> None:
        self.lines: list[int] = []

    def write(self, record: Record[bytes, bytes]) -> None:
        self.lines.append(record.offset)

    def flush(self) -> None:
        """Nothing is buffered."""


def consume(
    member: Any, *batches: list[Record[bytes, bytes]], num: int | None = None, out: Any = None
) -> ListWriter:
    member.batched = [*batches]
    out = out or ListWriter()
    with Progress("read", quiet=True) as progress:
        read_as_member(member, ["t"], out, num, progress)
    found: ListWriter = out
    return found


def test_printed_records_are_committed() -> None:
    member = FakeConsumer()
    out = consume(member, [record(0, 5), record(1, 7)], [record(0, 6)])
    assert out.lines == [5, 7, 6]
    assert member.committed == {A: 7, B: 8}


def test_records_that_could_not_be_flushed_are_not_committed_at_a_revocation() -> None:
    """The failure closes the consumer, which revokes its partitions."""

    class Full(ListWriter):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    member: Any = FakeConsumer()
    with pytest.raises(OSError, match="No space"):
        consume(member, [record(0, 5)], out=Full())
    member.on_revoke(member, [A])
    assert member.committed == {}


def test_with_a_limit_only_the_printed_records_of_a_batch_are_committed() -> None:
    member = FakeConsumer()
    assert consume(member, [record(0, 0), record(0, 1), record(0, 2)], num=2).lines == [0, 1]
    assert member.committed == {A: 2}


def test_a_commit_during_a_rebalance_is_made_with_the_next_batch() -> None:
    member = FakeConsumer(RebalanceInProgress("later"))
    consume(member, [record(0, 5)], [record(1, 7)])
    assert member.committed == {A: 6, B: 8}


def test_the_last_commit_waits_for_the_end_of_a_rebalance() -> None:
    member = FakeConsumer(RebalanceInProgress("later"), RebalanceInProgress("later"))
    consume(member, [record(0, 5)], num=1)
    assert member.committed == {A: 6}
    assert member.polls == 2


def test_a_rebalance_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_group, "FINISH_S", 0.0)
    member = FakeConsumer(*[RebalanceInProgress("never")] * 100)
    with pytest.raises(RebalanceInProgress, match="not committed"):
        consume(member, [record(0, 5)], num=1)


def test_revoked_partitions_are_committed_first() -> None:
    member: Any = FakeConsumer(RebalanceInProgress("later"))
    written = UncommittedOffsets(member)
    written.add({A: 6})
    written.add({B: 8})
    written.commit()
    assert member.committed == {}
    written.give_up([A])
    assert member.committed == {A: 6}
    assert written.offsets == {B: 8}


def test_lost_partitions_are_never_committed(capsys: pytest.CaptureFixture[str]) -> None:
    """Their new owner may have committed higher offsets."""
    member: Any = FakeConsumer(RebalanceInProgress("later"), RebalanceInProgress("later"))
    written = UncommittedOffsets(member)
    written.add({A: 6})
    written.commit()
    written.give_up([A])
    written.commit()
    assert (member.committed, written.offsets) == ({}, {})
    assert "t-0" in capsys.readouterr().err
    written.add({B: 8})
    written.lost([A, B])
    assert written.offsets == {}


def test_a_member_that_was_removed_reports_it_and_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    member = FakeConsumer(CommitFailed("it took too long"))
    consume(member, [record(0, 5)], [record(1, 7)])
    assert member.committed == {B: 8}
    assert "t-0: some records will be read again" in capsys.readouterr().err
