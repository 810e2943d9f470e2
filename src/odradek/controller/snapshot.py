"""Snapshots of the image: files from which a start goes on, so that the log can be short.

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint

    control batch   SNAPSHOT_HEADER   version i16 0, timestamp of the last record i64, tags
    batches         the records of `MetadataImage.records`, with offsets from 1 on
    control batch   SNAPSHOT_FOOTER   version i16 0, tags

which is KRaft's own form. The name says which records of the log are contained: those before the
end offset. A file counts only if every batch of it passes its checksum and the footer is its end.
It is written beside and renamed, so a crash leaves no half of one under this name; what a disk did
to it later is found when it is read, and the one before it is used instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from odradek.controller.image import MetadataImage, ReplayError
from odradek.controller.records import batch_of, records_in
from odradek.model.env import Disk
from odradek.model.errors import ProtocolError
from odradek.protocol.control_records import ControlRecordType, marker_key, read_control_record
from odradek.protocol.record_batch import UNREADABLE, batches, is_intact
from odradek.protocol.record_batch_builder import RecordBatchBuilder

NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
RECORDS_PER_BATCH = 2_000
NO_TAGS = b"\x00"
VERSION = b"\x00\x00"


class BadSnapshot(Exception):
    """A snapshot file that cannot be believed."""


class SnapshotId(NamedTuple):
    """What a snapshot contains: the log's records before `end_offset`, the last of `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


def snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """The snapshots in a directory, oldest first."""
    found = (NAME.fullmatch(name) for name in disk.list(directory))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


def encode(image: MetadataImage, timestamp_ms: int) -> bytes:
    """The content of the file. `timestamp_ms`: of the last record it stands for."""
    header = VERSION + timestamp_ms.to_bytes(8, "big", signed=True) + NO_TAGS
    parts = [_control(ControlRecordType.SNAPSHOT_HEADER, header, 0, timestamp_ms)]
    offset = 1
    records = image.records()
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        parts.append(batch_of(chunk, timestamp_ms, base_offset=offset, leader_epoch=0))
        offset += len(chunk)
    footer = VERSION + NO_TAGS
    parts.append(_control(ControlRecordType.SNAPSHOT_FOOTER, footer, offset, timestamp_ms))
    return b"".join(parts)


def _control(kind: ControlRecordType, value: bytes, offset: int, timestamp_ms: int) -> bytes:
    builder = RecordBatchBuilder(base_offset=offset, leader_epoch=0, control=True)
    builder.append(marker_key(kind), value, timestamp=timestamp_ms)
    return builder.build()


def decode(data: bytes, cluster_id: str) -> MetadataImage:
    """The image of a file's content. Raises `BadSnapshot`."""
    image = MetadataImage(cluster_id)
    try:
        for record in _records(data):
            image.replay(record)
    except (*UNREADABLE, ProtocolError, ReplayError) as error:
        raise BadSnapshot(str(error)) from error
    return image


def _records(data: bytes) -> Iterator[object]:
    kinds: list[ControlRecordType] = []
    for header in batches(data):
        if not is_intact(data, header):
            raise BadSnapshot(f"the batch at byte {header.position} fails its checksum")
        if header.is_control:
            kinds.append(read_control_record(data, header).type)
            continue
        if kinds != [ControlRecordType.SNAPSHOT_HEADER]:
            raise BadSnapshot(
                f"records at byte {header.position} are not between header and footer"
            )
        yield from records_in(data, header)
    if kinds != [ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER]:
        raise BadSnapshot("it does not begin with a header and end with a footer")


class Loaded(NamedTuple):
    """The newest sound snapshot, or an empty image; and what was wrong with newer ones."""

    image: MetadataImage
    id: SnapshotId
    problems: list[str]


def load_newest(disk: Disk, directory: str, cluster_id: str) -> Loaded:
    """The image to start from. Raises `OSError` if the disk does."""
    problems: list[str] = []
    for snapshot in reversed(snapshots(disk, directory)):
        path = f"{directory}/{snapshot.file_name}"
        try:
            return Loaded(decode(disk.read_file(path), cluster_id), snapshot, problems)
        except BadSnapshot as error:
            problems.append(f"{path}: {error}")
    return Loaded(MetadataImage(cluster_id), SnapshotId(0, -1), problems)
