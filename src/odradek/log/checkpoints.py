"""Kafka's checkpoint files: small text files, replaced as a whole.

In the data directory:

    recovery-point-offset-checkpoint     a partition is durable below this offset: log, indexes,
                                         leader epochs and a producer snapshot
    log-start-offset-checkpoint          the first offset that may be read, after a deletion
    replication-offset-checkpoint        the high watermark
    cleaner-offset-checkpoint            the first offset that compaction has not seen

Their format:

    0                                    version
    2                                    number of entries
    5NsPyNF0SqqBQk9mHqmFbw 0 1042        topic, partition, offset

with the topic's id where Kafka writes its name. In a partition's directory:

    leader-epoch-checkpoint              the first offset of every leader epoch

    0
    2
    0 0                                  epoch, start offset
    3 1042

The format has no checksum. So a file is accepted only if encoding its rows again gives the same
bytes. This detects missing, inserted and half overwritten bytes, but not one changed digit.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.model.topics import TopicIdPartition, uuid_from_text, uuid_text

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
VERSION = "0"
MAX_PARTITION = MAX_EPOCH = (1 << 31) - 1
MAX_OFFSET = (1 << 63) - 1


class BadCheckpoint(Exception):
    """The checkpoint file is not of the expected format."""


def encode(rows: Iterable[Iterable[object]]) -> bytes:
    """Return the contents of a checkpoint file with these rows."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([VERSION, str(len(lines)), *lines, ""]).encode()


def decode(data: bytes, path: str, columns: int) -> list[list[str]]:
    """Return the rows of a checkpoint file. Raises `BadCheckpoint`."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[0] != VERSION:
        raise BadCheckpoint(f"{path}: not a checkpoint of version {VERSION}")
    rows = [line.split(" ") for line in lines[2:-1]]
    if any(len(row) != columns for row in rows) or encode(rows) != data:
        raise BadCheckpoint(f"{path}: the rows do not have {columns} columns each, or are not all")
    return rows


def parse_number(text: str, most: int) -> int:
    """Parse a number of a row, from 0 to `most`, without sign or leading zeros. Raises
    `ValueError`.
    """
    value = int(text)
    if str(value) != text or not 0 <= value <= most:
        raise ValueError(f"{text!r} is not a number from 0 to {most}")
    return value


def decode_offsets(data: bytes, path: str) -> dict[TopicIdPartition, int]:
    """Return the offsets of a checkpoint file. Raises `BadCheckpoint`."""
    offsets = {}
    for topic, partition, offset in decode(data, path, 3):
        try:
            key = TopicIdPartition(uuid_from_text(topic), parse_number(partition, MAX_PARTITION))
            offsets[key] = parse_number(offset, MAX_OFFSET)
        except ValueError as error:
            raise BadCheckpoint(f"{path}: {error}") from error
    if encode_offsets(offsets) != data:
        raise BadCheckpoint(f"{path}: the rows are not in order, or a partition is there twice")
    return offsets


def encode_offsets(offsets: dict[TopicIdPartition, int]) -> bytes:
    """Return the contents of a checkpoint of offsets, by topic id and partition."""
    return encode(
        (uuid_text(key.topic_id), key.partition, offset) for key, offset in sorted(offsets.items())
    )
