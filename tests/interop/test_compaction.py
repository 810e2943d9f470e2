"""Compacted topics with real clients, Kafka's reader of segment files, and a real Kafka.

Both brokers compact the same records: clients read the same afterwards.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.apache_kafka import ApacheKafka
from interop.test_dump_log import PROBLEMS
from odradek.log import dump
from odradek.log.files import LocalDisk
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

RunTool = Callable[..., str]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {"log.cleaner.backoff.ms": 50, "log.segment.delete.delay.ms": 0}
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KEYS = 40
RECORDS = 4_000
WAIT_S = 90
Read = list[tuple[int, bytes, bytes | None]]


def create(bootstrap: str, topic: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {**TOPIC_SETTINGS, **{name.replace("_", "."): v for name, v in settings.items()}}
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
        future.result(30)


def records(seed: int) -> list[tuple[str, str | None]]:
    """Return (key, value) pairs: few keys, some deletions, values of all lengths."""
    chance = random.Random(seed)
    made = []
    for number in range(RECORDS):
        value = None if chance.random() < 0.1 else f"{number}-" + "x" * chance.randrange(200)
        made.append((f"key-{chance.randrange(KEYS)}", value))
    return made


def produce(bootstrap: str, topic: str, made: list[tuple[str, str | None]]) -> None:
    """Produce in batches of every codec; a batch has the same records for every broker."""
    for number, codec in enumerate(CODECS):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": number % 2 == 0,
                "linger.ms": 200,
                "batch.num.messages": 20,
            }
        )
        share = RECORDS // len(CODECS)
        for index in range(number * share, (number + 1) * share):
            key, value = made[index]
            producer.produce(topic, value, key, 0, timestamp=1_700_000_000_000 + index)
        assert producer.flush(60) == 0


def read(bootstrap: str, topic: str) -> Read:
    """Read from the beginning to the current end.

    The last record is in the active segment, so compaction keeps it.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"reads {topic}"})
    place = TopicPartition(topic, 0, OFFSET_BEGINNING)
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    consumer.assign([place])
    found: Read = []
    deadline = time.monotonic() + WAIT_S
    while (not found or found[-1][0] < end - 1) and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append((message.offset(), message.key(), message.value()))  # type: ignore[arg-type]
    consumer.close()
    return found


def state_of(found: Read) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for _, key, value in found:
        state.pop(key, None)
        if value is not None:
            state[key] = value
    return state


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path_factory.mktemp("compacted"), settings=SETTINGS) as running:
        yield running


def log_of(broker: Broker, topic: str) -> Path:
    return Path(broker.node.replicas.by_name[topic, 0].log.directory)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def closed_segments_are_clean(broker: Broker, topic: str) -> bool:
    """True if the cleaner has nothing left to do except the active segment."""
    log = broker.node.replicas.by_name[topic, 0].log
    first_dirty = broker.node.directory.offsets.first_dirty
    known = {str(key): offset for key, offset in dict(first_dirty).items()}
    return not log.cleaning and any(
        log.directory.endswith(key) and offset == log.segments.active.base_offset
        for key, offset in known.items()
    )


def test_a_consumer_reads_a_topic_during_compactions(broker: Broker) -> None:
    create(broker.bootstrap, "through")
    made = records(1)
    produce(broker.bootstrap, "through", made)
    until(lambda: closed_segments_are_clean(broker, "through"), "compaction")
    found = read(broker.bootstrap, "through")
    assert 2 * KEYS <= len(found) < RECORDS / 4
    expected = [
        (offset, key.encode(), None if value is None else value.encode())
        for offset, (key, value) in enumerate(made)
    ]
    assert [expected[offset] for offset, _, _ in found] == found
    assert state_of(found) == state_of(expected)
    assert broker.bugs == 0


def test_kafka_reads_compacted_segments_as_our_reader_does(
    broker: Broker, run_tool: RunTool
) -> None:
    create(broker.bootstrap, "dumped", delete_retention_ms="86400000")
    produce(broker.bootstrap, "dumped", records(2))
    until(lambda: closed_segments_are_clean(broker, "dumped"), "compaction")
    directory = log_of(broker, "dumped")
    logs = sorted(directory.glob("*.log"))
    told = run_tool(
        DUMP, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, logs))
    )
    # Compaction leaves gaps.
    found = [problem for problem in PROBLEMS if problem in told and "consecutive" not in problem]
    assert found == [], told[-3000:]
    disk = LocalDisk()
    ours = [str(line) for path in logs for line in dump.batches(disk, str(path))]
    theirs = [line.strip() for line in told.splitlines() if line.startswith("baseOffset")]
    assert theirs == ours
    assert any("deleteHorizonMs: OptionalLong[" in line for line in ours)
    offsets = [record.offset for path in logs for record in dump.records(disk, str(path))]
    assert [int(found) for found in re.findall(r"^\| offset: (\d+)", told, re.M)] == offsets
    indexes = [*directory.glob("*.index"), *directory.glob("*.timeindex")]
    told = run_tool(DUMP, "--index-sanity-check", "--files", ",".join(map(str, indexes)))
    assert not [problem for problem in PROBLEMS if problem in told], told[-3000:]


def test_a_compacted_topic_refuses_a_record_without_a_key(broker: Broker) -> None:
    create(broker.bootstrap, "keyed")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    errors: list[KafkaError | None] = []
    producer.produce("keyed", b"value", on_delivery=lambda error, _: errors.append(error))
    producer.produce("keyed", b"value", b"key", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    refused = [error for error in errors if error is not None]
    assert refused and {error.code() for error in refused} == {KafkaError.INVALID_RECORD}


def test_both_brokers_keep_the_same_records(broker: Broker, jars: str, tmp_path: Path) -> None:
    made = records(3)
    create(broker.bootstrap, "same")
    produce(broker.bootstrap, "same", made)
    until(lambda: closed_segments_are_clean(broker, "same"), "compaction")
    with QuickCleaner(jars, tmp_path) as kafka:
        create(kafka.bootstrap, "same")
        produce(kafka.bootstrap, "same", made)
        expected = state_of(read(kafka.bootstrap, "same"))
        until(lambda: len(read(kafka.bootstrap, "same")) < RECORDS / 4, "compaction by Kafka")
        theirs = read(kafka.bootstrap, "same")
    ours = read(broker.bootstrap, "same")
    assert state_of(ours) == state_of(theirs) == expected
    for found in (ours, theirs):
        for offset, key, value in found:
            text = made[offset][1]
            assert (key.decode(), value) == (
                made[offset][0],
                None if text is None else text.encode(),
            )


class QuickCleaner(ApacheKafka):
    """A real Kafka whose cleaner starts without a delay."""

    def _properties(self) -> str:
        return super()._properties() + "\nlog.cleaner.backoff.ms=50\nlog.cleaner.threads=1"
