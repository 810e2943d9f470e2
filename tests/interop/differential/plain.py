"""Converts answers to plain trees that can be compared: dicts, lists, numbers, texts.

Values in which two correct brokers differ are replaced:

| in an answer                          | becomes                                           |
|---------------------------------------|---------------------------------------------------|
| ids that a broker draws               | a name, the same for the same id                  |
| addresses, paths, sizes of volumes    | whether there is one                              |
| times of this run                     | `<now>`; times that the script sent stay          |
| texts for people                      | null, empty or `<text>`                           |
| ids of members that a broker draws    | a name: their beginning and a number              |
| lists of structs                      | the same, in the order of their names             |
| record batches                        | header fields, whether the CRC holds, the records |
"""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any
from uuid import UUID

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.compression import CorruptCompression
from odradek.protocol.record_batch import RecordBatchHeader, batches, is_intact, records_of
from odradek.protocol.records import InvalidRecords
from odradek.protocol.schema import fields_of, form_of

Plain = Any
NOW_WITHIN_MS = 3 * 3_600_000

TEXTS = {"error_message", "batch_index_error_message", "documentation"}
PLACES = {"host", "port", "log_dir"}
VOLUME_SIZES = {"total_bytes", "usable_bytes"}
TIMES = {
    "timestamp",
    "log_append_time_ms",
    "last_timestamp",
    "max_timestamp",
    "base_timestamp",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
}
ORDER = (
    "resource_type",
    "name",
    "topic",
    "user",
    "topic_id",
    "resource_name",
    "api_key",
    "node_id",
    "broker_id",
    "index",
    "partition_index",
    "partition",
    "group_id",
    "group_instance_id",
    "member_id",
)
MEMBERS = {"member_id", "leader"}
DRAWN_MEMBER = re.compile(r"(.*)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Names:
    """Names for the ids that a broker drew: topic names where known, else numbered."""

    def __init__(self) -> None:
        self._topics: dict[UUID, str] = {ZERO_UUID: "no id"}
        self._drawn: dict[tuple[str, int], str] = {}
        self._counts: dict[str, int] = {}
        self._members: dict[str, str] = {}

    def topic_is(self, topic_id: UUID, name: str) -> None:
        self._topics[topic_id] = f"id of {name}"

    def topic(self, topic_id: UUID) -> str:
        """Return the name of a topic id. Ids made up by the script stay."""
        return self._topics.get(topic_id, str(topic_id))

    def member(self, member_id: str) -> str:
        """Return the name of a member id that a broker drew, from its beginning; others stay."""
        drawn = DRAWN_MEMBER.fullmatch(member_id)
        if drawn is None:
            return member_id
        if member_id not in self._members:
            self._members[member_id] = f"<{drawn[1]} {len(self._members) + 1}>"
        return self._members[member_id]

    def drawn(self, kind: str, number: int) -> str | int:
        """Return the name of a number drawn by a broker. Numbers below 1 mean none and stay."""
        if number < (0 if kind == "producer" else 1):
            return number
        if (kind, number) not in self._drawn:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._drawn[kind, number] = f"{kind} {self._counts[kind]}"
        return self._drawn[kind, number]


def plain(value: Any, names: Names, name: str = "") -> Plain:
    """Return the tree of an answer, or of any part of it; `name` is the field of the value."""
    if dataclasses.is_dataclass(form_of(type(value))):
        fields = fields_of(type(value))
        return {f.name: plain(getattr(value, f.name), names, f.name) for f in fields}
    if isinstance(value, ByteRange) or (name == "records" and isinstance(value, bytes)):
        return plain_records(bytes(value), names)
    if isinstance(value, list):
        trees = [plain(each, names) for each in value]
        return sorted(trees, key=order) if trees and isinstance(trees[0], dict) else trees
    if isinstance(value, UUID):
        return names.topic(value)
    return plain_field(value, names, name)


def plain_field(value: Any, names: Names, name: str) -> Plain:
    """Return a single value, converted by the meaning of its field."""
    if name == "error_code":
        return ErrorCode(value).name
    if name in TEXTS:
        return "<text>" if value else value
    if name in PLACES:
        return "<place>" if value and value != -1 else value
    if name == "finalized_features_epoch":
        return "<epoch>" if value >= 0 else value
    if name == "cluster_id":
        return "<cluster>" if value else value
    if name in VOLUME_SIZES:
        return "<bytes>" if value > 0 else value
    if name == "producer_id":
        return names.drawn("producer", value)
    if name == "session_id":
        return names.drawn("session", value)
    if name in TIMES:
        return "<now>" if abs(value - time.time() * 1000) < NOW_WITHIN_MS else value
    if name in MEMBERS:
        return names.member(value)
    return value


def order(tree: dict[str, Plain]) -> tuple[str, ...]:
    return tuple(f"{tree[field]!s:>12}" for field in ORDER if field in tree)


def plain_records(data: bytes, names: Names) -> Plain:
    """Return the whole batches, and the size of one that was cut at the end."""
    trees: list[Plain] = []
    position = 0
    for header in batches(data, 0, len(data)):
        trees.append(plain_batch(data, header, names))
        position = header.end
    return {"batches": trees, "cut": len(data) - position}


def plain_batch(data: bytes, header: RecordBatchHeader, names: Names) -> Plain:
    times = {
        field: "<now>" if abs(value - time.time() * 1000) < NOW_WITHIN_MS else value  # type: ignore[operator]
        for field, value in (
            ("base_timestamp", header.base_timestamp),
            ("max_timestamp", header.max_timestamp),
        )
    }
    return {
        "base_offset": header.base_offset,
        "partition_leader_epoch": header.partition_leader_epoch,
        "crc_holds": is_intact(data, header),
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
        **times,
        "producer_id": names.drawn("producer", header.producer_id),
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "records": plain_contents(data, header),
    }


def plain_contents(data: bytes, header: RecordBatchHeader) -> Plain:
    """Return the records; if they cannot be read, their size in bytes."""
    try:
        return [
            f"{record.offset}: {record.key!r} {record.value!r} {record.headers!r}"
            for record in records_of(data, header)
        ]
    except (CorruptCompression, InvalidRecords):
        return f"{header.size} bytes that cannot be read"
