"""MirrorMaker 2 copies a topic, its settings and a group's offsets between two brokers of this
project as between two of Apache Kafka: its admin calls, internal topics and Connect groups."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.apache_kafka import (
    LOG_LEVEL,
    MIRROR_POM,
    TEMPORARY,
    ApacheKafka,
    KafkaMissing,
    class_path,
)
from odradek import Admin, Consumer, Producer
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

RECORDS = 1_000
RETENTION_MS = 3_600_000
PATIENCE_S = 90.0
OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", LOG_LEVEL, TEMPORARY)
SETTINGS = """\
clusters = here, there
here.bootstrap.servers = {here}
there.bootstrap.servers = {there}
here->there.enabled = true
here->there.topics = mirrored
here->there.groups = mirrored-readers
there->here.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
offset.lag.max = 0
"""


class Pair(NamedTuple):
    """The addresses of two brokers."""

    here: str
    there: str


@pytest.fixture(params=["kafka", "odradek"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two brokers of each of the two; the first one serves other tests, too."""
    if request.param == "kafka":
        kafka: ApacheKafka = request.getfixturevalue("kafka")
        with ApacheKafka(kafka.jars, tmp_path) as second:
            yield Pair(kafka.bootstrap, second.bootstrap)
    else:
        ours: Broker = request.getfixturevalue("ours")
        with Broker() as other:
            yield Pair(ours.bootstrap, other.bootstrap)


@pytest.fixture
def mirror_log(
    pair: Pair, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], str]]:
    """`mirror_log()` returns what a running MirrorMaker has logged."""
    assert request.config.cache is not None
    try:
        jars = class_path(request.config.cache.mkdir("mirror-maker"), MIRROR_POM)
    except KafkaMissing as missing:
        pytest.fail(str(missing), pytrace=False)
    settings, log = tmp_path / "mirror.properties", tmp_path / "mirror.log"
    settings.write_text(SETTINGS.format(here=pair.here, there=pair.there))
    command = ["java", *OPTIONS, "-cp", jars, "org.apache.kafka.connect.mirror.MirrorMaker"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, str(settings)], stdout=output, stderr=output)
    yield log.read_text
    process.kill()
    process.wait()


def read_from_start(bootstrap: str, topic: str, count: int) -> list[tuple[int, bytes, bytes]]:
    """Return the first records: partition, key and value."""
    found: list[tuple[int, bytes, bytes]] = []
    with Consumer(
        topic,
        brokers=bootstrap,
        group=f"readers-of-{topic}",
        auto_offset_reset="earliest",
    ) as consumer:
        for record in consumer:
            found.append((record.partition, record.key or b"", record.value or b""))
            if len(found) == count:
                consumer.commit()
                return sorted(found)
    return found


def await_copied(admin: Admin, log: Callable[[], str]) -> None:
    """Wait until the group's offsets are there for the copied topic: its end, as the group has read
    everything. MirrorMaker knows the counterparts of few offsets before the end.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        groups = {each.group_id for each in admin.groups()}
        if "mirrored-readers" in groups:
            offsets = admin.group_offsets("mirrored-readers")
            copied = [each.offset for key, each in offsets.items() if key.topic == "here.mirrored"]
            if sum(copied) == RECORDS:
                return
        time.sleep(0.5)
    raise AssertionError(f"nothing was copied:\n{log()[-3000:]}")


def test_a_topic_its_settings_and_a_groups_offsets_are_copied_once(
    pair: Pair, mirror_log: Callable[[], str]
) -> None:
    with Admin(brokers=pair.here) as admin:
        admin.create_topic("mirrored", partitions=2, config={"retention.ms": RETENTION_MS})
    with Producer(brokers=pair.here) as producer:
        for number in range(RECORDS):
            producer.send("mirrored", b"%d" % number, key=b"key-%d" % (number % 50))
    with Consumer(
        "mirrored", group="mirrored-readers", brokers=pair.here, auto_offset_reset="earliest"
    ) as consumer:
        for count, _ in enumerate(consumer, start=1):
            if count == RECORDS:
                break
        consumer.commit()
    with Admin(brokers=pair.there) as admin:
        await_copied(admin, mirror_log)
        expected = read_from_start(pair.here, "mirrored", RECORDS)
        assert read_from_start(pair.there, "here.mirrored", RECORDS) == expected
        copied = admin.describe_config(topic="here.mirrored")["retention.ms"]
        assert copied.value == str(RETENTION_MS)
    assert " ERROR " not in mirror_log()
