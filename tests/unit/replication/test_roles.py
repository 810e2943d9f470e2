"""Roles of a partition's replica: leading with followers, following, and changing in between."""

from __future__ import annotations

import errno

from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch_builder import build
from odradek.replication.alter_partition_manager import IsrCommitted
from odradek.replication.delete_records import DelayedDeleteRecords
from odradek.replication.fetch import (
    DelayedFetch,
    FetchOutcome,
    FetchParams,
    FetchTarget,
    read_targets,
)
from odradek.replication.list_offsets import CommitStatus, DelayedListOffsets
from odradek.replication.partition import Isolation, Partition, PartitionListener
from odradek.replication.produce import DelayedProduce
from unit.replication.memory_replicas import NOW_MS, TOPIC_ID
from unit.replication.replicated import Replicated, registration

ALL = Isolation.READ_UNCOMMITTED
KEY = (TOPIC_ID, 0)


def waiting_produce(led: Replicated, partition: Partition) -> list[ErrorCode]:
    """Append a record with `acks=-1`; the list gets the answer."""
    status = led.produce_status(partition)
    answers: list[ErrorCode] = []
    operation = DelayedProduce(
        30_000, [status], lambda _: answers.append(ErrorCode(status.response.error_code))
    )
    key = partition.topic_partition
    led.replicas.produce_purgatory.try_complete_else_watch(operation, [key])
    return answers


def test_a_produce_is_answered_when_every_in_sync_replica_has_it_on_disk():
    led = Replicated()
    partition = led.replica(registration())
    answers = waiting_produce(led, partition)
    led.fetched(partition, 2, 1)
    led.fetched(partition, 3, 1)
    assert (answers, partition.high_watermark) == ([], 0), "not on the leader's disk"
    led.run_until_idle()
    assert (answers, partition.high_watermark) == ([ErrorCode.NONE], 1)


def test_the_durable_end_of_a_follower_counts_and_with_os_the_fetch_offset_of_one_that_has_none():
    for fsync, durable_end, committed in (
        (True, 0, 0),
        (True, -1, 0),
        (False, -1, 1),
        (False, 0, 0),  # the follower has `fsync`, and stays eligible after a power failure
    ):
        led = Replicated(fsync=fsync)
        partition = led.replica(registration())
        led.append(partition)
        led.run_until_idle()
        for broker in (2, 3):
            led.replicas.follower_fetched(partition, broker, 100, 1, durable_end, 0)
        assert partition.high_watermark == committed


def test_the_isr_below_its_minimum_refuses_before_the_append_and_holds_what_waits():
    led = Replicated()
    partition = led.replica(registration(), min_isr=2)
    answers = waiting_produce(led, partition)
    led.replicas.apply(partition, registration(isr=(1,), partition_epoch=1), 2)
    led.run_until_idle()
    assert partition.append_error() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (answers, partition.high_watermark) == ([], 0)
    led.replicas.apply(partition, registration(isr=(1, 2), partition_epoch=2), 2)
    led.fetched(partition, 2, 1)
    led.fetched(partition, 3, 1)
    assert answers == [ErrorCode.NONE]


def test_a_commit_that_finds_the_isr_below_its_minimum_is_told_after_the_append():
    led = Replicated()
    partition = led.replica(registration(isr=(1, 2)), min_isr=2)
    led.append(partition)
    led.run_until_idle()
    led.fetched(partition, 2, 1)
    led.replicas.apply(partition, registration(isr=(1,), partition_epoch=1), 2)
    assert partition.high_watermark == 1
    assert partition.acknowledgement_error() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_follower_answers_clients_that_it_is_not_the_leader():
    led = Replicated()
    partition = led.replica(registration(leader=2))
    assert partition.availability() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert led.append(partition).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.failure
    assert led.following == {partition: 2}


def test_a_leader_that_has_to_follow_answers_everyone_who_waits_at_once():
    led = Replicated()
    partition = led.replica(registration())
    produced = waiting_produce(led, partition)
    fetched: list[FetchOutcome] = []
    target = FetchTarget(partition, ErrorCode.NONE, 0, 1 << 20)
    fetch = DelayedFetch(30_000, [target], FetchParams(1, 1 << 20, ALL), fetched.append)
    replicas, key = led.replicas, partition.topic_partition
    replicas.fetch_purgatory.try_complete_else_watch(fetch, [key])
    status = replicas.delete_records("t", 0, 1)
    deletion = DelayedDeleteRecords(30_000, [status], lambda _: None)
    replicas.delete_records_purgatory.try_complete_else_watch(deletion, [key])
    listing = DelayedListOffsets(30_000, [CommitStatus(partition)], lambda _: None)
    replicas.list_offsets_purgatory.try_complete_else_watch(listing, [key])
    replicas.apply(partition, registration(leader=2, epoch=1), 1)
    assert produced == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [each.results[0].error for each in fetched] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (status.pending, status.error) == (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert listing.is_completed or partition.is_in_epoch


def test_a_leader_that_is_cut_off_sends_producers_elsewhere_before_an_append_and_after():
    led = Replicated()
    partition = led.replica(registration())
    answers = waiting_produce(led, partition)
    led.run_until_idle()
    led.replicas.check_isrs()
    assert (answers, partition.append_error()) == ([], ErrorCode.NONE)
    led.session_ended = True
    led.replicas.check_isrs()
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert partition.append_error() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.availability() is ErrorCode.NONE, "it knows of no other leader"


def test_a_produce_that_is_cut_off_at_its_deadline_looks_for_another_leader():
    led = Replicated()
    partition = led.replica(registration())
    status = led.produce_status(partition)
    waiting = DelayedProduce(30_000, [status], lambda _: None)
    led.session_ended = True
    waiting.expire()
    assert status.response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_is_cut_off_lets_consumers_read_to_its_end_and_then_look_elsewhere():
    led = Replicated()
    partition = led.replica(registration(isr=(1, 2)))
    led.append(partition)
    led.run_until_idle()
    led.fetched(partition, 2, 1)
    led.session_ended = True

    def fetch(offset: int, isolation: Isolation) -> ErrorCode:
        target = FetchTarget(partition, ErrorCode.NONE, offset, 1 << 20)
        outcome = read_targets([target], FetchParams(1, 1 << 20, isolation))
        outcome.release()
        return outcome.results[0].error

    assert (partition.high_watermark, partition.is_cut_off) == (1, True)
    assert fetch(0, ALL) is ErrorCode.NONE
    assert fetch(1, ALL) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(1, Isolation.LOG_END) is ErrorCode.NONE, "of a follower, which is heard again"


def test_an_older_leader_epoch_changes_nothing():
    led = Replicated()
    partition = led.replica(registration(epoch=4))
    led.replicas.apply(partition, registration(leader=2, epoch=3), 1)
    assert partition.is_leader


def test_a_new_leader_notes_its_epoch_without_a_record():
    led = Replicated()
    partition = led.replica(registration())
    led.append(partition)
    led.replicas.apply(partition, registration(leader=2, epoch=1), 1)
    led.replicas.apply(partition, registration(epoch=2), 1)
    assert partition.log.epochs.entries() == [(0, 0), (2, 1)]
    assert partition.end_offset_for_epoch(1) == (0, 1)
    led.run_until_idle()
    assert not partition.log.dirty


def test_a_leader_without_followers_notes_no_epoch_and_writes_no_file_for_it():
    led = Replicated()
    partition = led.replica(registration(replicas=(1,), isr=(1,)))
    led.run_until_idle()
    assert partition.log.epochs.entries() == []
    assert partition.leadership is None


def test_the_high_watermark_starts_at_its_checkpoint_and_a_new_leader_waits_for_its_epoch():
    led = Replicated()
    partition = led.replica(registration())
    for _ in range(3):
        led.append(partition)
    led.run_until_idle()
    led.fetched(partition, 2, 2)
    led.fetched(partition, 3, 2)
    led.directory.checkpoint()()
    assert partition.high_watermark == 2
    disk = led.directory.disk
    disk.locks.clear()  # type: ignore[attr-defined]
    again = Replicated()
    again.directory = type(led.directory)(
        disk, "data", led.replicas.env.random, cluster_id=None, node_id=1
    )
    partition = again.replica(registration(epoch=1))
    assert (partition.high_watermark, partition.is_in_epoch) == (2, False)
    assert partition.must_wait_for_commit
    again.fetched(partition, 2, 3)
    again.fetched(partition, 3, 3)
    assert partition.is_in_epoch


def test_a_replica_that_catches_up_is_proposed_and_counts_at_once():
    led = Replicated()
    partition = led.replica(registration(isr=(1, 2)))
    led.append(partition)
    led.run_until_idle()
    led.fetched(partition, 2, 1)
    led.fetched(partition, 3, 1)
    led.begin_flushes()
    (request,) = led.proposals
    proposed = request.topics[0].partitions[0].new_isr_with_epochs
    assert [each.broker_id for each in proposed] == [1, 2, 3]
    led.append(partition)
    led.run_until_idle()
    led.fetched(partition, 2, 2)
    assert partition.high_watermark == 1, "3 counts"
    led.replicas.isr_committed(KEY, IsrCommitted((1, 2, 3), 0, 1, 0))
    led.fetched(partition, 3, 2)
    assert partition.high_watermark == 2


def test_a_replica_that_catches_up_during_a_change_is_proposed_when_that_is_committed():
    led = Replicated()
    partition = led.replica(registration(isr=(1,)))
    led.fetched(partition, 2, 0)
    led.fetched(partition, 3, 0)
    assert partition.leadership is not None
    assert partition.leadership.maximal_isr == {1, 2}
    led.replicas.isr_committed(KEY, IsrCommitted((1, 2), 0, 1, 0))
    pending = partition.leadership.pending
    assert pending is not None
    assert [broker for broker, _ in pending.isr] == [1, 2, 3], "without another fetch of 3"


def test_metadata_of_a_change_that_was_answered_leaves_the_next_proposal_pending():
    led = Replicated()
    partition = led.replica(registration(isr=(1,)))
    led.fetched(partition, 2, 0)
    led.fetched(partition, 3, 0)
    led.replicas.isr_committed(KEY, IsrCommitted((1, 2), 0, 1, 0))
    led.replicas.apply(partition, registration(isr=(1, 2), partition_epoch=1), 1)
    assert partition.leadership is not None
    assert partition.leadership.maximal_isr == {1, 2, 3}, "the controller may still take 3"
    led.append(partition)
    led.run_until_idle()
    led.fetched(partition, 2, 1)
    assert partition.high_watermark == 0


def test_a_replica_that_does_not_keep_up_leaves_and_the_others_go_on():
    led = Replicated()
    partition = led.replica(registration())
    answers = waiting_produce(led, partition)
    led.run_until_idle()
    led.fetched(partition, 2, 1)
    leadership = partition.leadership
    assert leadership is not None
    leadership.replicas[3].last_caught_up_ms = -30_001
    led.replicas.check_isrs()
    led.begin_flushes()
    (request,) = led.proposals
    proposed = request.topics[0].partitions[0].new_isr_with_epochs
    assert [each.broker_id for each in proposed] == [1, 2]
    assert answers == []
    led.replicas.isr_committed(KEY, IsrCommitted((1, 2), 0, 1, 0))
    assert answers == [ErrorCode.NONE]


def test_a_broker_that_is_no_replica_and_one_restarted_since_are_refused():
    led = Replicated()
    partition = led.replica(registration())
    assert led.fetched(partition, 9, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH
    led.replicas.follower_fetched(partition, 2, 101, 0, 0, 0)
    assert led.fetched(partition, 2, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_delete_records_waits_for_the_log_start_of_every_live_replica():
    led = Replicated()
    partition = led.replica(registration())
    for _ in range(4):
        led.append(partition)
    led.run_until_idle()
    led.fetched(partition, 2, 4)
    led.fetched(partition, 3, 4)
    status = led.replicas.delete_records("t", 0, 3)
    operation = DelayedDeleteRecords(30_000, [status], lambda _: None)
    key = partition.topic_partition
    led.replicas.delete_records_purgatory.try_complete_else_watch(operation, [key])
    led.run_until_idle()
    led.fetched(partition, 2, 4, start=3)
    assert status.pending
    led.fetched(partition, 3, 4, start=3)
    assert (status.pending, status.error, status.low_watermark) == (False, ErrorCode.NONE, 3)


def a_leaders_batch(base: int, epoch: int = 0) -> ByteRange:
    data = bytearray(build([(None, b"value", [], NOW_MS)]))
    data[0:8] = base.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return ByteRange(bytes(data), 0, len(data))


def test_a_follower_appends_flushes_and_follows_the_high_watermark_to_its_durable_end():
    led = Replicated()
    partition = led.replica(registration(leader=2))
    led.run_until_idle()
    info = led.replicas.append_as_follower(partition, a_leaders_batch(0))
    assert info.error is ErrorCode.NONE
    assert not partition.follow_high_watermark(1)
    led.run_until_idle()
    assert (led.durable_ends[-1], partition.high_watermark) == (1, 1)


def test_a_truncation_runs_on_a_worker_and_a_role_waits_for_it():
    led = Replicated()
    partition = led.replica(registration(leader=2))
    for base in range(4):
        led.replicas.append_as_follower(partition, a_leaders_batch(base))
    led.run_until_idle()
    done: list[int] = []
    led.replicas.truncate(partition, 2, False, lambda: done.append(partition.log.log_end_offset))
    assert done == []
    led.replicas.apply(partition, registration(leader=1, epoch=1), 1)
    assert partition.availability() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.run_until_idle()
    assert done == [2]
    assert partition.availability() is ErrorCode.NONE
    assert partition.log.epochs.entries() == [(0, 0), (1, 2)]


def test_a_truncation_waits_for_the_flush_under_way():
    led = Replicated()
    partition = led.replica(registration(leader=2))
    led.replicas.append_as_follower(partition, a_leaders_batch(0))
    led.begin_flushes()
    done: list[int] = []
    led.replicas.truncate(partition, 0, False, lambda: done.append(1))
    assert len(led.work) == 1, "only the flush"
    led.run_until_idle()
    led.timer.advance_clock(5)
    led.run_until_idle()
    assert (done, partition.log.log_end_offset) == ([1], 0)


class FullDisk(MemoryDisk):
    """A disk on which no file can be made while it is full."""

    full = False

    def effect(self, kind: str, path: str) -> None:
        if self.full and kind == "create":
            raise OSError(errno.ENOSPC, "No space left on device", path)


def test_a_replica_that_finds_no_room_to_start_again_does_it_later():
    disk = FullDisk()
    led = Replicated(disk=disk)
    partition = led.replica(registration(leader=2))
    led.replicas.append_as_follower(partition, a_leaders_batch(0))
    led.run_until_idle()
    done: list[int] = []
    disk.full = True
    led.replicas.truncate(partition, 5, True, lambda: done.append(partition.log.log_end_offset))
    led.run_until_idle()
    assert (done, partition.failure, led.replicas.directory_failed) == ([], ErrorCode.NONE, False)
    disk.full = False
    led.timer.advance_clock(1_000)
    led.run_until_idle()
    assert done == [5]


def test_a_partition_removed_while_it_waits_for_room_is_not_made_again():
    disk = FullDisk()
    led = Replicated(disk=disk)
    partition = led.replica(registration(leader=2))
    led.replicas.append_as_follower(partition, a_leaders_batch(0))
    led.run_until_idle()
    disk.full = True
    led.replicas.truncate(partition, 5, True, lambda: None)
    led.run_until_idle()
    led.replicas.remove(partition.topic_partition)
    led.directory.delete_log(TopicIdPartition(TOPIC_ID, 0))()
    disk.full = False
    led.timer.advance_clock(1_000)
    led.run_until_idle()
    assert not any(path.endswith(".log") for path in disk.files)


def test_a_partition_removed_while_it_is_truncated_is_gone_without_harm():
    led = Replicated()
    partition = led.replica(registration(leader=2))
    led.replicas.append_as_follower(partition, a_leaders_batch(0))
    led.run_until_idle()
    led.replicas.truncate(partition, 0, False, lambda: None)
    led.replicas.remove(partition.topic_partition)
    led.directory.delete_log(TopicIdPartition(TOPIC_ID, 0))()
    led.run_until_idle()
    assert not led.replicas.directory_failed


class Coordinator(PartitionListener):
    def __init__(self) -> None:
        self.events: list[str] = []

    def news(self) -> list[str]:
        """What has happened since the last call."""
        events, self.events = self.events, []
        return events

    def opened(self, partition: Partition) -> None:
        self.events.append("opened")

    def updated(self, partition: Partition) -> None:
        self.events.append("updated")

    def ended(self, partition: Partition) -> None:
        self.events.append("ended")


def test_a_coordinator_gets_its_partition_when_all_that_was_committed_is_known():
    led = Replicated()
    coordinator = Coordinator()
    led.replicas.listeners["t"] = coordinator
    partition = led.replica(registration(leader=2))
    led.replicas.append_as_follower(partition, a_leaders_batch(0))
    led.run_until_idle()
    led.replicas.apply(partition, registration(epoch=1), 1)
    assert coordinator.news() == ["ended"]
    led.fetched(partition, 2, 1)
    led.fetched(partition, 3, 1)
    assert coordinator.news() == ["opened"]
    led.replicas.apply(partition, registration(leader=2, epoch=2), 1)
    assert coordinator.news() == ["ended"]


def test_a_coordinator_ends_with_its_epoch_though_the_next_one_ends_before_it_commits():
    led = Replicated()
    coordinator = Coordinator()
    led.replicas.listeners["t"] = coordinator
    partition = led.replica(registration())
    assert coordinator.news() == ["ended", "opened"]
    led.append(partition)
    led.run_until_idle()
    led.replicas.apply(partition, registration(epoch=1), 1)
    assert coordinator.news() == ["ended"]
    led.replicas.apply(partition, registration(leader=2, epoch=2), 1)
    led.fetched(partition, 2, 1)
    assert "opened" not in coordinator.news()


def test_a_coordinator_begins_when_its_leader_is_not_cut_off_any_more():
    led = Replicated()
    coordinator = Coordinator()
    led.replicas.listeners["t"] = coordinator
    led.session_ended = True
    partition = led.replica(registration())
    assert partition.is_cut_off
    assert "opened" not in coordinator.news()
    led.session_ended = False
    led.replicas.session_resumed()
    assert coordinator.news() == ["opened"]
    led.session_ended = True
    led.append(partition)
    led.run_until_idle()
    led.replicas.check_isrs()
    assert coordinator.news()[-1] == "ended"
    led.replicas.heard_ms.update({2: 1, 3: 1})  # They are there, if the controller is not.
    led.fetched(partition, 2, 1)
    led.fetched(partition, 3, 1)
    assert coordinator.news()[-1] == "opened"
    led.session_ended = False
    led.replicas.session_resumed()
    assert coordinator.news() == ["updated"], "it goes on"


def test_without_replication_a_partition_without_a_leader_waits_for_one():
    alone = Replicated()
    alone.replicas.replication = None
    partition = alone.replica(registration(replicas=(1,), isr=(1,)))
    alone.replicas.apply(partition, registration(leader=-1, epoch=1, replicas=(1,), isr=(1,)), 1)
    assert partition.availability() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    alone.replicas.apply(partition, registration(epoch=2, replicas=(1,), isr=(1,)), 1)
    assert partition.availability() is ErrorCode.NONE


def test_a_follower_that_fetches_other_partitions_is_heard():
    led = Replicated()
    partition = led.replica(registration(isr=(1, 2)))
    led.session_ended = True
    assert partition.is_cut_off
    led.replicas.heard_ms[2] = 1  # It has all of this partition, and tells nothing of it.
    assert not partition.is_cut_off
