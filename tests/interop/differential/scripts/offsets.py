"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers."""

from __future__ import annotations

from interop.differential.batches import T0, Content, good, sequenced
from interop.differential.peer import Peer
from interop.differential.scripts.produce import producing
from interop.differential.scripts.reading import read_all
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.api.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.record_batch_builder import build


def listing(name: str, *asked: tuple[int, int], isolation_level: int = 0) -> ListOffsetsRequest:
    """Return a request for (partition, timestamp) pairs of one topic."""
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                    for index, timestamp in asked
                ],
            )
        ],
    )


def jumbled(peer: Peer, name: str) -> None:
    """Create a topic of five partitions.

    0: timestamps that rise, fall and repeat; 1: no timestamps; 2: trimmed; 3: empty; 4: append
    times.
    """
    topic_id = peer.new_topic(name, 4)
    times = [
        (0, 1, 2),
        (10, 5, 20),
        (3, 3, 3),
        (20, 19, 18),
        (7, 8, 9),
    ]
    for batch in times:
        contents: list[Content] = [(b"k", b"v", (), T0 + time) for time in batch]
        peer.ask(producing(name, topic_id, [(0, build(contents))], acks=-1), 13)
    untimed = build([(b"k", b"v", (), -1), (b"k", b"v", (), -1)])
    peer.ask(producing(name, topic_id, [(1, untimed)], acks=-1), 13)
    for _ in range(3):
        peer.ask(producing(name, topic_id, [(2, good())], acks=-1), 13)
    peer.ask(deleting(name, (2, 4)), 2)


def list_offsets(peer: Peer) -> None:
    """Special timestamps, times between, before and after the records, epochs, duplicates."""
    jumbled(peer, "listed")
    special = range(-8, 0)
    moments = [0, 1, *(T0 + step for step in range(-1, 23)), T0 + 10**9, 2**63 - 1]
    for version in peer.each_version(ListOffsetsRequest):
        for isolation_level in (0, 1) if version > 1 else (0,):
            for index in range(5):
                for timestamp in special:
                    request = listing("listed", (index, timestamp), isolation_level=isolation_level)
                    label = f"v{version} isolation {isolation_level}, {index} at {timestamp}"
                    peer.call(label, request, version)
        for timestamp in moments:
            for index in (0, 1, 2):
                request = listing("listed", (index, timestamp))
                peer.call(f"v{version} time {timestamp} in {index}", request, version)
        wrong_listings(peer, version)


def wrong_listings(peer: Peer, version: int) -> None:
    """Epochs, duplicates, unknown topics, replica ids, an empty request."""
    for epoch in (-2, -1, 0, 1, 7):
        request = listing("listed", (0, -1), (2, -2), (0, -2))
        del request.topics[0].partitions[2]
        for asked in request.topics[0].partitions:
            asked.current_leader_epoch = epoch
        peer.call(f"v{version} epoch {epoch}", request, version)
    twice = listing("listed", (0, -1), (1, -1), (0, -2))
    peer.call(f"v{version} the same twice", twice, version)
    apart = listing("listed", (0, -1))
    apart.topics += listing("listed", (0, -2), (1, -1)).topics
    peer.call(f"v{version} the same topic twice", apart, version)
    for name in ("listed-unknown", "", "bad name"):
        peer.call(f"v{version} unknown {name!r}", listing(name, (0, -1), (1, T0)), version)
    peer.call(f"v{version} partition -1", listing("listed", (-1, -1)), version)
    for replica in (-2, -3, 1, 9):
        request = listing("listed", (0, -1), (0, T0))
        del request.topics[0].partitions[1]
        request.replica_id = replica
        peer.call(f"v{version} replica {replica}", request, version)
    nothing = ListOffsetsRequest(replica_id=-1, topics=[])
    peer.call(f"v{version} no topics", nothing, version)
    peer.call(f"v{version} no partitions", listing("listed"), version)


def append_times(peer: Peer) -> None:
    """Times set by the broker.

    The second batch is later than the first: of two appended in the same millisecond the first has
    the maximum timestamp.
    """
    name = "stamped"
    topic_id = peer.new_topic(name, message_timestamp_type="LogAppendTime")
    for _ in range(2):
        peer.ask(producing(name, topic_id, [(0, good())], acks=-1), 13)
        peer.until_next_millisecond()
    for version in peer.each_version(ListOffsetsRequest):
        for timestamp in (-3, -2, -1, 0, T0):
            peer.call(f"v{version} at {timestamp}", listing(name, (0, timestamp)), version)


def epoch_ends(peer: Peer) -> None:
    """The end offsets of leader epochs."""
    name = "epochs"
    topic_id = peer.new_topic(name, 2)
    peer.ask(producing(name, topic_id, [(0, good())], acks=-1), 13)
    for version in peer.each_version(OffsetForLeaderEpochRequest):
        for index in (0, 1, 2, -1):
            for epoch in (-2, -1, 0, 1, 9):
                for current in (-1, 0, 1, -2):
                    asked = OffsetForLeaderPartition(
                        partition=index, current_leader_epoch=current, leader_epoch=epoch
                    )
                    for replica in (-1, -2, 5):
                        request = OffsetForLeaderEpochRequest(
                            replica_id=replica,
                            topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])],
                        )
                        label = f"v{version} {index} epoch {epoch} current {current} by {replica}"
                        peer.call(label, request, version)
        for unknown in ("epochs-unknown", "", "bad name"):
            asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
            request = OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderTopic(topic=unknown, partitions=[asked, asked])]
            )
            peer.call(f"v{version} unknown {unknown!r}", request, version)
        twice = OffsetForLeaderTopic(
            topic=name,
            partitions=[
                OffsetForLeaderPartition(partition=0, leader_epoch=0),
                OffsetForLeaderPartition(partition=0, leader_epoch=5),
            ],
        )
        peer.call(f"v{version} twice", OffsetForLeaderEpochRequest(topics=[twice]), version)


def deleting(name: str, *asked: tuple[int, int]) -> DeleteRecordsRequest:
    """Return a request for (partition, offset) pairs of one topic."""
    partitions = [
        DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in asked
    ]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=5000
    )


def delete_records(peer: Peer) -> None:
    """Offsets before, in, at and after the log; topics that may not be trimmed."""
    for version in peer.each_version(DeleteRecordsRequest):
        name = f"trimmed-v{version}"
        topic_id = peer.new_topic(name, 3)
        for _ in range(4):
            peer.ask(producing(name, topic_id, [(0, good()), (1, good())], acks=-1), 13)
        for offset in (0, 4, 2, 4, 13, -2, 2**62, 6):
            label = f"v{version} to {offset}"
            while label in peer.steps:
                label += " again"
            peer.call(label, deleting(name, (0, offset)), version)
            read_all(peer, f"{label} read back", name, topic_id)
            peer.call(f"{label} start", listing(name, (0, -2), (1, -2)), 9)
        peer.call(f"v{version} to the end", deleting(name, (0, -1), (1, -1), (2, -1)), version)
        peer.call(f"v{version} ends", listing(name, (0, -2), (1, -2), (2, -2)), 9)
        peer.ask(producing(name, topic_id, [(0, good())], acks=-1), 13)
        read_all(peer, f"v{version} goes on", name, topic_id)
        for label, request in (
            ("twice", deleting(name, (1, 12), (1, 3))),
            ("partition 9", deleting(name, (9, 0))),
            ("partition -1", deleting(name, (-1, 0))),
            ("unknown topic", deleting(f"{name}-none", (0, 0), (1, 0))),
            ("empty name", deleting("", (0, 0))),
            ("bad name", deleting("bad name", (0, 0))),
            ("no partitions", deleting(name)),
            ("no topics", DeleteRecordsRequest(topics=[], timeout_ms=5000)),
        ):
            peer.call(f"v{version} {label}", request, version)


def describe_producers(peer: Peer) -> None:
    """Producers with state, partitions without any, unknown partitions."""
    name = "producers"
    topic_id = peer.new_topic(name, 2)
    steps = ((9001, 0, 0, 3), (9001, 0, 3, 2), (9002, 5, 7, 1), (9001, 1, 0, 1), (9003, 0, 0, 1))
    for producer_id, epoch, sequence, count in steps:
        batch = sequenced(producer_id, epoch, sequence, count)
        peer.ask(producing(name, topic_id, [(0, batch)], acks=-1), 13)
    for topics in (  # type: ignore[var-annotated]
        [(name, [0])],
        [(name, [0, 1, 2, -1])],
        [(name, [1, 1])],
        [("producers-unknown", [0, 1]), (name, [1])],
        [("", [0])],
        [("bad name", [0])],
        [(name, [])],
        [],
    ):
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in topics
            ]
        )
        peer.call(f"{topics}", request, 0)
