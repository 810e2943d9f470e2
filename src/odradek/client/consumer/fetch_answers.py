"""What a Fetch was answered, partition by partition.

    records                          a CompletedFetch for the application; fetching stands behind it
    the leader moved or is gone,     metadata is asked for (leaders named in the answer are taken at
    the topic is being created       once, KIP-951); tried again after a back-off
    OFFSET_OUT_OF_RANGE, a           decided when the application has come so far
    diverging epoch
    not authorized, damaged, unknown raised in turn; tried again after a back-off

An answer for a position that has moved meanwhile is dropped. The engine's thread only.
"""

from __future__ import annotations

import logging
from collections import deque

from odradek.client.cluster_image import Node
from odradek.client.consumer.completed_fetch import CompletedFetch
from odradek.client.consumer.fetch_sessions import FetchSession, Wanted
from odradek.client.consumer.held_decisions import HeldDecisions
from odradek.client.consumer.metrics import FetchMetrics
from odradek.client.consumer.partition_state import FetchState, PartitionState
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.errors import error_for
from odradek.client.metadata import LeaderChange, Metadata
from odradek.config.consumer import ConsumerConfig
from odradek.model.errors import ErrorCode, error_code
from odradek.model.spans import Span
from odradek.model.topics import TopicPartition
from odradek.protocol.api.fetch import FetchResponse, PartitionData
from odradek.protocol.record_batch import CorruptBatch, batches

log = logging.getLogger(__name__)

PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors after which the same is tried again, beside those that ask for new metadata."""


class FetchAnswers:
    """Takes answers for a `Fetcher`."""

    def __init__(
        self,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        incoming: deque[CompletedFetch],
        held: HeldDecisions,
        metrics: FetchMetrics,
    ) -> None:
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._config = config
        self._incoming = incoming
        self._held = held
        self._metrics = metrics

    def partitions(
        self, session: FetchSession, response: FetchResponse
    ) -> dict[TopicPartition, PartitionData]:
        """What the answer is about."""
        return {
            TopicPartition(
                session.name_of(topic.topic, topic.topic_id) or f"? {topic.topic_id}",
                data.partition_index,
            ): data
            for topic in response.responses
            for data in topic.partitions
        }

    def take(
        self,
        asked: dict[TopicPartition, Wanted],
        answered: dict[TopicPartition, PartitionData],
        response: FetchResponse,
    ) -> None:
        """The answer to `asked`, as `partitions` gave it."""
        changes: list[LeaderChange] = []
        for partition, data in answered.items():
            state = self._subscriptions.get(partition)
            if state is None or not self._is_current(state, asked[partition]):
                continue
            if data.error_code == ErrorCode.NONE:
                self._take_data(state, data)
                continue
            code = error_code(data.error_code)
            leader = data.current_leader
            if leader is not None and leader.leader_id >= 0:
                changes.append(LeaderChange(*partition, leader.leader_id, leader.leader_epoch))
            self._take_error(state, code)
        if changes:
            nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
            self._metadata.update_leaders(changes, nodes)

    @staticmethod
    def _is_current(state: PartitionState, wanted: Wanted) -> bool:
        """Whether that is still what is to be fetched next."""
        return (
            state.state is FetchState.FETCHING
            and not state.held
            and state.fetch.offset == wanted.fetch_offset
        )

    def _take_data(self, state: PartitionState, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            self._held.truncated(state, diverging.end_offset, diverging.epoch)
            return
        records = data.records
        if isinstance(records, Span) and len(records):
            self._take_records(state, records, data)

    def _take_records(self, state: PartitionState, records: Span, data: PartitionData) -> None:
        last = None
        count = 0
        corrupt: CorruptBatch | None = None
        try:
            for header in batches(records.data, records.start, records.end):
                last = header
                if not header.is_control:
                    # Of the first batch, some may be before what was asked for.
                    count += min(header.count, max(0, header.next_offset - state.fetch.offset))
        except CorruptBatch as error:
            corrupt = error
        if last is not None and last.next_offset > state.fetch.offset:
            aborted = data.aborted_transactions or () if self._config.read_committed else None
            fetch = CompletedFetch(
                state.position,
                records.data,
                records.start,
                last.end,
                last.next_offset,
                aborted,
                self._config.check_crcs,
            )
            self._metrics.took(count, fetch.size)
            state.fetched(last.next_offset, last.partition_leader_epoch, fetch.size)
            self._incoming.append(fetch)
            self._subscriptions.move_to_end(state.topic_partition)
        elif corrupt is None:
            self._held.back_off(state)  # Less than a batch came: no broker of today does that.
        if corrupt is not None:
            where = f"reading {state.topic_partition} at offset {state.fetch.offset}"
            self._held.failed(state, error_for(ErrorCode.CORRUPT_MESSAGE, where, str(corrupt)))

    def _take_error(self, state: PartitionState, code: ErrorCode) -> None:
        what = f"reading {state.topic_partition} at offset {state.fetch.offset}"
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._held.out_of_range(state)
        elif code.refresh_metadata or code in PASSING:
            level = logging.DEBUG if code.retriable else logging.WARNING
            log.log(level, "%s: %s, will try again", what, code.name)
            self._held.back_off(state)
            if code.refresh_metadata or code == ErrorCode.OFFSET_NOT_AVAILABLE:
                self._metadata.request_update()
        else:
            self._held.failed(state, error_for(code, what))
