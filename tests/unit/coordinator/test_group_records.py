"""The records of `__consumer_offsets`, byte by byte as Kafka writes them."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.coordinator.group.group_records import (
    GROUP_RECORDS,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.coordinator.records import CoordinatorRecord
from odradek.model.errors import ProtocolError

GROUP = CoordinatorRecord(
    GroupMetadataKey(group="g"),
    GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=1,
        members=[
            MemberMetadata(
                member_id="m",
                group_instance_id="i",
                client_id="c",
                client_host="/h",
                rebalance_timeout=2,
                session_timeout=4,
                subscription=b"S",
                assignment=b"A",
            )
        ],
    ),
)
OFFSET = CoordinatorRecord(
    OffsetCommitKey(group="g", topic="t", partition=5),
    OffsetCommitValue(
        offset=7, leader_epoch=2, metadata="kept", commit_timestamp=9, topic_id=UUID(int=1)
    ),
)
EXPIRING = CoordinatorRecord(
    OffsetCommitKey(group="g", topic="t", partition=5),
    OffsetCommitValue(offset=7, metadata="", commit_timestamp=9, expire_timestamp=11),
)


def test_a_group_is_written_in_version_3() -> None:
    """Plain lengths; the instance id stands after the member id."""
    assert GROUP_RECORDS.key_bytes(GROUP) == b"\0\2\0\1g"
    assert GROUP_RECORDS.value_bytes(GROUP) == (
        b"\0\3" b"\0\x08consumer" b"\0\0\0\3" b"\0\5range" b"\0\1m" b"\0\0\0\0\0\0\0\1"
        b"\0\0\0\1" b"\0\1m" b"\0\1i" b"\0\1c" b"\0\2/h" b"\0\0\0\2" b"\0\0\0\4"
        b"\0\0\0\1S" b"\0\0\0\1A"
    )  # fmt: skip


def test_an_offset_is_written_in_version_4() -> None:
    """Compact lengths; the topic id is in tag 0."""
    assert GROUP_RECORDS.key_bytes(OFFSET) == b"\0\1\0\1g\0\1t\0\0\0\5"
    assert GROUP_RECORDS.value_bytes(OFFSET) == (
        b"\0\4" b"\0\0\0\0\0\0\0\7" b"\0\0\0\2" b"\5kept" b"\0\0\0\0\0\0\0\x09"
        b"\1\0\x10" + bytes(15) + b"\1"
    )  # fmt: skip


def test_an_offset_with_an_expiration_time_is_written_in_version_1() -> None:
    assert GROUP_RECORDS.value_bytes(EXPIRING) == (
        b"\0\1" b"\0\0\0\0\0\0\0\7" b"\0\0" b"\0\0\0\0\0\0\0\x09" b"\0\0\0\0\0\0\0\x0b"
    )  # fmt: skip


@pytest.mark.parametrize("record", [GROUP, OFFSET, EXPIRING, OFFSET._replace(value=None)])
def test_a_record_decodes_to_what_was_encoded(record: CoordinatorRecord) -> None:
    assert (
        GROUP_RECORDS.decode(GROUP_RECORDS.key_bytes(record), GROUP_RECORDS.value_bytes(record))
        == record
    )


def test_older_versions_of_keys_and_values_are_read() -> None:
    """Offsets under keys of type 0; groups of version 0, without a rebalance timeout."""
    key = b"\0\0\0\1g\0\1t\0\0\0\5"
    read = GROUP_RECORDS.decode(
        key, b"\0\0" + (7).to_bytes(8, "big") + b"\0\0" + (9).to_bytes(8, "big")
    )
    assert read is not None
    assert read.key == OFFSET.key
    assert isinstance(read.value, OffsetCommitValue)
    assert (read.value.offset, read.value.leader_epoch, read.value.expire_timestamp) == (7, -1, -1)
    old = (
        b"\0\0" b"\0\1c" b"\0\0\0\3" b"\0\1r" b"\0\1m" b"\0\0\0\1"
        b"\0\1m" b"\0\1c" b"\0\2/h" b"\0\0\0\4" b"\0\0\0\1S" b"\0\0\0\1A"
    )  # fmt: skip
    read = GROUP_RECORDS.decode(GROUP_RECORDS.key_bytes(GROUP), old)
    assert read is not None
    assert isinstance(read.value, GroupMetadataValue)
    assert read.value.current_state_timestamp == -1
    assert read.value.members[0].rebalance_timeout == -1
    assert read.value.members[0].group_instance_id is None


def test_a_key_of_an_unknown_type_decodes_to_none() -> None:
    """A group of the consumer protocol has record types of its own."""
    assert GROUP_RECORDS.decode(b"\0\3\0\1g", b"\0\0") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\2", b""),
        (b"\0\2\0\5g", b"\0\3"),
        (GROUP_RECORDS.key_bytes(GROUP), b""),
        (GROUP_RECORDS.key_bytes(GROUP), b"\0\5"),
        (GROUP_RECORDS.key_bytes(GROUP), (GROUP_RECORDS.value_bytes(GROUP) or b"")[:-1]),
    ],
)
def test_bytes_that_are_no_record_raise_protocol_error(key: bytes | None, value: bytes) -> None:
    with pytest.raises(ProtocolError):
        GROUP_RECORDS.decode(key, value)
