"""A simulated client that deletes records from the front of logs.

From time to time it asks for the start and the end of a log, picks an offset in between, and
deletes the records before it. Its requests, the answers and the outcomes are evidence for the
checker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.testing.history import History, Start, Trim
from odradek.testing.scheduler import MS
from odradek.testing.workload.cluster_client import MOVED, ClusterClient
from odradek.testing.workload.reader import EARLIEST, LATEST
from odradek.testing.workload.topics import TopicLife

INCONCLUSIVE = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@dataclass(frozen=True, slots=True)
class TrimmerPlan:
    """The partitions it trims, and how often. Times in ms."""

    name: str
    partitions: Sequence[TopicPartition]
    pause_ms: tuple[int, int] = (200, 1500)
    version: int = 2


@dataclass(slots=True, eq=False)
class SimTrimmer:
    """Runs a plan until it is `stopped`."""

    client: ClusterClient
    history: History
    plan: TrimmerPlan
    topics: Mapping[str, TopicLife]
    stopped: bool = False

    def start(self) -> None:
        self._later()

    def _later(self) -> None:
        delay_ms = self.client.chance.between(*self.plan.pause_ms)
        self.client.process.post(delay_ms * MS, "trim", self._trim)

    def _trim(self) -> None:
        if self.stopped:
            return
        tp = self.client.chance.pick(self.plan.partitions)

        def start_received(start: int) -> None:
            self._ask(tp, LATEST, lambda end: self._cut(tp, start, end))

        self._ask(tp, EARLIEST, start_received)

    def _ask(self, tp: TopicPartition, what: int, received: Callable[[int], None]) -> None:
        partition = ListOffsetsPartition(partition_index=tp.partition, timestamp=what)
        topic = ListOffsetsTopic(name=self.topics[tp.topic].name, partitions=[partition])
        asked_ns = self._now_ns()

        def answered(response: ListOffsetsResponse) -> None:
            found = response.topics[0].partitions[0]
            if found.error_code != ErrorCode.NONE:
                self.client.note_error(tp, ErrorCode(found.error_code))
                self._later()
                return
            if what == EARLIEST:
                self.history.starts.append(
                    Start(tp, found.offset, asked_ns, self._now_ns(), final=False)
                )
            received(found.offset)

        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        self.client.call_leader(tp, request, 7, ListOffsetsResponse, answered, self._later)

    def _cut(self, tp: TopicPartition, start: int, end: int) -> None:
        target = self.client.chance.between(min(start, end), end)
        trim = Trim(tp, target, self._now_ns())
        self.history.trims.append(trim)
        partition = DeleteRecordsPartition(partition_index=tp.partition, offset=target)
        topic = DeleteRecordsTopic(name=self.topics[tp.topic].name, partitions=[partition])
        self.client.call_leader(
            tp,
            DeleteRecordsRequest(topics=[topic], timeout_ms=1500),
            self.plan.version,
            DeleteRecordsResponse,
            lambda response: self._answered(trim, response),
            lambda: self._unanswered(trim),
        )

    def _answered(self, trim: Trim, response: DeleteRecordsResponse) -> None:
        answer = response.topics[0].partitions[0]
        error = ErrorCode(answer.error_code)
        trim.ended_ns = self._now_ns()
        if error == ErrorCode.NONE:
            trim.outcome, trim.low_watermark = "ok", answer.low_watermark
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE:
            # The end is known; it goes back only if a power failure may lose records.
            trim.outcome = "fail"
            self.history.surprise(
                "lost", f"{trim.partition} does not reach to {trim.target} any more"
            )
        else:
            trim.outcome = "info"
            self.client.note_error(trim.partition, error)
            if error not in INCONCLUSIVE and not (self.client.several and error in MOVED):
                self.history.surprise("refused", f"trimming {trim.partition}: {error.name}")
        self._later()

    def _unanswered(self, trim: Trim) -> None:
        trim.outcome, trim.ended_ns = "info", self._now_ns()
        self._later()

    def _now_ns(self) -> int:
        return self.client.process.scheduler.now_ns
