"""Reading ranges: positions behind whole batches, retries, and offsets that are gone."""

import pytest
from scripted_server import DROP, ScriptedServer

from odradek.client.simple.cluster import Cluster
from odradek.client.simple.metadata import KafkaError
from odradek.client.simple.range_fetcher import RangeFetcher
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.record_batch import batches, records_of, stamp
from odradek.protocol.record_batch_builder import build

T0 = TopicPartition("t", 0)


def batch_at(offset, count):
    """A stored batch of `count` records whose values are their offsets."""
    contents = [(None, str(offset + n).encode(), (), 0) for n in range(count)]
    made = build(contents)
    return stamp(made, 0, offset, 0) + made[16:]


class Log:
    """One partition as a broker serves it: the batch with the offset asked for, and one more."""

    def __init__(self, *stored, start=0):
        self.stored = [
            (offset, offset + count, batch_at(offset, count)) for offset, count in stored
        ]
        self.start = start
        self.trouble = []

    def __call__(self, request, version):
        [topic] = request.topics
        [asked] = topic.partitions
        code, data = ErrorCode.NONE, b""
        if self.trouble:
            trouble = self.trouble.pop(0)
            if trouble is DROP:
                return DROP
            code, data = trouble if isinstance(trouble, tuple) else (trouble, b"")
        elif asked.fetch_offset < self.start:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            found = [raw for _, end, raw in self.stored if end > asked.fetch_offset]
            data = b"".join(found[:2])
        part = PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=1000,
            aborted_transactions=None,
            records=data,
        )
        answered = FetchableTopicResponse(
            topic=topic.topic, topic_id=topic.topic_id, partitions=[part]
        )
        return FetchResponse(responses=[answered])


def refuse(partition, position):
    raise AssertionError(f"{partition} {position}")


def read(log, start, end, *, out_of_range=refuse, versions=None):
    """The offsets read between start and end, and the positions asked for."""
    with (
        ScriptedServer({FetchRequest: log}, {"t": 1}) as server,
        Cluster(server.bootstrap, api_timeout_ms=5000) as cluster,
    ):
        if versions:
            server.versions[1] = versions
        found = []
        for got in RangeFetcher(cluster, {T0: (start, end)}, out_of_range=out_of_range):
            for header in batches(got.records.data, got.records.start, got.records.end):
                records = records_of(got.records.data, header)
                found += [r.offset for r in records if got.position <= r.offset < got.end]
        asked = [r.topics[0].partitions[0].fetch_offset for r in server.requests(FetchRequest)]
        return found, asked


def test_positions_follow_the_batches_and_stop_behind_the_range():
    found, asked = read(Log((0, 10), (10, 10), (20, 10), (30, 10)), 5, 25)
    assert found == list(range(5, 25))
    assert asked == [5, 20]


@pytest.mark.parametrize("versions", [(4, 12), (4, 18)])
def test_by_name_and_by_topic_id(versions):
    found, _ = read(Log((0, 3)), 0, 3, versions=versions)
    assert found == [0, 1, 2]


def test_offsets_no_record_has_are_passed_over():
    found, asked = read(Log((0, 2), (7, 2), (20, 5)), 0, 22)
    assert found == [0, 1, 7, 8, 20, 21]
    assert asked == [0, 9]


@pytest.mark.parametrize(
    "trouble", [DROP, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, (ErrorCode.NONE, b"torn")]
)
def test_what_may_pass_is_tried_again(trouble):
    log = Log((0, 3))
    log.trouble = [trouble]
    found, asked = read(log, 0, 3)
    assert found == [0, 1, 2]
    assert asked == [0, 0]


def test_what_will_not_pass_is_raised():
    log = Log((0, 3))
    log.trouble = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
        read(log, 0, 3)


def test_offsets_that_are_gone_are_the_callers_decision():
    log = Log((10, 5), start=10)
    found, asked = read(log, 0, 15, out_of_range=lambda partition, position: 10)
    assert found == [10, 11, 12, 13, 14]
    assert asked == [0, 10]


def test_an_empty_range_asks_nobody():
    assert read(Log(), 5, 5) == ([], [])
