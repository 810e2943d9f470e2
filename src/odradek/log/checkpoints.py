"""Kafka's checkpoint files: small texts, replaced as a whole.

    recovery-point-offset-checkpoint     below this offset a partition is durable: log, indexes,
                                         leader epochs and a producer snapshot
    log-start-offset-checkpoint          first offset that may be read, where records were deleted
    replication-offset-checkpoint        high watermark
    cleaner-offset-checkpoint            the first offset that compaction has not seen

each, in the data directory, of the form

    0                                    version
    2                                    number of entries
    5NsPyNF0SqqBQk9mHqmFbw 0 1042        topic, partition, offset

with the topic's id where Kafka writes its name; and in a partition's directory

    leader-epoch-checkpoint              the first offset of every leader epoch

    0
    2
    0 0                                  epoch, start offset
    3 1042

The form has no checksum. So a file is believed only if it is, byte for byte, what would have been
written to say the same: what is cut off, put in or half overwritten is noticed, one digit that
became another is not.
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
    """A checkpoint file that is not of its form."""


def encode(rows: Iterable[Iterable[object]]) -> bytes:
    """A checkpoint file with these rows."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([VERSION, str(len(lines)), *lines, ""]).encode()


def decode(data: bytes, path: str, columns: int) -> list[list[str]]:
    """The rows of a checkpoint file. Raises `BadCheckpoint`."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[0] != VERSION:
        raise BadCheckpoint(f"{path}: not a checkpoint of version {VERSION}")
    rows = [line.split(" ") for line in lines[2:-1]]
    if any(len(row) != columns for row in rows) or encode(rows) != data:
        raise BadCheckpoint(f"{path}: not the rows of {columns} that it announces")
    return rows


def number(text: str, most: int) -> int:
    """A number of a row, from 0 to `most`. Raises `ValueError` if it is not written as one."""
    value = int(text)
    if str(value) != text or not 0 <= value <= most:
        raise ValueError(f"{text!r} is not a number from 0 to {most}")
    return value


def decode_offsets(data: bytes, path: str) -> dict[TopicIdPartition, int]:
    """What a checkpoint of offsets says. Raises `BadCheckpoint`."""
    offsets = {}
    for topic, partition, offset in decode(data, path, 3):
        try:
            key = TopicIdPartition(uuid_from_text(topic), number(partition, MAX_PARTITION))
            offsets[key] = number(offset, MAX_OFFSET)
        except ValueError as error:
            raise BadCheckpoint(f"{path}: {error}") from error
    if encode_offsets(offsets) != data:
        raise BadCheckpoint(f"{path}: rows that are not in order, or twice there")
    return offsets


def encode_offsets(offsets: dict[TopicIdPartition, int]) -> bytes:
    """A checkpoint of offsets, in order of topic id and partition."""
    return encode(
        (uuid_text(key.topic_id), key.partition, offset) for key, offset in sorted(offsets.items())
    )
