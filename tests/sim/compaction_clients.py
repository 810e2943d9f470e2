"""Clients of a compacted topic in simulated time: a writer, a committer and a reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol import record_batch, record_batch_builder
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.testing.scheduler import MS
from odradek.testing.workload.wire import WireClient

TOPIC, GROUP, KEYS = "compacted", "group", 6
KeyValue = tuple[bytes | None, bytes | None]


@dataclass(slots=True)
class Journal:
    """What was acknowledged, what was read, and the violations found."""

    acked: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    """The last acknowledged (offset, value) of each key."""
    seen: dict[int, KeyValue] = field(default_factory=dict)
    log: dict[int, KeyValue] = field(default_factory=dict)
    """The records of the last complete read."""
    committed: int = 0
    sent: int = 0
    unanswered: set[int] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)

    def read(self, offset: int, record: KeyValue) -> None:
        if self.seen.setdefault(offset, record) != record:
            self.violations.append(f"offset {offset} was {self.seen[offset]}, is {record}")

    def offset_fetched(self, offset: int, floor: int) -> None:
        if not floor <= offset <= self.sent and offset not in self.unanswered:
            self.violations.append(
                f"committed is {offset}; {floor} was acked, {self.sent} was sent"
            )

    def check(self) -> list[str]:
        """Check the last read against the acknowledged records; return all violations."""
        last: dict[bytes, int] = {}
        for offset, (key, _) in self.log.items():
            assert key is not None
            last[key] = offset
        for key, (offset, value) in self.acked.items():
            found = last.get(key, -1)
            if found < offset and (value is not None or found >= 0):
                self.violations.append(
                    f"{key!r}: {value!r} at {offset} was acked, the last is {found}"
                )
        return self.violations


class CompactionClient:
    """A client that sends one request after another until `stopping` is set."""

    def __init__(self, journal: Journal, client: WireClient, topic_id: UUID) -> None:
        self.journal = journal
        self.client = client
        self.topic_id = topic_id
        self.chance = self.client.chance
        self.stopping = False
        self.idle = False

    def start(self) -> None:
        self.client.process.run(self.step)

    def step(self) -> None:
        """Send the next request."""
        raise NotImplementedError

    def schedule_step(self, most_ms: int = 40) -> None:
        if self.stopping:
            self.idle = True
        else:
            self.client.process.post(self.chance.between(0, most_ms) * MS, "next", self.step)


class Writer(CompactionClient):
    """Produces batches of keyed records with `acks=all`, one at a time and without retries."""

    made = 0

    def step(self) -> None:
        records: list[tuple[bytes, bytes | None]] = []
        for _ in range(self.chance.between(1, 4)):
            self.made += 1
            key = b"key-%d" % self.chance.below(KEYS)
            size = self.chance.pick((0, 20, 200))
            value = None if self.chance.chance(150) else b"%d " % self.made + b"." * size
            records.append((key, value))
        wall_ms = self.client.process.clock.wall_ms()
        data = record_batch_builder.build(
            [(key, value, [], wall_ms) for key, value in records], self.chance.pick((0, 0, 2, 4))
        )
        partition = PartitionProduceData(index=0, records=data)
        topic = TopicProduceData(name=TOPIC, topic_id=self.topic_id, partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[topic])

        def answered(response: ProduceResponse) -> None:
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == ErrorCode.NONE:
                for number, (key, value) in enumerate(records):
                    self.journal.acked[key] = (answer.base_offset + number, value)
            self.schedule_step()

        self.client.call(request, 13, ProduceResponse, answered, self.schedule_step)


class Committer(CompactionClient):
    """Commits 1, 2, 3, ... for its group, and at random fetches the committed offset."""

    check_only = False

    def step(self) -> None:
        if self.check_only or self.chance.chance(200):
            self._check_committed()
        else:
            self._commit()

    def _commit(self) -> None:
        self.journal.sent += 1
        offset = self.journal.sent
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="." * 60
        )
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        request = OffsetCommitRequest(group_id=GROUP, topics=[topic])

        def answered(response: OffsetCommitResponse) -> None:
            if response.topics[0].partitions[0].error_code == ErrorCode.NONE:
                self.journal.committed = max(self.journal.committed, offset)
            self.schedule_step()

        def failed() -> None:
            self.journal.unanswered.add(offset)
            self.schedule_step()

        self.client.call(request, 8, OffsetCommitResponse, answered, failed)

    def _check_committed(self) -> None:
        floor = self.journal.committed
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=True
        )

        def answered(response: OffsetFetchResponse) -> None:
            group = response.groups[0]
            if group.error_code == ErrorCode.NONE:
                offset = group.topics[0].partitions[0].committed_offset
                self.journal.offset_fetched(max(offset, 0), floor)
                self.stopping = self.stopping or self.check_only
            self.schedule_step()

        self.client.call(request, 8, OffsetFetchResponse, answered, self.schedule_step)


class Reader(CompactionClient):
    """Reads the topic from beginning to end, repeatedly or `once`."""

    once = False
    position = end = 0

    def step(self) -> None:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name=TOPIC, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        self.client.call(request, 7, ListOffsetsResponse, self._offsets_listed, self.schedule_step)

    def _offsets_listed(self, response: ListOffsetsResponse) -> None:
        partition = response.topics[0].partitions[0]
        if partition.error_code != ErrorCode.NONE:
            self.schedule_step()
            return
        self.position, self.end = 0, partition.offset
        self.journal.log = {}
        self._fetch()

    def _fetch(self) -> None:
        if self.position >= self.end:
            self.stopping = self.stopping or self.once
            self.schedule_step(200)
            return
        part = FetchPartition(
            partition=0, fetch_offset=self.position, partition_max_bytes=self.chance.pick((1, 3000))
        )
        topic = FetchTopic(topic_id=self.topic_id, partitions=[part])
        request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        self.client.call(request, 13, FetchResponse, self._fetched, self.schedule_step)

    def _fetched(self, response: FetchResponse) -> None:
        answered = [p for topic in response.responses for p in topic.partitions]
        if not answered or answered[0].error_code != ErrorCode.NONE:
            self.schedule_step()
            return
        span = answered[0].records
        assert isinstance(span, ByteRange)
        for header in record_batch.batches(span.data, span.start, span.end):
            assert record_batch.is_intact(span.data, header)
            for record in record_batch.records_of(span.data, header):
                if record.offset >= self.position:
                    self.journal.read(record.offset, (record.key, record.value))
                    self.journal.log[record.offset] = (record.key, record.value)
            self.position = max(self.position, header.next_offset)
        self._fetch()
