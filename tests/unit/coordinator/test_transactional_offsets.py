"""Offsets committed with a transaction: kept until its marker, over restarts; who may commit."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.coordinator.answered_connection import ANSWER_READ_MS
from odradek.coordinator.group.member import Caller
from odradek.coordinator.shard import READ_BYTES
from odradek.log.producer_state import TransactionMarker
from odradek.log.verification import VerificationGuard
from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.control_records import end_transaction_batch
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.record_batch_builder import empty_batch
from odradek.protocol.validate import ValidBatch
from transcripts.group_stage import Stage

PRODUCER, EPOCH, COORDINATOR_EPOCH = 7, 3, 0
COMMIT = TransactionMarker(PRODUCER, EPOCH, COORDINATOR_EPOCH, True, 1)
MINUTE_MS = 60_000


class Transaction:
    """A producer's transaction that commits offsets of the group `g` in topic `t`."""

    def __init__(self, stage: Stage, producer_id: int = PRODUCER) -> None:
        self.stage = stage
        self.producer_id = producer_id

    def guard(self) -> VerificationGuard | None:
        found = self.stage.partition.start_verification(self.producer_id, EPOCH, -1, False)
        assert not isinstance(found, ErrorCode)
        return found

    def commit(
        self,
        *offsets: int,
        group: str = "g",
        generation: int = -1,
        member: str = "",
        instance: str | None = None,
        metadata: str = "",
        verified: bool = True,
        connection: int = 1,
    ) -> str:
        """Commit an offset for each partition from 0 on. Return the error, of the first if any."""
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            for index, offset in enumerate(offsets)
        ]
        request = TxnOffsetCommitRequest(
            transactional_id="id",
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=EPOCH,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
        )
        answers: list[Any] = []
        guard = self.guard() if verified else None
        self.stage.groups.commit_transactional_offsets(request, connection, guard, answers.append)
        self.stage.run_until_idle()
        ((topic,),) = [each.topics for each in answers]
        return ErrorCode(topic.partitions[0].error_code).name

    def end(self, committed: bool, *, coordinator_epoch: int = COORDINATOR_EPOCH) -> list[str]:
        """Write the marker; return the errors of the answers."""
        answers: list[ErrorCode] = []
        marker = TransactionMarker(self.producer_id, EPOCH, coordinator_epoch, committed, 1)
        self.stage.groups.complete_transaction(0, marker, answers.append)
        self.stage.run_until_idle()
        return [each.name for each in answers]


def fetch(stage: Stage, group: str = "g", *, stable: bool = True) -> dict[int, int | str]:
    """The offsets of partitions 0 and 1, or errors."""
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    )
    found: list[list[OffsetFetchResponseGroup]] = []
    stage.groups.fetch_offsets([asked], stable, found.append)
    stage.run_until_idle()
    (((answer,),),) = [found]
    (topic,) = answer.topics
    return {
        each.partition_index: ErrorCode(each.error_code).name
        if each.error_code
        else each.committed_offset
        for each in topic.partitions
    }


def fetch_all(stage: Stage, *, stable: bool) -> dict[int, int | str]:
    """The offsets of all partitions that the group has, or errors."""
    found: list[list[OffsetFetchResponseGroup]] = []
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    stage.groups.fetch_offsets([asked], stable, found.append)
    stage.run_until_idle()
    return {
        each.partition_index: ErrorCode(each.error_code).name
        if each.error_code
        else each.committed_offset
        for topic in found[0][0].topics
        for each in topic.partitions
    }


def plain_commit(stage: Stage, offset: int, metadata: str = "") -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    stage.groups.commit_offsets(request, 9, lambda response: None)
    stage.run_until_idle()


def restart(stage: Stage) -> None:
    stage.crash()
    stage.open()
    stage.run_until_idle()


UNSTABLE = "UNSTABLE_OFFSET_COMMIT"


@pytest.mark.parametrize("restarts", ["never", "before the marker", "after the marker"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_decides_also_after_a_restart(committed: bool, restarts: str) -> None:
    stage = Stage()
    plain_commit(stage, 2)
    transaction = Transaction(stage)
    assert transaction.commit(5, 6) == "NONE"
    if restarts == "before the marker":
        restart(stage)
    assert fetch(stage) == {0: UNSTABLE, 1: UNSTABLE}
    assert fetch_all(stage, stable=True) == {0: UNSTABLE}
    assert fetch(stage, stable=False) == {0: 2, 1: -1}
    assert transaction.end(committed) == ["NONE"]
    if restarts == "after the marker":
        restart(stage)
    expected = {0: 5, 1: 6} if committed else {0: 2, 1: -1}
    assert fetch(stage) == fetch(stage, stable=False) == expected


def test_a_marker_is_answered_when_it_is_on_disk() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5)
    stage.slow = True
    answers: list[ErrorCode] = []
    stage.groups.complete_transaction(0, COMMIT, answers.append)
    stage.run_until_idle()
    assert answers == []
    stage.slow = False
    stage.run_until_idle()
    assert answers == [ErrorCode.NONE]


def test_marker_that_comes_again_changes_nothing() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5)
    transaction.end(True)
    plain_commit(stage, 9)
    assert transaction.end(True) == ["NONE"]
    assert fetch(stage) == {0: 9, 1: -1}
    restart(stage)
    assert fetch(stage) == {0: 9, 1: -1}


def test_marker_of_an_older_coordinator_ends_nothing() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5)
    assert transaction.end(True, coordinator_epoch=4) == ["NONE"]
    transaction.commit(6)
    assert transaction.end(True, coordinator_epoch=3) == ["TRANSACTION_COORDINATOR_FENCED"]
    assert fetch(stage) == {0: UNSTABLE, 1: -1}


def test_marker_for_a_shard_that_is_not_here_is_not_leader_or_follower() -> None:
    stage = Stage()
    answers: list[ErrorCode] = []
    stage.groups.complete_transaction(5, COMMIT, answers.append)
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_marker_while_the_shard_is_loaded_is_not_leader_or_follower() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5)
    while stage.partition.log.size < 2 * READ_BYTES:
        plain_commit(stage, 9, metadata="x" * 4000)
    transaction.commit(6)
    stage.crash()
    stage.open()  # It has read the first part.
    answers: list[ErrorCode] = []
    stage.groups.complete_transaction(0, COMMIT, answers.append)
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    stage.run_until_idle()
    assert transaction.end(True) == ["NONE"]
    assert fetch(stage) == {0: 6, 1: -1}


def test_a_marker_whose_record_was_compacted_away_does_not_stop_the_loading() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5)
    assert transaction.end(True) == ["NONE"]
    marker = end_transaction_batch(PRODUCER, EPOCH, COORDINATOR_EPOCH, True, 0)
    data = empty_batch(RecordBatchHeader(marker, 0))
    batch = ValidBatch(data, RecordBatchHeader(data, 0), 0, True)
    stage.partition.log.append(batch, 0, 0)
    plain_commit(stage, 6)
    stage.crash()
    stage.open()
    stage.run_until_idle()
    assert fetch(stage) == {0: 6, 1: -1}


def test_batch_without_a_verified_transaction_is_refused() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    assert transaction.commit(5, verified=False) == "INVALID_TXN_STATE"
    assert fetch(stage) == {0: -1, 1: -1}


def test_fenced_producer_commits_nothing() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5)
    abort = TransactionMarker(PRODUCER, EPOCH + 1, 0, False, 2)
    stage.groups.complete_transaction(0, abort, lambda error: None)
    stage.run_until_idle()
    assert transaction.commit(6, verified=False) == "INVALID_PRODUCER_EPOCH"
    assert fetch(stage) == {0: -1, 1: -1}


def test_offsets_over_a_connection_that_the_producer_gave_up_are_not_taken() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    assert transaction.commit(5, connection=2) == "NONE"
    transaction.end(committed=True)
    assert transaction.commit(7, connection=2) == "NONE"
    assert transaction.commit(5, connection=1) == "COORDINATOR_LOAD_IN_PROGRESS"
    transaction.end(committed=True)
    assert fetch(stage)[0] == 7


def test_a_client_with_several_connections_commits_over_an_older_one_when_it_tries_again() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    assert transaction.commit(5, connection=2) == "NONE"
    assert transaction.commit(7, connection=1) == "COORDINATOR_LOAD_IN_PROGRESS"
    stage.pass_time(ANSWER_READ_MS)
    assert transaction.commit(7, connection=1) == "NONE"
    transaction.end(committed=True)
    assert fetch(stage)[0] == 7


def test_long_metadata_is_refused_for_its_partition() -> None:
    stage = Stage(offset_metadata_max_bytes=3)
    assert Transaction(stage).commit(5, metadata="1234") == "OFFSET_METADATA_TOO_LARGE"
    assert fetch(stage) == {0: -1, 1: -1}


def member(stage: Stage, instance: str | None = None) -> str:
    """Join the group `g` alone, with its assignment. Return the member id."""
    answers: list[JoinGroupResponse] = []
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    stage.groups.join_group(request, Caller("c", "/127.0.0.1", 3), answers.append)
    stage.pass_time(5_000)
    joined = answers[0]
    assert joined.error_code == ErrorCode.NONE
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")],
    )
    stage.groups.sync_group(sync, 3, lambda response: None)
    stage.run_until_idle()
    return joined.member_id


def test_consumer_is_fenced_by_its_member_id_and_generation() -> None:
    stage = Stage()
    name = member(stage)
    transaction = Transaction(stage)
    assert transaction.commit(5, generation=1, member="another") == "UNKNOWN_MEMBER_ID"
    assert transaction.commit(5, generation=0, member=name) == "ILLEGAL_GENERATION"
    assert transaction.commit(5, member=name) == "ILLEGAL_GENERATION"
    assert fetch(stage) == {0: -1, 1: -1}
    assert transaction.commit(5, generation=1, member=name) == "NONE"
    assert fetch(stage) == {0: UNSTABLE, 1: -1}


def test_consumer_is_fenced_by_its_instance_id() -> None:
    stage = Stage()
    name = member(stage, "seat")
    transaction = Transaction(stage)
    asked: Any = {"generation": 1, "instance": "seat"}
    assert transaction.commit(5, member="another", **asked) == "FENCED_INSTANCE_ID"
    assert transaction.commit(5, member=name, generation=1, instance="x") == "UNKNOWN_MEMBER_ID"
    assert transaction.commit(5, member=name, **asked) == "NONE"


def test_a_commit_without_consumer_fields_is_accepted_in_every_state() -> None:
    """TxnOffsetCommit has no fields for the consumer before version 3."""
    stage = Stage()
    member(stage)
    assert Transaction(stage).commit(5) == "NONE"


def test_generation_of_a_group_that_does_not_exist_is_illegal() -> None:
    stage = Stage()
    assert Transaction(stage).commit(5, generation=0, member="m") == "ILLEGAL_GENERATION"


def delete_group(stage: Stage) -> str:
    answers: list[Any] = []
    stage.groups.delete_groups(DeleteGroupsRequest(groups_names=["g"]), answers.append)
    stage.run_until_idle()
    return ErrorCode(answers[0].results[0].error_code).name


def test_deleted_group_loses_its_pending_offsets() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5)
    assert delete_group(stage) == "NONE"
    assert fetch(stage) == {0: -1, 1: -1}
    assert transaction.end(True) == ["NONE"]
    restart(stage)
    assert fetch(stage) == {0: -1, 1: -1}


def test_deleted_offset_is_not_committed_by_the_marker() -> None:
    stage = Stage()
    transaction = Transaction(stage)
    transaction.commit(5, 6)
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    stage.groups.delete_offsets(request, lambda response: None)
    stage.run_until_idle()
    assert fetch(stage) == {0: -1, 1: UNSTABLE}
    transaction.end(True)
    assert fetch(stage) == {0: -1, 1: 6}


def test_nothing_of_a_group_expires_where_an_offset_is_pending() -> None:
    stage = Stage(offsets_retention_minutes=1, offsets_retention_check_interval_ms=MINUTE_MS // 2)
    plain_commit(stage, 2)
    transaction = Transaction(stage)
    transaction.commit(5)
    stage.pass_time(5 * MINUTE_MS)
    assert fetch(stage, stable=False) == {0: 2, 1: -1}
    transaction.end(False)
    stage.pass_time(5 * MINUTE_MS)
    assert fetch(stage) == {0: -1, 1: -1}
    assert stage.shard.groups.get("g") is None


def test_group_with_pending_offsets_only_does_not_expire() -> None:
    stage = Stage(offsets_retention_minutes=1, offsets_retention_check_interval_ms=MINUTE_MS // 2)
    transaction = Transaction(stage)
    transaction.commit(5)
    stage.pass_time(5 * MINUTE_MS)
    assert stage.shard.groups.get("g") is not None
    transaction.end(False)
    stage.pass_time(MINUTE_MS)
    assert stage.shard.groups.get("g") is None
