"""ListOffsets: the special timestamps, in each version."""

from __future__ import annotations

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from unit.broker.memory_broker import NOW_MS, MemoryBroker

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
