"""Values that decode but mean nothing: the connection's end, in one line, and no bug."""

from __future__ import annotations

import pytest
from serving import Serving

from odradek.model.errors import ProtocolError
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.api.list_offsets import ListOffsetsRequest


def test_an_isolation_level_that_there_is_not_is_a_violation_and_makes_no_session():
    serving = Serving()
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
