"""An unknown isolation level is a protocol violation, which closes the connection."""

from __future__ import annotations

import pytest

from odradek.model.errors import ProtocolError
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from unit.broker.memory_broker import MemoryBroker


def test_an_unknown_isolation_level_raises_protocol_error_and_makes_no_session():
    serving = MemoryBroker()
    serving.create("t")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1,
        isolation_level=2,
        session_epoch=0,
        topics=[FetchTopic(topic="t", partitions=[partition])],
        forgotten_topics_data=[],
    )
    with pytest.raises(ProtocolError, match="isolation level 2"):
        serving.send(fetch, 11)
    assert len(serving.node.broker.fetch_sessions.sessions) == 0
    with pytest.raises(ProtocolError, match="isolation level -1"):
        serving.send(ListOffsetsRequest(replica_id=-1, isolation_level=-1, topics=[]), 7)
