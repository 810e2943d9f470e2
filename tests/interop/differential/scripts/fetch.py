"""Fetch, versions 4 to 18: offsets, limits, isolation, leader epochs, sessions."""

from __future__ import annotations

from uuid import UUID

from interop.differential.batches import good
from interop.differential.peer import Peer
from interop.differential.scripts.produce import UNKNOWN_ID, producing
from interop.differential.scripts.reading import LATEST_FETCH, fetching
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic

SESSIONS_SINCE, EPOCHS_SINCE, LAST_EPOCHS_SINCE, BY_ID_SINCE, REPLICA_STATE_SINCE = 7, 9, 12, 13, 15


def filled(peer: Peer, name: str, partitions: int = 3) -> UUID:
    """Create a topic: partition 0 has five batches of three records, 1 a large batch, 2 none."""
    topic_id = peer.new_topic(name, partitions)
    for _ in range(5):
        peer.ask(producing(name, topic_id, [(0, good(size=50))], acks=-1), 13)
    peer.ask(producing(name, topic_id, [(1, good(size=5000))], acks=-1), 13)
    return topic_id


def reading(peer: Peer) -> None:
    """Single fetches without a session."""
    topic_id = filled(peer, "fetch")
    trimmed_id = filled(peer, "fetch-trimmed")
    trim = DeleteRecordsTopic(
        name="fetch-trimmed", partitions=[DeleteRecordsPartition(partition_index=0, offset=7)]
    )
    peer.ask(DeleteRecordsRequest(topics=[trim], timeout_ms=5000), 2)
    for version in peer.each_version(FetchRequest):
        offsets(peer, version, topic_id)
        for offset in (0, 6, 7, 8, 15, 16):
            request = fetching("fetch-trimmed", trimmed_id, [(0, offset)])
            peer.call(f"v{version} trimmed, offset {offset}", request, version)
        limits(peer, version, topic_id)
        strangers(peer, version, topic_id)
        if version >= EPOCHS_SINCE:
            epochs(peer, version, topic_id)
        followers(peer, version, topic_id)


def offsets(peer: Peer, version: int, topic_id: UUID) -> None:
    """Every offset of the log and its neighbours; both isolation levels, and an invalid one."""
    for offset in (-5, -1, *range(17), 2**62):
        request = fetching("fetch", topic_id, [(0, offset)])
        peer.call(f"v{version} offset {offset}", request, version)
    for isolation_level in (0, 1):
        request = fetching("fetch", topic_id, [(0, 3), (1, 0), (2, 0)])
        request.isolation_level = isolation_level
        peer.call(f"v{version} isolation {isolation_level}", request, version)


def limits(peer: Peer, version: int, topic_id: UUID) -> None:
    """The first batch is returned whatever its size; the following ones respect the limits."""
    for max_bytes in (0, 1, 200, 240, 500, 1100, 20_000):
        for partition_max_bytes in (0, 1, 300, 600, 100_000):
            request = fetching(
                "fetch",
                topic_id,
                [(0, 1), (1, 0), (2, 0)],
                max_bytes=max_bytes,
                partition_max_bytes=partition_max_bytes,
            )
            peer.call(f"v{version} max {max_bytes}, {partition_max_bytes}", request, version)
    for max_bytes, partition_max_bytes in ((-1, 600), (600, -1)):
        request = fetching(
            "fetch",
            topic_id,
            [(0, 1)],
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
        )
        peer.call(f"v{version} negative max {max_bytes}, {partition_max_bytes}", request, version)
    for min_bytes in (-1, 0, 1, 100_000_000):
        for max_wait_ms in (-1, 0, 1, 30):
            request = fetching(
                "fetch", topic_id, [(0, 12)], min_bytes=min_bytes, max_wait_ms=max_wait_ms
            )
            peer.call(f"v{version} min {min_bytes} within {max_wait_ms} ms", request, version)
    empty = fetching("fetch", topic_id, [(2, 0)], min_bytes=1, max_wait_ms=30)
    peer.call(f"v{version} nothing to wait for", empty, version)


def strangers(peer: Peer, version: int, topic_id: UUID) -> None:
    """Unknown partitions and topics; the same twice; none."""
    for label, partitions in (
        ("partition 3", [(3, 0)]),
        ("partition -1", [(-1, 0)]),
        ("one of two", [(9, 0), (0, 14)]),
        ("the same twice", [(0, 3), (0, 12)]),
        ("no partitions", []),
    ):
        request = fetching("fetch", topic_id, partitions)
        peer.call(f"v{version} {label}", request, version)
    for name, unknown in (("fetch-unknown", UNKNOWN_ID), ("", ZERO_UUID), ("bad name", UNKNOWN_ID)):
        request = fetching(name, unknown, [(0, 0)], max_wait_ms=20_000)
        peer.call(f"v{version} unknown topic {name!r}", request, version)
        request.topics += fetching("fetch", topic_id, [(0, 12)]).topics
        peer.call(f"v{version} unknown topic {name!r} and a known one", request, version)
    nothing = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
    peer.call(f"v{version} no topics", nothing, version)


def epochs(peer: Peer, version: int, topic_id: UUID) -> None:
    """The current leader epoch of the client, and the last fetched epoch."""
    for current in (-2, -1, 0, 1, 5):
        request = fetching("fetch", topic_id, [(0, 12)])
        request.topics[0].partitions[0].current_leader_epoch = current
        peer.call(f"v{version} current epoch {current}", request, version)
    if version >= LAST_EPOCHS_SINCE:
        for last, offset in ((-1, 12), (0, 12), (0, 15), (0, 16), (0, 99), (1, 12), (3, 15)):
            request = fetching("fetch", topic_id, [(0, offset)])
            request.topics[0].partitions[0].last_fetched_epoch = last
            peer.call(f"v{version} last epoch {last} at {offset}", request, version)


def followers(peer: Peer, version: int, topic_id: UUID) -> None:
    """Fetches with the id of a broker that has no replica."""
    for replica in (-2, -3, 5):
        request = fetching("fetch", topic_id, [(0, 12)])
        if version >= REPLICA_STATE_SINCE:
            request.replica_state = ReplicaState(replica_id=replica, replica_epoch=-1)
        else:
            request.replica_id = replica
        peer.call(f"v{version} replica {replica}", request, version)


def in_session(
    session_id: int,
    epoch: int,
    name: str,
    topic_id: UUID,
    partitions: list[tuple[int, int]],
    forgotten: tuple[int, ...] = (),
) -> FetchRequest:
    """Return a fetch of a session: (partition, offset) pairs to add or change, partitions to
    forget.
    """
    request = fetching(name, topic_id, partitions)
    request.topics = request.topics if partitions else []
    request.session_id, request.session_epoch = session_id, epoch
    if forgotten:
        request.forgotten_topics_data = [
            ForgottenTopic(topic=name, topic_id=topic_id, partitions=list(forgotten))
        ]
    return request


def sessions(peer: Peer) -> None:
    """Sessions from creation to end, and every invalid use."""
    for version in peer.each_version(FetchRequest, SESSIONS_SINCE):
        name = f"sessions-v{version}"
        topic_id = filled(peer, name)
        everything = [(0, 0), (1, 0), (2, 0)]

        def ask(label: str, request: FetchRequest, version: int = version) -> int:
            answer = peer.call(f"v{version} {label}", request, version)
            return 0 if answer is None else answer.session_id

        made = ask("new", in_session(0, 0, name, topic_id, everything))
        ask("go on", in_session(made, 1, name, topic_id, []))
        ask("at the ends", in_session(made, 2, name, topic_id, [(0, 15), (1, 3)]))
        ask("nothing new", in_session(made, 3, name, topic_id, []))
        peer.ask(producing(name, topic_id, [(2, good())], acks=-1), 13)
        ask("news", in_session(made, 4, name, topic_id, []))
        ask("forget one", in_session(made, 5, name, topic_id, [], (2,)))
        ask("forget unknown", in_session(made, 6, name, topic_id, [], (77,)))
        ask("add unknown", in_session(made, 7, name, topic_id, [(50, 0)]))
        ask("unknown still there", in_session(made, 8, name, topic_id, []))
        ask("out of range", in_session(made, 9, name, topic_id, [(0, 99)]))
        ask("out of range still", in_session(made, 10, name, topic_id, []))
        ask("epoch skipped", in_session(made, 12, name, topic_id, []))
        ask("epoch again", in_session(made, 10, name, topic_id, []))
        ask("unknown session", in_session(12345678, 1, name, topic_id, []))
        ask("forget and add the same", in_session(made, 11, name, topic_id, [(1, 0)], (1,)))
        ask("forget all", in_session(made, 12, name, topic_id, [], (0, 1, 2, 50)))
        ask("gone", in_session(made, 13, name, topic_id, [(0, 0)]))
        wrong_beginnings(peer, version, name, topic_id)


def wrong_beginnings(peer: Peer, version: int, name: str, topic_id: UUID) -> None:
    """Sessions that are closed, replaced, empty, or whose topic is deleted or unknown."""

    def ask(label: str, request: FetchRequest) -> int:
        answer = peer.call(f"v{version} {label}", request, version)
        return 0 if answer is None else answer.session_id

    ask("new but empty", in_session(0, 0, name, topic_id, []))
    ask("sessionless but empty", in_session(0, -1, name, topic_id, []))
    one = ask("one", in_session(0, 0, name, topic_id, [(0, 12)]))
    two = ask("replaced", in_session(one, 0, name, topic_id, [(1, 0)]))
    ask("the replaced one", in_session(one, 1, name, topic_id, []))
    ask("closed", in_session(two, -1, name, topic_id, [(0, 12)]))
    ask("after the close", in_session(two, 1, name, topic_id, []))
    ask("session 0, epoch 1", in_session(0, 1, name, topic_id, [(0, 12)]))
    ask("epoch -2", in_session(0, -2, name, topic_id, [(0, 12)]))
    strange = ask("unknown topic", in_session(0, 0, f"{name}-none", UNKNOWN_ID, [(0, 0)]))
    ask("unknown topic still", in_session(strange, 1, name, topic_id, []))
    ask("with a known one", in_session(strange, 2, name, topic_id, [(0, 12)]))
    if version == BY_ID_SINCE:
        by_name = ask("by id", in_session(0, 0, name, topic_id, [(0, 12)]))
        request = in_session(by_name, 1, name, topic_id, [(1, 0)])
        peer.call("a session by id asked by name", request, BY_ID_SINCE - 1)
        by_id = peer.call("by name", in_session(0, 0, name, topic_id, [(0, 12)]), BY_ID_SINCE - 1)
        request = in_session(by_id.session_id, 1, name, topic_id, [(1, 0)])
        peer.call("a session by name asked by id", request, BY_ID_SINCE)


def deleted_topic(peer: Peer) -> None:
    """A session survives its topic; a new topic of the same name is another one."""
    for version in (BY_ID_SINCE - 1, LATEST_FETCH):
        name = f"doomed-v{version}"
        old_id = filled(peer, name)
        request = in_session(0, 0, name, old_id, [(0, 12)])
        session = peer.call(f"v{version} before", request, version).session_id
        peer.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), 5)
        by_name = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        peer.until(lambda asked=by_name: peer.ask(asked, 9).topics[0].error_code == 3)  # type: ignore[misc]
        peer.call(f"v{version} deleted", in_session(session, 1, name, old_id, []), version)
        new_id = peer.new_topic(name)
        peer.call(f"v{version} made again", in_session(session, 2, name, old_id, []), version)
        request = in_session(session, 3, name, new_id, [(0, 0)])
        peer.call(f"v{version} by the new id", request, version)
        peer.call(f"v{version} old id", fetching(name, old_id, [(0, 0)]), version)


def two_topics(peer: Peer) -> None:
    """The order of answers for several topics, and those left out at the limit."""
    first, second = filled(peer, "two-a"), filled(peer, "two-b")
    for version in peer.each_version(FetchRequest):
        for max_bytes in (1, 700, 100_000):
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=max_bytes,
                topics=[
                    FetchTopic(
                        topic=name,
                        topic_id=topic_id,
                        partitions=[
                            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=600)
                        ],
                    )
                    for name, topic_id, index in (
                        ("two-b", second, 0),
                        ("two-a", first, 1),
                        ("two-b", second, 1),
                        ("two-a", first, 0),
                    )
                ],
            )
            peer.call(f"v{version} interleaved, {max_bytes}", request, version)
