"""A broker survives any bytes over sockets: it answers or closes, and serves other clients.

After every input the broker answers another client and has counted no bug. A log grows only by
acknowledged records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from clients.asking import produce
from clients.wire import RawConnection, request_bytes
from fuzz.batches import any_batch
from fuzz.budget import seeds
from fuzz.mutations import mutated
from fuzz.requests import Requests, Vocabulary
from fuzz.tokens import joined, tokens_of
from odradek.broker.apis import CLIENT_ROWS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.frame import request_is_flexible
from odradek.testing.broker import Broker

TOPICS = ("there", "here", "stamped")
SETTINGS = {"auto.create.topics.enable": False, "num.partitions": 1}
SERVED = [MESSAGES[row.key] for row in CLIENT_ROWS]


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path, settings=SETTINGS) as broker:
        yield broker
        assert broker.bugs == 0


def create(wire: RawConnection, name: str, **configs: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=2,
        replication_factor=1,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    answer = wire.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
    assert answer.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS), answer.topics[0]


def vocabulary(wire: RawConnection) -> Vocabulary:
    """Return topics for the requests; created again after a DeleteTopics."""
    for name in TOPICS:
        create(
            wire, name, **({"message_timestamp_type": "LogAppendTime"} if name == "stamped" else {})
        )
    answer = wire.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    known = [topic for topic in answer.topics if topic.name in TOPICS]
    return Vocabulary([topic.name or "" for topic in known], [topic.topic_id for topic in known])


def hostile_request(random: Random, words: Vocabulary) -> tuple[str, bytes]:
    """Return a description and a frame: half well-formed with odd values, half mutated."""
    api, version, message = Requests(random, words, SERVED).next()
    if random.random() < 0.02:
        version += random.choice((-100, 100))
        body = random.randbytes(30)
    elif random.random() < 0.5:
        body = joined(tokens_of(message, version))
    else:
        body = mutated(random, tokens_of(message, version))
    head = struct.pack(">hhih", api.key, version, random.getrandbits(31), 4) + b"fuzz"
    if request_is_flexible(api.key, version):
        head += b"\0"
    frame = head + body
    size = len(frame)
    if random.random() < 0.02:
        size += random.choice((-1, 1, 100, -len(frame)))
    return f"{api.name} v{version}", struct.pack(">i", size) + frame


def test_the_broker_outlives_every_request(fuzzed: Broker) -> None:
    with RawConnection(fuzzed.bootstrap) as other:
        words = vocabulary(other)
        for name, random in seeds(700, "requests"):
            what, frame = hostile_request(random, words)
            with RawConnection(fuzzed.bootstrap) as wire:
                wire.try_to_send(frame)
                wire.done_sending()
                wire.drain()
            answer = other.ask(MetadataRequest(topics=None), 12, MetadataResponse)
            assert [broker.node_id for broker in answer.brokers] == [1], f"{name}: {what}"
            assert fuzzed.bugs == 0, f"{name}: {what}"
            if not set(TOPICS) <= {topic.name for topic in answer.topics}:
                words = vocabulary(other)


def test_invalid_requests_on_one_connection_close_it_after_the_valid_responses(
    fuzzed: Broker,
) -> None:
    good = request_bytes(MetadataRequest(topics=[]), 9)
    with RawConnection(fuzzed.bootstrap) as other:
        words = vocabulary(other)
        for name, random in seeds(60, "pipelines"):
            frames = [hostile_request(random, words)[1] for _ in range(random.randrange(1, 12))]
            with RawConnection(fuzzed.bootstrap) as wire:
                assert wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers, name
                wire.try_to_send(good + b"".join(frames))
                wire.done_sending()
                wire.drain()
            assert fuzzed.bugs == 0, name
            words = vocabulary(other)


def end_offset(wire: RawConnection, topic: str) -> int:
    asked = ListOffsetsTopic(
        name=topic,
        partitions=[ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)],
    )
    answer = wire.ask(
        ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked]), 7, ListOffsetsResponse
    )
    return int(answer.topics[0].partitions[0].offset)


def log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*-*/*.log"))


def test_a_log_grows_only_by_acknowledged_records(fuzzed: Broker, tmp_path: Path) -> None:
    with RawConnection(fuzzed.bootstrap) as wire:
        create(wire, "logged")
        assert produce(wire, "logged") == 0
        for name, random in seeds(400, "produced"):
            before, size = end_offset(wire, "logged"), log_bytes(tmp_path)
            error = produce(wire, "logged", 0, any_batch(random), random.choice((6, 8, 9, 12)))
            grown = end_offset(wire, "logged") - before
            assert (grown > 0) == (log_bytes(tmp_path) > size), name
            assert error == 0 or grown == 0, name
            assert fuzzed.bugs == 0, name
