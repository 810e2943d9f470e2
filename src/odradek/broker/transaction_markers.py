"""Writing the ends of transactions into partitions that this broker leads: WriteTxnMarkers.

    marker ─► __consumer_offsets: the shard of the group coordinator
          └─► others: the log ─► the high watermark passes (a `DelayedMarkers`) ─► its result

`coordinator.transaction.markers` sends markers to the leaders, again until they are written; this
module is the leader's side. It is called by the coordinator in this process, and by the handler for
those on other nodes. Over a client's listener a tool may abort a transaction that hangs (KIP-664).
There a request may only ABORT, with the epoch of the producer, and only where that has a
transaction open: anything else could tear one.

Markers are appended some at a time, one turn of the loop for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.leader_hints import error_if_missing
from odradek.log.producer_state import TransactionMarker
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS, TopicPartition
from odradek.protocol.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.replication.produce import DelayedByPartition

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.replication.partition import Partition

NONE = ErrorCode.NONE
MARKERS_AT_ONCE = 50
"""Markers that are appended in one turn: a few milliseconds."""


class MarkerStatus:
    """A marker that waits until the high watermark of its partition reaches `required_offset`."""

    __slots__ = ("partition", "pending", "required_offset", "result")

    def __init__(
        self, partition: Partition, required_offset: int, result: WritableTxnMarkerPartitionResult
    ) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.result = result
        self.pending = True


class DelayedMarkers(DelayedByPartition[MarkerStatus]):
    """Waits until the appended markers are committed; the results have REQUEST_TIMED_OUT from the
    start.
    """

    def update_status(self, status: MarkerStatus) -> None:
        partition = status.partition
        error = partition.availability()
        if error is NONE and partition.high_watermark < status.required_offset:
            if not partition.is_cut_off:
                return
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        status.pending = False
        status.result.error_code = error


class RequestedMarker(NamedTuple):
    """One marker of one partition, and where its result goes."""

    marker: WritableTxnMarker
    key: TopicPartition
    result: WritableTxnMarkerPartitionResult


class MarkerWriter:
    """Writes the markers of one request, and responds when all are committed or refused."""

    def __init__(
        self,
        broker: Broker,
        request: WriteTxnMarkersRequest,
        from_client: bool,
        timeout_ms: int,
        respond: Callable[[WriteTxnMarkersResponse], None],
    ) -> None:
        self._broker = broker
        self._from_client = from_client
        self._timeout_ms = timeout_ms
        self._respond = respond
        self._requested: list[RequestedMarker] = []
        self._response = WriteTxnMarkersResponse(
            markers=[results_of(marker, self._requested) for marker in request.markers]
        )
        self._next = 0
        """The index of the first one that no turn has appended yet."""
        self._statuses: list[MarkerStatus] = []
        self._of_groups = 1
        """Results that are open with the group coordinator, and one until all are appended."""

    def run(self) -> None:
        """Append some markers, and the others in later turns."""
        first, self._next = self._next, self._next + MARKERS_AT_ONCE
        appended: dict[Partition, None] = {}
        for marker, key, result in self._requested[first : self._next]:
            self._append(marker, key, result, appended)
        for partition in appended:
            self._broker.replicas.appended(partition)
        if self._next < len(self._requested):
            self._broker.env.call_soon(self.run)
        else:
            self._of_groups_done()

    def _append(
        self,
        marker: WritableTxnMarker,
        key: TopicPartition,
        result: WritableTxnMarkerPartitionResult,
        appended: dict[Partition, None],
    ) -> None:
        broker = self._broker
        partition = broker.replicas.by_name.get(key)
        if partition is None:
            result.error_code = error_if_missing(broker, key.topic, key.partition)
            return
        error = partition.availability()
        if error is NONE and self._from_client:
            error = refusal(marker, partition)
        if error is not NONE:
            result.error_code = error
        elif key.topic == CONSUMER_OFFSETS:
            self._complete_of_group(marker, key, result)
        else:
            info = broker.replicas.append_marker(partition, marker_of(marker))
            result.error_code = info.error
            if info.error is NONE:
                appended[partition] = None
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                self._statuses.append(MarkerStatus(partition, info.required_offset, result))

    def _complete_of_group(
        self,
        marker: WritableTxnMarker,
        key: TopicPartition,
        result: WritableTxnMarkerPartitionResult,
    ) -> None:
        self._of_groups += 1

        def answered(error: ErrorCode) -> None:
            result.error_code = error
            self._of_groups_done()

        self._broker.groups.complete_transaction(key.partition, marker_of(marker), answered)

    def _of_groups_done(self) -> None:
        self._of_groups -= 1
        if self._of_groups == 0:
            keys = [status.partition.topic_partition for status in self._statuses]
            operation = DelayedMarkers(self._timeout_ms, self._statuses, self._committed)
            self._broker.replicas.produce_purgatory.try_complete_else_watch(operation, keys)

    def _committed(self, statuses: Sequence[MarkerStatus]) -> None:
        self._respond(self._response)


def results_of(
    marker: WritableTxnMarker, requested: list[RequestedMarker]
) -> WritableTxnMarkerResult:
    """The results of a marker, to be filled in; adds its partitions to `requested`."""
    topics = []
    for topic in marker.topics:
        results = []
        for index in topic.partition_indexes:
            result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=NONE)
            results.append(result)
            requested.append(RequestedMarker(marker, TopicPartition(topic.name, index), result))
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


def marker_of(marker: WritableTxnMarker) -> TransactionMarker:
    """The marker of a request."""
    return TransactionMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )


def refusal(marker: WritableTxnMarker, partition: Partition) -> ErrorCode:
    """Why a client may not write this marker; NONE if it may."""
    if marker.transaction_result:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    entry = partition.log.producers.entry(marker.producer_id)
    if entry is None or entry.current_txn_first_offset < 0:
        return ErrorCode.INVALID_TXN_STATE
    if entry.producer_epoch != marker.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if marker.coordinator_epoch > max(entry.coordinator_epoch, 0):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # It would fence the coordinator.
    return NONE
