"""A log with transactions, read by Fetch, ListOffsets and DescribeProducers in every version.

Three transactional producers write between plain batches; they commit, abort, and one stays open
for a while. The markers of both brokers are awaited, so their logs are the same, record by record.
"""

from __future__ import annotations

from uuid import UUID

from interop.differential.batches import T0, contents, good
from interop.differential.peer import Peer
from interop.differential.scripts.produce import producing
from interop.differential.scripts.reading import LATEST_FETCH, fetching
from odradek.model.errors import ErrorCode
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.record_batch_builder import build

NAME = "transactional-reads"
BEFORE_V2 = 3
"""The version of InitProducerId, AddPartitionsToTxn and EndTxn."""
PRODUCE_BEFORE_V2 = 11
NONE = ErrorCode.NONE


class Writer:
    """A transactional producer of partition 0, without transaction version 2."""

    def __init__(self, peer: Peer, transactional_id: str, topic_id: UUID) -> None:
        self.peer = peer
        self.id = f"{transactional_id}-reads"
        self.topic_id = topic_id
        self.sequence = 0
        self.is_open = False
        init = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000)
        # The coordinator may be loading.
        answer = peer.ask_until(init, BEFORE_V2, lambda answer: answer.error_code == NONE)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def send(self, count: int = 2, timestamp: int = T0) -> None:
        if not self.is_open:
            self._add_partition()
        batch = build(
            contents(count, timestamp=timestamp),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        request = producing(NAME, self.topic_id, [(0, batch)], acks=-1, transactional_id=self.id)
        answer = self.peer.ask(request, PRODUCE_BEFORE_V2)
        assert answer.responses[0].partition_responses[0].error_code == NONE, answer
        self.sequence += count
        self.is_open = True

    def _add_partition(self) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=NAME, partitions=[0])],
        )

        def error_of(answer: AddPartitionsToTxnResponse) -> int:
            (topic,) = answer.results_by_topic_v3_and_below
            return topic.results_by_partition[0].partition_error_code

        concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
        answer = self.peer.ask_until(
            request, BEFORE_V2, lambda found: error_of(found) != concurrent
        )
        assert error_of(answer) == NONE, answer

    def end(self, committed: bool) -> None:
        """End the transaction and wait until its marker is there."""
        answer = self.peer.ask(
            EndTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=committed,
            ),
            BEFORE_V2,
        )
        assert answer.error_code == NONE, answer
        self.is_open = False

        def has_marker() -> bool:
            rows = producers(self.peer).active_producers
            mine = [row for row in rows if row.producer_id == self.producer_id]
            return mine[0].current_txn_start_offset == -1

        self.peer.until(has_marker)


def producers(peer: Peer) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=NAME, partition_indexes=[0])])
    partition: PartitionResponse = peer.ask(request, 0).topics[0].partitions[0]
    return partition


def reads(peer: Peer) -> None:
    """Write the history, and read it with a transaction open and with none."""
    # The markers are years later than the records: no reason to begin a segment, or to delete one.
    topic_id = peer.new_topic(NAME, 1, **{"segment.ms": str(1 << 60), "retention.ms": "-1"})
    peer.ask(FindCoordinatorRequest(key="a-reads", key_type=1), 2)

    def plain(timestamp: int = T0) -> None:
        batch = good(2, timestamp=timestamp)
        peer.ask(producing(NAME, topic_id, [(0, batch)], acks=-1), 13)

    first, second, third = (Writer(peer, name, topic_id) for name in "abc")
    plain()
    first.send(2, T0 + 10)
    second.send(1, T0 + 20)
    plain(T0 + 5)
    second.end(committed=False)
    first.send(1, T0 + 30)
    first.end(committed=True)
    second.send(3, T0 + 40)
    second.end(committed=False)
    first.send(1, T0 + 35)
    first.end(committed=False)
    plain(T0 + 50)
    third.send(2, T0 + 60)
    plain(T0 + 70)
    peer.until(lambda: list_offsets(peer, -1, 0) == 22)
    read(peer, "open", topic_id)
    third.end(committed=True)
    peer.until(lambda: list_offsets(peer, -1, 0) == 23)
    read(peer, "ended", topic_id)


def listing(timestamp: int, isolation_level: int) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=NAME, partitions=[asked])],
    )


def list_offsets(peer: Peer, timestamp: int, isolation_level: int) -> int:
    answer = peer.ask(listing(timestamp, isolation_level), 7)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def read(peer: Peer, label: str, topic_id: UUID) -> None:
    """Read with both isolation levels: whole, from every offset, in small pieces."""
    for isolation_level in (0, 1):
        name = f"{label}, isolation {isolation_level}"
        for version in peer.each_version(FetchRequest):
            for offset in (0, 3, 9):
                request = fetching(NAME, topic_id, [(0, offset)], isolation_level=isolation_level)
                peer.call(f"{name}: fetch v{version} from {offset}", request, version)
        for offset in range(25):
            request = fetching(NAME, topic_id, [(0, offset)], isolation_level=isolation_level)
            peer.call(f"{name}: fetch from {offset}", request, LATEST_FETCH)
        for version in peer.each_version(ListOffsetsRequest, since=2):
            for timestamp in (-1, -2, -3, T0, T0 + 25, T0 + 35, T0 + 60, T0 + 70, T0 + 900):
                if timestamp != -3 or version >= 7:
                    asked = listing(timestamp, isolation_level)
                    about = (
                        f"{name}: list v{version} {timestamp - T0 if timestamp > 0 else timestamp}"
                    )
                    peer.call(about, asked, version)
    described = DescribeProducersRequest(topics=[TopicRequest(name=NAME, partition_indexes=[0])])
    peer.call(f"{label}: producers", described, 0)
