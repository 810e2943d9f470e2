"""Calls to a cluster: retried where Kafka says so, raised where it does not."""

import pytest
from scripted_server import DROP, ScriptedServer

from odradek.client.simple.cluster import Cluster, OffsetAndTimestamp
from odradek.client.simple.metadata import KafkaError, RetriesExhausted
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.api.metadata import MetadataRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def offsets_with(codes):
    """Answers ListOffsets; partition -> error codes to give before the offset (100 + partition)."""
    left = {partition: list(todo) for partition, todo in codes.items()}

    def answer(request, version):
        found = []
        for topic in request.topics:
            for asked in topic.partitions:
                todo = left.get(asked.partition_index, [])
                code = todo.pop(0) if todo else ErrorCode.NONE
                if code is DROP:
                    return DROP
                offset = 100 + asked.partition_index if code == ErrorCode.NONE else -1
                found.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=code, offset=offset
                    )
                )
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="t", partitions=found)] if found else []
        )

    return answer


def test_what_the_cluster_has():
    with ScriptedServer(topics={"t": 2, "s": 1}) as server, Cluster(server.bootstrap) as cluster:
        assert cluster.topic_names() == ["s", "t"]
        assert cluster.partitions(["t"]) == [T0, T1]
        with pytest.raises(KafkaError, match="topic none: UNKNOWN_TOPIC_OR_PARTITION"):
            cluster.partitions(["t", "none"])
        assert all(not r.allow_auto_topic_creation for r in server.requests(MetadataRequest))


def test_only_what_failed_is_asked_again_with_fresh_metadata():
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with (
        ScriptedServer({ListOffsetsRequest: offsets_with({1: [moved]})}, {"t": 2}) as server,
        Cluster(server.bootstrap) as cluster,
    ):
        found = cluster.list_offsets({T0: -1, T1: -1})
        assert found == {T0: OffsetAndTimestamp(100, -1), T1: OffsetAndTimestamp(101, -1)}
        again = server.requests(ListOffsetsRequest)[1]
        assert [p.partition_index for p in again.topics[0].partitions] == [1]
        assert len(server.requests(MetadataRequest)) == 2


def test_a_connection_lost_in_the_middle_is_no_matter():
    with (
        ScriptedServer({ListOffsetsRequest: offsets_with({0: [DROP]})}, {"t": 1}) as server,
        Cluster(server.bootstrap) as cluster,
    ):
        assert cluster.latest_offsets([T0]) == {T0: 100}


def test_an_error_that_does_not_pass_is_raised_at_once():
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with (
        ScriptedServer({ListOffsetsRequest: offsets_with({0: [refused]})}, {"t": 1}) as server,
        Cluster(server.bootstrap) as cluster,
    ):
        with pytest.raises(KafkaError, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
            cluster.earliest_offsets([T0])
        assert len(server.requests(ListOffsetsRequest)) == 1


def test_an_error_that_never_passes_ends_with_the_time():
    never = [ErrorCode.LEADER_NOT_AVAILABLE] * 1000
    with (
        ScriptedServer({ListOffsetsRequest: offsets_with({0: never})}, {"t": 1}) as server,
        Cluster(server.bootstrap, api_timeout_ms=200) as cluster,
        pytest.raises(RetriesExhausted, match="gave up after 200 ms: t-0: LEADER_NOT_AVAILABLE"),
    ):
        cluster.latest_offsets([T0])
