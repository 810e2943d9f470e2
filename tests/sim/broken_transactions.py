"""Broken parts of the transaction coordinator, its markers, and what verifies transactions."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.coordinator.group.group_records import OffsetCommitKey, OffsetCommitValue
from odradek.coordinator.group.offsets import Offsets
from odradek.coordinator.operation import OperationResult
from odradek.coordinator.transaction import (
    add_partitions,
    coordinator,
    end_txn,
    init_producer_id,
    markers,
    transaction_shard,
)
from odradek.coordinator.transaction.init_producer_id import GrantedProducerId
from odradek.coordinator.transaction.markers import TransactionEnd, TransactionMarkers
from odradek.coordinator.transaction.transaction_metadata import LAST_EPOCH, TransactionMetadata
from odradek.coordinator.transaction.transaction_shard import TransactionShard
from odradek.coordinator.transaction.transaction_state import (
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TRANSITIONS,
    Event,
    TransactionState,
)
from odradek.model.errors import ErrorCode

# Decisions.


def answers_an_end_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    ends = end_txn.end_txn

    def end(shard: TransactionShard, result: OperationResult, *arguments: Any) -> None:
        ends(shard, result, *arguments)
        for reply, response in result.answers:
            reply.send(response)
        result.answers.clear()

    patch.setattr(coordinator, "end_txn", end)


def answers_a_commit_without_a_record(patch: pytest.MonkeyPatch) -> None:
    prepares = end_txn.prepare

    def prepare(
        shard: TransactionShard, result: OperationResult, ending: TransactionMetadata
    ) -> None:
        if ending.state is not PREPARE_COMMIT:
            prepares(shard, result, ending)

    patch.setattr(end_txn, "prepare", prepare)


def commits_what_it_has_aborted(patch: pytest.MonkeyPatch) -> None:
    """A commit that comes after the abort of its timeout is a repeated one."""
    *others, _ = TRANSITIONS[Event.COMMIT_AGAIN]
    patch.setitem(TRANSITIONS, Event.COMMIT_AGAIN, (*others, ErrorCode.NONE))


def takes_late_ends(patch: pytest.MonkeyPatch) -> None:
    """An EndTxn of an older connection ends the next transaction."""
    patch.setattr(end_txn, "is_late", lambda shard, metadata, connection, now_ms: False)


# What is kept, and what goes on after loading.


def adds_partitions_in_memory(patch: pytest.MonkeyPatch) -> None:
    adds = add_partitions.add_partitions

    def add(shard: TransactionShard, result: OperationResult, *arguments: Any) -> None:
        adds(shard, result, *arguments)
        for record in result.records:
            shard.replay(record)
        for step in result.steps:
            step()
        result.records.clear()
        result.steps.clear()

    patch.setattr(coordinator, "add_partitions", add)


def resumes_no_end_after_loading(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_shard, "resume_end", lambda shard, ending: None)


def times_nothing_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_shard, "timed_out", lambda shard, result, transactional_id: None)


def forgets_timeouts_when_it_loads(patch: pytest.MonkeyPatch) -> None:
    load = TransactionShard.loaded

    def loaded(self: TransactionShard, result: OperationResult) -> None:
        load(self, result)
        result.timers.clear()

    patch.setattr(TransactionShard, "loaded", loaded)


# Producers.


def gives_the_epoch_of_the_last_producer(patch: pytest.MonkeyPatch) -> None:
    grants = init_producer_id.grant

    def grant(
        shard: TransactionShard, metadata: TransactionMetadata | None, request: Any
    ) -> GrantedProducerId | ErrorCode:
        if metadata is None:
            return grants(shard, metadata, request)
        return GrantedProducerId(metadata.producer_id, metadata.producer_epoch, -1)

    patch.setattr(init_producer_id, "grant", grant)


def aborts_without_fencing(patch: pytest.MonkeyPatch) -> None:
    """The producer whose transaction timed out goes on with its epoch."""

    def abort(
        shard: TransactionShard,
        result: OperationResult,
        metadata: TransactionMetadata,
        event: Event,
    ) -> ErrorCode:
        end_txn.prepare(shard, result, metadata.ending(PREPARE_ABORT, 0, -1, result.now_ms))
        return ErrorCode.CONCURRENT_TRANSACTIONS

    patch.setattr(end_txn, "abort_and_fence", abort)


def fences_nobody_before_version_2(patch: pytest.MonkeyPatch) -> None:
    """The same, where the cluster's level decides that the epoch is bumped before the abort."""
    patch.setattr(TransactionMetadata, "fenced", lambda self: self)


def takes_requests_of_zombies(patch: pytest.MonkeyPatch) -> None:
    for module in (add_partitions, end_txn):
        patch.setattr(module, "producer_error", lambda metadata, producer: ErrorCode.NONE)


def ends_without_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    """A producer's transactions of version 2 all have the same epoch."""
    ends = TransactionMetadata.ending

    def ending(
        self: TransactionMetadata, state: TransactionState, version: int, next_id: int, now_ms: int
    ) -> TransactionMetadata:
        following = ends(self, state, version, next_id, now_ms)
        return following._replace(producer_epoch=self.producer_epoch)

    patch.setattr(TransactionMetadata, "ending", ending)


def begins_near_the_last_epoch(patch: pytest.MonkeyPatch) -> None:
    """Not broken: new producer ids begin with an epoch that is soon the last one."""
    begins_with_epoch(patch, LAST_EPOCH - 3)


def begins_with_epoch(patch: pytest.MonkeyPatch, epoch: int) -> None:
    """Not broken: new producer ids begin with this epoch."""
    grants = init_producer_id.grant

    def grant(
        shard: TransactionShard, metadata: TransactionMetadata | None, request: Any
    ) -> GrantedProducerId | ErrorCode:
        granted = grants(shard, metadata, request)
        if isinstance(granted, GrantedProducerId) and metadata is None:
            return granted._replace(epoch=epoch)
        return granted

    patch.setattr(init_producer_id, "grant", grant)


def rotates_no_ids(patch: pytest.MonkeyPatch) -> None:
    begins_near_the_last_epoch(patch)
    patch.setattr(TransactionMetadata, "is_exhausted", False)


# Markers.


def drops_the_marker_of_a_partition(patch: pytest.MonkeyPatch) -> None:
    write = TransactionMarkers.write

    def written(self: TransactionMarkers, end: TransactionEnd) -> None:
        write(self, end._replace(partitions=frozenset(sorted(end.partitions)[:-1])))

    patch.setattr(TransactionMarkers, "write", written)


def writes_an_abort_first(patch: pytest.MonkeyPatch) -> None:
    """The marker of a commit's first partition says that it was aborted."""
    makes = markers.marker

    def marker(end: TransactionEnd, partitions: Any) -> Any:
        if partitions[0] == min(end.partitions):
            end = end._replace(committed=False)
        return makes(end, partitions)

    patch.setattr(markers, "marker", marker)


def takes_errors_for_written_markers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionMarkers, "_is_done", lambda self, end, partition, error: True)


# Offsets of groups.


def commits_offsets_before_their_marker(patch: pytest.MonkeyPatch) -> None:
    def replay(
        self: Offsets, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
    ) -> None:
        self.replay(key, value)

    patch.setattr(Offsets, "replay_transactional", replay)


def drops_pending_offsets_at_a_commit(patch: pytest.MonkeyPatch) -> None:
    ends = Offsets.end_transaction

    def end(self: Offsets, producer_id: int, committed: bool) -> None:
        ends(self, producer_id, committed=False)

    patch.setattr(Offsets, "end_transaction", end)
