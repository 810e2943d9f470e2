"""With more partitions than descriptors, the broker closes files that are not in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.wire import RawConnection
from odradek.log.files import LocalDisk
from odradek.model.byte_ranges import ByteRange
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.record_batch_builder import build
from odradek.testing import Broker

PARTITIONS = 60
MAX_OPEN = 16
WORKERS = 8
"""Additional files that flushes may have pinned."""


@pytest.fixture
def disk() -> LocalDisk:
    return LocalDisk(max_open=MAX_OPEN)


def test_a_broker_on_its_own_thread_keeps_its_share_of_descriptors(disk: LocalDisk, tmp_path: Path):
    data = build([(None, b"value", [], 1_700_000_000_000)])
    topic = CreatableTopic(
        name="t", num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
    )
    with Broker(data_dir=tmp_path, disk=disk) as broker, RawConnection(broker.bootstrap) as wire:
        wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=9000), 7, CreateTopicsResponse)
        for index in range(PARTITIONS):
            partition = PartitionProduceData(index=index, records=ByteRange(data, 0, len(data)))
            asked = TopicProduceData(name="t", partition_data=[partition])
            request = ProduceRequest(acks=-1, timeout_ms=9000, topic_data=[asked])
            answer = wire.ask(request, 9, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == 0
        assert disk.open_files <= MAX_OPEN + WORKERS
