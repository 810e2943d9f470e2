"""Committed offsets in time: over restarts, until they are too old, and until their topic ends."""

from __future__ import annotations

import errno

from serving import Serving

from odradek.log.memory import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_UUID, uuid_text
from odradek.model.topic_names import CONSUMER_OFFSETS
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
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
from odradek.protocol.api.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.consumer_protocol import Subscription, encode_subscription

MINUTE_MS = 60_000
MIB = 1 << 20
SETTINGS = {
    "offsets_topic_num_partitions": "2",
    "offsets_retention_minutes": "60",
    "offsets_retention_check_interval_ms": str(MINUTE_MS),
    "group_initial_rebalance_delay_ms": "0",
    "group_max_session_timeout_ms": str(1 << 30),
}
Offsets = dict[tuple[str, int], int]


def serving(disk: MemoryDisk | None = None, **settings: str) -> Serving:
    """A broker with a coordinator."""
    node = Serving(disk, **{**SETTINGS, **settings})
    asked = FindCoordinatorRequest(coordinator_keys=["any"])
    found = node.ask(asked, 4, FindCoordinatorResponse).coordinators[0]
    assert found.error_code == ErrorCode.NONE
    return node


def commit(
    node: Serving,
    group: str,
    offsets: Offsets,
    *,
    generation: int = -1,
    member: str = "",
    version: int = 9,
    retention_ms: int = -1,
    metadata: str = "",
) -> set[int]:
    """Commit, and the errors of all partitions."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    response = node.ask(request, version, OffsetCommitResponse)
    return {p.error_code for topic in response.topics for p in topic.partitions}


def committed(node: Serving, group: str) -> Offsets:
    """Everything that the group has committed."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (found,) = node.ask(asked, 9, OffsetFetchResponse).groups
    assert found.error_code == ErrorCode.NONE
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
    }


def groups(node: Serving) -> list[str]:
    found = node.ask(ListGroupsRequest(), 4, ListGroupsResponse)
    return sorted(group.group_id for group in found.groups)


def stable_member(node: Serving, group: str, *topics: str, session_ms: int = 1 << 29) -> str:
    """A group of one consumer that reads these topics; its session is as good as endless."""
    metadata = encode_subscription(Subscription(topics))
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=1000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    join.member_id = node.ask(join, 9, JoinGroupResponse).member_id
    asked = node.send(join, 9)
    node.settle()
    node.pass_time(1)
    member = asked.answer(JoinGroupResponse).member_id
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"")],
    )
    assert node.ask(sync, 5, SyncGroupResponse).error_code == ErrorCode.NONE
    return member


def leave(node: Serving, group: str, member: str) -> None:
    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)])
    assert node.ask(request, 5, LeaveGroupResponse).error_code == ErrorCode.NONE


def records(node: Serving) -> int:
    """How many records all partitions of the groups' topic hold."""
    return sum(
        partition.log.log_end_offset
        for partition in node.node.replicas
        if partition.topic_partition.topic == CONSUMER_OFFSETS
    )


class TestRestarts:
    def test_what_was_acknowledged_is_there_after_a_stop_and_after_none(self):
        disk = MemoryDisk()
        node = serving(disk)
        node.create("t", 2)
        assert commit(node, "g", {("t", 0): 5, ("t", 1): 7}) == {ErrorCode.NONE}
        assert commit(node, "g", {("t", 0): 6}) == {ErrorCode.NONE}
        disk.locks.clear()  # as the system does for a process that was killed
        killed = serving(disk)
        assert committed(killed, "g") == {("t", 0): 6, ("t", 1): 7}
        killed.node.stop(lambda: None)
        killed.settle()
        assert committed(serving(disk), "g") == {("t", 0): 6, ("t", 1): 7}

    def test_a_commit_is_not_told_to_others_before_it_is_on_disk(self):
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
        node.settle()
        assert asked.answer(OffsetCommitResponse).topics[0].partitions[0].error_code == 0
        (group,) = look.answer(OffsetFetchResponse).groups
        assert group.topics[0].partitions[0].committed_offset == 5

    def test_a_topic_that_went_while_nobody_could_be_told_leaves_no_offsets(self):
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


class TestTopics:
    def test_offsets_of_a_deleted_topic_go_and_its_successor_begins_without(self):
        node = serving()
        node.create("t", 2)
        node.create("u")
        for group in ("g", "h"):
            commit(node, group, {("t", 0): 5, ("t", 1): 5, ("u", 0): 9})
        delete(node, "t")
        node.create("t", 2)
        for group in ("g", "h"):
            assert committed(node, group) == {("u", 0): 9}

    def test_very_many_go_some_at_a_time(self):
        node = serving()
        node.create("t", 50)
        for number in range(60):
            commit(node, f"g{number}", {("t", index): 1 for index in range(50)})
        before = records(node)
        delete(node, "t")
        assert 0 < records(node) - before < 3000
        node.pass_time(100)
        assert records(node) - before == 3000
        assert all(committed(node, f"g{number}") == {} for number in range(60))


def delete(node: Serving, topic: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=1000
    )
    assert node.ask(request, 6, DeleteTopicsResponse).responses[0].error_code == ErrorCode.NONE


class TestExpiration:
    def test_of_a_group_without_members_each_offset_has_its_time_from_its_commit(self):
        node = serving()
        node.create("t", 2)
        commit(node, "g", {("t", 0): 1})
        node.pass_time(30 * MINUTE_MS)
        commit(node, "g", {("t", 1): 2})
        node.pass_time(29 * MINUTE_MS)
        assert committed(node, "g") == {("t", 0): 1, ("t", 1): 2}
        node.pass_time(2 * MINUTE_MS)
        assert committed(node, "g") == {("t", 1): 2}
        node.pass_time(30 * MINUTE_MS)
        assert committed(node, "g") == {}
        node.pass_time(MINUTE_MS)
        assert groups(node) == []

    def test_of_a_group_with_members_nothing_goes_that_they_read(self):
        node = serving()
        node.create("read")
        node.create("left")
        member = stable_member(node, "g", "read")
        offsets = {("read", 0): 1, ("left", 0): 2}
        assert commit(node, "g", offsets, generation=1, member=member) == {ErrorCode.NONE}
        node.pass_time(200 * MINUTE_MS)
        assert committed(node, "g") == {("read", 0): 1}

    def test_of_a_group_that_lost_its_last_member_all_have_their_time_from_then(self):
        node = serving()
        node.create("t")
        member = stable_member(node, "g", "t")
        commit(node, "g", {("t", 0): 1}, generation=1, member=member)
        node.pass_time(200 * MINUTE_MS)
        leave(node, "g", member)
        node.pass_time(58 * MINUTE_MS)
        assert committed(node, "g") == {("t", 0): 1}
        node.pass_time(3 * MINUTE_MS)
        assert committed(node, "g") == {}
        assert groups(node) == []

    def test_a_time_that_an_old_client_asked_for_counts_instead(self):
        node = serving()
        node.create("t", 2)
        commit(node, "g", {("t", 0): 1}, version=4, retention_ms=5 * MINUTE_MS)
        commit(node, "g", {("t", 1): 1}, version=4, retention_ms=500 * MINUTE_MS)
        node.pass_time(7 * MINUTE_MS)
        assert committed(node, "g") == {("t", 1): 1}
        node.pass_time(400 * MINUTE_MS)
        assert committed(node, "g") == {("t", 1): 1}
        node.pass_time(100 * MINUTE_MS)
        assert committed(node, "g") == {}

    def test_what_has_gone_is_gone_after_a_restart(self):
        disk = MemoryDisk()
        node = serving(disk)
        node.create("t")
        commit(node, "g", {("t", 0): 1})
        node.pass_time(62 * MINUTE_MS)
        node.node.stop(lambda: None)
        node.settle()
        again = serving(disk)
        assert committed(again, "g") == {}
        assert groups(again) == []


def test_a_deleted_group_takes_its_offsets_with_it():
    disk = MemoryDisk()
    node = serving(disk)
    node.create("t", 2)
    commit(node, "g", {("t", 0): 1, ("t", 1): 2})
    request = DeleteGroupsRequest(groups_names=["g"])
    assert node.ask(request, 2, DeleteGroupsResponse).results[0].error_code == ErrorCode.NONE
    assert committed(node, "g") == {}
    disk.locks.clear()
    assert committed(serving(disk), "g") == {}


def test_metadata_have_a_length_that_is_set():
    node = serving(offset_metadata_max_bytes="3")
    node.create("t")
    assert commit(node, "g", {("t", 0): 1}, metadata="€€€") == {ErrorCode.NONE}
    too_large = {ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(node, "g", {("t", 0): 2}, metadata="4444") == too_large
    assert committed(node, "g") == {("t", 0): 1}


def test_a_commit_keeps_the_session_of_a_member_alive():
    node = serving()
    node.create("t")
    member = stable_member(node, "g", "t", session_ms=10 * MINUTE_MS)
    for number in range(5):
        node.pass_time(9 * MINUTE_MS)
        error = commit(node, "g", {("t", 0): number}, generation=1, member=member)
        assert error == {ErrorCode.NONE}
    node.pass_time(11 * MINUTE_MS)
    unknown = {ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(node, "g", {("t", 0): 9}, generation=1, member=member) == unknown


def test_the_topic_of_the_groups_stays_small_by_compaction():
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


def size_of_groups(node: Serving) -> int:
    """Bytes of the groups' topic."""
    return sum(
        partition.log.size
        for partition in node.node.replicas
        if partition.topic_partition.topic == CONSUMER_OFFSETS
    )


class DiskWithRoomFor(MemoryDisk):
    """Everything but what is under `full`; `refused` counts."""

    full = ""
    refused = 0

    def effect(self, kind: str, path: str) -> None:
        if self.full and self.full in path and kind in ("append", "create"):
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device", path)


class TestFullDisks:
    def full(self, **settings: str) -> tuple[DiskWithRoomFor, Serving]:
        disk = DiskWithRoomFor()
        return disk, serving(disk, **settings)

    def fill(self, disk: DiskWithRoomFor, node: Serving) -> None:
        """No room for what groups say; topics come and go."""
        topic = node.node.metadata.committed.topic(CONSUMER_OFFSETS)
        assert topic is not None
        disk.full = uuid_text(topic.id)

    def test_offsets_of_a_deleted_topic_go_when_there_is_room_and_its_successors_stay(self):
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

    def test_a_commit_that_is_refused_leaves_no_group(self):
        disk, node = self.full()
        node.create("t")
        self.fill(disk, node)
        assert commit(node, "g", {("t", 0): 5}) == {ErrorCode.NOT_COORDINATOR}
        disk.full = ""
        assert groups(node) == []

    def test_very_many_are_not_refused_over_and_over(self):
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
