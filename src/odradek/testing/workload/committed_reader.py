"""A simulated consumer that reads committed transactions, and nothing else.

It fetches assigned partitions from the beginning with read_committed, and leaves out what the
response names as aborted, as every consumer does. A *final* reader first asks for the last stable
offsets and is finished when it has read up to them; others read until they are stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol import record_batch
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.testing.history import History
from odradek.testing.scheduler import MS
from odradek.testing.transactions import ReadRecord, TransactionHistory
from odradek.testing.workload.cluster_client import ClusterClient
from odradek.testing.workload.topics import TopicLife

READ_COMMITTED = 1
LATEST = -1
FETCH_VERSION, LIST_VERSION = 13, 7
PAUSE_MS = (1, 200)
SESSIONLESS = -1
ABORT_MARKER = 0


@dataclass(slots=True, eq=False)
class SimCommittedReader:
    """Reads until it is stopped, or up to the ends if it is `final`."""

    client: ClusterClient
    history: History
    observed: TransactionHistory
    name: str
    partitions: Sequence[TopicPartition]
    topics: Mapping[str, TopicLife]
    final: bool = False
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    stopped: bool = False

    def start(self) -> None:
        self.positions = dict.fromkeys(self.partitions, 0)
        if self.final:
            for tp in self.partitions:
                self._ask_end(tp)
        self._later()

    @property
    def finished(self) -> bool:
        if not self.final:
            return self.stopped
        known = len(self.ends) == len(self.partitions)
        return known and all(self.positions[tp] >= end for tp, end in self.ends.items())

    def pending(self) -> str:
        """Return what is unfinished, for a report."""
        left = [
            f"{tp} at {self.positions[tp]} of {self.ends.get(tp, '?')}"
            for tp in self.partitions
            if self.positions[tp] < self.ends.get(tp, 1 << 62)
        ]
        return f"{self.name}: {', '.join(left)}"

    # Ends.

    def _ask_end(self, tp: TopicPartition) -> None:
        asked = ListOffsetsPartition(partition_index=tp.partition, timestamp=LATEST)
        topic = ListOffsetsTopic(name=self.topics[tp.topic].name, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=READ_COMMITTED, topics=[topic])

        def answered(response: ListOffsetsResponse) -> None:
            found = response.topics[0].partitions[0]
            error = ErrorCode(found.error_code)
            if error is ErrorCode.NONE:
                self.ends[tp] = found.offset
            else:
                self.client.note_error(tp, error)
                again()

        def again() -> None:
            self.client.process.post(100 * MS, "end", lambda: self._ask_end(tp))

        self.client.call_leader(tp, request, LIST_VERSION, ListOffsetsResponse, answered, again)

    # Fetching.

    def _later(self) -> None:
        delay_ms = self.client.chance.between(*PAUSE_MS)
        self.client.process.post(delay_ms * MS, "fetch committed", self._fetch)

    def _fetch(self) -> None:
        if self.stopped or self.finished:
            return
        tp = self.client.chance.pick(self.partitions)
        asked = FetchPartition(
            partition=tp.partition,
            current_leader_epoch=self.client.epoch_of(tp),
            fetch_offset=self.positions[tp],
            partition_max_bytes=self.client.chance.pick((1, 1000, 1 << 20)),
        )
        to = self.topics[tp.topic]
        request = FetchRequest(
            max_wait_ms=self.client.chance.pick((0, 300)),
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=READ_COMMITTED,
            session_epoch=SESSIONLESS,
            topics=[FetchTopic(topic=to.name, topic_id=to.id, partitions=[asked])],
        )
        self.client.call_leader(
            tp,
            request,
            FETCH_VERSION,
            FetchResponse,
            lambda response: self._fetched(tp, response),
            self._later,
        )

    def _fetched(self, tp: TopicPartition, response: FetchResponse) -> None:
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE and response.responses:
            data = response.responses[0].partitions[0]
            error = ErrorCode(data.error_code)
            if error is ErrorCode.NONE:
                self._take(tp, data)
        if error is not ErrorCode.NONE:
            self.client.process.scheduler.reach(f"committed reader: {error.name}")
            self.client.note_error(tp, error)
            if not error.retriable:
                self.history.surprise("refused", f"{self.name} of {tp}: {error.name}")
        self._later()

    def _take(self, tp: TopicPartition, data: PartitionData) -> None:
        if data.last_stable_offset > data.high_watermark:
            self.history.surprise(
                "unstable",
                f"{tp}: the last stable offset {data.last_stable_offset} is above the high"
                f" watermark {data.high_watermark}",
            )
        if not isinstance(data.records, ByteRange):
            return
        at_ns = self.client.process.scheduler.now_ns
        for header, is_read in self._visible_batches(tp, data, data.records):
            if is_read:
                for record in record_batch.records_of(data.records.data, header):
                    if record.offset >= self.positions[tp]:
                        self.observed.reads.append(
                            ReadRecord(at_ns, self.name, tp, record.offset, record.value or b"")
                        )
            self.positions[tp] = max(self.positions[tp], header.next_offset)

    def _visible_batches(
        self, tp: TopicPartition, data: PartitionData, span: ByteRange
    ) -> Iterator[tuple[record_batch.RecordBatchHeader, bool]]:
        """Yield each batch, and whether its records count: of no aborted transaction, no marker."""
        to_come = sorted(
            data.aborted_transactions or (), key=lambda each: (each.first_offset, each.producer_id)
        )
        aborted: set[int] = set()
        for header in record_batch.batches(span.data, span.start, span.end):
            if not record_batch.is_intact(span.data, header):
                self.history.surprise("corrupt", f"{tp}: batch at offset {header.base_offset}")
                continue
            while to_come and to_come[0].first_offset <= header.last_offset:
                aborted.add(to_come.pop(0).producer_id)
            if header.is_control:
                if is_abort_marker(span.data, header):
                    aborted.discard(header.producer_id)
                yield header, False
            else:
                transactional = bool(header.attributes & record_batch.TRANSACTIONAL_BIT)
                yield header, not (transactional and header.producer_id in aborted)


def is_abort_marker(data: bytes, header: record_batch.RecordBatchHeader) -> bool:
    """True if a control batch ends an aborted transaction."""
    (record,) = record_batch.records_of(data, header)
    return int.from_bytes((record.key or b"")[2:4], "big") == ABORT_MARKER
