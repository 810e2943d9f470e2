"""Logs of partitions that a broker does not replicate any more: deleted at its next start."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from odradek import Admin, Producer
from odradek.model.topics import TopicIdPartition, new_uuid
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.raft.raft_log import METADATA_DIRECTORY
from odradek.testing import Broker
from odradek.testing.machine import DATA_DIRECTORY
from odradek.testing.prng import SplitMix64
from unit.broker.replicated_nodes import ReplicatedNodes

AWAY = 3


@pytest.fixture
def nodes() -> ReplicatedNodes:
    """Three nodes with a replica each of a topic that has records; the third one is killed."""
    nodes = ReplicatedNodes().create_topic(1, 2, 3)
    assert not nodes.produced(1, 3)
    nodes.until(nodes.logs_are_equal)
    nodes.machines[AWAY].kill()
    return nodes


def files(nodes: ReplicatedNodes, key: TopicIdPartition) -> list[str]:
    """The files of a log on the third node, those of its deletion included."""
    return [path for path in nodes.machines[AWAY].disk.paths() if f"/{key}" in path]


def delete_topic(nodes: ReplicatedNodes) -> None:
    state = DeleteTopicState(name=nodes.topic, topic_id=UUID(int=0))
    request = DeleteTopicsRequest(topics=[state], timeout_ms=30_000)
    answer = nodes.client.ask(nodes.controllers[0].config.node_id, request)
    assert not answer.responses[0].error_code


def put_log(nodes: ReplicatedNodes, key: TopicIdPartition) -> None:
    """Put a log directory with a segment on the third node's disk."""
    disk = nodes.machines[AWAY].disk.mount()
    disk.make_directory(f"{DATA_DIRECTORY}/{key}")
    disk.replace_file(f"{DATA_DIRECTORY}/{key}/{0:020}.log", b"records")


def come_back(nodes: ReplicatedNodes) -> None:
    nodes.boot(AWAY)
    nodes.until(nodes.node_is_ready(AWAY))


def test_a_replica_that_was_moved_away_meanwhile_is_deleted(
    nodes: ReplicatedNodes, caplog: pytest.LogCaptureFixture
) -> None:
    key = TopicIdPartition(nodes.topic_id(), 0)
    nodes.reassign(1, 2)
    nodes.until(lambda: nodes.registration().replicas == (1, 2))
    assert files(nodes, key)
    come_back(nodes)
    nodes.until(lambda: not files(nodes, key))
    assert f"the log {key} is deleted: its replicas are on brokers 1, 2" in caplog.text
    assert key not in nodes.node(AWAY).directory.partitions


def test_a_topic_that_was_deleted_meanwhile_is_deleted(
    nodes: ReplicatedNodes, caplog: pytest.LogCaptureFixture
) -> None:
    key = TopicIdPartition(nodes.topic_id(), 0)
    nodes.until(lambda: nodes.isr == [1, 2])
    delete_topic(nodes)
    come_back(nodes)
    nodes.until(lambda: not files(nodes, key))
    assert f"the log {key} is deleted: its topic was deleted" in caplog.text


def take_snapshot(nodes: ReplicatedNodes, number: int) -> None:
    metadata = nodes.node(number).metadata
    nodes.run(number, metadata.snapshot)
    nodes.until(lambda: metadata.idle)


def test_a_deletion_that_only_a_snapshot_of_the_quorum_shows_is_carried_out(
    nodes: ReplicatedNodes,
) -> None:
    come_back(nodes)
    take_snapshot(nodes, AWAY)
    nodes.machines[AWAY].kill()
    key = TopicIdPartition(nodes.topic_id(), 0)
    delete_topic(nodes)
    for number in (1, 2):
        for count in range(2):  # The log begins at the older of two snapshots.
            take_snapshot(nodes, number)
            nodes.create_topic(1, 2, name=f"more-{number}-{count}")
        assert nodes.node(number).metadata.raft.log.log_start_offset > 0
    come_back(nodes)
    nodes.until(lambda: not files(nodes, key))


def test_nothing_is_deleted_before_the_metadata_is_caught_up(nodes: ReplicatedNodes) -> None:
    key = TopicIdPartition(nodes.topic_id(), 0)
    delete_topic(nodes)
    nodes.machines[1].kill()
    nodes.machines[2].kill()
    before = files(nodes, key)
    nodes.boot(AWAY)
    nodes.pass_time(20_000)
    assert files(nodes, key) == before != []


def test_a_log_that_no_topic_explains_is_left_in_place_and_named(
    nodes: ReplicatedNodes, caplog: pytest.LogCaptureFixture
) -> None:
    key = TopicIdPartition(new_uuid(SplitMix64(1)), 0)
    put_log(nodes, key)
    come_back(nodes)
    nodes.pass_time(5_000)
    assert files(nodes, key)
    assert f"the log {key} belongs to no topic; it is left in place" in caplog.text


def test_a_replica_that_was_moved_away_and_back_is_kept(nodes: ReplicatedNodes) -> None:
    nodes.reassign(1, 2)
    nodes.until(lambda: nodes.registration().replicas == (1, 2))
    nodes.reassign(1, 2, 3)
    come_back(nodes)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.logs_are_equal()


def test_a_deletion_that_a_power_failure_undid_is_carried_out_at_the_next_start(
    nodes: ReplicatedNodes,
) -> None:
    come_back(nodes)
    key = TopicIdPartition(nodes.topic_id(), 0)
    delete_topic(nodes)
    nodes.until(lambda: not files(nodes, key))
    nodes.machines[AWAY].kill()
    put_log(nodes, key)  # As if its renaming had not reached the disk.
    come_back(nodes)
    nodes.until(lambda: not files(nodes, key))


def test_many_strays_are_named_in_part(
    nodes: ReplicatedNodes, caplog: pytest.LogCaptureFixture
) -> None:
    topic_id = nodes.topic_id()
    for partition in range(1, 30):
        put_log(nodes, TopicIdPartition(topic_id, partition))
    delete_topic(nodes)
    come_back(nodes)
    nodes.until(lambda: not files(nodes, TopicIdPartition(topic_id, 29)))
    assert caplog.text.count("is deleted: its topic was deleted") == 20
    assert "10 further logs are deleted" in caplog.text


def test_the_files_of_a_deleted_topic_that_a_crash_left_are_removed_by_a_node_alone(
    tmp_path: Path,
) -> None:
    with Broker(data_dir=tmp_path) as broker, Admin(brokers=broker.bootstrap) as admin:
        admin.create_topics_many(["kept", "gone"])
        with Producer(brokers=broker.bootstrap) as producer:
            producer.send("gone", b"record").result()
        logs = {path.name for path in tmp_path.glob("*-0") if path.name != METADATA_DIRECTORY}
        (log,) = (name for name in logs if any((tmp_path / name / f"{0:020}.log").read_bytes()))
        shutil.copytree(tmp_path / log, tmp_path / "copy")
        admin.delete_topics_many(["gone"])
    (tmp_path / "copy").rename(tmp_path / log)  # As if its renaming had not reached the disk.
    for _ in range(2):  # What a stop leaves renamed is removed at the next start.
        with Broker(data_dir=tmp_path):
            pass
    assert not list(tmp_path.glob(f"{log}*"))
    left = {path.name for path in tmp_path.glob("*-0")}
    assert left == {*logs - {log}, METADATA_DIRECTORY}
