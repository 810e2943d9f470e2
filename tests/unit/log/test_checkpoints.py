"""Checkpoint files, `meta.properties` and `durable-ends`."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.log import checkpoints, directory_identity
from odradek.log.checkpoints import BadCheckpoint
from odradek.log.directory_identity import MetaProperties, WrongDirectory
from odradek.log.durable_ends import SLOT_BYTES, SLOTS_AT_ONCE, DurableEnds
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition

TOPIC = UUID("e4db0fc8-5d12-4aa0-9093-d1ea987aa815")
ZERO = TopicIdPartition(TOPIC, 0)
SEVEN = TopicIdPartition(TOPIC, 7)


def test_a_checkpoint_of_offsets_has_kafkas_format():
    data = checkpoints.encode_offsets({SEVEN: 12, ZERO: 1042})
    assert data == b"0\n2\n5NsPyF0SSqCQk9HqmHqoFQ 0 1042\n5NsPyF0SSqCQk9HqmHqoFQ 7 12\n"
    disk = MemoryDisk()
    disk.replace_file("c", data)
    assert checkpoints.decode_offsets(disk.read_file("c"), "c") == {ZERO: 1042, SEVEN: 12}


ROW = b"5NsPyF0SSqCQk9HqmHqoFQ 0 "


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0",
        b"1\n0\n",
        b"0\n2\n" + ROW + b"1\n",
        b"0\n1\nx 0 1\n",
        b"0\n1\na b\n",
        b"0\n1\n" + ROW + b"104",  # the 2 of 1042, and the end of the line
        b"0\n1\n" + ROW + b"1\n\n",
        b"0\n01\n" + ROW + b"1\n",
        b"0\n" + b"1" * 5000 + b"\n" + ROW + b"1\n",
        b"0\n1\n" + ROW + b"-1\n",
        b"0\n1\n" + ROW + b"1_0\n",
        b"0\n1\n" + ROW + "٣\n".encode(),
        b"0\n1\n" + ROW + b"9223372036854775808\n",
        b"0\n1\n" + ROW + b"1" * 5000 + b"\n",
        b"0\n1\n5NsPyF0SSqCQk9HqmHqoFR 0 1\n",  # the same id as above, written in another way
        b"0\n2\n" + ROW + b"1\n" + ROW + b"1\n",
    ],
)
def test_any_other_format_raises_bad_checkpoint(data: bytes):
    disk = MemoryDisk()
    disk.replace_file("c", data)
    with pytest.raises(BadCheckpoint, match="c"):
        checkpoints.decode_offsets(disk.read_file("c"), "c")


def test_the_leader_epoch_checkpoint_has_kafkas_format():
    epochs = LeaderEpochs("d")
    epochs.assign(0, 0)
    epochs.assign(3, 1042)
    assert epochs.encode() == b"0\n2\n0 0\n3 1042\n"


@pytest.mark.parametrize(
    "data", [b"0\n1\n-1 0\n", b"0\n1\n0 0", b"0\n1\n2147483648 0\n", b"0\n2\n1 5\n2 5\n"]
)
def test_leader_epochs_that_do_not_ascend_are_rejected(data: bytes):
    disk = MemoryDisk()
    disk.make_directory("d")
    disk.replace_file("d/leader-epoch-checkpoint", data)
    epochs = LeaderEpochs("d")
    assert not epochs.load(disk)
    assert epochs.entries() == []


def test_an_epoch_that_contradicts_later_ones_replaces_them():
    epochs = LeaderEpochs("d")
    for epoch, start in ((1, 0), (2, 10), (5, 20)):
        epochs.assign(epoch, start)
    epochs.assign(3, 15)
    assert epochs.entries() == [(1, 0), (2, 10), (3, 15)]
    epochs.assign(3, 18)
    assert epochs.entries() == [(1, 0), (2, 10), (3, 15)], "known already"


def test_raising_the_log_start_removes_the_epochs_that_end_before_it():
    epochs = LeaderEpochs("d")
    for epoch, start in ((1, 0), (2, 10), (5, 20)):
        epochs.assign(epoch, start)
    epochs.truncate_from_start(15)
    assert epochs.entries() == [(2, 15), (5, 20)]
    assert epochs.end_offset_for(1, 30) == (1, 15)
    assert [epochs.epoch_at(offset) for offset in (3, 15, 19, 20)] == [-1, 2, 2, 5]


def test_meta_properties_round_trip_and_damage_is_refused():
    disk = MemoryDisk()
    disk.make_directory("d")
    assert directory_identity.read_meta_properties(disk, "d") is None
    meta = MetaProperties("cluster", 3, TOPIC)
    disk.replace_file("d/meta.properties", meta.encode())
    assert directory_identity.read_meta_properties(disk, "d") == meta
    for damage in (
        b"",
        b"version=1\n",
        meta.encode().replace(b"version=1", b"version=2"),
        b"\xff\0",
    ):
        disk.replace_file("d/meta.properties", damage)
        with pytest.raises(WrongDirectory, match="restore it from a backup"):
            directory_identity.read_meta_properties(disk, "d")


def test_durable_ends_survive_a_restart_and_a_damaged_slot_is_ignored():
    disk = MemoryDisk()
    disk.make_directory("d")
    ends = DurableEnds(disk, "d")
    for key, offset in ((ZERO, 100), (SEVEN, 200)):
        ends.slot(key).write(offset, offset - 10, generation=0)
    again = DurableEnds(disk, "d")
    for key, offset in ((ZERO, 100), (SEVEN, 200)):
        found = again.get(key)
        assert found is not None
        assert (found.offset, found.recovery_point) == (offset, offset - 10)
    for half in (0, SLOT_BYTES // 2):
        disk.files["d/durable-ends"].content[SLOT_BYTES + half + 25] ^= 1
    damaged = DurableEnds(disk, "d")
    assert damaged.get(SEVEN) is None
    assert damaged.get(ZERO) is not None


def test_a_slot_without_a_write_is_not_found():
    disk = MemoryDisk()
    disk.make_directory("data")
    ends = DurableEnds(disk, "data")
    slot = ends.slot(ZERO)
    slot.offset = 40  # only the checkpoint may know it
    assert ends.get(ZERO) is None
    assert ends.slot(ZERO) is slot
    slot.write(42, 0, slot.generation)
    assert ends.get(ZERO) is slot


def test_a_torn_write_leaves_the_value_before_it():
    disk = MemoryDisk()
    disk.make_directory("d")
    end = DurableEnds(disk, "d").slot(ZERO)
    before = b""
    for offset in (10, 20, 30, 40):
        before = disk.read_file("d/durable-ends")
        end.write(offset, offset, generation=0)
    after = disk.read_file("d/durable-ends")
    for torn in range(len(after)):
        disk.files["d/durable-ends"].content[:] = after[:torn] + before[torn:]
        found = DurableEnds(disk, "d").get(ZERO)
        assert found is not None
        assert found.offset in (30, 40)


def test_a_freed_slot_is_reused():
    disk = MemoryDisk()
    disk.make_directory("d")
    ends = DurableEnds(disk, "d")
    first = ends.slot(ZERO)
    first.write(5, 5, 0)
    ends.forget(ZERO)
    assert (ends.slot(SEVEN).position, ends.slot(SEVEN).offset) == (first.position, 0)
    assert disk.files["d/durable-ends"].size() == SLOTS_AT_ONCE * SLOT_BYTES
    assert DurableEnds(disk, "d").get(ZERO) is None


def test_lowering_is_synced_and_ignores_writes_of_flushes_that_began_before():
    disk = MemoryDisk()
    disk.make_directory("d")
    ends = DurableEnds(disk, "d")
    end = ends.slot(ZERO)
    end.write(100, 80, generation=end.generation)
    before = end.generation
    effects: list[str] = []
    disk.effect = lambda kind, path: effects.append(kind)  # type: ignore[method-assign]
    end.lower(60)
    assert effects == ["write", "sync"]
    end.write(100, 80, generation=before)
    assert (end.offset, end.recovery_point) == (60, 60)


def test_a_log_start_survives_later_writes_and_is_removed_with_the_log():
    disk = MemoryDisk()
    disk.make_directory("d")
    ends = DurableEnds(disk, "d")
    end = ends.slot(ZERO)
    end.write(100, 80, generation=0)
    end.write_log_start(60)
    end.write(110, 80, generation=0)
    end.write(120, 110, generation=0)
    found = DurableEnds(disk, "d").get(ZERO)
    assert found is not None
    assert (found.offset, found.recovery_point, found.log_start) == (120, 110, 60)
    ends.forget(ZERO)
    assert ends.slot(SEVEN).log_start == 0
