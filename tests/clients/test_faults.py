"""A broker without descriptors, with a full or failing disk, or among hostile clients.

Other partitions and other clients are served, and acknowledged records are kept.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.processes import ODRADEK, Up
from clients.asking import create, long_poll, produce, until
from clients.failing_disk import FailingDisk
from clients.wire import RawConnection, request_bytes
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.record_batch_builder import build
from odradek.testing.broker import Broker

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
MIB = 1 << 20
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def answers(wire: RawConnection) -> bool:
    return bool(wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers)


def end_offset(wire: RawConnection, topic: str) -> tuple[int, int]:
    """Return (error code, high watermark) of partition 0."""
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
    )
    answer = wire.ask(request, 7, ListOffsetsResponse).topics[0].partitions[0]
    return answer.error_code, answer.offset


def fetched(
    wire: RawConnection, topic: str, max_bytes: int = MIB, offset: int = 0
) -> tuple[int, int]:
    """Return (error code, bytes of records) of partition 0."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    found = wire.ask(request, 12, FetchResponse).responses[0].partitions[0]
    return found.error_code, len(found.records or b"")


# Descriptors.


def test_without_descriptors_it_serves_its_clients_and_recovers(tmp_path: Path) -> None:
    few = ("sh", "-c", 'ulimit -n 96; exec "$@"', "sh", *ODRADEK)
    with Up("--port", "0", "--data-dir", str(tmp_path), command=few) as up:
        pid = up.process.pid
        with RawConnection(up.bootstrap) as wire:
            topics = [f"topic-{number}" for number in range(30)]
            assert set(create(wire, *((name, 1) for name in topics))) == {0}
            crowd = [RawConnection(up.bootstrap) for _ in range(120)]
            assert until(lambda: any(member.hung_up() for member in crowd))
            for name in topics:
                assert produce(wire, name) == 0
                assert fetched(wire, name)[0] == 0
            began, cpu = time.monotonic(), cpu_seconds(pid)
            assert not until(lambda: up.process.poll() is not None, seconds=1)
            share = (cpu_seconds(pid) - cpu) / (time.monotonic() - began)
            assert share < 0.3, f"{share:.0%} of a CPU while full"
            for member in crowd:
                member.socket.close()

            def newcomer_is_served() -> bool:
                with RawConnection(up.bootstrap) as other:
                    other.send(request_bytes(MetadataRequest(topics=[]), 9))
                    return other.frame() is not None

            assert until(newcomer_is_served)
        assert up.stop() == 0


# A full disk.


def delete(wire: RawConnection, topic: str) -> int:
    state = DeleteTopicState(name=topic, topic_id=ZERO_UUID)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=10_000)
    return int(wire.ask(request, 6, DeleteTopicsResponse).responses[0].error_code)


@pytest.fixture
def small_volume(tmp_path: Path) -> tuple[str, ...]:
    """Return a command that runs a broker with a volume of 16 MiB at `tmp_path`, visible to it
    alone.
    """
    command = (
        *("unshare", "--mount", "sh", "-c"),
        f'mount -t tmpfs -o size=16m none "{tmp_path}" && exec "$@"',
        "sh",
    )
    if shutil.which("unshare") is None:
        pytest.skip("a small volume needs unshare (util-linux)")
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"a small volume cannot be mounted: {tried.stderr.strip()}")
    return (*command, *ODRADEK)


def test_a_full_disk_refuses_only_appends_until_there_is_space(
    tmp_path: Path, small_volume: tuple[str, ...]
) -> None:
    large = build([(None, os.urandom(700_000), [], 1_700_000_000_000)])
    with Up("--port", "0", "--data-dir", str(tmp_path), command=small_volume) as up:
        with RawConnection(up.bootstrap) as wire:
            assert create(wire, ("greedy", 1), ("modest", 1)) == [0, 0]
            assert produce(wire, "modest") == 0
            acknowledged = 0
            while produce(wire, "greedy", 0, large) == 0:
                acknowledged += 1
            assert produce(wire, "greedy", 0, large) == STORAGE_ERROR
            assert end_offset(wire, "greedy") == (0, acknowledged)
            assert fetched(wire, "greedy", 50 * MIB) == (0, acknowledged * len(large))
            assert fetched(wire, "modest")[0] == 0
            assert answers(wire)
            assert delete(wire, "greedy") == 0
            assert until(lambda: produce(wire, "modest", 0, large) == 0)
            assert end_offset(wire, "modest") == (0, 2)
            assert create(wire, ("new", 1)) == [0]
            assert produce(wire, "new", 0, large) == 0
        assert up.stop() == 0


# A failing disk.


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


IMPATIENT = {"stalled.connection.timeout.ms": 3_000, "first.request.timeout.ms": 3_000}
"""Long enough for clients that do nothing wrong, on a busy machine."""


@pytest.fixture
def settings() -> dict[str, int]:
    return {}


@pytest.fixture
def broker(tmp_path: Path, disk: FailingDisk, settings: dict[str, int]) -> Iterator[Broker]:
    """A broker with topics `one` and `two`, one record in each."""
    with Broker(data_dir=tmp_path, disk=disk, settings=settings) as running:
        with RawConnection(running.bootstrap) as wire:
            assert create(wire, ("one", 1), ("two", 1)) == [0, 0]
            assert (produce(wire, "one"), produce(wire, "two")) == (0, 0)
        yield running
        assert running.bugs == 0


def test_after_a_failed_fsync_nothing_is_acknowledged_until_a_restart(
    broker: Broker, disk: FailingDisk, tmp_path: Path
) -> None:
    with RawConnection(broker.bootstrap) as wire:
        disk.sync_error = errno.EIO
        assert produce(wire, "one") == STORAGE_ERROR
        disk.sync_error = 0
        assert produce(wire, "one") == STORAGE_ERROR
        assert produce(wire, "two") == STORAGE_ERROR
        assert create(wire, ("three", 1)) == [STORAGE_ERROR]
        assert fetched(wire, "two")[0] == STORAGE_ERROR
        assert answers(wire)
    broker.stop()
    with Broker(data_dir=tmp_path) as again, RawConnection(again.bootstrap) as wire:
        error, one = end_offset(wire, "one")
        assert error == 0 and one in (1, 2)
        assert end_offset(wire, "two") == (0, 1)
        assert produce(wire, "one") == 0
        assert end_offset(wire, "one") == (0, one + 1)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_only_appends_without_space_are_refused(
    broker: Broker, disk: FailingDisk, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    with RawConnection(broker.bootstrap) as wire:
        disk.append_error, disk.only = error, topic_directory(broker, "one")
        assert {produce(wire, "one") for _ in range(20)} == {STORAGE_ERROR}
        assert len(caplog.records) == 1
        assert (produce(wire, "two"), end_offset(wire, "two")) == (0, (0, 2))
        assert (fetched(wire, "one")[0], end_offset(wire, "one")) == (0, (0, 1))
        disk.append_error = 0
        assert (produce(wire, "one"), end_offset(wire, "one")) == (0, (0, 2))


def test_fetches_of_an_unreadable_partition_fail_and_others_are_served(
    broker: Broker, disk: FailingDisk
) -> None:
    with RawConnection(broker.bootstrap) as wire:
        disk.read_error, disk.only = errno.EIO, topic_directory(broker, "one")
        for ask in (fetch_all("one"), by_timestamp("one")):
            with RawConnection(broker.bootstrap) as reader:
                reader.send(ask)
                frame = reader.frame()
                assert frame is None or b"\x00\x38" in frame, "an error, or no answer"
        assert fetched(wire, "two") == (0, 70)
        assert (produce(wire, "two"), answers(wire)) == (0, True)


def fetch_all(topic: str) -> bytes:
    return request_bytes(long_poll(topic, 0), 12)


def by_timestamp(topic: str) -> bytes:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=1)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    return request_bytes(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics), 7)


def topic_directory(broker: Broker, topic: str) -> str:
    return broker.node.replicas.by_name[TopicPartition(topic, 0)].log.directory


# Hostile clients.


@pytest.mark.parametrize("settings", [IMPATIENT], ids=["impatient"])
def test_a_client_that_never_reads_50_mb_is_closed_and_no_file_stays_pinned(
    broker: Broker, disk: FailingDisk
) -> None:
    large = build([(None, os.urandom(1_000_000), [], 1_700_000_000_000)])
    with RawConnection(broker.bootstrap) as wire:
        assert answers(wire), "a first request must be small"
        for _ in range(50):
            assert produce(wire, "one", 0, large) == 0
        assert until(lambda: broker.node.replicas.flusher.idle)
        pinned = disk.pins
        with RawConnection(broker.bootstrap) as silent:
            partition = FetchPartition(
                partition=0, fetch_offset=0, partition_max_bytes=50 * 1_000_000
            )
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                session_epoch=-1,
                topics=[FetchTopic(topic="one", partitions=[partition])],
            )
            silent.send(request_bytes(request, 12))
            assert until(lambda: disk.pins > pinned), "it is being sent"
            assert fetched(wire, "two") == (0, 70)
            assert until(lambda: disk.pins == pinned), "closed at its deadline"
            assert until(lambda: len(broker.node.sockets.connections) == 1)
        assert broker.node.sockets.counters.stalled_closed == 1


@pytest.mark.parametrize("settings", [IMPATIENT], ids=["impatient"])
def test_a_client_with_an_incomplete_request_is_closed(broker: Broker) -> None:
    with RawConnection(broker.bootstrap) as slow:
        for byte in request_bytes(MetadataRequest(topics=[]), 9)[:7]:
            slow.send(bytes([byte]))
        assert slow.closed_by_peer()


def test_a_long_poll_of_a_client_that_disconnects_leaves_nothing(broker: Broker) -> None:
    purgatory = broker.node.replicas.fetch_purgatory
    ask = long_poll("one", 2**31 - 1)
    ask.topics[0].partitions[0].fetch_offset = 1
    with RawConnection(broker.bootstrap) as stays:
        stays.send(request_bytes(ask, 12))
        for _ in range(20):
            with RawConnection(broker.bootstrap) as goes:
                goes.send(request_bytes(ask, 12) * 10)
                assert until(lambda: purgatory.num_delayed > 1)
            assert until(lambda: purgatory.num_delayed == 1)
        assert until(lambda: len(broker.node.sockets.connections) == 1)


@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_connections_above_the_limit_are_closed_at_once(setting: str) -> None:
    with Broker(settings={setting: 2}) as broker:
        with RawConnection(broker.bootstrap) as one, RawConnection(broker.bootstrap) as two:
            assert answers(one) and answers(two)
            with RawConnection(broker.bootstrap) as three:
                assert three.closed_by_peer()
            assert answers(one)

        def served() -> bool:
            with RawConnection(broker.bootstrap) as other:
                other.send(request_bytes(MetadataRequest(topics=[]), 9))
                return other.frame() is not None

        assert until(served)
        assert broker.node.sockets.counters.connections_refused >= 1
        assert broker.bugs == 0


# Client names in the log.


HOSTILE = "a\nCRITICAL forged: all is lost\r\x1b[31m\x00\u2028"


def test_client_input_cannot_start_a_log_line(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    software = ApiVersionsRequest(client_software_name=HOSTILE, client_software_version=HOSTILE)
    setting = CreatableTopicConfig(name=HOSTILE, value=HOSTILE)
    topic = CreatableTopic(
        name=HOSTILE, num_partitions=1, replication_factor=1, assignments=[], configs=[setting]
    )
    requests = [
        (software, 3),
        (MetadataRequest(topics=[MetadataRequestTopic(name=HOSTILE)]), 9),
        (CreateTopicsRequest(topics=[topic]), 7),
        (long_poll(HOSTILE, 0), 12),
        (FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=9, topics=[]), 12),
    ]
    for request, version in requests:
        with RawConnection(broker.bootstrap) as wire:
            wire.send(request_bytes(request, version, client_id=HOSTILE))
            wire.send(b"\0\0\0\x0e\x7f\x7f\0\0\0\0\0\0\0\4a\nb\n")
            wire.drain()
    lines = [record.getMessage() for record in caplog.records]
    assert lines
    assert [line for line in lines if not line.isprintable()] == []
