"""Produce, versions 3 to 13: requests of every shape, batches of every kind, sequences."""

from __future__ import annotations

from uuid import UUID

from interop.differential.batches import CODECS, bad, damaged_records, good, odd, sequenced
from interop.differential.peer import Peer
from interop.differential.scripts.reading import LATEST_FETCH, fetching, read_all
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData

UNKNOWN_ID = UUID(int=0x1234)
BY_ID_SINCE = 13


def producing(
    name: str,
    topic_id: UUID,
    partitions: list[tuple[int, bytes | None]],
    *,
    acks: int = 1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return a request for one topic; the version decides between its name and its id."""
    data = [PartitionProduceData(index=index, records=records) for index, records in partitions]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10000,
        topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=data)],
    )


def requests(peer: Peer) -> None:
    """Acks, unknown targets, several partitions, transactional ids."""
    for version in peer.each_version(ProduceRequest):
        name = f"produce-v{version}"
        topic_id = peer.new_topic(name, 2)
        for acks in (1, -1, 2, -2, 127):
            request = producing(name, topic_id, [(0, good())], acks=acks)
            peer.call(f"v{version} acks {acks}", request, version)
        unanswered(peer, version, name, topic_id)
        targets(peer, version, name, topic_id)
        for codec in range(1, 5):
            request = producing(name, topic_id, [(1, good(codec=codec))], acks=-1)
            peer.call(f"v{version} {CODECS[codec]}", request, version)
        for transactional_id in ("", "t"):
            request = producing(
                name, topic_id, [(0, good())], acks=-1, transactional_id=transactional_id
            )
            peer.call(f"v{version} transactional id {transactional_id!r}", request, version)
        read_all(peer, f"v{version} read back", name, topic_id, 2)
    request = producing(name, topic_id, [(0, None)])
    peer.call("null records", request, version, hangs=True)


def unanswered(peer: Peer, version: int, name: str, topic_id: UUID) -> None:
    """With `acks=0` there is no response, and an error closes the connection."""
    for label, data in (
        ("good", [(0, good())]),
        ("bad partition", [(9, good())]),
        ("bad batch", [(0, good()[:-1])]),
        ("good and bad", [(0, good()), (9, good())]),
        ("nothing", []),
    ):
        request = producing(name, topic_id, data, acks=0)  # type: ignore[arg-type]
        peer.send_unanswered(f"v{version} acks 0, {label}", request, version)


def targets(peer: Peer, version: int, name: str, topic_id: UUID) -> None:
    """Unknown topics and partitions, several at once, the same twice, none."""
    batch = good()
    for label, partitions in (
        ("partition 2", [(2, batch)]),
        ("partition -1", [(-1, batch)]),
        ("both partitions", [(1, batch), (0, batch)]),
        ("one of two", [(0, batch), (7, batch)]),
        ("the same twice", [(0, batch), (0, good(1))]),
        ("no partitions", []),
    ):
        for acks in (1, -1):
            request = producing(name, topic_id, partitions, acks=acks)  # type: ignore[arg-type]
            peer.call(f"v{version} acks {acks} {label}", request, version)
    no_topics = ProduceRequest(transactional_id=None, acks=1, timeout_ms=100, topic_data=[])
    peer.call(f"v{version} no topics", no_topics, version)
    if version >= BY_ID_SINCE:
        for unknown in (UNKNOWN_ID, ZERO_UUID):
            request = producing("", unknown, [(0, batch)])
            peer.call(f"v{version} unknown id {unknown.int}", request, version)
    else:
        for unknown_name in ("produce-unknown", "", "bad name", "__consumer_offsets"):
            request = producing(unknown_name, ZERO_UUID, [(0, batch)])
            peer.call(f"v{version} unknown topic {unknown_name!r}", request, version)


def batches(peer: Peer) -> None:
    """Every unusual and invalid batch in every version, each kind to a partition of its own."""
    kinds = [*odd(), *bad()]
    topic_id = peer.new_topic("batches", len(kinds))
    for index, (label, batch) in enumerate(kinds):
        for version in peer.each_version(ProduceRequest):
            request = producing("batches", topic_id, [(index, batch)], acks=-1)
            peer.call(f"v{version} {label}", request, version)
        request = fetching("batches", topic_id, [(index, 0)])  # type: ignore[assignment]
        peer.call(f"{label} read back", request, LATEST_FETCH)


def topic_settings(peer: Peer) -> None:
    """The effect of topic settings on batches: size, time, compression."""
    settings = {
        "small": {"max_message_bytes": "300"},
        "append-time": {"message_timestamp_type": "LogAppendTime"},
        "compacted": {"cleanup_policy": "compact"},
        "compacted-and-deleted": {"cleanup_policy": "delete,compact"},
        "compacted-append-time": {
            "cleanup_policy": "compact",
            "message_timestamp_type": "LogAppendTime",
        },
        "compacted-before": {
            "cleanup_policy": "compact",
            "message_timestamp_before_max_ms": "3600000",
        },
        "before": {"message_timestamp_before_max_ms": "3600000"},
        "after": {"message_timestamp_after_max_ms": "9223372036854775807"},
        **{codec: {"compression_type": codec} for codec in ("uncompressed", *CODECS[1:])},
        "zstd-append-time": {"compression_type": "zstd", "message_timestamp_type": "LogAppendTime"},
    }
    codecs = [(CODECS[codec], good(codec=codec)) for codec in range(5)]
    kinds = [*codecs, *odd(), *damaged_records(good())]
    for setting, configs in settings.items():
        name = f"settings-{setting}"
        topic_id = peer.new_topic(name, len(kinds), **configs)
        for version in (7, peer.versions[0][-1]):
            for index, (kind, batch) in enumerate(kinds):
                request = producing(name, topic_id, [(index, batch)], acks=-1)
                peer.call(f"v{version} {setting}: {kind}", request, version)
        for index, (kind, _) in enumerate(kinds):
            request = fetching(name, topic_id, [(index, 0)])  # type: ignore[assignment]
            peer.call(f"{setting}: {kind} read back", request, LATEST_FETCH)


def idempotent(peer: Peer) -> None:
    """Sequences: in order, repeated, out of order, of old and new epochs, of unknown producers."""
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    peer.until(lambda: peer.ask(asked, 4).error_code == 0)
    for version in peer.each_version(ProduceRequest):
        name = f"idempotent-v{version}"
        topic_id = peer.new_topic(name)
        first = peer.ask(asked, 4).producer_id
        second = peer.ask(asked, 4).producer_id
        steps = [
            ("first", first, 0, 0, 3),
            ("again", first, 0, 0, 3),
            ("again, shorter", first, 0, 0, 2),
            ("next", first, 0, 3, 3),
            ("the first once more", first, 0, 0, 3),
            ("a gap", first, 0, 9, 3),
            ("overlapping", first, 0, 4, 3),
            ("third", first, 0, 6, 1),
            ("fourth", first, 0, 7, 1),
            ("fifth", first, 0, 8, 1),
            ("sixth", first, 0, 9, 1),
            ("the first, forgotten", first, 0, 0, 3),
            ("the second of six", first, 0, 3, 3),
            ("a new epoch not at 0", first, 1, 10, 1),
            ("a new epoch", first, 1, 0, 1),
            ("the old epoch", first, 0, 10, 1),
            ("the old epoch, a duplicate", first, 0, 9, 1),
            ("epoch far ahead", first, 30, 0, 1),
            ("another producer not at 0", second, 0, 5, 3),
            ("another producer again", second, 0, 5, 3),
            ("another producer goes on", second, 0, 8, 1),
            ("near the wrap", second + 1_000_000, 0, 2**31 - 2, 3),
            ("after the wrap", second + 1_000_000, 0, 1, 1),
            ("negative epoch", second + 2_000_000, -2, 0, 1),
        ]
        for label, producer_id, epoch, sequence, count in steps:
            batch = sequenced(producer_id, epoch, sequence, count)
            request = producing(name, topic_id, [(0, batch)], acks=-1)
            peer.call(f"v{version} {label}", request, version)
        pair = sequenced(second + 3_000_000, 0, 0, 1) + sequenced(second + 3_000_000, 0, 1, 1)
        peer.call(
            f"v{version} two batches", producing(name, topic_id, [(0, pair)], acks=-1), version
        )
        read_all(peer, f"v{version} read back", name, topic_id)
