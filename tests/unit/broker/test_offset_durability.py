"""Committed offsets over restarts, under compaction, and on a full disk."""

from __future__ import annotations

import errno

from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS, uuid_text
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from unit.broker.group_requests import MINUTE_MS, commit, committed, delete, groups, serving
from unit.broker.memory_broker import MemoryBroker

MIB = 1 << 20


class TestRestarts:
    def test_acknowledged_offsets_survive_a_shutdown_and_a_crash(self) -> None:
        disk = MemoryDisk()
        node = serving(disk)
        node.create("t", 2)
        assert commit(node, "g", {("t", 0): 5, ("t", 1): 7}) == {ErrorCode.NONE}
        assert commit(node, "g", {("t", 0): 6}) == {ErrorCode.NONE}
        disk.locks.clear()  # as the system does for a process that was killed
        killed = serving(disk)
        assert committed(killed, "g") == {("t", 0): 6, ("t", 1): 7}
        killed.node.stop(lambda: None)
        killed.run_until_idle()
        assert committed(serving(disk), "g") == {("t", 0): 6, ("t", 1): 7}

    def test_a_fetch_of_offsets_waits_until_the_commit_is_on_disk(self) -> None:
        node = serving()
        node.create("t")
        request = OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=5, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        asked = node.send(request, 9)
        node.run_soon()
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        look = node.send(fetch, 9)
        node.run_soon()
        assert asked.parts is None and look.parts is None
        node.run_until_idle()
        assert asked.answer(OffsetCommitResponse).topics[0].partitions[0].error_code == 0
        (group,) = look.answer(OffsetFetchResponse).groups
        assert group.topics[0].partitions[0].committed_offset == 5

    def test_offsets_of_a_topic_deleted_before_loading_are_deleted_after_it(self) -> None:
        disk = MemoryDisk()
        node = serving(disk)
        node.create("kept")
        node.create("gone")
        commit(node, "g", {("kept", 0): 1, ("gone", 0): 2})
        node.node.groups.runtime.close()
        delete(node, "gone")
        disk.locks.clear()
        again = serving(disk)
        assert committed(again, "g") == {("kept", 0): 1}


def test_metadata_above_the_limit_is_offset_metadata_too_large() -> None:
    node = serving(offset_metadata_max_bytes="3")
    node.create("t")
    assert commit(node, "g", {("t", 0): 1}, metadata="€€€") == {ErrorCode.NONE}
    too_large = {ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(node, "g", {("t", 0): 2}, metadata="4444") == too_large
    assert committed(node, "g") == {("t", 0): 1}


def test_the_offsets_topic_stays_small_by_compaction() -> None:
    small = {"offsets_topic_num_partitions": "1", "offsets_topic_segment_bytes": str(MIB)}
    node = serving(
        **small,
        log_cleaner_backoff_ms="1000",
        log_cleaner_min_cleanable_ratio="0.1",
        log_segment_delete_delay_ms="0",
    )
    node.create("t")
    sizes = []
    for number in range(1500):
        assert commit(node, "g", {("t", 0): number}, metadata="m" * 4000) == {ErrorCode.NONE}
        if number % 100 == 0:
            node.pass_time(5_000)
            sizes.append(size_of_groups(node))
    assert max(sizes) < 2 * MIB, sizes
    assert committed(node, "g") == {("t", 0): 1499}
    node.disk.locks.clear()
    assert committed(serving(node.disk, **small), "g") == {("t", 0): 1499}


def size_of_groups(node: MemoryBroker) -> int:
    """The size of `__consumer_offsets` in bytes."""
    return sum(
        partition.log.size
        for partition in node.node.replicas
        if partition.topic_partition.topic == CONSUMER_OFFSETS
    )


class DiskWithRoomFor(MemoryDisk):
    """Refuses writes to paths under `full`, and counts them in `refused`."""

    full = ""
    refused = 0

    def effect(self, kind: str, path: str) -> None:
        if self.full and self.full in path and kind in ("append", "create"):
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device", path)


class TestFullDisks:
    def full(self, **settings: str) -> tuple[DiskWithRoomFor, MemoryBroker]:
        disk = DiskWithRoomFor()
        return disk, serving(disk, **settings)

    def fill(self, disk: DiskWithRoomFor, node: MemoryBroker) -> None:
        """Refuse writes to `__consumer_offsets`, but not to the metadata log."""
        topic = node.node.metadata.committed.topic(CONSUMER_OFFSETS)
        assert topic is not None
        disk.full = uuid_text(topic.id)

    def test_after_a_full_disk_offsets_of_a_deleted_topic_are_deleted_and_its_successors_stay(
        self,
    ) -> None:
        disk, node = self.full()
        node.create("t")
        node.create("u")
        commit(node, "g", {("t", 0): 5, ("u", 0): 9})
        self.fill(disk, node)
        delete(node, "t")
        node.create("t")
        assert disk.refused
        disk.full = ""
        commit(node, "h", {("t", 0): 3})
        assert committed(node, "g") == {("t", 0): 5, ("u", 0): 9}
        node.pass_time(MINUTE_MS)
        assert committed(node, "g") == {("u", 0): 9}
        assert committed(node, "h") == {("t", 0): 3}

    def test_a_refused_commit_creates_no_group(self) -> None:
        disk, node = self.full()
        node.create("t")
        self.fill(disk, node)
        assert commit(node, "g", {("t", 0): 5}) == {ErrorCode.NOT_COORDINATOR}
        disk.full = ""
        assert groups(node) == []

    def test_a_refused_deletion_is_not_retried_before_the_next_check(self) -> None:
        disk, node = self.full()
        node.create("t", 50)
        for number in range(30):
            commit(node, f"g{number}", {("t", index): 1 for index in range(50)})
        self.fill(disk, node)
        delete(node, "t")
        node.pass_time(MINUTE_MS // 2)
        assert 0 < disk.refused <= 2
        disk.full = ""
        node.pass_time(MINUTE_MS)
        assert all(committed(node, f"g{number}") == {} for number in range(30))
