"""Offsets of transactions are pending until their marker; the last record of several counts.

The model beside it is Kafka's: an offset has the offset of its record, and the greater one stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.group.group_records import OffsetCommitKey, OffsetCommitValue
from odradek.coordinator.group.offsets import Offsets
from odradek.coordinator.group.pending_offsets import PendingOffset

KEY = OffsetCommitKey(group="g", topic="t", partition=0)
ELSEWHERE = OffsetCommitKey(group="g", topic="t", partition=1)


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)


def committed(offsets: Offsets, key: OffsetCommitKey = KEY) -> int | None:
    found = offsets.get(key.group, key.topic, key.partition)
    return None if found is None else found.offset


def test_offset_of_a_transaction_is_committed_by_its_marker() -> None:
    offsets = Offsets()
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    assert committed(offsets) is None
    assert offsets.pending.has("g", "t", 0)
    assert not offsets.pending.has("g", "t", 1)
    offsets.end_transaction(1, committed=True)
    assert committed(offsets) == 5
    assert not offsets.pending.has("g", "t", 0)
    assert not offsets.pending.has_group("g")


def test_aborted_offset_leaves_the_one_before() -> None:
    offsets = Offsets()
    offsets.replay(KEY, value(3))
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    offsets.end_transaction(1, committed=False)
    assert committed(offsets) == 3
    assert not offsets.pending.has_group("g")


def test_marker_ends_its_own_producer_only_and_may_come_again() -> None:
    offsets = Offsets()
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    offsets.replay_transactional(ELSEWHERE, value(6), producer_id=2)
    for _ in range(2):
        offsets.end_transaction(1, committed=True)
        assert (committed(offsets), committed(offsets, ELSEWHERE)) == (5, None)
        assert offsets.pending.has("g", "t", 1)


def test_last_offset_of_a_transaction_counts() -> None:
    offsets = Offsets()
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    offsets.replay_transactional(KEY, value(6), producer_id=1)
    offsets.end_transaction(1, committed=True)
    assert committed(offsets) == 6


def test_plain_commit_overtakes_a_pending_offset_which_stays_unstable() -> None:
    offsets = Offsets()
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    offsets.replay(KEY, value(7))
    assert offsets.pending.has("g", "t", 0)
    assert list(offsets.pending.of_group("g")) == []
    offsets.end_transaction(1, committed=True)
    assert committed(offsets) == 7


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_transactions_the_later_record_counts_whichever_ends_first(first: int) -> None:
    offsets = Offsets()
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    offsets.replay_transactional(KEY, value(6), producer_id=2)
    offsets.end_transaction(first, committed=True)
    assert offsets.pending.has("g", "t", 0)
    offsets.end_transaction(3 - first, committed=True)
    assert committed(offsets) == 6


def test_tombstone_removes_pending_offsets_too() -> None:
    offsets = Offsets()
    offsets.replay(KEY, value(3))
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    offsets.replay(KEY, None)
    assert not offsets.pending.has("g", "t", 0)
    offsets.end_transaction(1, committed=True)
    assert committed(offsets) is None


def test_group_with_pending_offsets_only_is_listed_with_their_tombstones() -> None:
    offsets = Offsets()
    offsets.replay_transactional(KEY, value(5), producer_id=1)
    assert offsets.groups() == ["g"]
    assert list(offsets.pending.of_group("g")) == [PendingOffset("t", 0, value(5))]
    assert [record.key for record in offsets.tombstones("g")] == [KEY]
    offsets.replay(KEY, value(7))
    assert len(list(offsets.tombstones("g"))) == 1, "one for both"


@dataclass
class KafkasOffsets:
    """OffsetMetadataManager: (offset of the record, committed offset) by partition."""

    committed: dict[int, tuple[int, int]] = field(default_factory=dict)
    pending: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def end(self, producer_id: int, is_committed: bool) -> None:
        for partition, found in self.pending.pop(producer_id, {}).items():
            known = self.committed.get(partition)
            if is_committed and (known is None or found[0] > known[0]):
                self.committed[partition] = found


PARTITIONS = st.integers(0, 1)
PRODUCERS = st.integers(1, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), PARTITIONS),
        st.tuples(st.just("delete"), PARTITIONS),
        st.tuples(st.just("pending"), PARTITIONS, PRODUCERS),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
    ),
    max_size=30,
)


@given(STEPS)
def test_any_order_of_records_gives_kafkas_offsets(steps: list[tuple[str, int, int]]) -> None:
    offsets, model = Offsets(), KafkasOffsets()
    for at, (kind, *arguments) in enumerate(steps):
        first = arguments[0]
        key = OffsetCommitKey(group="g", topic="t", partition=first)
        if kind == "commit":
            offsets.replay(key, value(at))
            model.committed[first] = (at, at)
        elif kind == "delete":
            offsets.replay(key, None)
            model.committed.pop(first, None)
            for held in model.pending.values():
                held.pop(first, None)
        elif kind == "pending":
            offsets.replay_transactional(key, value(at), arguments[1])
            model.pending.setdefault(arguments[1], {})[first] = (at, at)
        else:
            offsets.end_transaction(first, bool(arguments[1]))
            model.end(first, bool(arguments[1]))
        for partition in range(2):
            found = offsets.get("g", "t", partition)
            expected = model.committed.get(partition)
            assert (found and found.offset) == (expected and expected[1])
            is_open = any(partition in held for held in model.pending.values())
            assert offsets.pending.has("g", "t", partition) is is_open
