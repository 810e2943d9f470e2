"""Fetch, written by hand: its messages, readers and writers (see `hot_codec`).

Of the tagged fields those that a follower sends with every fetch are handled here: its
`replica_state` and the `durable_end` of its partitions, each the only one of its section; and those
that name new leaders are written here. The generated codec handles all others, and reads aborted
transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from librt.strings import write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from odradek.model.topics import ZERO_UUID
from odradek.protocol.hot_codec import (
    HotMessage,
    HotReader,
    HotWriter,
    MessageInput,
    MessageOutput,
    UseReference,
)

FIRST_VERSION_WITH_LEADERS: Final = 12
FIRST_VERSION_WITH_ENDPOINTS: Final = 16
LEADER_TAG: Final = 1
NO_LIMIT: Final = 2**31 - 1
NO_HIGH_WATERMARK: Final = 2**63 - 1
NO_DURABLE_END: Final = -1
DURABLE_END_TAG: Final = 100
REPLICA_STATE_TAG: Final = 1
REPLICA_STATE_BYTES: Final = 13


class ReplicaState(HotMessage):
    """The id and epoch of a follower; consumers send none."""

    __slots__ = ("replica_epoch", "replica_id")

    def __init__(self, *, replica_id: int = -1, replica_epoch: int = -1) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchPartition(HotMessage):
    """One partition and the offset to read from."""

    __slots__ = (
        "current_leader_epoch",
        "durable_end",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "replica_directory_id",
    )

    def __init__(
        self,
        *,
        partition: int,
        current_leader_epoch: int = -1,
        fetch_offset: int,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int,
        replica_directory_id: UUID = ZERO_UUID,
        high_watermark: int = NO_HIGH_WATERMARK,
        durable_end: int = NO_DURABLE_END,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark
        self.durable_end = durable_end


class FetchTopic(HotMessage):
    """One topic: by name up to version 12, by id from 13."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, *, topic: str = "", topic_id: UUID = ZERO_UUID, partitions: list[FetchPartition]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class ForgottenTopic(HotMessage):
    """Partitions that leave the session."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, *, topic: str = "", topic_id: UUID = ZERO_UUID, partitions: list[int]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class FetchRequest(HotMessage):
    """Reads partitions from offsets, within a fetch session or without one."""

    __slots__ = (
        "cluster_id",
        "forgotten_topics_data",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_id",
        "replica_state",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: Any = None,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int = NO_LIMIT,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic],
        forgotten_topics_data: list[ForgottenTopic] | None = None,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data: list[ForgottenTopic] = (
            [] if forgotten_topics_data is None else forgotten_topics_data
        )
        self.rack_id = rack_id


class PartitionData(HotMessage):
    """The offsets and batches of one partition."""

    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition_index",
        "preferred_read_replica",
        "records",
        "snapshot_id",
    )

    def __init__(
        self,
        *,
        partition_index: int,
        error_code: int,
        high_watermark: int,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: Any = None,
        current_leader: Any = None,
        snapshot_id: Any = None,
        aborted_transactions: list[Any] | None,
        preferred_read_replica: int = -1,
        records: Any,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(HotMessage):
    """The partitions of one topic, named as in the request."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, *, topic: str = "", topic_id: UUID = ZERO_UUID, partitions: list[PartitionData]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class FetchResponse(HotMessage):
    """Per partition, its offsets and the batches that were read."""

    __slots__ = ("error_code", "node_endpoints", "responses", "session_id", "throttle_time_ms")

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse],
        node_endpoints: list[Any] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints: list[Any] = [] if node_endpoints is None else node_endpoints


class FetchRequestReader(HotReader):
    def __init__(
        self,
        cls: type[Any],
        version: i64,
        reference: Callable[[bytes, int], Any],
        open_ended: bool,
    ) -> None:
        super().__init__(cls, version, reference, open_ended)
        self.min_topic_size: i64 = self.min_element_size(FetchTopic)
        self.min_partition_size: i64 = self.min_element_size(FetchPartition)
        self.min_forgotten_size: i64 = self.min_element_size(ForgottenTopic)

    def message(self, source: MessageInput) -> FetchRequest:
        version = self.version
        replica_id: i64 = source.int32() if version <= 14 else -1
        max_wait_ms, min_bytes, max_bytes = source.int32(), source.int32(), source.int32()
        isolation_level = source.int8()
        session_id: i64 = source.int32() if version >= 7 else 0
        session_epoch: i64 = source.int32() if version >= 7 else -1
        topics = [self.topic(source) for _ in range(source.count(self.min_topic_size))]
        forgotten = self.forgotten(source) if version >= 7 else []
        rack_id = source.text() if version >= 11 else ""
        replica_state = self.replica_state(source) if source.has_tags() else None
        return FetchRequest(
            replica_id=replica_id,
            replica_state=replica_state,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=rack_id,
        )

    def replica_state(self, source: MessageInput) -> ReplicaState:
        """Read a tag section that has the state of a follower and nothing else."""
        self.only_tag(source, REPLICA_STATE_TAG, REPLICA_STATE_BYTES)
        replica_id, replica_epoch = source.int32(), source.int64()
        if self.version < 15 or source.has_tags():
            raise UseReference
        return ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)

    def only_tag(self, source: MessageInput, tag: i64, size: i64) -> None:
        """Read the head of the only tagged field of a section, whose length is read already."""
        at: i64 = source.pos - 1
        if source.end - at < 3 or source.data[at] != 1:
            raise UseReference
        if source.data[at + 1] != tag or source.data[at + 2] != size:
            raise UseReference
        source.pos = at + 3

    def topic(self, source: MessageInput) -> FetchTopic:
        name, topic_id = self.topic_key(source)
        partitions = [self.partition(source) for _ in range(source.count(self.min_partition_size))]
        source.skip_tags()
        return FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)

    def partition(self, source: MessageInput) -> FetchPartition:
        version = self.version
        index = source.int32()
        current_leader_epoch: i64 = source.int32() if version >= 9 else -1
        fetch_offset = source.int64()
        last_fetched_epoch: i64 = source.int32() if version >= 12 else -1
        log_start_offset: i64 = source.int64() if version >= 5 else -1
        partition_max_bytes = source.int32()
        durable_end: i64 = NO_DURABLE_END
        if source.has_tags():
            self.only_tag(source, DURABLE_END_TAG, 8)
            durable_end = source.int64()
        return FetchPartition(
            partition=index,
            current_leader_epoch=current_leader_epoch,
            fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
            log_start_offset=log_start_offset,
            partition_max_bytes=partition_max_bytes,
            durable_end=durable_end,
        )

    def forgotten(self, source: MessageInput) -> list[ForgottenTopic]:
        topics: list[ForgottenTopic] = []
        for _ in range(source.count(self.min_forgotten_size)):
            name, topic_id = self.topic_key(source)
            partitions = [source.int32() for _ in range(source.count(4))]
            source.skip_tags()
            topics.append(ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions))
        return topics


class FetchRequestWriter(HotWriter):
    def put(self, target: MessageOutput, message: FetchRequest) -> None:
        version, out = self.version, target.out
        if (
            message.cluster_id is not None
            or (message.replica_state is not None and version < 15)
            or (version > 14 and message.replica_id != -1)
            or (version < 7 and message.forgotten_topics_data)
            or not 0 <= message.isolation_level <= 127
        ):
            raise UseReference
        if version <= 14:
            write_i32_be(out, i32(message.replica_id))
        write_i32_be(out, i32(message.max_wait_ms))
        write_i32_be(out, i32(message.min_bytes))
        write_i32_be(out, i32(message.max_bytes))
        out.append(u8(message.isolation_level))
        if version >= 7:
            write_i32_be(out, i32(message.session_id))
            write_i32_be(out, i32(message.session_epoch))
        target.length(len(message.topics), False)
        for topic in message.topics:
            self.topic_key(target, topic.topic, topic.topic_id)
            target.length(len(topic.partitions), False)
            for partition in topic.partitions:
                self.partition(target, partition)
            target.no_tags()
        if version >= 7:
            self.forgotten(target, message.forgotten_topics_data)
        if version >= 11:
            target.text(message.rack_id)
        if message.replica_state is None:
            target.no_tags()
        else:
            self.replica_state(target, message.replica_state)

    def replica_state(self, target: MessageOutput, state: ReplicaState) -> None:
        out = target.out
        out.append(1)
        out.append(REPLICA_STATE_TAG)
        out.append(REPLICA_STATE_BYTES)
        write_i32_be(out, i32(state.replica_id))
        write_i64_be(out, i64(state.replica_epoch))
        out.append(0)

    def partition(self, target: MessageOutput, partition: FetchPartition) -> None:
        version, out = self.version, target.out
        if (version < 12 and partition.last_fetched_epoch != -1) or (
            version >= 17
            and (
                partition.replica_directory_id is not ZERO_UUID
                or partition.high_watermark != NO_HIGH_WATERMARK
            )
        ):
            raise UseReference
        write_i32_be(out, i32(partition.partition))
        if version >= 9:
            write_i32_be(out, i32(partition.current_leader_epoch))
        write_i64_be(out, i64(partition.fetch_offset))
        if version >= 12:
            write_i32_be(out, i32(partition.last_fetched_epoch))
        if version >= 5:
            write_i64_be(out, i64(partition.log_start_offset))
        write_i32_be(out, i32(partition.partition_max_bytes))
        if partition.durable_end == NO_DURABLE_END or version < 12:
            target.no_tags()
        else:
            out.append(1)
            out.append(DURABLE_END_TAG)
            out.append(8)
            write_i64_be(out, i64(partition.durable_end))

    def forgotten(self, target: MessageOutput, topics: list[ForgottenTopic]) -> None:
        target.length(len(topics), False)
        for topic in topics:
            self.topic_key(target, topic.topic, topic.topic_id)
            target.length(len(topic.partitions), False)
            for index in topic.partitions:
                write_i32_be(target.out, i32(index))
            target.no_tags()


class FetchResponseReader(HotReader):
    def __init__(
        self,
        cls: type[Any],
        version: i64,
        reference: Callable[[bytes, int], Any],
        open_ended: bool,
    ) -> None:
        super().__init__(cls, version, reference, open_ended)
        self.min_topic_size: i64 = self.min_element_size(FetchableTopicResponse)
        self.min_partition_size: i64 = self.min_element_size(PartitionData)

    def message(self, source: MessageInput) -> FetchResponse:
        version = self.version
        throttle_time_ms = source.int32()
        error_code: i64 = source.int16() if version >= 7 else 0
        session_id: i64 = source.int32() if version >= 7 else 0
        topics = [self.topic(source) for _ in range(source.count(self.min_topic_size))]
        self.end_of_struct(source, version >= 16)
        return FetchResponse(
            throttle_time_ms=throttle_time_ms,
            error_code=error_code,
            session_id=session_id,
            responses=topics,
        )

    def topic(self, source: MessageInput) -> FetchableTopicResponse:
        name, topic_id = self.topic_key(source)
        partitions = [self.partition(source) for _ in range(source.count(self.min_partition_size))]
        source.skip_tags()
        return FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)

    def partition(self, source: MessageInput) -> PartitionData:
        version = self.version
        index = source.int32()
        error_code = source.int16()
        high_watermark, last_stable_offset = source.int64(), source.int64()
        log_start_offset: i64 = source.int64() if version >= 5 else -1
        aborted: list[Any] | None = None
        transactions: i64 = source.length(False)
        if transactions == 0:
            aborted = []
        elif transactions != -1:
            raise UseReference
        preferred_read_replica: i64 = source.int32() if version >= 11 else -1
        records = source.records()
        self.end_of_struct(source, version >= 12)
        return PartitionData(
            partition_index=index,
            error_code=error_code,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=aborted,
            preferred_read_replica=preferred_read_replica,
            records=records,
        )


class FetchResponseWriter(HotWriter):
    def put(self, target: MessageOutput, message: FetchResponse) -> None:
        if (self.version < 7 and message.session_id != 0) or (
            message.node_endpoints and self.version < FIRST_VERSION_WITH_ENDPOINTS
        ):
            raise UseReference
        write_i32_be(target.out, i32(message.throttle_time_ms))
        if self.version >= 7:
            write_i16_be(target.out, i16(message.error_code))
            write_i32_be(target.out, i32(message.session_id))
        target.length(len(message.responses), False)
        for topic in message.responses:
            self.topic_key(target, topic.topic, topic.topic_id)
            target.length(len(topic.partitions), False)
            for partition in topic.partitions:
                self.partition(target, partition)
            target.no_tags()
        self.endpoints(target, message.node_endpoints)

    def partition(self, target: MessageOutput, partition: PartitionData) -> None:
        version, out = self.version, target.out
        if (
            partition.diverging_epoch is not None
            or (partition.current_leader is not None and version < FIRST_VERSION_WITH_LEADERS)
            or partition.snapshot_id is not None
            or (version < 11 and partition.preferred_read_replica != -1)
        ):
            raise UseReference
        write_i32_be(out, i32(partition.partition_index))
        write_i16_be(out, i16(partition.error_code))
        write_i64_be(out, i64(partition.high_watermark))
        write_i64_be(out, i64(partition.last_stable_offset))
        if version >= 5:
            write_i64_be(out, i64(partition.log_start_offset))
        self.aborted(target, partition.aborted_transactions)
        if version >= 11:
            write_i32_be(out, i32(partition.preferred_read_replica))
        target.records(partition.records)
        if partition.current_leader is None:
            target.no_tags()
        else:
            self.leader(target, LEADER_TAG, partition.current_leader)

    def aborted(self, target: MessageOutput, transactions: list[Any] | None) -> None:
        """Write the aborted transactions, null at isolation level READ_UNCOMMITTED."""
        if transactions is None:
            target.length(-1, False)
            return
        target.length(len(transactions), False)
        for transaction in transactions:
            write_i64_be(target.out, transaction.producer_id)
            write_i64_be(target.out, transaction.first_offset)
            target.no_tags()
