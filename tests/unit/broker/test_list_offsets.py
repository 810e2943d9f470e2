"""ListOffsets: the special timestamps, in each version."""

from __future__ import annotations

import pytest

from odradek.broker.handlers.list_offsets import find
from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.replication.partition import Isolation
from unit.broker.memory_broker import NOW_MS, MemoryBroker, SentRequest
from unit.replication.replicated import Replicated, registration

LAST_VERSION = 11
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}
EPOCH = 0
FOUND = {
    LATEST: (-1, 6, EPOCH),
    EARLIEST: (-1, 2, EPOCH),
    MAX_TIMESTAMP: (NOW_MS + 3, 3, EPOCH),
    EARLIEST_LOCAL: (-1, 2, EPOCH),
    LATEST_TIERED: (-1, -1, -1),
    EARLIEST_PENDING: (-1, -1, -1),
}
"""(timestamp, offset, leader epoch) in the log of `serving`: nothing of it is tiered."""


@pytest.fixture(scope="module")
def serving() -> MemoryBroker:
    """Records of times 0 to 3, then 0 and 1; the first two are deleted."""
    running = MemoryBroker()
    running.create("t")
    assert (
        running.produce_and_wait("t", count=4)
        == running.produce_and_wait("t", count=2)
        == ErrorCode.NONE
    )
    log = running.node.replicas.by_name["t", 0].log
    assert log.delete_records(2) == ErrorCode.NONE
    return running


def listed(serving: MemoryBroker, timestamp: int, version: int) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
    )
    return serving.call(request, version, ListOffsetsResponse).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, LAST_VERSION + 1))
@pytest.mark.parametrize("timestamp", FOUND)
def test_a_special_timestamp_is_answered_from_its_version_on(
    serving: MemoryBroker, timestamp: int, version: int
):
    answer = listed(serving, timestamp, version)
    if version < SINCE[timestamp]:
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (answer.timestamp, answer.offset) == (-1, -1)
        return
    time, offset, epoch = FOUND[timestamp]
    assert answer.error_code == ErrorCode.NONE
    assert (answer.timestamp, answer.offset) == (time, offset)
    assert answer.leader_epoch == (epoch if version >= 4 else -1)


@pytest.mark.parametrize("timestamp", [-7, -(1 << 63)])
def test_an_unknown_negative_timestamp_is_unsupported_version(
    serving: MemoryBroker, timestamp: int
):
    assert listed(serving, timestamp, LAST_VERSION).error_code == ErrorCode.UNSUPPORTED_VERSION


def waiting_offsets(serving: MemoryBroker, timestamp: int) -> SentRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="t", partitions=[asked])
    return serving.send(ListOffsetsRequest(replica_id=-1, topics=[topic]), LAST_VERSION)


def offset_of(asked: SentRequest) -> int:
    return asked.answer(ListOffsetsResponse).topics[0].partitions[0].offset


@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize(("timestamp", "offset"), [(LATEST, 1), (MAX_TIMESTAMP, 0), (NOW_MS, 0)])
def test_a_record_on_its_way_to_the_disk_is_found_when_it_is_there(
    acks: int, timestamp: int, offset: int
):
    serving = MemoryBroker()
    serving.create("t")
    serving.produce("t", acks=acks)
    start, end = waiting_offsets(serving, EARLIEST), waiting_offsets(serving, timestamp)
    assert offset_of(start) == 0, "the log start waits for nothing"
    assert end.parts is None
    serving.run_until_idle()
    assert offset_of(end) == offset


def test_a_disk_that_is_slow_delays_the_end_offset_for_a_second():
    serving = MemoryBroker()
    serving.create("t")
    serving.produce("t", acks=1)
    end = waiting_offsets(serving, LATEST)
    serving.run_soon()
    for passed_ms in (999, 1_000):
        assert end.parts is None
        serving.clock.passed_ms = serving.timer.now_ms + passed_ms
        serving.timer.advance_clock(passed_ms)
    assert offset_of(end) == 0


def test_a_client_that_does_not_want_to_wait_for_deleted_records_waits_for_the_disk():
    """As in Kafka its `timeout_ms` limits the wait for other replicas."""
    serving = MemoryBroker()
    serving.create("t")
    serving.produce("t", acks=1)
    partition = DeleteRecordsPartition(partition_index=0, offset=-1)
    topic = DeleteRecordsTopic(name="t", partitions=[partition])
    answer = serving.call(
        DeleteRecordsRequest(topics=[topic], timeout_ms=0), 2, DeleteRecordsResponse
    )
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (ErrorCode.NONE, 1)


def test_the_end_of_a_leader_that_is_cut_off_is_asked_of_another_one():
    led = Replicated()
    partition = led.replica(registration())
    consumer = Isolation.READ_UNCOMMITTED
    assert find(partition, LATEST, consumer) == (-1, 0, 0)
    led.session_ended = True
    assert find(partition, LATEST, consumer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert find(partition, EARLIEST, consumer) == (-1, 0, 0)


def test_a_new_leader_has_no_offsets_until_its_high_watermark_is_in_its_epoch():
    led = Replicated()
    partition = led.replica(registration())
    led.append(partition)
    led.replicas.apply(partition, registration(epoch=1, partition_epoch=1), 1)
    consumer = Isolation.READ_UNCOMMITTED
    after_all = NOW_MS + 1_000_000
    assert find(partition, LATEST, consumer) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert find(partition, after_all, consumer) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert find(partition, EARLIEST, consumer) == (-1, 0, 0)
    for follower in (2, 3):
        led.fetched(partition, follower, durable=1)
    led.run_until_idle()
    assert find(partition, LATEST, consumer) == (-1, 1, 1)
    assert find(partition, after_all, consumer) == (-1, -1, -1)
