"""Primitive encodings of messages: variable-length integers, tag sections, ids.

    unsigned varint   7 bits a byte, least significant first, top bit set on all but the last byte
    tag section       count, then per field: tag number, size in bytes, that many bytes
    uuid              16 bytes, most significant first

Lengths and counts take at most 5 bytes and 32 bits. Every reader takes the whole frame and a
position and returns the value with the position after it; a value that does not end inside the
frame, or is too wide, raises `ProtocolError`.

The limits of decoding are here as well. Objects are the elements of all arrays of one message and
its tagged fields, known or not; Kafka limits the number of neither. A request may come from any
peer and has the lower limit. A response comes from a broker that the user chose, and that of a
large cluster is large.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from mypy_extensions import i64

from odradek.model.errors import ProtocolError

MAX_STRING_BYTES: Final = 32767
REQUEST_OBJECTS_MAX: Final = 200_000
RESPONSE_OBJECTS_MAX: Final = 2_000_000
UNDIVIDED_OBJECTS_MAX: Final = {
    "AddPartitionsToTxnRequest": 20_000,
    "AddRaftVoterRequest": 10_000,
    "AlterPartitionRequest": 20_000,
    "BeginQuorumEpochRequest": 10_000,
    "BrokerHeartbeatRequest": 10_000,
    "BrokerRegistrationRequest": 10_000,
    "CreateAclsRequest": 10_000,
    "DeleteAclsRequest": 10_000,
    "DescribeClientQuotasRequest": 10_000,
    "DescribeLogDirsRequest": 10_000,
    "DescribeMetricsRequest": 10_000,
    "DescribeQuorumRequest": 10_000,
    "DescribeTopicPartitionsRequest": 10_000,
    "DescribeUserScramCredentialsRequest": 10_000,
    "DescribeWaitingRequest": 10_000,
    "EndQuorumEpochRequest": 10_000,
    "FetchSnapshotRequest": 10_000,
    "JoinGroupRequest": 10_000,
    "LeaveGroupRequest": 10_000,
    "ListConfigResourcesRequest": 10_000,
    "ListGroupsRequest": 10_000,
    "ListPartitionReassignmentsRequest": 10_000,
    "ListTransactionsRequest": 10_000,
    "OffsetCommitRequest": 20_000,
    "ProduceRequest": 20_000,
    "SyncGroupRequest": 10_000,
    "TxnOffsetCommitRequest": 20_000,
    "UpdateFeaturesRequest": 10_000,
    "UpdateRaftVoterRequest": 10_000,
    "VoteRequest": 10_000,
    "WriteTxnMarkersRequest": 20_000,
}
"""The limits of requests that a broker has to handle at once, because their elements belong
together: members or protocols of one group, topics of which one response shows a page; or because
nobody needs more: filters, tools that change a few things. A commit is one batch of records, which
holds fewer with the default `max.message.bytes`. A Produce request is decoded at once, and with the
default `max.request.size` it has fewer partitions.
"""
KNOWN_IDS_MAX: Final = 4096
COPIED_BYTES_MAX: Final = 4096
"""Record batches up to this size are copied into the part around them when written."""

ONE_BYTE_VARINTS: Final = [bytes([value]) for value in range(128)]


def uvarint(value: i64) -> bytes:
    """Return the bytes of an unsigned varint, 0 <= value < 2^63."""
    if value < 128:
        return ONE_BYTE_VARINTS[value]
    if value < 16384:
        return bytes([(value & 0x7F) | 0x80, value >> 7])
    out = bytearray()
    while value > 127:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return an unsigned varint of at most 32 bits (a length, a count or a tag) and its end."""
    end: i64 = len(data)
    value: i64 = 0
    shift: i64 = 0
    while pos < end:
        byte: i64 = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                raise ProtocolError("a varint of more than 32 bits")
            return value, pos
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint of more than 5 bytes")
    raise ProtocolError("a varint runs past the end")


def too_many_tags(count: int) -> ProtocolError:
    """Return the error for more tagged fields than a message may have objects."""
    return ProtocolError(f"{count} tagged fields are too many")


def skip_tags(data: bytes, pos: i64, left: i64) -> tuple[i64, i64]:
    """Skip a tag section without known fields, in a message that may have `left` more objects.

    Return the position after it, and how many objects the message may still have.
    """
    count, pos = read_uvarint(data, pos)
    left -= count
    if left < 0:
        raise too_many_tags(count)
    end: i64 = len(data)
    while count > 0:
        _tag, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        if size > end - pos:
            raise ProtocolError(f"a tagged field of {size} bytes, {end - pos} are left")
        pos += size
        count -= 1
    return pos, left


_known_ids: dict[bytes, UUID] = {}


def uuid_of(raw: bytes) -> UUID:
    """Return the id of 16 bytes. Recent ids are cached: few are in use, and often."""
    known = _known_ids.get(raw)
    if known is None:
        if len(_known_ids) >= KNOWN_IDS_MAX:
            _known_ids.clear()
        known = UUID(bytes=raw)
        _known_ids[raw] = known
    return known
