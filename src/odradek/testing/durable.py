"""Looks at the platter: up to which offset a partition would surely survive a power failure now.

A white-box check that only a simulator can make: at the moment a client is told "on all
replicas", the batch is found in the *synced* image of the partition's newest segments, under
names whose directories were synced. It finds an acknowledgement that came too early even when no
power failure follows to expose it.

It knows two things of the broker: a partition's directory is `<topic id>-<partition>`, and its
segments are named by their base offset, 20 digits and `.log`.
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import uuid_text
from odradek.protocol import record_batch
from odradek.testing.disk import SimDisk


def is_durable(disk: SimDisk, topic_id: UUID, partition: int, base_offset: int, count: int) -> bool:
    """Whether `count` records from `base_offset` are on the platter, intact."""
    directory = f"/{uuid_text(topic_id)}-{partition}/"
    segments = [p for p in disk.paths() if directory in p and p.endswith(".log")]
    at_or_before = [p for p in segments if base_of(p) <= base_offset]
    if not at_or_before:
        return False
    segment = max(at_or_before, key=base_of)
    return base_offset + count <= intact_end(disk.synced_bytes(segment), base_of(segment))


def intact_end(data: bytes, next_offset: int) -> int:
    """The offset after the last batch of a segment up to which all is whole and in sequence."""
    try:
        for header in record_batch.batches(data):
            if header.base_offset != next_offset or not record_batch.is_intact(data, header):
                break
            next_offset = header.next_offset
    except record_batch.CorruptBatch:
        pass  # What follows is no batch at all: the same as a broken one.
    return next_offset


def base_of(path: str) -> int:
    """The base offset in a segment's name."""
    return int(path.rpartition("/")[2].removesuffix(".log"))
