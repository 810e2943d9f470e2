"""The metadata log: submitting, committing, snapshots and restarts."""

from __future__ import annotations

import errno

import pytest

from odradek.controller.delta import MetadataDelta
from odradek.controller.image import MetadataImage
from odradek.controller.quorum_controller import RecordsTooLarge
from odradek.controller.snapshots import decode
from odradek.log.fence import LogDamaged, LogDirFailure
from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.protocol.metadata_records import ConfigRecord, NoOpRecord, TopicRecord
from odradek.raft.quorum_state import QUORUM_STATE_FILE
from odradek.raft.snapshot_files import list_snapshots
from unit.controller.cluster_making import CLUSTER
from unit.controller.metadata_node import DIRECTORY, MetadataNode


def test_submitted_records_are_pending_at_once_and_committed_when_durable() -> None:
    node = MetadataNode().begin()
    committed = node.log.committed_offset
    assert node.create("t") == ErrorCode.NONE
    wanted = node.log.end_offset
    assert "t" in node.controller.pending.topics
    assert "t" not in node.log.committed.topics
    assert node.log.committed_offset == committed < wanted
    node.steps.run_until_idle()
    assert "t" in node.log.committed.topics
    assert node.log.committed_offset == wanted
    assert node.log.idle


def test_two_decisions_of_one_event_see_each_other() -> None:
    node = MetadataNode().begin()
    assert [node.create("t"), node.create("t")] == [0, ErrorCode.TOPIC_ALREADY_EXISTS]


def test_a_decision_without_records_waits_for_the_pending_ones() -> None:
    node = MetadataNode().begin()
    node.create("t")
    assert node.controller.submit([]) == node.log.end_offset > node.log.committed_offset


def test_many_decisions_of_one_event_share_one_sync() -> None:
    node = MetadataNode().begin()
    for number in range(5):
        node.create(f"t{number}")
    node.steps.end_event()
    assert len(node.steps.offload.waiting) == 1
    node.steps.step()
    assert len(node.log.committed.topics) == 5


def test_records_submitted_during_a_sync_are_committed_by_the_next() -> None:
    node = MetadataNode().begin()
    node.create("a")
    node.steps.end_event()
    node.create("b")
    node.steps.step()
    assert list(node.log.committed.topics) == ["a"]
    node.steps.run_until_idle()
    assert list(node.log.committed.topics) == ["a", "b"]


def test_subscribers_get_the_delta_after_the_image_has_moved() -> None:
    node = MetadataNode().begin()
    seen: list[tuple[list[str | None], int]] = []

    def subscriber(delta: MetadataDelta, image: MetadataImage) -> None:
        names = [image.topic_name(topic_id) for topic_id in delta.created]
        seen.append((names, node.log.committed_offset))

    node.log.subscribers.append(subscriber)
    node.create("a")
    node.create("b")
    node.steps.run_until_idle()
    assert seen == [(["a", "b"], node.log.end_offset)]


def test_a_restart_has_the_committed_image_in_a_new_epoch() -> None:
    node = MetadataNode().begin()
    node.create("a")
    node.create("b")
    node.delete("a")
    node.steps.run_until_idle()
    again = node.restart()
    assert again.log.committed == again.controller.pending == node.log.committed
    assert again.log.committed_offset == node.log.committed_offset
    assert again.log.epoch == node.log.epoch + 1
    assert again.restart().log.epoch == again.log.epoch + 1


def test_a_restart_after_a_clean_close_has_the_same_image() -> None:
    node = MetadataNode().begin()
    node.create("a")
    node.steps.run_until_idle()
    node.log.close()
    assert node.restart().log.committed == node.log.committed


def newest_segment(disk: MemoryDisk) -> str:
    return f"{DIRECTORY}/{[name for name in disk.list(DIRECTORY) if name.endswith('.log')][-1]}"


def test_a_torn_batch_loses_its_whole_decision() -> None:
    node = MetadataNode().begin()
    node.create("a")
    node.steps.run_until_idle()
    node.create("b")
    file = node.disk.open(newest_segment(node.disk))
    file.truncate(file.size() - 1)
    again = node.restart()
    assert again.log.committed == node.log.committed
    assert list(again.log.committed.topics) == ["a"]


def test_damage_to_committed_records_stops_the_start() -> None:
    node = MetadataNode().begin()
    node.create("a")
    node.steps.run_until_idle()
    file = node.disk.open(newest_segment(node.disk))
    file.write(file.size() - 1, bytes([file.read(file.size() - 1, 1)[0] ^ 1]))
    with pytest.raises(LogDamaged):
        node.restart()


def test_the_epoch_rises_with_every_restart() -> None:
    node = MetadataNode().begin()
    again = node.restart()
    again.create("t")
    again.steps.run_until_idle()
    assert again.restart().log.epoch == again.log.epoch + 1


def test_a_snapshot_is_taken_after_enough_bytes_and_old_segments_are_deleted() -> None:
    node = MetadataNode(metadata_log_max_record_bytes_between_snapshots="500").begin()
    for number in range(30):
        node.create(f"t{number}")
        node.steps.run_until_idle()
    kept = list_snapshots(node.disk, DIRECTORY)
    assert len(kept) == 2
    segments = [name for name in node.disk.list(DIRECTORY) if name.endswith(".log")]
    bases = [int(name.removesuffix(".log")) for name in segments]
    assert 0 < min(bases) <= kept[0].end_offset
    assert not [name for name in node.disk.list(DIRECTORY) if name.endswith(".deleted")]
    again = node.restart()
    assert again.log.committed == node.log.committed
    assert again.log.end_offset == node.log.end_offset + 1  # The record of its leadership.


def test_a_snapshot_is_taken_after_enough_time_if_records_were_committed() -> None:
    node = MetadataNode().begin()
    node.steps.clock.now_ms += 3_600_000
    assert node.log.snapshot_if_due()
    node.steps.run_until_idle()
    node.steps.clock.now_ms += 3_600_000
    assert not node.log.snapshot_if_due()


def test_a_snapshot_has_the_image_committed_when_it_began() -> None:
    node = MetadataNode().begin()
    node.create("a")
    node.steps.run_until_idle()
    node.create("b")
    node.steps.end_event()
    node.log.snapshot()
    node.steps.step()
    assert list(node.log.committed.topics) == ["a", "b"], "the sync ran before the snapshot's work"
    node.create("c")
    node.steps.run_until_idle()
    (written,) = list_snapshots(node.disk, DIRECTORY)
    loaded = decode(node.disk.read_file(f"{DIRECTORY}/{written.file_name}"), CLUSTER)
    assert list(loaded.topics) == ["a"]
    assert node.restart().log.committed == node.log.committed


def test_with_a_damaged_newest_snapshot_the_one_before_and_the_log_give_the_same_image() -> None:
    node = MetadataNode(metadata_log_max_record_bytes_between_snapshots="500").begin()
    for number in range(30):
        node.create(f"t{number}")
        node.steps.run_until_idle()
    newest = f"{DIRECTORY}/{list_snapshots(node.disk, DIRECTORY)[-1].file_name}"
    node.disk.replace_file(newest, node.disk.read_file(newest)[:-1])
    again = node.restart()
    assert len(again.problems) == 1
    assert again.log.committed == node.log.committed


def test_a_log_that_ends_before_its_snapshot_stops_the_start() -> None:
    node = MetadataNode().begin()
    node.log.snapshot()
    node.steps.run_until_idle()
    for name in node.disk.list(DIRECTORY):
        if not name.endswith(".checkpoint"):
            node.disk.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(LogDamaged, match="newest sound snapshot ends"):
        node.restart()


def test_a_log_with_a_record_that_does_not_fit_stops_the_start() -> None:
    node = MetadataNode().begin()
    node.create("t")
    node.controller.pending.replay = lambda record: None  # type: ignore[method-assign]
    node.log.committed.replay = lambda record: None  # type: ignore[method-assign]
    topic_id = node.controller.pending.topics["t"].id
    node.controller.submit([TopicRecord(name="t", topic_id=topic_id)])
    node.steps.run_until_idle()
    with pytest.raises(LogDamaged, match="cannot be replayed"):
        node.restart()


def test_records_larger_than_a_batch_are_refused_and_nothing_changes() -> None:
    node = MetadataNode().begin()
    end = node.log.end_offset
    record = ConfigRecord(resource_type=2, resource_name="t", name="n", value="x" * 32_000)
    with pytest.raises(RecordsTooLarge):
        node.controller.submit([record] * 300)
    assert node.log.end_offset == end
    assert node.create("t") == ErrorCode.NONE


class FailingDisk(MemoryDisk):
    """A disk whose syncs fail on request."""

    failing = False

    def effect(self, kind: str, path: str) -> None:
        if self.failing and kind == "sync":
            raise OSError(errno.EIO, "input/output error", path)
        super().effect(kind, path)


def test_after_a_failed_sync_nothing_is_committed_and_submits_raise() -> None:
    disk = FailingDisk()
    node = MetadataNode(disk).begin()
    published: list[MetadataDelta] = []
    node.log.subscribers.append(lambda delta, image: published.append(delta))
    disk.failing = True
    node.create("t")
    node.steps.run_until_idle()
    assert "t" not in node.log.committed.topics
    assert not published
    assert [type(failure) for failure in node.failures] == [LogDirFailure]
    with pytest.raises(LogDirFailure):
        node.controller.submit([NoOpRecord()])


@pytest.mark.parametrize("made_before", [False, True])
def test_the_name_of_the_directory_is_durable_before_the_first_vote(made_before: bool) -> None:
    """A power loss would take an unsynced directory with the synced vote in it; this node could
    then vote twice in one epoch, and two leaders of it would commit different records."""
    disk = MemoryDisk()
    if made_before:  # By a process that was killed before it synced.
        disk.make_directory(DIRECTORY)
    effects: list[tuple[str, str]] = []
    disk.effect = lambda kind, path: effects.append((kind, path))  # type: ignore[method-assign]
    MetadataNode(disk).begin()
    vote = effects.index(("replace", f"{DIRECTORY}/{QUORUM_STATE_FILE}"))
    assert ("sync_directory", "data") in effects[:vote]
