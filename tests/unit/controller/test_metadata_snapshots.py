"""Snapshots of the metadata image: encoding, decoding, damaged files."""

from __future__ import annotations

import pytest

from odradek.controller.image import MetadataImage
from odradek.controller.snapshots import (
    BadSnapshot,
    decode,
    encode,
    load_newest,
)
from odradek.log.memory_disk import MemoryDisk
from odradek.protocol.record_batch import batches
from odradek.raft.snapshot_files import SnapshotId, list_snapshots
from unit.controller.cluster_making import CLUSTER, a_topic, an_image, create


def an_image_with_topics(count: int = 3) -> MetadataImage:
    image = an_image(1, 2)
    create(image, *(a_topic(f"t{n}", 2, 1, configs={"retention.ms": "5"}) for n in range(count)))
    return image


def test_an_image_round_trips() -> None:
    image = an_image_with_topics()
    assert decode(encode(image, 5), CLUSTER) == image


def test_many_records_take_several_batches_with_consecutive_offsets() -> None:
    image = an_image_with_topics(1500)
    data = encode(image, 5)
    expected = 0
    for header in batches(data):
        assert header.base_offset == expected
        expected = header.next_offset
    assert expected == 2 + sum(1 for _ in image.records())
    assert decode(data, CLUSTER) == image


def test_any_truncation_and_any_flipped_byte_is_detected() -> None:
    data = encode(an_image_with_topics(1), 5)
    for end in range(len(data)):
        with pytest.raises(BadSnapshot):
            decode(data[:end], CLUSTER)
    # The checksum does not cover base offset and leader epoch, which are not read.
    covered = [
        n
        for h in batches(data)
        for n in (*range(h.position + 8, h.position + 12), *range(h.position + 16, h.end))
    ]
    for position in covered:
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(BadSnapshot):
            decode(bytes(damaged), CLUSTER)


def test_bytes_after_the_footer_raise_bad_snapshot() -> None:
    data = encode(an_image(), 5)
    with pytest.raises(BadSnapshot):
        decode(data + data, CLUSTER)


def test_snapshots_are_listed_by_offset_and_other_files_ignored() -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    for name in (SnapshotId(30, 1).file_name, SnapshotId(4, 0).file_name, "00.log", "x.checkpoint"):
        disk.replace_file(f"d/{name}", b"")
    assert SnapshotId(4, 0).file_name == "00000000000000000004-0000000000.checkpoint"
    assert list_snapshots(disk, "d") == [(4, 0), (30, 1)]


def test_a_damaged_snapshot_is_reported_and_the_one_before_is_loaded() -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    image = an_image_with_topics()
    disk.replace_file(f"d/{SnapshotId(4, 0).file_name}", encode(image, 5))
    disk.replace_file(f"d/{SnapshotId(9, 0).file_name}", encode(image, 5)[:-1])
    loaded = load_newest(disk, "d", CLUSTER)
    assert (loaded.image, loaded.id) == (image, (4, 0))
    assert len(loaded.problems) == 1
    assert SnapshotId(9, 0).file_name in loaded.problems[0]


def test_without_a_snapshot_the_image_is_empty() -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    assert load_newest(disk, "d", CLUSTER) == (MetadataImage(CLUSTER), (0, -1), [])
